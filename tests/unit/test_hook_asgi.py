"""The ASGI middleware against a hand-made application: ids in, ids out, the context in between."""

import asyncio
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import pytest

from mmload.hook import spans
from mmload.hook.asgi import Message, Receive, RequestIdMiddleware, Send
from mmload.hook.headers import parse_trace

Headers = list[tuple[bytes, bytes]]


def ask(request: Headers, response: Headers, kind: str = "http") -> tuple[dict[str, Any], Headers]:
    """What the application saw, and the headers of its response."""
    saw: dict[str, Any] = {}
    sent: list[Message] = []

    async def app(scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        saw["id"], saw["scope"] = spans.request_id.get(), scope
        if kind == "http":
            await send({"type": "http.response.start", "status": 200, "headers": response})
            await send({"type": "http.response.body", "body": b"x"})

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "http.request"}

    scope = {"type": kind, "headers": request}
    asyncio.run(_run(RequestIdMiddleware(app), scope, receive, send))
    assert [m["type"] for m in sent[1:]] == ["http.response.body"] * (kind == "http")
    return saw, [(k, v) for m in sent[:1] for k, v in m["headers"]]


async def _run(app: RequestIdMiddleware, scope: Any, receive: Receive, send: Send) -> None:
    await app(scope, receive, send)
    assert spans.request_id.get() is None


def test_a_given_id_is_used_and_echoed() -> None:
    saw, headers = ask([(b"host", b"h"), (b"X-Request-Id", b"r-1 \xff")], [(b"a", b"b")])
    assert saw["id"] == "r-1"
    assert saw["scope"]["headers"] == [(b"host", b"h"), (b"x-request-id", b"r-1")]
    assert headers == [(b"a", b"b"), (b"x-request-id", b"r-1")]


def test_an_id_is_made_and_shown_to_the_application() -> None:
    saw, headers = ask([], [])
    assert len(saw["id"]) == 32
    assert saw["scope"]["headers"] == headers == [(b"x-request-id", saw["id"].encode())]


def test_the_applications_own_echo_stays() -> None:
    _, headers = ask([(b"x-request-id", b"r-1")], [(b"X-Request-ID", b"its-own")])
    assert headers == [(b"X-Request-ID", b"its-own")]


def test_other_scopes_pass_through() -> None:
    saw, headers = ask([], [], kind="lifespan")
    assert saw["id"] is None and headers == []


def test_the_trace_header_names_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MMLOAD_HOOK_DIR", str(tmp_path))
    spans.install("server")
    try:
        _, headers = ask([(b"x-request-id", b"r-1")], [])
    finally:
        spans.shutdown()
    trace = parse_trace(dict(headers)[b"x-mmload-trace"].decode())
    assert trace is not None and trace[1] == str(tmp_path)
