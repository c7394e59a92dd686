"""Streams of every API by one script: what servers send for the same happening.

A `Dialect` words happenings (text, thinking, a tool call, an error, the end) as one API's bytes;
`play` lets the API's reader read them. The forms are those of the APIs' public documentation.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from mmload.records import Record
from mmload.wire import APIS

MS = 1_000_000
SSE = "text/event-stream; charset=utf-8"


def data(fields: Any) -> bytes:
    return b"data: " + json.dumps(fields).encode() + b"\n\n"


def named(kind: str, **fields: Any) -> bytes:
    return f"event: {kind}\n".encode() + data({"type": kind, **fields})


@dataclass(frozen=True)
class Dialect:
    """One API. A function that it has no words for is None."""

    api: str
    begin: bytes  # before any output
    text: Callable[[str], bytes]
    end: Callable[[int, int], bytes]  # prompt and output tokens
    finish: str | None  # the reason that `end` gives
    blanks: bytes = b""  # events that are no output
    thought: Callable[[str], bytes] | None = None
    refusal: Callable[[str], bytes] | None = None
    tool: Callable[[str], bytes] | None = None
    error: Callable[[str], bytes] | None = None
    whole: Callable[[str], Any] | None = None  # the answer in one JSON object
    content_type: str = SSE

    def __str__(self) -> str:
        return self.api


DONE = b"data: [DONE]\n\n"


def _chat(delta: dict[str, Any] | None, finish: str | None = None, **more: Any) -> bytes:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    return data({"object": "chat.completion.chunk", "choices": choices, **more})


def _openai_usage(prompt: int, output: int) -> dict[str, Any]:
    return {"prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output}


def _openai_error(message: str) -> bytes:
    return data({"error": {"message": message, "type": "server_error", "code": 500}}) + DONE


CHAT = Dialect(
    api="chat",
    begin=_chat({"role": "assistant", "content": ""}),
    text=lambda s: _chat({"content": s}),
    thought=lambda s: _chat({"reasoning_content": s}),
    refusal=lambda s: _chat({"refusal": s}),
    tool=lambda s: _chat({"tool_calls": [{"index": 0, "function": {"arguments": s}}]}),
    blanks=_chat({"content": None, "reasoning": None, "tool_calls": None})
    + _chat({"role": "assistant", "content": "", "reasoning": ""})
    + _chat({"tool_calls": [{"index": 0, "id": "x", "function": {"arguments": ""}}]})
    + _chat(None, usage=None)
    + _chat({}, usage=None)
    + b": ping\n\nevent: tick\nid: 4\nretry: 9\n\n",
    end=lambda p, n: _chat({}, "stop") + _chat(None, usage=_openai_usage(p, n)) + DONE,
    finish="stop",
    error=_openai_error,
    whole=lambda s: {
        "object": "chat.completion",
        "choices": [{"message": {"role": "assistant", "content": s}, "finish_reason": "stop"}],
        "usage": _openai_usage(7, 3),
    },
)


def _completion(text: str, finish: str | None = None) -> bytes:
    choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": finish}
    return data({"object": "text_completion", "choices": [choice]})


COMPLETIONS = Dialect(
    api="completions",
    begin=b"",
    text=_completion,
    blanks=_completion("") + _chat(None, usage=None) + b": ping\n\n",
    end=lambda p, n: _completion("", "stop") + _chat(None, usage=_openai_usage(p, n)) + DONE,
    finish="stop",
    error=_openai_error,
    whole=lambda s: {
        "object": "text_completion",
        "choices": [{"index": 0, "text": s, "finish_reason": "stop"}],
        "usage": _openai_usage(7, 3),
    },
)


def response_usage(prompt: int, output: int, cached: int = 0) -> dict[str, Any]:
    details = {"cached_tokens": cached}
    return {"input_tokens": prompt, "input_tokens_details": details, "output_tokens": output}


def response(status: str, text: str = "", **more: Any) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text}]
    output = [{"type": "message", "role": "assistant", "content": content}] if text else []
    return {"object": "response", "status": status, "error": None, "output": output, **more}


RESPONSES = Dialect(
    api="responses",
    begin=named("response.created", response=response("in_progress", usage=None))
    + named("response.in_progress", response=response("in_progress"))
    + named("response.output_item.added", item={"type": "message", "content": []})
    + named("response.content_part.added", part={"type": "output_text", "text": ""}),
    text=lambda s: named("response.output_text.delta", delta=s),
    thought=lambda s: named("response.reasoning_text.delta", delta=s),
    refusal=lambda s: named("response.refusal.delta", delta=s),
    tool=lambda s: named("response.function_call_arguments.delta", delta=s),
    blanks=named("response.output_text.delta", delta="")
    + named("response.reasoning_summary_text.delta", delta="")
    + named("response.output_text.annotation.added", annotation={})
    + named("response.something.new", delta="x"),
    end=lambda p, n: (
        named("response.output_text.done", text="whole text, again")
        + named("response.completed", response=response("completed", usage=response_usage(p, n)))
    ),
    finish="completed",
    error=lambda m: named("error", code="server_error", message=m, param=None),
    whole=lambda s: response("completed", s, usage=response_usage(7, 3)),
)


def block(kind: str, **fields: Any) -> bytes:
    return named("content_block_delta", index=0, delta={"type": kind, **fields})


MESSAGES = Dialect(
    api="messages",
    begin=named("message_start", message={"content": [], "usage": {"output_tokens": 1}})
    + named("content_block_start", index=0, content_block={"type": "text", "text": ""})
    + named("ping"),
    text=lambda s: block("text_delta", text=s),
    thought=lambda s: block("thinking_delta", thinking=s),
    tool=lambda s: block("input_json_delta", partial_json=s),
    blanks=block("text_delta", text="")
    + block("thinking_delta", thinking="")
    + block("signature_delta", signature="EqQBCgIYAhIM1gbcDa9GJwZA2b3h")
    + named("ping")
    + named("content_block_stop", index=0),
    end=lambda p, n: (
        named(
            "message_delta",
            delta={"stop_reason": "end_turn"},
            usage={"input_tokens": p, "output_tokens": n},
        )
        + named("message_stop")
    ),
    finish="end_turn",
    error=lambda m: named("error", error={"type": "overloaded_error", "message": m}),
    whole=lambda s: {
        "type": "message",
        "content": [{"type": "text", "text": s}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 7, "output_tokens": 3},
    },
)

PREDICT = Dialect(
    api="predict",
    begin=b"",
    text=lambda s: s.encode(),
    end=lambda p, n: b"",
    finish=None,
    content_type="text/plain; charset=utf-8",
)

DIALECTS = (CHAT, COMPLETIONS, RESPONSES, MESSAGES, PREDICT)
STREAMS = DIALECTS[:-1]  # those of events


def play(
    api: str,
    reads: Iterable[bytes | tuple[int, bytes]],
    *,
    status: int = 200,
    content_type: str = SSE,
) -> Record:
    """Lets a reader read; a read is bytes (at 0 ms) or (ms, bytes)."""
    record = Record(index=0, request_id="r", media_class="image", payload=0, intended_ns=0)
    reader = APIS[api].reader(record)
    reader.head(status, content_type)
    for read in reads:
        at_ms, part = read if isinstance(read, tuple) else (0, read)
        reader.feed(part, at_ms * MS)
    reader.close()
    msgspec.json.encode(record)  # whatever came can be written to disk
    return record


def read(dialect: Dialect, *reads: bytes | tuple[int, bytes]) -> Record:
    return play(dialect.api, reads, content_type=dialect.content_type)


def plain(record: Record) -> dict[str, Any]:
    """All of a record, for comparing."""
    fields: dict[str, Any] = msgspec.to_builtins(record)
    return fields
