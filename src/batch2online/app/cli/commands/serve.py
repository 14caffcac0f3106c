"""``batch2online serve``."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from batch2online.app.inputs import DataError


def serve(
    models: Path,
    host: str,
    port: int,
    token_file: Path | None,
    *,
    max_models: int,
    max_megabytes: int,
    estimators: str | None,
    sources: tuple[str, ...] = (),
) -> None:
    """Serve the models of a folder until the process is told to end."""
    try:
        import uvicorn

        from batch2online.app.serve.access import Tokens, is_loopback
        from batch2online.app.serve.connections import TimedProtocol
        from batch2online.app.serve.service import create_app
    except ImportError as error:
        raise DataError(f"{error.name} is missing: pip install 'batch2online[serve]'.") from error
    if token_file is None and not is_loopback(host):
        raise DataError(f"--host {host} is reachable by other machines: give --token-file.")
    try:
        tokens = None if token_file is None else Tokens.from_file(token_file)
    except ValueError as error:
        raise DataError(str(error)) from error
    app = create_app(
        models,
        tokens=tokens,
        max_bytes=max_megabytes * 2**20,
        max_models=max_models,
        estimators=tuple(name.strip() for name in (estimators or "sklearn").split(",")),
        sources=sources,
    )
    click.echo(f"Serving {models} at http://{host}:{port}/ (Ctrl-C ends)", err=True)
    sys.setswitchinterval(0.001)  # predictions wait less for a thread that learns
    uvicorn.run(
        app,
        host=host,
        port=port,
        http=TimedProtocol,
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=3,
        limit_concurrency=1000,
        server_header=False,
    )
