"""Anthropic Messages: text and image blocks, streaming or not, with Anthropic's own errors.

See `api.py` for the contract.
"""

from typing import Any, Final

import msgspec

from mmload.server.engine import Token
from mmload.server.fields import (
    check_model,
    event,
    parts,
    positive,
    read_object,
    text_of,
    turn,
    unsupported,
)
from mmload.server.request import ApiError, MediaPart, ServeRequest, Turn, Usage
from mmload.server.settings import ServerSettings

ROLES: Final = ("user", "assistant")
STOP_REASONS: Final = {"stop": "end_turn", "length": "max_tokens"}
KINDS: Final = {
    404: "not_found_error",
    413: "request_too_large",
    500: "api_error",
    503: "overloaded_error",
}


class Messages:
    """The API; stateless."""

    path = "/v1/messages"

    def parse(
        self, body: bytes, content_type: str, request_id: str, settings: ServerSettings
    ) -> ServeRequest:
        fields = read_object(body)
        check_model(fields.get("model"), settings)
        messages = fields.get("messages")
        if not isinstance(messages, list) or not messages:
            raise ApiError(400, "messages: must be a list with at least one message")
        if fields.get("max_tokens") is None:
            raise ApiError(400, "max_tokens: must be given")
        system = parts("system", fields.get("system"), _part)
        first = (Turn("system", system),) if system else ()
        turns = (turn(f"messages[{i}]", m, ROLES, _part) for i, m in enumerate(messages))
        return ServeRequest(
            request_id=request_id,
            turns=(*first, *turns),
            max_tokens=positive("max_tokens", fields["max_tokens"], settings.max_tokens_limit),
            stream=fields.get("stream") is True,
        )

    def writer(
        self, request: ServeRequest, settings: ServerSettings, created_s: int
    ) -> "MessagesWriter":
        return MessagesWriter(request, settings.model)

    def error(self, error: ApiError) -> bytes:
        return anthropic_error(error)


class MessagesWriter:
    """One text block; every event has its name, which Anthropic's client needs."""

    stream_type = "text/event-stream; charset=utf-8"
    whole_type = "application/json"

    def __init__(self, request: ServeRequest, model: str) -> None:
        self._about = {
            "id": f"msg_{request.request_id}",
            "type": "message",
            "role": "assistant",
            "model": model,
        }

    def first(self, usage: Usage) -> bytes:
        begun: dict[str, Any] = {"content": [], "stop_reason": None, "stop_sequence": None}
        message = {**self._about, **begun, "usage": _usage(usage, output_tokens=0)}
        block = {"type": "text", "text": ""}
        return b"".join(
            (
                _event("message_start", message=message),
                _event("content_block_start", index=0, content_block=block),
                _event("ping"),
            )
        )

    def token(self, token: Token) -> bytes:
        delta = {"type": "text_delta", "text": token.text}
        return _event("content_block_delta", index=0, delta=delta)

    def last(self, usage: Usage, finish_reason: str) -> bytes:
        stop = {"stop_reason": STOP_REASONS[finish_reason], "stop_sequence": None}
        counted = {"output_tokens": usage.output_tokens}
        return b"".join(
            (
                _event("content_block_stop", index=0),
                _event("message_delta", delta=stop, usage=counted),
                _event("message_stop"),
            )
        )

    def whole(self, text: str, usage: Usage, finish_reason: str) -> bytes:
        answer = {
            **self._about,
            "content": [{"type": "text", "text": text}],
            "stop_reason": STOP_REASONS[finish_reason],
            "stop_sequence": None,
            "usage": _usage(usage, usage.output_tokens),
        }
        return msgspec.json.encode(answer)


def anthropic_error(error: ApiError) -> bytes:
    """Anthropic's error object; its type follows from the status."""
    kind = KINDS.get(error.status, "invalid_request_error")
    return msgspec.json.encode({"type": "error", "error": {"type": kind, "message": error.message}})


def _usage(usage: Usage, output_tokens: int) -> dict[str, int]:
    return {
        "input_tokens": usage.prompt_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": output_tokens,
    }


def _event(kind: str, **fields: Any) -> bytes:
    return event({"type": kind, **fields}, kind)


def _part(at: str, block: Any) -> str | MediaPart:
    kind = block.get("type") if isinstance(block, dict) else None
    if kind == "text":
        return text_of(f"{at}.text", block.get("text"))
    if kind == "image":
        return MediaPart("image", _source(f"{at}.source", block.get("source")))
    raise unsupported(at, kind, "text and image")


def _source(at: str, source: Any) -> str:
    kind = source.get("type") if isinstance(source, dict) else None
    if kind == "base64":
        mime = text_of(f"{at}.media_type", source.get("media_type"))
        return f"data:{mime};base64,{text_of(f'{at}.data', source.get('data'))}"
    if kind == "url":
        return text_of(f"{at}.url", source.get("url"))
    raise unsupported(at, kind, "base64 and url")
