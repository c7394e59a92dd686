"""OpenAI chat completions, as vLLM serves them: `image_url` and `video_url`, streaming or not.

Strict about what it uses (model, messages, parts, limits: 400 or 404 with OpenAI's error object),
deaf to sampling parameters. See `api.py` for the contract.
"""

from typing import Any, Final

import msgspec

from mmload.server.chunks import ChunkWriter
from mmload.server.engine import Token
from mmload.server.fields import (
    check_model,
    event,
    openai_error,
    openai_usage,
    positive,
    read_object,
    text_of,
    turn,
    unsupported,
    wants_usage,
)
from mmload.server.request import ApiError, MediaPart, ServeRequest, Usage
from mmload.server.settings import ServerSettings

ROLES: Final = ("system", "developer", "user", "assistant", "tool")


class ChatCompletions:
    """The API; stateless."""

    path = "/v1/chat/completions"

    def parse(
        self, body: bytes, content_type: str, request_id: str, settings: ServerSettings
    ) -> ServeRequest:
        fields = read_object(body)
        check_model(fields.get("model"), settings)
        messages = fields.get("messages")
        if not isinstance(messages, list) or not messages:
            raise ApiError(400, "messages: must be a list with at least one message")
        if fields.get("n") not in (None, 1):
            raise ApiError(400, "n: only 1 is supported")
        limit = fields.get("max_completion_tokens", fields.get("max_tokens"))
        return ServeRequest(
            request_id=request_id,
            turns=tuple(turn(f"messages[{i}]", m, ROLES, _part) for i, m in enumerate(messages)),
            max_tokens=positive("max_tokens", limit, settings.max_tokens_limit),
            ignore_end=fields.get("ignore_eos") is True,
            stream=fields.get("stream") is True,
            stream_usage=wants_usage(fields),
        )

    def writer(
        self, request: ServeRequest, settings: ServerSettings, created_s: int
    ) -> "ChatWriter":
        return ChatWriter(request, settings.model, created_s)

    def error(self, error: ApiError) -> bytes:
        return openai_error(error)


class ChatWriter(ChunkWriter):
    """`chat.completion.chunk` events: role, one a token, finish, usage if asked for, `[DONE]`."""

    id_prefix = "chatcmpl"
    object_name = "chat.completion.chunk"

    def first(self, usage: Usage) -> bytes:
        return self._choice({"role": "assistant", "content": ""}, None)

    def token(self, token: Token) -> bytes:
        return self._choice({"content": token.text}, None)

    def last(self, usage: Usage, finish_reason: str) -> bytes:
        return self._choice({}, finish_reason) + self.ending(usage)

    def whole(self, text: str, usage: Usage, finish_reason: str) -> bytes:
        message = {"role": "assistant", "content": text}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish_reason}
        answer = {**self._about, "object": "chat.completion", "choices": [choice]}
        return msgspec.json.encode({**answer, "usage": openai_usage(usage)})

    def _choice(self, delta: dict[str, Any], finish_reason: str | None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        return event({**self._about, "choices": [choice]})


def _part(at: str, part: Any) -> str | MediaPart:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind == "text":
        return text_of(f"{at}.text", part.get("text"))
    if kind in ("image_url", "video_url"):
        given = part.get(kind)
        url = given.get("url") if isinstance(given, dict) else given
        if isinstance(url, str) and url:
            return MediaPart("image" if kind == "image_url" else "video", url)
        raise ApiError(400, f"{at}.{kind}.url: must be a string")
    raise unsupported(at, kind, "text, image_url and video_url")
