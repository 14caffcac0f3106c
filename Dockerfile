# The service: docker build -t batch2online . && docker compose up
FROM python:3.12-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY src src
# The package is this folder:
# hadolint ignore=DL3013
RUN pip install --no-cache-dir --prefix=/installed '.[queues]'

FROM python:3.12-slim
COPY --from=build /installed /usr/local
RUN useradd --uid 10001 --no-create-home service && mkdir /models && chown service /models
USER 10001
VOLUME /models
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8000/v2/health/live', timeout=2)"]
ENTRYPOINT ["batch2online", "serve", "/models", "--host", "0.0.0.0", "--token-file", "/run/secrets/tokens"]
