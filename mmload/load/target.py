"""Whom to send to: a base URL made into an address, a path and request headers, once.

Base URLs come with or without `/v1`, a prefix, a trailing slash, or the whole endpoint. Credentials
in the URL and keys go into the Authorization header and nowhere else: `display` is safe to write.
"""

import base64
import os
import socket
from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

from mmload.errors import UsageError
from mmload.load.transport import Address, Tls

KEY_VARIABLES: Final = ("MMLOAD_API_KEY", "OPENAI_API_KEY")


@dataclass(frozen=True)
class Target:
    """An OpenAI-style server. `base_path` ends in `/v1`, or where the user's URL says."""

    scheme: str
    host: str
    port: int
    base_path: str
    authorization: str | None = None  # secret

    @property
    def origin(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"

    @property
    def display(self) -> str:
        """The base URL without credentials."""
        return self.origin + self.base_path

    @property
    def root_path(self) -> str:
        """Where `/health` and `/metrics` are: the base without `/v1`."""
        return self.base_path.removesuffix("/v1")

    @property
    def secrets(self) -> tuple[str, ...]:
        """Strings that no file may hold."""
        if self.authorization is None:
            return ()
        _, _, token = self.authorization.partition(" ")
        found = [token]
        if self.authorization.startswith("Basic "):
            decoded = base64.b64decode(token).decode("utf-8", "replace")
            found += [decoded, decoded.partition(":")[2]]
        return tuple(s for s in found if s)

    def head(self, method: str, path: str, content_type: str | None, length: int) -> bytes:
        """Request line and headers, open at the end: the caller adds lines and the blank one."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        default_port = 443 if self.scheme == "https" else 80
        lines = [
            f"{method} {path} HTTP/1.1",
            f"Host: {host}" + ("" if self.port == default_port else f":{self.port}"),
            "User-Agent: mmload",
            "Accept: text/event-stream, application/json",
        ]
        if self.authorization is not None:
            lines.append(f"Authorization: {self.authorization}")
        if content_type is not None:
            lines += [f"Content-Type: {content_type}", f"Content-Length: {length}"]
        return ("\r\n".join(lines) + "\r\n").encode("latin-1")

    def resolve(self) -> Address:
        """Looks the name up, once for the whole run. Raises UsageError."""
        try:
            found = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise UsageError(
                f"{self.display}: the host {self.host} cannot be found: {error.strerror}",
                "check the name",
            ) from None
        family, _, _, _, sockaddr = found[0]
        for candidate in found:  # prefer the address that answers: localhost may be ::1 first
            if _answers(candidate[0], candidate[4]):
                family, sockaddr = candidate[0], candidate[4]
                break
        tls = Tls(self.host) if self.scheme == "https" else None
        return Address(family, sockaddr, tls)


def _answers(family: int, sockaddr: tuple[object, ...]) -> bool:
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.settimeout(2.0)
        return probe.connect_ex(sockaddr) == 0


def parse_target(url: str, api_key: str | None, endpoint: str) -> Target:
    """Reads a base URL; `endpoint` is the API's own path, stripped if the URL ends in it."""
    parts = _split(url)
    path = parts.path.rstrip("/").removesuffix(endpoint).rstrip("/")
    if not path.endswith("/v1"):
        path += "/v1"
    key = api_key or next((os.environ[n] for n in KEY_VARIABLES if os.environ.get(n)), None)
    authorization = f"Bearer {key}" if key else None
    if parts.username is not None and not api_key:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        authorization = "Basic " + base64.b64encode(pair.encode()).decode()
    if authorization is not None and not (authorization.isascii() and authorization.isprintable()):
        raise UsageError("--api-key: holds characters that no header can carry", "check the key")
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return Target(parts.scheme, parts.hostname or "", port, path, authorization)


def _split(url: str) -> SplitResult:
    text = url if "://" in url else f"http://{url}"
    try:
        parts = urlsplit(text)
        port_is_right = parts.port is None or parts.port > 0
    except ValueError:
        port_is_right = False
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_is_right:
        shown = url.rpartition("@")[2]  # whatever stands before an @ may be a secret
        raise UsageError(
            f"url: {shown!r} is not an address", "give one such as http://localhost:8000"
        )
    if parts.query or parts.fragment:
        raise UsageError("url: a base URL has no query and no fragment", "leave out ?... and #...")
    return parts
