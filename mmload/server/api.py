"""What one API of the embedded server has to give; the rest of the server is the same for all.

An API is one file (`api_chat.py`) and one line in `app.APIS`. It turns a body into a `ServeRequest`
and answers into bytes. No I/O, no clock, no pipeline.
"""

from typing import Protocol

from mmload.server.engine import Token
from mmload.server.request import ApiError, ServeRequest, Usage
from mmload.server.settings import ServerSettings


class AnswerWriter(Protocol):
    """Words one answer, as a stream (`first`, `token`..., `last`) or as a whole."""

    stream_type: str
    """Content type of the streamed form."""
    whole_type: str
    """Content type of the whole."""

    def first(self, usage: Usage) -> bytes:
        """What comes before the first token. Of the usage, only the prompt's part may be told."""

    def token(self, token: Token) -> bytes: ...

    def last(self, usage: Usage, finish_reason: str) -> bytes:
        """What comes after the last token."""

    def whole(self, text: str, usage: Usage, finish_reason: str) -> bytes: ...


class ServerApi(Protocol):
    """`path` is the whole path, for POST."""

    path: str

    def parse(
        self, body: bytes, content_type: str, request_id: str, settings: ServerSettings
    ) -> ServeRequest:
        """`content_type`: the whole header, with its parameters. Raises ApiError."""

    def writer(
        self, request: ServeRequest, settings: ServerSettings, created_s: int
    ) -> AnswerWriter:
        """`created_s`: seconds of wall clock since the epoch, where the API says so."""

    def error(self, error: ApiError) -> bytes:
        """The error body, JSON, in the shape that this API's clients parse."""
