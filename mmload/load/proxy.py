"""An HTTP proxy between the load and its server, only when asked for.

To an http server requests go through it in absolute form; to an https one through a CONNECT tunnel,
in which TLS is spoken with the server itself. SOCKS, and TLS to the proxy, are refused in words.
"""

import base64
import urllib.request
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from mmload.errors import UsageError

_HINT = "give an HTTP proxy such as http://proxy.example:3128"


@dataclass(frozen=True)
class Proxy:
    """Where it is, and what it wants to hear."""

    host: str
    port: int
    authorization: str | None = field(default=None, repr=False)  # secret: Basic ...
    secrets: tuple[str, ...] = field(default=(), repr=False)

    @property
    def display(self) -> str:
        """Without credentials."""
        return f"http://{authority(self.host, self.port)}"

    def tunnel(self, host: str, port: int) -> bytes:
        """The request head that opens a tunnel to a server."""
        where = authority(host, port)
        lines = [f"CONNECT {where} HTTP/1.1", f"Host: {where}"]
        if self.authorization is not None:
            lines.append(f"Proxy-Authorization: {self.authorization}")
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def authority(host: str, port: int) -> str:
    """host:port, an IPv6 address in its brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_proxy(text: str, source: str) -> Proxy:
    """Reads a proxy's URL. `source` names the flag or variable that it came from."""
    shown = text.rpartition("@")[2]  # whatever stands before an @ may be a secret
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        port = parts.port or 80
    except ValueError:
        raise UsageError(f"{source}: {shown!r} is not an address", _HINT) from None
    if parts.scheme != "http":
        kind = "SOCKS proxies are" if parts.scheme.startswith("socks") else "TLS to a proxy is"
        if parts.scheme not in ("https", "socks", "socks4", "socks4a", "socks5", "socks5h"):
            kind = f"{parts.scheme!r} is"
        raise UsageError(f"{source}: {kind} not supported", _HINT)
    if not parts.hostname or parts.path.strip("/") or parts.query or parts.fragment:
        raise UsageError(f"{source}: {shown!r} is not a proxy's address", _HINT)
    if parts.username is None:
        return Proxy(parts.hostname, port)
    user, password = unquote(parts.username), unquote(parts.password or "")
    token = base64.b64encode(f"{user}:{password}".encode()).decode()
    secrets = (token, f"{user}:{password}", password or user, parts.password or parts.username)
    return Proxy(parts.hostname, port, f"Basic {token}", secrets)


def proxy_from_environment(scheme: str, host: str, port: int) -> Proxy | None:
    """HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY, as curl and Python's client read them."""
    named = urllib.request.getproxies_environment()
    bypass = urllib.request.proxy_bypass_environment  # type: ignore[attr-defined]  # not in typeshed
    if bypass(authority(host, port), named):
        return None
    for key in (scheme, "all"):
        if named.get(key):
            return parse_proxy(named[key], f"{key.upper()}_PROXY")
    return None
