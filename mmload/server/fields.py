"""What the APIs' bodies have in common: reading JSON, checking fields, OpenAI's objects. Pure.

Every complaint is an `ApiError` that names the field, as the client wrote it.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from mmload.server.request import ApiError, MediaPart, Turn, Usage
from mmload.server.settings import ServerSettings

ReadPart = Callable[[str, Any], str | MediaPart]


def read_object(body: bytes) -> dict[str, Any]:
    """The body as a JSON object."""
    try:
        fields = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ApiError(400, f"the body is not valid JSON: {error}") from error
    if not isinstance(fields, dict):
        raise ApiError(400, "the body must be a JSON object")
    return fields


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


def positive(name: str, value: Any, default: int) -> int:
    """A limit: an integer of at least 1, `default` where none is given."""
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ApiError(400, f"{name}: must be an integer of at least 1, not {value!r}")
    return value


def text_of(at: str, value: Any) -> str:
    if not isinstance(value, str):
        raise ApiError(400, f"{at}: must be a string")
    return value


def turn(at: str, message: Any, roles: tuple[str, ...], read_part: ReadPart) -> Turn:
    """A message with a `role` and a `content`: nothing, a string or a list of parts."""
    if not isinstance(message, dict):
        raise ApiError(400, f"{at}: must be an object")
    role, content = message.get("role"), message.get("content")
    if role not in roles:
        raise ApiError(400, f"{at}.role: must be one of {', '.join(roles)}")
    return Turn(role, parts(f"{at}.content", content, read_part))


def parts(at: str, content: Any, read_part: ReadPart) -> tuple[str | MediaPart, ...]:
    """A content: nothing, a string or a list of parts."""
    if content is None or isinstance(content, str):
        return (content,) if content else ()
    if not isinstance(content, list):
        raise ApiError(400, f"{at}: must be a string or a list of parts")
    return tuple(read_part(f"{at}[{i}]", part) for i, part in enumerate(content))


def unsupported(at: str, kind: Any, supported: str) -> ApiError:
    return ApiError(
        400,
        f"{at}.type: {str(kind)[:40]!r} is not supported: {supported} are",
        code="unsupported_content",
    )


def event(fields: dict[str, Any], name: str = "") -> bytes:
    """One server-sent event."""
    head = f"event: {name}\n".encode() if name else b""
    return head + b"data: " + msgspec.json.encode(fields) + b"\n\n"


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


def wants_usage(fields: dict[str, Any]) -> bool:
    """Whether `stream_options` ask for a usage chunk."""
    options = fields.get("stream_options")
    return isinstance(options, dict) and options.get("include_usage") is True
