"""Whom to send to: a base URL made into an address, a path and request headers, once.

Base URLs come with or without `/v1`, a prefix, a trailing slash, or the whole endpoint. Credentials
in the URL, keys and asked-for headers go into the request's headers and nowhere else: `display` is
safe to write, and `secrets` is what to strike out of whatever a server says.
"""

import base64
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

from mmload.errors import UsageError
from mmload.hook.headers import IN_RESPONSE, SPANS_HEADER
from mmload.load.proxy import Proxy, authority
from mmload.load.reach import Reach
from mmload.load.transport import Address, Tls

_VERSION: Final = re.compile(r"v\d+[a-z0-9]*")  # v1, v3, v1beta: some servers have their own


@dataclass(frozen=True)
class Target:
    """A server of some API. `base_path` ends in `/v1`, or where the user's URL says."""

    scheme: str
    host: str
    port: int
    base_path: str
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)  # secret; replace ours
    secrets: tuple[str, ...] = field(default=(), repr=False)  # strings that no file may hold
    tls: Tls | None = None
    proxy: Proxy | None = None
    keepalive: bool = True
    spans_in_response: bool = False

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{authority(self.host, self.port)}"

    @property
    def display(self) -> str:
        """The base URL without credentials."""
        return self.origin + self.base_path

    @property
    def root_path(self) -> str:
        """Where `/health` and `/metrics` are: the base without `/v1`."""
        return self.base_path.removesuffix("/v1")

    @property
    def authorization(self) -> str | None:
        """Value of that header, a secret."""
        return next((v for n, v in self.headers if n.lower() == "authorization"), None)

    def head(
        self,
        method: str,
        path: str,
        content_type: str | None,
        length: int,
        own: Mapping[str, str] | None = None,
    ) -> bytes:
        """Request line and headers, open at the end: the caller adds lines and the blank one.

        `own` are headers that the API needs; those that the user gave come in their place.
        """
        default_port = 443 if self.scheme == "https" else 80
        host = authority(self.host, self.port)
        ours = {
            "Host": host.removesuffix(f":{self.port}") if self.port == default_port else host,
            "User-Agent": "mmload",
            "Accept": "text/event-stream, application/json",
            **(own or {}),
        }
        if content_type is not None:
            ours |= {"Content-Type": content_type, "Content-Length": str(length)}
        if not self.keepalive:
            ours["Connection"] = "close"
        if self.spans_in_response:
            ours[SPANS_HEADER] = IN_RESPONSE
        through_proxy = self.proxy is not None and self.tls is None
        if self.proxy is not None and self.proxy.authorization is not None and through_proxy:
            ours["Proxy-Authorization"] = self.proxy.authorization
        replaced = {name.lower() for name, _ in self.headers}
        lines = [f"{method} {self.origin if through_proxy else ''}{path} HTTP/1.1"]
        sent = [(name, value) for name, value in ours.items() if name.lower() not in replaced]
        lines += [f"{name}: {value}" for name, value in (*sent, *self.headers)]
        return ("\r\n".join(lines) + "\r\n").encode("latin-1")

    def resolve(self) -> Address:
        """Looks the name up, once for the whole run. Raises UsageError."""
        host, port, whose = self.host, self.port, f"{self.display}: the host"
        if self.proxy is not None:  # which looks the server's name up itself
            host, port, whose = self.proxy.host, self.proxy.port, "the proxy's host"
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            why = getattr(error, "strerror", None) or "not a host name"
            raise UsageError(f"{whose} {host} cannot be found: {why}", "check the name") from None
        family, _, _, _, sockaddr = found[0]
        if len(found) > 1:  # prefer the address that answers: localhost may be ::1 first
            for candidate in found:
                if _answers(candidate[0], candidate[4]):
                    family, sockaddr = candidate[0], candidate[4]
                    break
        tunnelled = self.proxy is not None and self.tls is not None
        tunnel = self.proxy.tunnel(self.host, self.port) if self.proxy and tunnelled else None
        return Address(family, sockaddr, self.tls, tunnel)


def _answers(family: int, sockaddr: tuple[object, ...]) -> bool:
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.settimeout(2.0)
        return probe.connect_ex(sockaddr) == 0


def parse_target(
    url: str, reach: Reach | None = None, endpoint: str = "", *, versioned: bool = True
) -> Target:
    """Reads a base URL; `endpoint` is the API's own path, stripped if the URL ends in it. It stands
    under `/v1` if `versioned`, unless the URL names the whole endpoint or another version."""
    reach = reach or Reach()
    parts = _split(url)
    path = parts.path.rstrip("/")
    base = path.removesuffix(endpoint).rstrip("/")
    whole = bool(endpoint) and path.endswith(endpoint)
    if versioned and not whole and not _VERSION.fullmatch(base.rpartition("/")[2]):
        base += "/v1"
    port = parts.port or (443 if parts.scheme == "https" else 80)
    host = parts.hostname or ""
    tls = reach.tls(host) if parts.scheme == "https" else None
    proxy = reach.proxy_to(parts.scheme, host, port)
    headers, secrets = _credentials(parts, reach)
    if proxy is not None:
        secrets |= set(proxy.secrets)
    return Target(
        parts.scheme,
        host,
        port,
        base,
        headers,
        tuple(sorted(secrets, key=len, reverse=True)),
        tls,
        proxy,
        not reach.no_keepalive,
        reach.spans == "response",
    )


def without_credentials(url: str) -> str:
    """The URL as it was typed, fit to be written down."""
    parts = _split(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _credentials(parts: SplitResult, reach: Reach) -> tuple[tuple[tuple[str, str], ...], set[str]]:
    """The user's headers, Authorization among them, and every string in them that is secret.

    A header given by hand wins over a key, a key given by flag over the URL's, that one over the
    environment's.
    """
    headers = reach.headers()
    secrets = set()
    for _, value in headers:
        secrets |= {value, value.partition(" ")[2]}
    key = reach.key()
    if key is not None:
        secrets.add(key)
    authorization = f"Bearer {key}" if key is not None else None
    if parts.username is not None:
        user, password = unquote(parts.username), unquote(parts.password or "")
        token = base64.b64encode(f"{user}:{password}".encode()).decode()
        secrets |= {token, f"{user}:{password}", password or user}
        secrets.add(parts.password or parts.username)  # as it stands in the URL
        if not reach.api_key:
            authorization = f"Basic {token}"
    if authorization is not None and not any(n.lower() == "authorization" for n, _ in headers):
        headers = (*headers, ("Authorization", authorization))
    return headers, secrets - {""}


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
