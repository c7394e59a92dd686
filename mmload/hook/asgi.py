"""ASGI middleware, for any server on Starlette, FastAPI or plain ASGI: gives each request its id.

Takes X-Request-Id or makes one, shows it to the application (context variable and request header,
so that the server's own logs agree), and echoes it. While the hook is on, the response says where
the spans are, and `http_receive` (from the head of the request to the end of its body) and
`stream_out` (from the first piece of the response's body to the last) are recorded. Bodies are
never touched. Stdlib only.

    app = RequestIdMiddleware(app)
    vllm serve MODEL --middleware mmload.hook.asgi.RequestIdMiddleware
"""

from collections.abc import Awaitable, Callable, MutableMapping
from contextvars import ContextVar
from typing import Any, Final

from mmload.hook import inline, loop_watch, spans
from mmload.hook.context import Stay
from mmload.hook.headers import (
    IN_RESPONSE,
    REQUEST_ID_HEADER,
    SPANS_HEADER,
    TRACE_HEADER,
    clean_request_id,
)

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

_ID = REQUEST_ID_HEADER.lower().encode()
_TRACE = TRACE_HEADER.lower().encode()
_SPANS = SPANS_HEADER.lower().encode()
_IN_RESPONSE = IN_RESPONSE.encode()
_SEEN = "mmload.request_id"
_BODILESS = (204, 205, 304)

# When the request's body had been read, for who works on it first.
body_read_ns: Final[ContextVar[int | None]] = ContextVar("mmload_body_read_ns", default=None)


class RequestIdMiddleware:
    """Wraps an ASGI application; other scopes than HTTP pass through."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or _SEEN in scope:  # it may be there twice
            await self._app(scope, receive, send)
            return
        headers: list[tuple[bytes, bytes]] = list(scope["headers"])
        given = next((value for name, value in headers if name.lower() == _ID), None)
        name = clean_request_id(None if given is None else given.decode("latin-1"))
        if any(key.lower() == _SPANS and value == _IN_RESPONSE for key, value in headers):
            inline.ask(name)
        rest = [header for header in headers if header[0].lower() != _ID]
        scope = {**scope, "headers": [*rest, (_ID, name.encode())], _SEEN: True}
        door = _Door(name, receive, send, scope.get("method") != "HEAD")
        body_read_ns.set(None)  # a server may start this from within the request before
        with Stay(name):
            loop_watch.entered()
            try:
                await self._app(scope, door.receive, door.send)
            finally:
                loop_watch.left()
                inline.drop(name)


class _Door:
    """What goes in and out of the application for one request, and when."""

    def __init__(self, name: str, receive: Receive, send: Send, may_have_body: bool) -> None:
        self._name = name
        self._may_have_body = may_have_body
        self._receive = receive
        self._send = send
        self._came_ns = spans.now_ns()
        self._bytes = 0
        self._read = False
        self._answer_ns: int | None = None
        self._is_stream = False

    async def receive(self) -> Message:
        message = await self._receive()
        if not self._read and message["type"] == "http.request":
            self._bytes += len(message.get("body", b""))
            if not message.get("more_body", False):
                self._read = True
                self._record("http_receive", self._came_ns, bytes=self._bytes)
                body_read_ns.set(spans.now_ns())
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = _echoed(message.get("headers", ()), self._name)
            bodiless = not self._may_have_body or message.get("status") in _BODILESS
            self._is_stream = is_event_stream(headers) and not bodiless
            message = {**message, "headers": headers}
        if message["type"] != "http.response.body":
            await self._send(message)
            return
        if self._answer_ns is None:
            self._answer_ns = spans.now_ns()
        if message.get("more_body", False):
            await self._send(message)
            return
        self._record("stream_out", self._answer_ns)
        if self._is_stream and (comments := spans.comments(self._name)):
            message = {**message, "body": bytes(message.get("body", b"")) + comments}
        await self._send(message)

    def _record(self, stage: str, start_ns: int, **facts: Any) -> None:
        spans.record(stage, start_ns, spans.now_ns(), request_id=self._name, **facts)


def is_event_stream(headers: list[tuple[bytes, bytes]]) -> bool:
    """Whether comments may follow the last event: not where a length or a coding was announced."""
    lower = {key.lower(): value for key, value in headers}
    kind = lower.get(b"content-type", b"").lower()
    fixed = b"content-length" in lower or b"content-encoding" in lower
    return kind.startswith(b"text/event-stream") and not fixed


def _echoed(headers: Any, name: str) -> list[tuple[bytes, bytes]]:
    """Response headers with ours; an id that the application has already set stays."""
    result = [(bytes(key), bytes(value)) for key, value in headers]
    if all(key.lower() != _ID for key, _ in result):
        result.append((_ID, name.encode()))
    trace = spans.trace_header()
    if trace is not None:
        result.append((_TRACE, trace.encode()))
    return result
