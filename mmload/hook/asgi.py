"""ASGI middleware, for any server on Starlette, FastAPI or plain ASGI: gives each request its id.

Takes X-Request-Id or makes one, shows it to the application (context variable and request header,
so that the server's own logs agree), and echoes it. While the hook is on, the response says where
the spans are. Bodies are never touched. Stdlib only.

    app = RequestIdMiddleware(app)
    vllm serve MODEL --middleware mmload.hook.asgi.RequestIdMiddleware
"""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from mmload.hook import spans
from mmload.hook.headers import REQUEST_ID_HEADER, TRACE_HEADER, clean_request_id

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

_ID = REQUEST_ID_HEADER.lower().encode()
_TRACE = TRACE_HEADER.lower().encode()


class RequestIdMiddleware:
    """Wraps an ASGI application; other scopes than HTTP pass through."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers: list[tuple[bytes, bytes]] = list(scope["headers"])
        given = next((value for name, value in headers if name.lower() == _ID), None)
        name = clean_request_id(None if given is None else given.decode("latin-1"))
        rest = [header for header in headers if header[0].lower() != _ID]
        scope = {**scope, "headers": [*rest, (_ID, name.encode())]}

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": _echoed(message.get("headers", ()), name)}
            await send(message)

        token = spans.request_id.set(name)
        try:
            await self._app(scope, receive, send_with_id)
        finally:
            spans.request_id.reset(token)


def _echoed(headers: Any, name: str) -> list[tuple[bytes, bytes]]:
    """Response headers with ours; an id that the application has already set stays."""
    result = [(bytes(key), bytes(value)) for key, value in headers]
    if all(key.lower() != _ID for key, _ in result):
        result.append((_ID, name.encode()))
    trace = spans.trace_header()
    if trace is not None:
        result.append((_TRACE, trace.encode()))
    return result
