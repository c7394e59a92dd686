"""Where HTTP requests enter Python servers: each gets its id there, whatever serves it.

uvicorn (FastAPI, Starlette, vLLM, SGLang), hypercorn and other ASGI servers of Starlette
applications, aiohttp.web. FastAPI's own parsing and checking of the body is part of `http_receive`.
Stdlib only.
"""

import functools
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Final

from mmload.hook import spans, web
from mmload.hook.asgi import RequestIdMiddleware, body_read_ns
from mmload.hook.probes import Probe, Table, Target
from mmload.hook.wrap import Function, Leave, around

_depends: Final[ContextVar[bool]] = ContextVar("mmload_depends", default=False)


def _load(config: Any) -> Leave:
    """uvicorn: the application is wrapped when it has been loaded."""

    def leave(_result: object, error: BaseException | None) -> None:
        if error is None and config.interface != "wsgi":
            config.loaded_app = RequestIdMiddleware(config.loaded_app)

    return leave


def _starlette(call: Function) -> Function:
    """Starlette behind another ASGI server. Requests that passed uvicorn's door go straight on."""

    @functools.wraps(call)
    async def wrapper(self: Any, scope: Any, receive: Any, send: Any) -> None:
        async def app(scope: Any, receive: Any, send: Any) -> None:
            await call(self, scope, receive, send)

        await RequestIdMiddleware(app)(scope, receive, send)

    return wrapper


def _aiohttp(runner: Any) -> None:
    web.setup(runner.app)


def _endpoint(**_call: Any) -> None:
    """FastAPI: the body is parsed and checked between its last byte and the endpoint."""
    _checked_until_now()


def _dependencies(**_call: Any) -> Leave:
    """FastAPI: what the endpoint depends on is asked for meanwhile."""
    _depends.set(True)
    return lambda _result, _error: _depends.set(False)


def called_away() -> Callable[[], None] | None:
    """To be called before a plain function that a FastAPI endpoint depends on is handed to a
    thread: neither the wait for one nor the work is parsing. Returns what is to be called after it;
    None elsewhere."""
    if not _depends.get() or not _checked_until_now():
        return None

    def came_back() -> None:
        body_read_ns.set(spans.now_ns())

    return came_back


def _checked_until_now() -> bool:
    since_ns = body_read_ns.get()
    if since_ns is None:
        return False
    body_read_ns.set(None)
    spans.record("http_receive", since_ns, spans.now_ns(), part="parse and check")
    return True


TABLES: Final = (
    Table(
        "uvicorn",
        (Probe("door: uvicorn", (Target("uvicorn.config:Config.load", around(_load)),)),),
    ),
    Table(
        "starlette",
        (
            Probe(
                "door: starlette",
                (
                    Target(
                        "starlette.applications:Starlette.__call__",
                        _starlette,
                        ("scope", "receive", "send"),
                    ),
                ),
            ),
        ),
    ),
    Table(
        "fastapi",
        (
            Probe(
                "parse and check",
                (Target("fastapi.routing:run_endpoint_function", around(_endpoint)),),
                merged="unattributed",
            ),
            Probe(
                "dependencies",
                (Target("fastapi.routing:solve_dependencies", around(_dependencies)),),
                merged="http_receive",
            ),
        ),
    ),
    Table(
        "aiohttp",
        (
            Probe(
                "door: aiohttp",
                (Target("aiohttp.web_runner:AppRunner._make_server", around(_aiohttp)),),
            ),
        ),
    ),
)
