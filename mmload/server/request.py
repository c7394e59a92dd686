"""What an API's request becomes inside the server, whatever API it came by, and what can go wrong.

An API file (`api_chat.py`) turns bytes into a `ServeRequest` and answers into bytes; the pipeline
sees only the types here. Pure data.
"""

from dataclasses import dataclass, field

from mmload.processors.arithmetic import MediaKind


class ApiError(Exception):
    """A request that cannot be served. Each API words it in its own error body."""

    def __init__(
        self, status: int, message: str, *, kind: str = "invalid_request_error", code: str = ""
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.kind = kind
        self.code = code


class MediaError(ApiError):
    """A medium that cannot be fetched or decoded: the client's fault."""

    def __init__(self, message: str) -> None:
        super().__init__(400, message, code="invalid_media")


@dataclass(frozen=True, slots=True)
class MediaPart:
    """An image or a video as the request has it: a `data:` URI, an http(s) URL, or its bytes."""

    kind: MediaKind
    url: str = field(default="", repr=False)
    data: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of the conversation: text and media in their order."""

    role: str
    parts: tuple[str | MediaPart, ...]


@dataclass(frozen=True, slots=True)
class ServeRequest:
    """A request that has been understood, but not looked into: media are still encoded."""

    request_id: str
    turns: tuple[Turn, ...]
    max_tokens: int
    templated: bool = True  # else the text alone, as it is
    # what the model would say by itself is cut at max_tokens; ignoring its end goes on to it
    ignore_end: bool = False
    stream: bool = False
    stream_usage: bool = False

    @property
    def text(self) -> str:
        """The text of all turns, without roles and media."""
        return "".join(p for turn in self.turns for p in turn.parts if isinstance(p, str))

    @property
    def media(self) -> tuple[MediaPart, ...]:
        return tuple(p for turn in self.turns for p in turn.parts if isinstance(p, MediaPart))


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts of a finished answer. `media_tokens` are part of `prompt_tokens`."""

    prompt_tokens: int
    media_tokens: int
    output_tokens: int
