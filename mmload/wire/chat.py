"""OpenAI chat completions, streaming: what vLLM, SGLang, llama-server, LMDeploy and others serve.

First output is the first non-empty `content`, `reasoning`/`reasoning_content`, `refusal` or tool
argument. Role chunks, empty deltas, usage chunks and comments never count. A stream ends with a
`finish_reason` or `[DONE]` (transformers never sends `[DONE]`); one that has neither is truncated.
"""

from typing import Any

import msgspec

from mmload.records import Outcome, Record
from mmload.wire.base import Ask, StreamReader, count, error_text
from mmload.wire.sse import Event


class ChatApi:
    """`POST /v1/chat/completions` with image_url and video_url parts."""

    name = "chat"
    path = "/chat/completions"
    content_type = "application/json"

    def body(self, ask: Ask) -> bytes:
        parts: list[dict[str, Any]] = [
            {"type": f"{slot.kind}_url", f"{slot.kind}_url": {"url": slot.data_uri}}
            for slot in ask.media
        ]
        content: Any = [*parts, {"type": "text", "text": ask.prompt}] if parts else ask.prompt
        return msgspec.json.encode(
            {
                "model": ask.model,
                "messages": [{"role": "user", "content": content}],
                "max_tokens": ask.max_tokens,
                "temperature": 0.0,
                "stream": True,
                "stream_options": {"include_usage": True},
                **ask.extra,
            }
        )

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
            self._deltas(choice.get("delta") or {}, now_ns)
            self._finish(choice)

    def whole(self, body: Any, now_ns: int) -> None:
        self._usage(body.get("usage"))
        for choice in body["choices"]:
            self._deltas(choice["message"], now_ns)
            self._finish(choice)
        self.ended = True

    def _finish(self, choice: dict[str, Any]) -> None:
        if choice.get("finish_reason") is not None:
            self.record.finish_reason = str(choice["finish_reason"])
            self.ended = True

    def _deltas(self, delta: dict[str, Any], now_ns: int) -> None:
        reasoning = delta.get("reasoning") or delta.get("reasoning_content")
        text = delta.get("content") or delta.get("refusal") or _arguments(delta)
        if text and not isinstance(text, str):  # content as a list of parts
            text = "".join(part.get("text") or "" for part in text)
        # One event is one chunk, whatever it carries.
        if text:
            self.output(text, now_ns)
        elif reasoning:
            self.output(str(reasoning), now_ns, reasoning=True)

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
            record.media_tokens = count(details.get("multimodal_tokens"))


def _arguments(delta: dict[str, Any]) -> str:
    calls = delta.get("tool_calls") or ()
    pieces = [delta.get("function_call") or {}, *(call.get("function") or {} for call in calls)]
    return "".join((p.get("name") or "") + (p.get("arguments") or "") for p in pieces)
