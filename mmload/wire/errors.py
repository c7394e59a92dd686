"""Servers' error objects in words: any of their shapes, one line, no echoed media. Pure."""

import re
from typing import Any, Final

import msgspec

MESSAGE_LIMIT: Final = 400
ERROR_BODY_LIMIT: Final = 64 * 1024

# What decoding bytes of any kind as JSON may raise. RecursionError: a body of nothing but brackets.
NOT_JSON: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def error_text(body: Any) -> str | None:
    """The message of an error object in any of the shapes that servers use, or None."""
    if not isinstance(body, dict):
        return None
    error = body.get("error")
    if not error:
        if body.get("object") == "error":  # older vLLM
            return str(body.get("message", "error"))
        detail = body.get("detail")  # FastAPI
        return None if detail is None or "choices" in body else _words(detail)
    if isinstance(error, dict):
        return _words(error.get("message") or error.get("code") or error)
    return _words(error)


def _words(value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return msgspec.json.encode(value).decode()
    except (RecursionError, ValueError, TypeError, OverflowError):
        return type(value).__name__


_START: Final = 8192
_END: Final = 4096
_DATA_URI = re.compile(r"data:([a-z]+/[\w.+-]+);base64,[A-Za-z0-9+/=,]{40,}")
_BASE64 = re.compile(r"[A-Za-z0-9+/]{120,}={0,2}")


def shorten(message: str, limit: int = MESSAGE_LIMIT) -> str:
    """One line of bounded length without the media that servers echo in their errors."""
    if len(message) > _START + _END:  # its middle can only be an echo: no time for it
        message = f"{message[:_START]}...{message[-_END:]}"
    text = _BASE64.sub("...", _DATA_URI.sub(r"data:\1;base64,...", message))
    text = " ".join(re.sub(r"\.{4,}", "...", text).split())
    return text if len(text) <= limit else text[: limit - 3] + "..."


def excerpt(data: bytes) -> str:
    """The start of some bytes, as text for a message."""
    return data[:80].decode("utf-8", "replace")
