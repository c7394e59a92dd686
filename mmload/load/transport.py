"""Bytes out, time-stamped bytes in: the seam between the generator and the network.

`http.HttpTransport` is the real one; tests put scripted ones here, on virtual time.
"""

import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from mmload.load.payloads import Piece
from mmload.records import Outcome

Headers = Mapping[bytes, bytes]  # names in lower case


class Sink(Protocol):
    """What a transport tells of one request. All times are clock nanoseconds."""

    def on_connected(self, now_ns: int, reused: bool) -> None: ...
    def on_written(self, now_ns: int) -> None: ...
    def on_head(self, status: int, headers: Headers, now_ns: int) -> None: ...
    def on_body(self, data: bytes, now_ns: int) -> None: ...
    def on_end(self, now_ns: int) -> None: ...
    def on_failure(self, outcome: Outcome, message: str, now_ns: int) -> None: ...


class Exchange(Protocol):
    """A request under way; after `cancel` its sink hears nothing more."""

    def cancel(self) -> None: ...


class Transport(Protocol):
    """Sends one request: a whole request head, then the pieces of the body."""

    def send(self, head: bytes, pieces: Sequence[Piece], sink: Sink) -> Exchange: ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Tls:
    """How to speak TLS: whose name to check, against which authorities (None: the system's)."""

    server_name: str
    verify: bool = True
    cacert: str | None = None

    def context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.cacert)
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


@dataclass(frozen=True, slots=True)
class Address:
    """Where to connect: resolved once, before the run. `tunnel` is what to say to a proxy first."""

    family: int
    sockaddr: tuple[Any, ...]
    tls: Tls | None = None
    tunnel: bytes | None = field(default=None, repr=False)  # may hold the proxy's password
