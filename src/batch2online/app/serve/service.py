"""The service: an application that answers by the declared routes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from starlette.applications import Starlette

from batch2online.app.serve import endpoints, inference, live, routes  # noqa: F401  # they declare routes
from batch2online.app.serve.access import Tokens
from batch2online.app.serve.metrics import Metrics
from batch2online.app.serve.models import ModelFolder
from batch2online.app.serve.queues import Address, QueueReader

MAX_BYTES = 64 * 2**20


def create_app(
    folder: str | Path,
    *,
    tokens: Tokens | None = None,
    max_bytes: int = MAX_BYTES,
    max_models: int = 100,
    estimators: tuple[str, ...] = ("sklearn",),
    sources: tuple[str, ...] = (),
) -> Starlette:
    """Return the application for the models of a folder.

    Parameters
    ----------
    folder : path
        Folder of the models.
    tokens : Tokens, optional
        Who may read and write; None asks for no token and serves this machine alone.
    max_bytes : int
        Largest body of a request, and most values of a table in it.
    max_models : int
        How many models there may be.
    estimators : tuple of str
        Packages whose estimators ``PUT /models/NAME`` may name.
    sources : tuple of str
        Queues from which models learn, as ``redis://HOST/STREAM?model=NAME``; see
        :mod:`batch2online.app.serve.queues`.
    """
    models, stop = ModelFolder(Path(folder), max_models, estimators), asyncio.Event()
    readers = [QueueReader(Address.parse(source), models) for source in sources]

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        for reader in readers:
            reader.start()
        yield
        stop.set()
        for reader in readers:
            await asyncio.to_thread(reader.end)
        await asyncio.to_thread(models.close)

    dispatcher = routes.Dispatcher((models, Metrics(models), stop), tokens, max_bytes)
    handlers: Any = dict.fromkeys(routes.ERRORS, routes.on_error)
    app = Starlette(routes=dispatcher.addresses(), exception_handlers=handlers, lifespan=lifespan)
    app.router.redirect_slashes = False
    return app
