"""OpenAI Responses, streaming: typed events, an end that says how it ended, no `[DONE]`.

Output is a non-empty delta of text, refusal, reasoning (its text or its summary) or tool arguments;
a tool's name counts too. `response.completed` and `response.incomplete` (cut at its token limit)
are ends of a good answer, `response.failed` and `error` are failures.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from mmload.records import Outcome, Record
from mmload.wire.answer import StreamReader, count
from mmload.wire.base import Api, Ask, MediaSlot
from mmload.wire.errors import error_text
from mmload.wire.sse import Event

ENDS: Final = ("response.completed", "response.incomplete")
FAILURES: Final = ("response.failed", "response.cancelled")
ANSWERS: Final = (
    "response.output_text.delta",
    "response.refusal.delta",
    "response.function_call_arguments.delta",
    "response.custom_tool_call_input.delta",
    "response.mcp_call_arguments.delta",
    "response.code_interpreter_call_code.delta",
)
REASONING: Final = (
    "response.reasoning_text.delta",
    "response.reasoning_summary_text.delta",
    "response.reasoning.delta",
    "response.reasoning_summary.delta",
)


class ResponsesApi(Api):
    """`POST /v1/responses` with input_image parts."""

    name = "responses"
    details = True
    path = "/responses"

    def body(self, ask: Ask) -> bytes:
        items: list[dict[str, Any]] = []
        for turn in ask.history:
            items.append(_message(turn.prompt, turn.media))
            items.append({"type": "message", "role": "assistant", "content": turn.answer})
        items.append(_message(ask.prompt, ask.media))
        return msgspec.json.encode(
            {
                "model": ask.model,
                "input": items,
                "max_output_tokens": ask.max_tokens,
                "temperature": 0.0,
                "stream": True,
                **ask.extra,
            }
        )

    def reader(self, record: Record) -> "ResponsesReader":
        return ResponsesReader(record)


class ResponsesReader(StreamReader):
    """Reads `response.*` events, or one `response` object if it was not streamed."""

    def event(self, event: Event, now_ns: int) -> None:
        if event.data.strip() == b"[DONE]":  # a gateway's habit; says nothing here
            return
        fields = msgspec.json.decode(event.data)
        kind = fields.get("type") or event.name.decode("utf-8", "replace")
        if kind in ANSWERS:
            if delta := fields["delta"]:
                self.output(delta, now_ns)
        elif kind in REASONING:
            if delta := fields["delta"]:
                self.output(str(delta), now_ns, reasoning=True)
        elif kind == "response.output_item.added":
            if name := fields["item"].get("name"):
                self.output(name, now_ns)
        elif kind in ENDS or kind in FAILURES:
            self._end(fields["response"], kind in FAILURES, now_ns)
        elif kind == "error" or error_text(fields) is not None:
            words = error_text(fields) or fields.get("message") or fields.get("code") or "error"
            self.fail(Outcome.stream_error, str(words))
            self.ended = True

    def whole(self, body: Any, now_ns: int) -> None:
        self._end(body, body["status"] in ("failed", "cancelled"), now_ns)

    def _end(self, response: dict[str, Any], failed: bool, now_ns: int) -> None:
        self.ended = True
        self._usage(response.get("usage"))
        if failed:
            words = error_text(response) or f"the response is {response.get('status', 'failed')}"
            self.fail(Outcome.stream_error, words)
            return
        details = response.get("incomplete_details") or {}
        self.finished(details.get("reason") or response.get("status"))
        if self.record.first_output_ns is None:  # a server that sends no deltas, or did not stream
            for text, reasoning in _outputs(response.get("output") or ()):
                if text:
                    self.output(text, now_ns, reasoning=reasoning)

    def _usage(self, usage: Any) -> None:
        if not isinstance(usage, dict):
            return
        record = self.record
        record.usage = usage
        record.prompt_tokens = count(usage.get("input_tokens"))
        record.output_tokens = count(usage.get("output_tokens"))
        details = usage.get("input_tokens_details")
        if isinstance(details, dict):
            record.cached_tokens = count(details.get("cached_tokens"))


def _message(prompt: str, media: Sequence[MediaSlot]) -> dict[str, Any]:
    parts: list[dict[str, Any]] = [
        {"type": "input_image", "image_url": slot.url, "detail": slot.detail or "auto"}
        for slot in media
    ]
    content: Any = [*parts, {"type": "input_text", "text": prompt}] if parts else prompt
    return {"type": "message", "role": "user", "content": content}


def _outputs(items: Sequence[dict[str, Any]]) -> Iterator[tuple[str, bool]]:
    """(text, whether it is reasoning) of each output item."""
    for item in items:
        parts = [*(item.get("summary") or ()), *(item.get("content") or ())]
        text = "".join(part.get("text") or part.get("refusal") or "" for part in parts)
        call = (item.get("name") or "") + (item.get("arguments") or item.get("input") or "")
        yield text or call, item.get("type") == "reasoning"
