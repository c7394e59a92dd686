"""How to reach a server: the options of a connection, which are no part of what is measured.

They are not in the scenario and its digest, and never written down: header values, keys and proxy
passwords are secrets. A `UsageError` names the flag and says what is allowed, not what was typed.
"""

import os
import re
import ssl
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mmload.clock import NS_PER_S
from mmload.errors import UsageError
from mmload.load.proxy import Proxy, parse_proxy, proxy_from_environment
from mmload.load.transport import Tls

KEY_VARIABLES: Final = ("MMLOAD_API_KEY", "OPENAI_API_KEY")
Seconds = Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]

_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_OURS: Final = (
    *("content-length", "content-type", "transfer-encoding", "connection", "expect", "upgrade"),
    *("x-request-id", "proxy-authorization", "x-mmload-spans"),
)


class Reach(BaseModel):
    """Flags of `mmload run`; descriptions are their help."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    api_key: str | None = Field(
        default=None, repr=False, description="Key for the server (MMLOAD_API_KEY, OPENAI_API_KEY)."
    )
    header: tuple[str, ...] = Field(
        default=(),
        repr=False,
        description="'Name: value' sent with each request; repeats. Values are kept secret.",
    )
    insecure: bool = Field(
        default=False, description="https without checking the server's certificate."
    )
    cacert: str | None = Field(
        default=None, description="PEM file of authorities to trust instead of the system's."
    )
    proxy: str | None = Field(
        default=None, repr=False, description="HTTP proxy to go through (none)."
    )
    trust_env: bool = Field(
        default=False, description="Use the proxy that HTTP_PROXY, HTTPS_PROXY and NO_PROXY name."
    )
    no_keepalive: bool = Field(default=False, description="Open a new connection for each request.")
    spans: Literal["folder", "response"] = Field(
        default="folder",
        description="How a traced server's spans come home: from its folder on this host, or inside"
        " each response (folder).",
    )
    connect_timeout: Seconds = Field(
        default=30.0, description="Seconds that connecting may take (30)."
    )
    first_token_timeout: Seconds | None = Field(
        default=None, description="Seconds from the send in which output must begin (no limit)."
    )

    def headers(self) -> tuple[tuple[str, str], ...]:
        """The asked-for headers as pairs. Raises UsageError, which shows no value."""
        return tuple(_header(text) for text in self.header)

    def key(self) -> str | None:
        """By flag, else from the environment."""
        key = self.api_key or next(
            (os.environ[name] for name in KEY_VARIABLES if os.environ.get(name)), None
        )
        if key is not None and not (key.isascii() and key.isprintable()):
            raise UsageError("--api-key: holds characters that no header can carry", "check it")
        return key

    def tls(self, host: str) -> Tls:
        """How to speak TLS with a server of that name; the authorities are read, to be sure."""
        tls = Tls(host, verify=not self.insecure, cacert=self.cacert)
        try:
            tls.context()
        except (OSError, ssl.SSLError) as error:
            why = error.strerror if not isinstance(error, ssl.SSLError) else "no PEM certificates"
            raise UsageError(
                f"--cacert {self.cacert}: cannot be read: {why}", "name a file of PEM certificates"
            ) from None
        return tls

    def proxy_to(self, scheme: str, host: str, port: int) -> Proxy | None:
        """The proxy to go through, only if one was asked for."""
        if self.proxy is not None:
            return parse_proxy(self.proxy, "--proxy")
        return proxy_from_environment(scheme, host, port) if self.trust_env else None

    @property
    def connect_timeout_ns(self) -> int:
        return round(self.connect_timeout * NS_PER_S)

    @property
    def first_token_timeout_ns(self) -> int | None:
        if self.first_token_timeout is None:
            return None
        return round(self.first_token_timeout * NS_PER_S)

    def directly(self) -> Self:
        """The same for a server of our own on this machine: no proxy, no TLS."""
        return self.model_copy(update={"proxy": None, "trust_env": False})


def reach_from(values: Mapping[str, Any]) -> Reach:
    """From flags. Raises UsageError that names the flag, but no value that may be secret."""
    try:
        reach = Reach.model_validate(dict(values))
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0])
        shown = f" {first['input']!r}" if Reach.model_fields[name].repr else ""
        raise UsageError(
            f"--{name.replace('_', '-')}{shown}: {first['msg']}", "`mmload run --help` says how"
        ) from None
    if reach.insecure and reach.cacert is not None:
        raise UsageError("--insecure and --cacert: give one of them", "leave one out")
    reach.headers()
    return reach


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    name, value = name.strip(), value.strip()
    if not colon or not _NAME.fullmatch(name):
        raise UsageError("--header: is not of the form 'Name: value'", "as in 'X-Team: vision'")
    if name.lower() in _OURS:
        raise UsageError(f"--header {name}: mmload sets this one itself", "leave it out")
    try:
        value.encode("latin-1")
    except UnicodeEncodeError:
        value = "\n"  # no header can carry it, like a control character
    if not value.isprintable():
        raise UsageError(f"--header {name}: its value holds characters that no header can carry")
    return name, value
