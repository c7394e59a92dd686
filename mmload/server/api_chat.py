"""OpenAI chat completions, as vLLM serves them: `image_url` and `video_url`, streaming or not.

Strict about what it uses (model, messages, parts, limits: 400 or 404 with OpenAI's error object),
deaf to sampling parameters. See `api.py` for the contract.
"""

from typing import Any, Final

import msgspec

from mmload.server.engine import Token
from mmload.server.request import ApiError, MediaPart, ServeRequest, Turn, Usage
from mmload.server.settings import ServerSettings

ROLES: Final = ("system", "developer", "user", "assistant", "tool")


class ChatCompletions:
    """The API; stateless."""

    path = "/v1/chat/completions"

    def parse(
        self, body: bytes, content_type: str, request_id: str, settings: ServerSettings
    ) -> ServeRequest:
        try:
            fields = msgspec.json.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ApiError(400, f"the body is not valid JSON: {error}") from error
        if not isinstance(fields, dict):
            raise ApiError(400, "the body must be a JSON object")
        check_model(fields.get("model"), settings)
        messages = fields.get("messages")
        if not isinstance(messages, list) or not messages:
            raise ApiError(400, "messages: must be a list with at least one message")
        if fields.get("n") not in (None, 1):
            raise ApiError(400, "n: only 1 is supported")
        limit = fields.get("max_completion_tokens", fields.get("max_tokens"))
        options = fields.get("stream_options")
        return ServeRequest(
            request_id=request_id,
            turns=tuple(_turn(number, message) for number, message in enumerate(messages)),
            max_tokens=_positive("max_tokens", limit, settings.max_tokens_limit),
            ignore_end=fields.get("ignore_eos") is True,
            stream=fields.get("stream") is True,
            stream_usage=isinstance(options, dict) and options.get("include_usage") is True,
        )

    def writer(
        self, request: ServeRequest, settings: ServerSettings, created_s: int
    ) -> "ChatWriter":
        return ChatWriter(request, settings.model, created_s)

    def error(self, error: ApiError) -> bytes:
        return openai_error(error)


class ChatWriter:
    """`chat.completion.chunk` events: role, one a token, finish, usage if asked for, `[DONE]`."""

    stream_type = "text/event-stream; charset=utf-8"
    whole_type = "application/json"

    def __init__(self, request: ServeRequest, model: str, created_s: int) -> None:
        self._with_usage = request.stream_usage
        self._about = {
            "id": f"chatcmpl-{request.request_id}",
            "object": "chat.completion.chunk",
            "created": created_s,
            "model": model,
        }

    def first(self) -> bytes:
        return self._choice({"role": "assistant", "content": ""}, None)

    def token(self, token: Token) -> bytes:
        return self._choice({"content": token.text}, None)

    def last(self, usage: Usage, finish_reason: str) -> bytes:
        out = self._choice({}, finish_reason)
        if self._with_usage:
            out += _event({**self._about, "choices": [], "usage": openai_usage(usage)})
        return out + b"data: [DONE]\n\n"

    def whole(self, text: str, usage: Usage, finish_reason: str) -> bytes:
        message = {"role": "assistant", "content": text}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish_reason}
        answer = {**self._about, "object": "chat.completion", "choices": [choice]}
        return msgspec.json.encode({**answer, "usage": openai_usage(usage)})

    def _choice(self, delta: dict[str, Any], finish_reason: str | None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        return _event({**self._about, "choices": [choice]})


def check_model(model: Any, settings: ServerSettings) -> None:
    """Raises the errors that OpenAI's API gives for a missing or unknown model."""
    if not isinstance(model, str) or not model:
        raise ApiError(400, "model: must be the name of the model")
    if model != settings.model:
        raise ApiError(
            404,
            f"the model {model[:100]!r} does not exist: this server has {settings.model!r}",
            kind="not_found_error",
            code="model_not_found",
        )


def openai_error(error: ApiError) -> bytes:
    """OpenAI's error object."""
    fields = {"message": error.message, "type": error.kind, "param": None}
    return msgspec.json.encode({"error": {**fields, "code": error.code or None}})


def openai_usage(usage: Usage) -> dict[str, Any]:
    """OpenAI's usage object, with vLLM's `multimodal_tokens`."""
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.prompt_tokens + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": 0, "multimodal_tokens": usage.media_tokens},
    }


def _event(fields: dict[str, Any]) -> bytes:
    return b"data: " + msgspec.json.encode(fields) + b"\n\n"


def _positive(name: str, value: Any, default: int) -> int:
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ApiError(400, f"{name}: must be an integer of at least 1, not {value!r}")
    return value


def _turn(number: int, message: Any) -> Turn:
    at = f"messages[{number}]"
    if not isinstance(message, dict):
        raise ApiError(400, f"{at}: must be an object")
    role, content = message.get("role"), message.get("content")
    if role not in ROLES:
        raise ApiError(400, f"{at}.role: must be one of {', '.join(ROLES)}")
    if content is None or isinstance(content, str):
        return Turn(role, (content,) if content else ())
    if not isinstance(content, list):
        raise ApiError(400, f"{at}.content: must be a string or a list of parts")
    return Turn(role, tuple(_part(f"{at}.content[{i}]", part) for i, part in enumerate(content)))


def _part(at: str, part: Any) -> str | MediaPart:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind == "text":
        if isinstance(part.get("text"), str):
            return str(part["text"])
        raise ApiError(400, f"{at}.text: must be a string")
    if kind in ("image_url", "video_url"):
        given = part.get(kind)
        url = given.get("url") if isinstance(given, dict) else given
        if isinstance(url, str) and url:
            return MediaPart("image" if kind == "image_url" else "video", url)
        raise ApiError(400, f"{at}.{kind}.url: must be a string")
    raise ApiError(
        400,
        f"{at}.type: {str(kind)[:40]!r} is not supported: text, image_url and video_url are",
        code="unsupported_content",
    )
