"""Where a server that is started from a command will listen, and who is there already.

The rule, in this order: the URL that the user gave (it must not contradict the command); the
command's own `--port` and `--host`; where the command says `{port}`, a free one, on loopback; the
port that the server is known to take by itself. Else a UsageError says how to name it.
"""

import contextlib
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from mmload.errors import UsageError

PORT_WORD: Final = "{port}"
# Words of a command that follow each other -> the port that it listens on unless told otherwise.
OWN_PORTS: Final = {
    ("vllm", "serve"): 8000,
    ("vllm", "launch"): 8000,
    ("-m", "vllm.entrypoints.openai.api_server"): 8000,
    ("sglang", "serve"): 30000,
    ("-m", "sglang.launch_server"): 30000,
    ("llama-server",): 8080,
}
ANY_ADDRESS: Final = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}


@dataclass(frozen=True)
class Place:
    """The command with its port filled in, and the server's base URL."""

    argv: tuple[str, ...]
    url: str

    @property
    def host(self) -> str:
        return urlsplit(self.url).hostname or "127.0.0.1"

    @property
    def port(self) -> int:
        parts = urlsplit(self.url)
        return parts.port or (443 if parts.scheme == "https" else 80)


def place_of(argv: Sequence[str], url: str | None = None) -> Place:
    """Raises UsageError when the command does not say where it listens, or says something else."""
    port = None
    given = Place((), url if "://" in url else f"http://{url}") if url is not None else None
    if any(PORT_WORD in word for word in argv):
        port = given.port if given is not None else free_port()
        argv = [word.replace(PORT_WORD, str(port)) for word in argv]
    said = flag_value(argv, "port")
    if said is not None and not (said.isdigit() and 0 < int(said) < 65_536):
        raise UsageError(
            f"--port {said}: the server's command has to name a port from 1 to 65535",
            f"write --port {PORT_WORD} for a free one",
        )
    if said is not None:
        port = int(said)
    if given is not None:
        if port is not None and port != given.port:
            raise UsageError(
                f"the URL says port {given.port}, the server's command --port {port}",
                "leave the URL out, or start the server yourself",
            )
        return Place(tuple(argv), given.url)
    if port is None:
        port = own_port(argv)
    if port is None:
        raise UsageError(
            f"{argv[0]}: where does this server listen?",
            f"add --port {PORT_WORD} to its command, write {PORT_WORD} where it takes its port,"
            " or give the URL",
        )
    host = flag_value(argv, "host") or ""
    host = ANY_ADDRESS.get(host, host)
    secure = any(flag_value(argv, name) for name in ("ssl-certfile", "ssl-cert-file"))
    where = f"[{host}]" if ":" in host else host
    return Place(tuple(argv), f"{'https' if secure else 'http'}://{where}:{port}")


def flag_value(argv: Sequence[str], name: str) -> str | None:
    """The value of `--name VALUE` or `--name=VALUE`, the last one given."""
    found = None
    for word, after in zip(argv, (*argv[1:], None), strict=True):
        if word == f"--{name}":
            found = after
        elif word.startswith(f"--{name}="):
            found = word.partition("=")[2]
    return found


def own_port(argv: Sequence[str]) -> int | None:
    """The port that a known server takes when nobody names one."""
    words = [word.rpartition("/")[2] for word in argv]
    for known, port in OWN_PORTS.items():
        starts = range(len(words) - len(known) + 1)
        if any(tuple(words[i : i + len(known)]) == known for i in starts):
            return port
    return None


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def is_open(host: str, port: int) -> bool:
    """Whether something listens there."""
    with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=2.0):
        return True
    return False


def who_listens(port: int) -> str:
    """The process that has the port, in words; empty when it cannot be seen."""
    import psutil

    with contextlib.suppress(psutil.Error, OSError):
        for one in psutil.net_connections(kind="tcp"):
            listens = one.status == psutil.CONN_LISTEN and one.laddr and one.laddr.port == port
            if listens and one.pid:
                return f"pid {one.pid} ({psutil.Process(one.pid).name()})"
    return ""
