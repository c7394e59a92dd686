"""The same as `asgi.py` for aiohttp servers: `setup(app)` gives each request its id.

aiohttp is imported by the call, not by this module, so that the hook stays stdlib only.
"""

import contextlib
from typing import TYPE_CHECKING, Any

from mmload.hook import inline, loop_watch, spans
from mmload.hook.context import Stay
from mmload.hook.headers import (
    IN_RESPONSE,
    REQUEST_ID_HEADER,
    SPANS_HEADER,
    TRACE_HEADER,
    clean_request_id,
)

if TYPE_CHECKING:
    from aiohttp import web
    from aiohttp.typedefs import Handler


def setup(app: "web.Application") -> None:
    """Adds the middleware as the outermost one, and the response headers. Safe to repeat.

    The headers are set by a signal, because a middleware sees a streaming response only when it has
    already been sent.
    """
    from aiohttp import web

    make_key = getattr(web, "RequestKey", None)  # aiohttp 3.14 and newer warn of strings
    key: Any = make_key("mmload_request_id", str) if make_key is not None else "mmload_request_id"

    @web.middleware
    async def mmload_request_id(request: web.Request, handler: "Handler") -> web.StreamResponse:
        name = clean_request_id(request.headers.get(REQUEST_ID_HEADER))
        request[key] = name  # the signal may come after this middleware: for raised responses
        if request.headers.get(SPANS_HEADER) == IN_RESPONSE:
            inline.ask(name)
        with Stay(name):
            loop_watch.entered()
            try:
                response = await handler(request)
                if (
                    request.method != "HEAD"
                    and _may_follow(response)
                    and (comments := spans.comments(name))
                ):
                    with contextlib.suppress(OSError):  # the client has left
                        await response.write(comments)
                return response
            finally:
                loop_watch.left()
                inline.drop(name)

    async def echo(request: web.Request, response: web.StreamResponse) -> None:
        name = request.get(key)
        if name is not None and REQUEST_ID_HEADER not in response.headers:
            response.headers[REQUEST_ID_HEADER] = name
        trace = spans.trace_header()
        if trace is not None:
            response.headers[TRACE_HEADER] = trace

    if any(getattr(one, "__name__", "") == mmload_request_id.__name__ for one in app.middlewares):
        return
    app.middlewares.insert(0, mmload_request_id)
    app.on_response_prepare.append(echo)


def _may_follow(response: "web.StreamResponse | None") -> bool:
    """Whether comments may follow the last event: a stream of events that has not been ended."""
    if response is None:  # a handler that forgot to return one: aiohttp says so
        return False
    ended = not response.prepared or getattr(response, "_eof_sent", True)
    fixed = response.content_length is not None or response.compression
    return response.content_type == "text/event-stream" and not ended and not fixed
