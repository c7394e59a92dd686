"""OpenAI Responses: `input` as text or items, `input_image` by URL or base64, streaming or not.

Keeps nothing between requests: `previous_response_id` and uploaded files are refused. See `api.py`
for the contract.
"""

from typing import Any, Final

import msgspec

from mmload.server.engine import Token
from mmload.server.fields import (
    check_model,
    event,
    openai_error,
    positive,
    read_object,
    text_of,
    turn,
    unsupported,
)
from mmload.server.request import ApiError, MediaPart, ServeRequest, Turn, Usage
from mmload.server.settings import ServerSettings

ROLES: Final = ("system", "developer", "user", "assistant")


class Responses:
    """The API; stateless."""

    path = "/v1/responses"

    def parse(
        self, body: bytes, content_type: str, request_id: str, settings: ServerSettings
    ) -> ServeRequest:
        fields = read_object(body)
        check_model(fields.get("model"), settings)
        for name in ("previous_response_id", "conversation", "prompt"):
            if fields.get(name) is not None:
                raise ApiError(400, f"{name}: is not supported, this server keeps nothing")
        limit = fields.get("max_output_tokens")
        return ServeRequest(
            request_id=request_id,
            turns=_turns(fields),
            max_tokens=positive("max_output_tokens", limit, settings.max_tokens_limit),
            stream=fields.get("stream") is True,
        )

    def writer(
        self, request: ServeRequest, settings: ServerSettings, created_s: int
    ) -> "ResponsesWriter":
        return ResponsesWriter(request, settings.model, created_s)

    def error(self, error: ApiError) -> bytes:
        return openai_error(error)


class ResponsesWriter:
    """One output item, a message of one text part; each event with its `sequence_number`."""

    stream_type = "text/event-stream; charset=utf-8"
    whole_type = "application/json"

    def __init__(self, request: ServeRequest, model: str, created_s: int) -> None:
        self._item_id = f"msg_{request.request_id}"
        self._at = {"item_id": self._item_id, "output_index": 0, "content_index": 0}
        self._words: list[str] = []
        self._events = 0
        self._about = {
            "id": f"resp_{request.request_id}",
            "object": "response",
            "created_at": created_s,
            "model": model,
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "max_output_tokens": request.max_tokens,
            "metadata": {},
            "parallel_tool_calls": True,
            "temperature": 1.0,
            "tool_choice": "auto",
            "tools": [],
            "top_p": 1.0,
        }

    def first(self, usage: Usage) -> bytes:
        response = {**self._about, "status": "in_progress", "output": [], "usage": None}
        item = self._item("in_progress", [])
        return b"".join(
            (
                self._event("response.created", response=response),
                self._event("response.in_progress", response=response),
                self._event("response.output_item.added", output_index=0, item=item),
                self._event("response.content_part.added", **self._at, part=_text_part("")),
            )
        )

    def token(self, token: Token) -> bytes:
        self._words.append(token.text)
        delta = {**self._at, "delta": token.text, "logprobs": []}
        return self._event("response.output_text.delta", **delta)

    def last(self, usage: Usage, finish_reason: str) -> bytes:
        text = "".join(self._words)
        answer = self._answer(text, usage, finish_reason)
        [item] = answer["output"]
        [part] = item["content"]
        return b"".join(
            (
                self._event("response.output_text.done", **self._at, text=text, logprobs=[]),
                self._event("response.content_part.done", **self._at, part=part),
                self._event("response.output_item.done", output_index=0, item=item),
                self._event(f"response.{answer['status']}", response=answer),
            )
        )

    def whole(self, text: str, usage: Usage, finish_reason: str) -> bytes:
        return msgspec.json.encode(self._answer(text, usage, finish_reason))

    def _answer(self, text: str, usage: Usage, finish_reason: str) -> dict[str, Any]:
        cut = finish_reason == "length"
        status = "incomplete" if cut else "completed"
        return {
            **self._about,
            "status": status,
            "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
            "output": [self._item(status, [_text_part(text)])],
            "usage": {
                "input_tokens": usage.prompt_tokens,
                "input_tokens_details": {"cached_tokens": 0},
                "output_tokens": usage.output_tokens,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": usage.prompt_tokens + usage.output_tokens,
            },
        }

    def _item(self, status: str, content: list[dict[str, Any]]) -> dict[str, Any]:
        about = {"id": self._item_id, "type": "message", "role": "assistant"}
        return {**about, "status": status, "content": content}

    def _event(self, kind: str, **fields: Any) -> bytes:
        number, self._events = self._events, self._events + 1
        return event({"type": kind, "sequence_number": number, **fields}, kind)


def _text_part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _turns(fields: dict[str, Any]) -> tuple[Turn, ...]:
    given = fields.get("input")
    system = fields.get("instructions")
    first = () if system is None else (Turn("system", (text_of("instructions", system),)),)
    if isinstance(given, str) and given:
        return (*first, Turn("user", (given,)))
    if not isinstance(given, list) or not given:
        raise ApiError(400, "input: must be a string or a list with at least one item")
    return (*first, *(_item(f"input[{number}]", item) for number, item in enumerate(given)))


def _item(at: str, item: Any) -> Turn:
    kind = item.get("type", "message") if isinstance(item, dict) else None
    if kind == "message":
        return turn(at, item, ROLES, _part)
    if kind == "reasoning":  # clients send it back; a model's template leaves it out
        return Turn("assistant", ())
    raise unsupported(at, kind, "messages")


def _part(at: str, part: Any) -> str | MediaPart:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind in ("input_text", "output_text"):
        return text_of(f"{at}.text", part.get("text"))
    if kind == "input_image":
        if isinstance(part.get("image_url"), str):
            return MediaPart("image", part["image_url"])
        raise ApiError(400, f"{at}.image_url: must be a string (a file_id is not supported)")
    raise unsupported(at, kind, "input_text, output_text and input_image")
