"""A server of our own for the length of a run: started, found ready, stopped.

The server says on standard output that it is ready (`{"ready": true, "url": ...}`); its standard
error is the run's `server.log`. It is stopped by SIGTERM to its process group, and stops by itself
when its standard input closes, so a killed mmload leaves nothing behind.
"""

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from mmload.clock import NS_PER_S, MonotonicClock
from mmload.errors import MmloadError, UsageError
from mmload.hook.spans import FOLDER_VARIABLE

READY_TIMEOUT_S: Final = 60
STOP_TIMEOUT_S: Final = 10
LOG_LINES: Final = 8


class ServerProcess:
    """A running server, as a context manager: it is stopped on the way out, whatever happens."""

    def __init__(
        self, command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self._log = log
        with log.open("ab") as handle:
            self._process = subprocess.Popen(
                list(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=handle,
                env={**os.environ, **(environment or {})},
                start_new_session=True,  # the terminal's Ctrl-C is for the client
            )
        self.url = ""

    def __enter__(self) -> "ServerProcess":
        try:
            self.url = self._ready()["url"]
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        return self._process.pid

    def died(self) -> str | None:
        """Why the server is no longer there, with the last lines of its log; None: it is."""
        code = self._process.poll()
        if code is None:
            return None
        return f"the server ended (exit code {code}) during the run; {self._last_words()}"

    def stop(self) -> None:
        """SIGTERM to the group, SIGKILL if it does not go in time."""
        process = self._process
        if process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()
        for sign, patience_s in (
            (signal.SIGTERM, STOP_TIMEOUT_S),
            (signal.SIGKILL, STOP_TIMEOUT_S),
        ):
            if process.poll() is not None:
                break
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, sign)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(patience_s)
        if process.stdout is not None:
            process.stdout.close()

    def _ready(self) -> dict[str, Any]:
        """Reads lines until one says ready. Raises with the server's own words if none does."""
        assert self._process.stdout is not None
        deadline_ns = MonotonicClock.now_ns() + READY_TIMEOUT_S * NS_PER_S
        buffer = b""
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while (left_ns := deadline_ns - MonotonicClock.now_ns()) > 0:
                if not selector.select(left_ns / NS_PER_S):
                    break
                read = os.read(self._process.stdout.fileno(), 65536)
                if not read:
                    return self._failed()
                *lines, buffer = (buffer + read).split(b"\n")
                for line in lines:
                    with contextlib.suppress(ValueError):
                        said = json.loads(line)
                        if isinstance(said, dict) and said.get("ready"):
                            return said
        raise MmloadError(
            f"the server was not ready within {READY_TIMEOUT_S} s; {self._last_words()}",
            f"see {self._log}",
        )

    def _failed(self) -> dict[str, Any]:
        code = self._process.wait(STOP_TIMEOUT_S)
        kind = UsageError if code == UsageError.exit_code else MmloadError
        raise kind(f"the server did not start (exit code {code}): {self._last_words()}")

    def _last_words(self) -> str:
        lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()
        said = " / ".join(line.strip() for line in lines[-LOG_LINES:] if line.strip())
        return f"its last words: {said}" if said else "it said nothing"


def embedded_server(flags: Sequence[str], log: Path, spans: Path) -> ServerProcess:
    """The embedded server under its hook, in a process of its own."""
    command = [sys.executable, "-m", "mmload.server", "--until-stdin-closes", *flags]
    return ServerProcess(command, log, {FOLDER_VARIABLE: str(spans.resolve())})
