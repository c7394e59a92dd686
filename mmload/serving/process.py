"""A server of ours while it runs: found ready, watched, stopped with all that it started.

`AnnouncedServer` says on standard output that it is ready (`{"ready": true, "url": ...}`), as the
embedded one does. `PolledServer` is any command, asked over HTTP. Both run under `keeper.py`, which
ends them; what they say is the run's `server.log`, without the secrets that mmload knows of.
"""

import abc
import asyncio
import contextlib
import json
import os
import select
import selectors
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final, Self

from mmload.clock import NS_PER_S, MonotonicClock, pause
from mmload.errors import MmloadError, UsageError
from mmload.load.control import get
from mmload.load.reach import Reach
from mmload.load.redact import Redactor
from mmload.load.target import parse_target
from mmload.serving import keeper
from mmload.serving.where import Place, is_open, who_listens

SLACK_S: Final = 5.0
POLL_S: Final = 0.2
ASK_S: Final = 5.0  # that one answer about health may take
LOG_LINES: Final = 8
LINE_CHARACTERS: Final = 300


@dataclass(frozen=True)
class About:
    """What the manifest of a run says of the server that was started."""

    launched: dict[str, Any] = field(default_factory=dict)  # command, env, cpus; no secrets
    settings: dict[str, Any] | None = None  # of the embedded server
    simulated: str = ""  # what is simulated in it, in words
    hook: str = ""  # whose spans come into its folder, in words; empty: nobody's


class Server(abc.ABC):
    """As a context manager: started and ready inside, gone with all its children after."""

    def __init__(
        self,
        argv: Sequence[str],
        log: Path,
        *,
        env: Mapping[str, str] | None = None,
        unset: Sequence[str] = (),
        cpus: Sequence[int] = (),
        ready_timeout_s: float = 60.0,
        patience_s: float = 15.0,
        secrets: Sequence[str] = (),
        about: About | None = None,
    ) -> None:
        self.about = about or About()
        self.log = log
        self.url = ""
        self.ready_s = 0.0  # from the start of the process
        self.problem = ""  # what was not right after the stop, in words
        self._ready_timeout_s = ready_timeout_s
        self._keeper_s = 2 * patience_s + keeper.KILL_WAIT_S + SLACK_S  # it is done by then
        self._redactor = Redactor(secrets)
        self._has_secrets = bool(secrets)
        self._code: int | None = None  # the server's, once it has ended
        self._told, tell = os.pipe()
        order = {
            "argv": list(argv),
            "env": dict(env or {}),
            "unset": list(unset),
            "cpus": list(cpus),
            "patience_s": patience_s,
            "tell": tell,
        }
        self._started_ns = MonotonicClock.now_ns()
        with log.open("ab") as handle:
            self._keeper = subprocess.Popen(
                [sys.executable, "-P", keeper.__file__],
                stdin=subprocess.PIPE,
                stdout=self._stdout(handle),
                stderr=handle,
                start_new_session=True,  # the terminal's Ctrl-C is for the client
                pass_fds=(tell,),
            )
        os.close(tell)
        self._stopped = False
        # On its standard input, where no other user can read the environment's secrets.
        assert self._keeper.stdin is not None
        with contextlib.suppress(OSError):
            self._keeper.stdin.write(json.dumps(order).encode() + b"\n")
            self._keeper.stdin.flush()

    @abc.abstractmethod
    def _stdout(self, log: IO[bytes]) -> int | IO[bytes]:
        """Where the server's standard output goes."""

    @abc.abstractmethod
    def _wait_until_ready(self, deadline_ns: int) -> str:
        """The server's base URL, once it is ready."""

    def __enter__(self) -> Self:
        try:
            deadline_ns = self._started_ns + round(self._ready_timeout_s * NS_PER_S)
            self.url = self._wait_until_ready(deadline_ns)
            self.ready_s = round((MonotonicClock.now_ns() - self._started_ns) / NS_PER_S, 2)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def pids(self) -> list[int]:
        """The server's processes that live now, the one that the command became first."""
        import psutil

        with contextlib.suppress(psutil.Error):
            return [p.pid for p in psutil.Process(self._keeper.pid).children(recursive=True)]
        return []

    def died(self) -> str | None:
        """Why the server is no longer there, with the last lines of its log; None: it is."""
        code = self._ended()
        if code is None:
            return None
        return f"the server ended ({in_words(code)}) during the run; {self._last_words()}"

    def stop(self) -> None:
        """Ends the server and everything it started. Safe to repeat. An interrupt in here costs
        nothing: the keeper goes on by itself."""
        if self._stopped:
            return
        self._stopped = True
        if self._keeper.stdin is not None:
            with contextlib.suppress(OSError):
                self._keeper.stdin.close()
        try:
            self._keeper.wait(self._keeper_s)
        except subprocess.TimeoutExpired:
            left = ", ".join(map(str, self.pids()))
            self.problem = f"the server could not be ended: pids {left} are still there"
            self._keeper.kill()
            self._keeper.wait()
        if self._keeper.stdout is not None:
            self._keeper.stdout.close()
        os.close(self._told)
        self._strike_log()

    def _ended(self, wait_s: float = 0.0) -> int | None:
        """The exit code, at once: the keeper itself may still be ending the server's children."""
        if self._code is None and not self._stopped:
            ready, _, _ = select.select([self._told], [], [], wait_s)
            if ready:
                said = os.read(self._told, 64)
                if not said:  # it could not start the server, or was killed, which ends both
                    self._keeper.wait(self._keeper_s)
                self._code = int(said) if said else keeper.exit_code(self._keeper)
        return self._code

    # -- when it goes wrong --------------------------------------------------------------------

    def _failed(self, code: int) -> MmloadError:
        kind = UsageError if code == UsageError.exit_code else MmloadError
        return kind(
            f"the server did not start ({in_words(code)}): {self._last_words()}",
            f"see {self.log}",
        )

    def _too_late(self, seen: str = "") -> MmloadError:
        return MmloadError(
            f"the server was not ready within {self._ready_timeout_s:g} s"
            f"{f' ({seen})' if seen else ''}; {self._last_words()}",
            f"see {self.log}; --server-ready-timeout allows it longer",
        )

    def _last_words(self) -> str:
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        last = [line.strip()[:LINE_CHARACTERS] for line in lines if line.strip()][-LOG_LINES:]
        said = self._redactor.text(" / ".join(last))
        return f"its last words: {said}" if said else "it said nothing"

    def _strike_log(self) -> None:
        """Takes the secrets out of the log, now that nobody writes into it."""
        if not self._has_secrets:
            return
        part = self.log.with_name(self.log.name + ".part")
        changed = False
        with contextlib.suppress(OSError):
            with (
                self.log.open(encoding="utf-8", errors="surrogateescape", newline="") as said,
                part.open("w", encoding="utf-8", errors="surrogateescape", newline="") as fit,
            ):
                for line in said:
                    body = line.rstrip("\r\n")
                    kept = self._redactor.text(body)
                    changed |= kept != body
                    fit.write(kept + line[len(body) :])
            if changed:
                part.replace(self.log)
        part.unlink(missing_ok=True)


class AnnouncedServer(Server):
    """Says by a JSON line on standard output that it is ready, and where."""

    def _stdout(self, log: IO[bytes]) -> int | IO[bytes]:
        return subprocess.PIPE

    def _wait_until_ready(self, deadline_ns: int) -> str:
        stdout = self._keeper.stdout
        assert stdout is not None
        buffer = b""
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            while (left_ns := deadline_ns - MonotonicClock.now_ns()) > 0:
                if not selector.select(left_ns / NS_PER_S):
                    break
                read = os.read(stdout.fileno(), 65536)
                if not read:
                    raise self._failed(self._ended(self._keeper_s) or 0)
                *lines, buffer = (buffer + read).split(b"\n")
                for line in lines:
                    with contextlib.suppress(ValueError):
                        said: Any = json.loads(line)
                        if isinstance(said, dict) and said.get("ready"):
                            return str(said["url"])
        raise self._too_late()


class PolledServer(Server):
    """Any command that serves HTTP at a place known beforehand."""

    def __init__(self, place: Place, log: Path, reach: Reach, **how: Any) -> None:
        self._place = place
        self._target = parse_target(place.url, reach)
        if is_open(place.host, place.port):
            who = who_listens(place.port)
            raise UsageError(
                f"port {place.port} of {place.host} is taken{f' by {who}' if who else ''}",
                "stop that one, or give the server another port",
            )
        super().__init__(place.argv, log, **how)

    def _stdout(self, log: IO[bytes]) -> int | IO[bytes]:
        return log

    def stop(self) -> None:
        already = self._stopped
        super().stop()
        if not already and is_open(self._place.host, self._place.port):
            who = who_listens(self._place.port)
            self.problem = self.problem or (
                f"port {self._place.port} is still open after the server and all that it started"
                f" were ended{f': {who} has it' if who else ''}"
            )

    def _wait_until_ready(self, deadline_ns: int) -> str:
        seen = "nothing listened"
        while MonotonicClock.now_ns() < deadline_ns:
            if (code := self._ended()) is not None:
                raise self._failed(code)
            if is_open(self._place.host, self._place.port):
                ready, seen = asyncio.run(self._ask())
                if ready:
                    return self._place.url
            pause(POLL_S)
        raise self._too_late(seen)

    async def _ask(self) -> tuple[bool, str]:
        """Ready is: /health says 2xx; where there is no such path, /v1/models says 2xx or asks for
        a key; where there is neither, that the server answers at all."""
        address = self._target.resolve()
        path = f"{self._target.root_path}/health"
        health = await get(self._target, address, path, ASK_S)
        if health.failure or health.status not in (404, 405, 401, 403):
            return health.status // 100 == 2, f"{path}: {health.failure or health.status}"
        path = f"{self._target.base_path}/models"
        models = await get(self._target, address, path, ASK_S)
        fine = models.status // 100 == 2 or models.status in (401, 403, 404, 405)
        return fine and not models.failure, f"{path}: {models.failure or models.status}"


def in_words(code: int) -> str:
    """An exit code as a shell gives it: 128 + n is signal n."""
    with contextlib.suppress(ValueError):
        if code > 128:
            return f"ended by {signal.Signals(code - 128).name}"
    return f"exit code {code}"
