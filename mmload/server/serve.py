"""Runs the embedded server in this process until SIGTERM or SIGINT.

Prints one JSON line on standard output when it listens: `{"ready": true, "url": ..., "pid": ...}`.
Standard error is the log. A busy port or an address that is not this machine's is a UsageError.
numpy and OpenCV are imported after the settings' environment is in place.
"""

import asyncio
import json
import os
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING

from mmload.clock import MonotonicClock
from mmload.errors import MmloadError, UsageError
from mmload.hook import spans
from mmload.server.settings import ServerSettings

if TYPE_CHECKING:
    from aiohttp import web

SHUTDOWN_S = 0.5  # that requests in flight get to end by themselves


def serve(settings: ServerSettings) -> None:
    """Runs the embedded server until SIGTERM or SIGINT. Traces if MMLOAD_HOOK_DIR is set."""
    settings.apply_environment()
    spans.install("server", settings.described())
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(_serve(settings))
    finally:
        spans.shutdown()


async def _serve(settings: ServerSettings) -> None:
    import cv2
    from aiohttp import web

    from mmload.server.app import make_app
    from mmload.server.metrics import Metrics
    from mmload.server.pipeline import Pipeline

    if settings.omp_threads is not None:
        cv2.setNumThreads(settings.omp_threads)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    clock = MonotonicClock()
    metrics = Metrics(clock)
    async with Pipeline(settings, clock, metrics) as pipeline:
        spans.describe(**pipeline.describe())
        app = make_app(settings, pipeline, metrics, clock)
        runner = web.AppRunner(
            app, access_log=None, handler_cancellation=True, shutdown_timeout=SHUTDOWN_S
        )
        await runner.setup()
        try:
            await _listen(web.TCPSite(runner, settings.host, settings.port, backlog=1024), settings)
            port = runner.addresses[0][1]
            host = f"[{settings.host}]" if ":" in settings.host else settings.host
            ready = {"ready": True, "url": f"http://{host}:{port}", "pid": os.getpid()}
            print(json.dumps(ready), flush=True)
            await _until(stop, pipeline.engine_task)
        finally:
            await runner.cleanup()


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """uvloop's where it is installed (it is not on Windows), else asyncio's."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


async def _listen(site: "web.TCPSite", settings: ServerSettings) -> None:
    try:
        await site.start()
    except OSError as error:
        where = f"--host {settings.host} --port {settings.port}"
        words = error.strerror or str(error)
        raise UsageError(
            f"{where}: cannot listen there: {words}",
            "name another port, or --port 0 for a free one",
        ) from error


async def _until(stop: asyncio.Event, engine: "asyncio.Task[None] | None") -> None:
    """Waits for the signal, or for the engine to fail: a server that can't answer must not stay."""
    assert engine is not None
    stopped = asyncio.ensure_future(stop.wait())
    await asyncio.wait((stopped, engine), return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if engine.done():
        raise MmloadError(f"the engine failed: {engine.exception()!r}") from engine.exception()
