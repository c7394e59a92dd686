"""One run: the scripted server on its core, a tool on another, until the tool ends.

In: a function that makes the tool's command once the server's URL is known. Out: what the server
saw, how the tool ended, and what it used of its core while the schedule ran. Ends only what it
started.
"""

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from bench.processes import Snapshot, snapshot
from bench.truth_server import Row
from mmload.clock import NS_PER_S, MonotonicClock

START_TIMEOUT_S: Final = 180.0  # until a tool sends its first request
END_TIMEOUT_S: Final = 90.0  # after its schedule, until a tool has written its results
STOP_TIMEOUT_S: Final = 10.0
LAST_WORDS: Final = 300  # characters of a line


@dataclass(frozen=True)
class Pins:
    """Core numbers."""

    tool: int
    server: int


@dataclass
class Outcome:
    """What became of a run."""

    url: str
    command: list[str]
    rows: list[Row]
    exit_code: int | None = None
    problem: str = ""
    last_words: str = ""
    before: Snapshot | None = None  # when the first request arrived
    after: Snapshot | None = None  # when the schedule was over


def run(
    make_command: Callable[[str], list[str]],
    environment: Mapping[str, str],
    folder: Path,
    seconds: float,
    pins: Pins,
) -> Outcome:
    """Runs a tool against a fresh server. `folder` is the tool's working folder and home."""
    home = str(folder / "cache")
    variables = {**os.environ, "HF_HOME": home, "XDG_CACHE_HOME": home, **environment}
    truth = folder / "truth.jsonl"
    server = [sys.executable, "-m", "bench.truth_server", "--out", str(truth)]
    with _group(server, pins.server, stdout=subprocess.PIPE) as serving:
        said = _Said(serving)
        url = said.next(START_TIMEOUT_S)["url"]
        outcome = Outcome(url, make_command(url), [])
        log = folder / "tool.log"
        with (
            log.open("wb") as output,
            _group(
                outcome.command,
                pins.tool,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env=variables,
            ) as tool,
        ):
            outcome.problem = _watch(tool, said, seconds, pins, outcome)
            outcome.exit_code = tool.poll()
        outcome.last_words = _last_words(log)
    outcome.rows = [msgspec.json.decode(line, type=Row) for line in truth.read_bytes().splitlines()]
    return outcome


def _watch(
    tool: "subprocess.Popen[bytes]", said: "_Said", seconds: float, pins: Pins, outcome: Outcome
) -> str:
    """Takes the snapshots and waits for the tool's end; returns what went wrong."""
    try:
        said.next(START_TIMEOUT_S, unless=tool)
    except TimeoutError:
        if tool.poll() is None:
            return f"no request within {START_TIMEOUT_S:g} s"
        return ""
    outcome.before = snapshot(tool.pid, pins.tool)
    with contextlib.suppress(subprocess.TimeoutExpired):
        tool.wait(seconds)
    outcome.after = snapshot(tool.pid, pins.tool)
    try:
        tool.wait(END_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return f"stopped {END_TIMEOUT_S:g} s after its schedule was over"
    return ""


def _last_words(log: Path) -> str:
    """The last lines that speak of an error, else the last ones."""
    lines = [line.strip() for line in log.read_text("utf-8", "replace").splitlines()]
    telling = [line for line in lines if "error" in line.lower()] or lines
    return " / ".join(line[:LAST_WORDS] for line in telling[-2:])


@contextlib.contextmanager
def _group(
    command: Sequence[str], core: int, **options: Any
) -> Iterator["subprocess.Popen[bytes]"]:
    """A process group pinned to a core; it is ended on the way out, its children with it."""
    pinned = ["taskset", "--cpu-list", str(core), *command]
    process = subprocess.Popen(pinned, start_new_session=True, **options)
    try:
        yield process
    finally:
        for sign in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, sign)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(STOP_TIMEOUT_S)
        if process.stdout is not None:
            process.stdout.close()


class _Said:
    """The JSON lines that the server prints."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stdout is not None
        self._file = process.stdout.fileno()
        self._buffer = b""

    def next(
        self, timeout_s: float, unless: "subprocess.Popen[bytes] | None" = None
    ) -> dict[str, Any]:
        """The next line. Raises TimeoutError if none comes, or when process `unless` has ended."""
        deadline_ns = MonotonicClock.now_ns() + round(timeout_s * NS_PER_S)
        with selectors.DefaultSelector() as selector:
            selector.register(self._file, selectors.EVENT_READ)
            while b"\n" not in self._buffer:
                if selector.select(0.2):
                    read = os.read(self._file, 65536)
                    if not read:
                        raise RuntimeError("the scripted server ended")
                    self._buffer += read
                elif MonotonicClock.now_ns() > deadline_ns or (
                    unless and unless.poll() is not None
                ):
                    raise TimeoutError
        line, _, self._buffer = self._buffer.partition(b"\n")
        said: dict[str, Any] = json.loads(line)
        return said
