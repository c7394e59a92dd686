"""What every API has in common: a request's body with places for media, a reader of its answer.

One API is one file in this folder and one line in `wire/__init__.py`. No I/O and no clock here: a
reader is fed bytes and the time at which they came, and writes what it learns into the `Record`.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Protocol

from mmload.errors import UsageError
from mmload.load.media import MediaKind
from mmload.records import Record


@dataclass(frozen=True, slots=True)
class MediaSlot:
    """A place in a body where a medium goes: its bytes, for which `token` stands until then, or a
    `link` under which the server finds them."""

    kind: MediaKind
    mime: str
    token: str
    detail: str | None = None  # of an image, as OpenAI's APIs have it: low, high, auto
    link: str | None = None  # http(s)

    @property
    def url(self) -> str:
        return self.link or f"data:{self.mime};base64,{self.token}"


@dataclass(frozen=True, slots=True)
class Turn:
    """An earlier exchange of the conversation."""

    prompt: str
    answer: str
    media: tuple[MediaSlot, ...] = ()


@dataclass(frozen=True, slots=True)
class Ask:
    """One request in the tool's own terms; an API turns it into its body."""

    model: str
    prompt: str
    media: tuple[MediaSlot, ...] = ()
    max_tokens: int = 64
    history: tuple[Turn, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)  # merged into the body, wins


class Reader(Protocol):
    """Reads one answer into its record. Times are nanoseconds since the run's origin."""

    def head(self, status: int, content_type: str) -> None:
        """The response head has arrived."""

    def feed(self, data: bytes, now_ns: int) -> None:
        """Body bytes, as they arrived."""

    def close(self) -> None:
        """The body ended cleanly: decide the outcome."""


IMAGES: Final[frozenset[MediaKind]] = frozenset({"image"})
TEXT_ALONE: Final[frozenset[MediaKind]] = frozenset()


class Api(ABC):
    """One way of asking. Stateless: one object serves every request."""

    name: ClassVar[str]
    path: ClassVar[str]
    """What follows the base URL's `/v1`, or the bare base URL if not `versioned`."""
    versioned: ClassVar[bool] = True
    content_type: ClassVar[str] = "application/json"
    headers: ClassVar[Mapping[str, str]] = {}
    """Headers that every request needs besides the usual ones."""
    key_header: ClassVar[str | None] = None
    """A header for the key beside `Authorization: Bearer`, which is always sent."""
    accepts: ClassVar[frozenset[MediaKind]] = IMAGES
    raw: ClassVar[bool] = False
    """The files' own bytes stand in the body, not their base64."""
    details: ClassVar[bool] = False
    """An image part can name a detail: auto, low or high."""
    conversations: ClassVar[bool] = True
    """A request can hold earlier turns."""
    names_model: ClassVar[bool] = True
    """The body says which model is meant."""

    @abstractmethod
    def body(self, ask: Ask) -> bytes:
        """The request body, with each slot's token where its base64 goes (`raw`: its bytes)."""

    @abstractmethod
    def reader(self, record: Record) -> Reader:
        """A reader for one answer."""

    def check(self, kinds: Sequence[MediaKind]) -> None:
        """Raises UsageError if a request with such media can't be asked by this API."""
        for kind in kinds:
            if kind not in self.accepts:
                takes = "text alone" if not self.accepts else f"text and {_plural(self.accepts)}"
                raise UsageError(
                    f"--api {self.name}: takes {takes}, not {kind}s",
                    "send the frames as images: --as frames"
                    if kind == "video" and self.accepts
                    else "send text (--frames 0), or choose another --api",
                )

    def own_headers(self, authorization: str | None) -> dict[str, str]:
        """This API's own headers. `authorization`: the value of that header, if any."""
        own = dict(self.headers)
        if self.key_header and authorization and authorization.startswith("Bearer "):
            own[self.key_header] = authorization.removeprefix("Bearer ")
        return own


def _plural(kinds: frozenset[MediaKind]) -> str:
    return " and ".join(f"{kind}s" for kind in sorted(kinds))
