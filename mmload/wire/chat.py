"""OpenAI chat completions, streaming: what vLLM, SGLang, llama-server, LMDeploy and others serve.

First output is the first non-empty `content`, `reasoning`/`reasoning_content`, `refusal` or tool
call (name or arguments). Role chunks, empty deltas, usage chunks and comments never count. A stream
ends with a `finish_reason` or `[DONE]` (transformers never sends `[DONE]`); one that has neither is
truncated.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from mmload.records import Outcome, Record
from mmload.wire.answer import StreamReader, count
from mmload.wire.base import Api, Ask, MediaSlot
from mmload.wire.errors import error_text
from mmload.wire.sse import Event


class ChatApi(Api):
    """`POST /v1/chat/completions` with image_url and video_url parts."""

    name = "chat"
    details = True
    path = "/chat/completions"
    accepts = frozenset({"image", "video"})

    def body(self, ask: Ask) -> bytes:
        messages: list[dict[str, Any]] = []
        for turn in ask.history:
            messages.append(_message(turn.prompt, turn.media))
            messages.append({"role": "assistant", "content": turn.answer})
        messages.append(_message(ask.prompt, ask.media))
        return streaming_body(ask, messages=messages)

    def reader(self, record: Record) -> "ChatReader":
        return ChatReader(record)


class ChatReader(StreamReader):
    """Reads `chat.completion.chunk` events, or one `chat.completion` if it was not streamed."""

    def event(self, event: Event, now_ns: int) -> None:
        if event.data.strip() == b"[DONE]":
            self.ended = True
            return
        chunk = msgspec.json.decode(event.data)
        if (error := error_text(chunk)) is not None or event.name == b"error":
            self.fail(Outcome.stream_error, error or event.data.decode("utf-8", "replace"))
            self.ended = True
            return
        self._usage(chunk.get("usage"))
        for choice in chunk.get("choices") or ():
            self._choice(choice, now_ns)

    def whole(self, body: Any, now_ns: int) -> None:
        self._usage(body.get("usage"))
        for choice in body["choices"]:
            self._choice(choice, now_ns)
        self.ended = True

    def deltas(self, choice: dict[str, Any], now_ns: int) -> None:
        """The output of one choice of a chunk, or of a whole answer."""
        delta = choice.get("delta") or choice.get("message") or {}
        reasoning = delta.get("reasoning") or delta.get("reasoning_content")
        text = delta.get("content") or delta.get("refusal") or _tool_calls(delta)
        if text and not isinstance(text, str):  # content as a list of parts
            text = "".join(part.get("text") or "" for part in text)
        # One event is one chunk, whatever it carries.
        if text:
            self.output(text, now_ns)
        elif reasoning:
            self.output(str(reasoning), now_ns, reasoning=True)

    def _choice(self, choice: dict[str, Any], now_ns: int) -> None:
        self.deltas(choice, now_ns)
        if choice.get("finish_reason") is not None:
            self.finished(choice["finish_reason"])
            self.ended = True

    def _usage(self, usage: Any) -> None:
        if not isinstance(usage, dict):
            return
        record = self.record
        record.usage = usage
        record.prompt_tokens = count(usage.get("prompt_tokens"))
        record.output_tokens = count(usage.get("completion_tokens"))
        details = usage.get("prompt_tokens_details")
        if isinstance(details, dict):
            record.cached_tokens = count(details.get("cached_tokens"))
            record.media_tokens = _media_tokens(details)


def streaming_body(ask: Ask, **content: Any) -> bytes:
    """A body of OpenAI's older APIs. Who asks for no stream can't have options of one."""
    stream = ask.extra.get("stream", True)
    return msgspec.json.encode(
        {
            "model": ask.model,
            **content,
            "max_tokens": ask.max_tokens,
            "temperature": 0.0,
            "stream": True,
            **({"stream_options": {"include_usage": True}} if stream else {}),
            **ask.extra,
        }
    )


def _message(prompt: str, media: Sequence[MediaSlot]) -> dict[str, Any]:
    parts = [_part(slot) for slot in media]
    content: Any = [*parts, {"type": "text", "text": prompt}] if parts else prompt
    return {"role": "user", "content": content}


def _part(slot: MediaSlot) -> dict[str, Any]:
    kind = f"{slot.kind}_url"
    source = {"url": slot.url}
    if slot.detail is not None and slot.kind == "image":
        source["detail"] = slot.detail
    return {"type": kind, kind: source}


def _tool_calls(delta: dict[str, Any]) -> str:
    calls = delta.get("tool_calls") or ()
    pieces = [delta.get("function_call") or {}, *(call.get("function") or {} for call in calls)]
    return "".join((p.get("name") or "") + (p.get("arguments") or "") for p in pieces)


def _media_tokens(details: dict[str, Any]) -> int | None:
    """vLLM gives `multimodal_tokens`, by modality or as one number; others, `image_tokens`."""
    value = details.get("multimodal_tokens")
    if value is None:
        value = {name: details.get(f"{name}_tokens") for name in ("image", "video")}
    if isinstance(value, dict):
        counts = [n for n in map(count, value.values()) if n is not None]
        return sum(counts) if counts else None
    return count(value)
