"""Anthropic Messages, streaming: content blocks, cumulative usage, `message_stop` at the end.

Output is a non-empty delta of text, thinking (reasoning) or a tool's input; a tool's name counts
too. Pings and signatures never do. Anthropic's `input_tokens` leave out what came from the cache or
went into it: a record's prompt tokens are the sum.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from mmload.records import Outcome, Record
from mmload.wire.answer import StreamReader, count
from mmload.wire.base import Api, Ask, MediaSlot
from mmload.wire.errors import error_text
from mmload.wire.sse import Event

VERSION: Final = "2023-06-01"
CACHE_COUNTS: Final = ("cache_creation_input_tokens", "cache_read_input_tokens")


class MessagesApi(Api):
    """`POST /v1/messages` with image blocks."""

    name = "messages"
    path = "/messages"
    headers = {"anthropic-version": VERSION}
    key_header = "x-api-key"  # Anthropic's own; self-hosted servers look at Authorization

    def body(self, ask: Ask) -> bytes:
        messages: list[dict[str, Any]] = []
        for turn in ask.history:
            messages.append(_message(turn.prompt, turn.media))
            messages.append({"role": "assistant", "content": turn.answer})
        messages.append(_message(ask.prompt, ask.media))
        return msgspec.json.encode(
            {
                "model": ask.model,
                "max_tokens": ask.max_tokens,
                "messages": messages,
                "temperature": 0.0,
                "stream": True,
                **ask.extra,
            }
        )

    def reader(self, record: Record) -> "MessagesReader":
        return MessagesReader(record)


class MessagesReader(StreamReader):
    """Reads the events of one message, or one `message` object if it was not streamed."""

    def event(self, event: Event, now_ns: int) -> None:
        if event.data.strip() == b"[DONE]":  # a gateway's habit; says nothing here
            return
        fields = msgspec.json.decode(event.data)
        match fields.get("type") or event.name.decode("utf-8", "replace"):
            case "content_block_delta":
                self._piece(fields["delta"], now_ns)
            case "content_block_start":
                self._piece(fields["content_block"], now_ns)
            case "message_start":
                self._usage(fields["message"].get("usage"))
            case "message_delta":
                self._usage(fields.get("usage"))
                self.finished((fields.get("delta") or {}).get("stop_reason"))
            case "message_stop":
                self.ended = True
            case kind if kind == "error" or error_text(fields) is not None:
                self.fail(Outcome.stream_error, error_text(fields) or "error")
                self.ended = True

    def whole(self, body: Any, now_ns: int) -> None:
        self._usage(body.get("usage"))
        for block in body["content"]:
            self._piece(block, now_ns)
        self.finished(body.get("stop_reason"))
        self.ended = True

    def _piece(self, piece: dict[str, Any], now_ns: int) -> None:
        """A content block, or a delta of one."""
        if thinking := piece.get("thinking"):
            self.output(str(thinking), now_ns, reasoning=True)
        elif text := piece.get("text") or piece.get("partial_json") or _tool_call(piece):
            self.output(text, now_ns)

    def _usage(self, usage: Any) -> None:
        """Counts grow from event to event; one that a later event leaves out still holds."""
        if not isinstance(usage, dict):
            return
        record = self.record
        known = {name: value for name, value in usage.items() if value is not None}
        record.usage = whole = {**(record.usage or {}), **known}
        record.output_tokens = count(whole.get("output_tokens"))
        record.cached_tokens = count(whole.get("cache_read_input_tokens"))
        if (fresh := count(whole.get("input_tokens"))) is not None:
            record.prompt_tokens = fresh + sum(count(whole.get(n)) or 0 for n in CACHE_COUNTS)


def _message(prompt: str, media: Sequence[MediaSlot]) -> dict[str, Any]:
    blocks = [{"type": "image", "source": _source(slot)} for slot in media]
    content: Any = [*blocks, {"type": "text", "text": prompt}] if blocks else prompt
    return {"role": "user", "content": content}


def _source(slot: MediaSlot) -> dict[str, str]:
    if slot.link is not None:
        return {"type": "url", "url": slot.link}
    return {"type": "base64", "media_type": slot.mime, "data": slot.token}


def _tool_call(block: dict[str, Any]) -> str:
    """A tool's name, and its input where the block is whole."""
    if block.get("type") not in ("tool_use", "server_tool_use"):
        return ""
    given = block.get("input")
    return str(block.get("name") or "") + (msgspec.json.encode(given).decode() if given else "")
