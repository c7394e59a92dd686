"""Runs py-spy on the processes of a server, and says why where it may not.

In: process ids and how to sample. Out: a `Session`. Nothing in the server is changed: py-spy reads
its memory from outside, while it runs. A read that meets a change fails and is counted. For native
functions it stops the server for each sample, which slows it. One py-spy follows each root with its
children; what it says goes to a file, as a full pipe would stop it.
"""

import contextlib
import math
import re
import shutil
import signal
import subprocess
import sysconfig
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import psutil

from mmload import processes
from mmload.clock import NS_PER_S, MonotonicClock, pause
from mmload.errors import MmloadError, UsageError
from mmload.profiler.session import Profiled, Session
from mmload.profiler.stacks import parse

READY_TIMEOUT_S: Final = 30
WRITE_TIMEOUT_S: Final = 60
_READY: Final = "Sampling process"
_BEHIND: Final = re.compile(r"([\d.]+)(ms|s) behind in sampling")
_FAILED: Final = re.compile(r"Errors: (\d+)")
_DENIED: Final = re.compile(
    r"permission denied|operation not permitted|requires root|os error 1\b", re.I
)
_GONE: Final = re.compile(r"no such (?:file|process)|process executable name", re.I)
_NO_PYTHON: Final = re.compile(r"failed to find (?:a )?python|no python processes", re.I)
YAMA: Final = Path("/proc/sys/kernel/yama/ptrace_scope")


@dataclass(frozen=True)
class Sampling:
    """How to sample: Python functions of a process that runs on, or native ones too, for which it
    is stopped each time."""

    native: bool = False
    rate_hz: int = 100

    def flags(self) -> list[str]:
        return [
            *("--rate", str(self.rate_hz), "--format", "raw", "--threads", "--subprocesses"),
            *("--full-filenames", "--function"),
            "--native" if self.native else "--nonblocking",
        ]


@dataclass
class _Spy:
    pid: int
    process: "subprocess.Popen[bytes]"
    said: Path
    stacks: Path
    cpu_s: float | None = None

    def words(self) -> str:
        with contextlib.suppress(OSError):
            return self.said.read_text(encoding="utf-8", errors="replace")
        return ""


@dataclass
class Profiler:
    """`start()` returns when every py-spy samples; `stop()` returns what they saw. One use.

    After `limit_s` they end by themselves: nothing is left behind when mmload is killed.
    """

    roots: Sequence[int]
    sampling: Sampling
    limit_s: float
    _spies: list[_Spy] = field(default_factory=list)
    _started_ns: int = 0
    _cpu_s: dict[int, float] = field(default_factory=dict)
    _folder: "tempfile.TemporaryDirectory[str] | None" = None

    def start(self) -> None:
        """Raises UsageError, with the fix, where a process may not be looked into."""
        program = _program()
        self._folder = tempfile.TemporaryDirectory(prefix="mmload-profile-")
        folder = Path(self._folder.name)
        try:
            for pid in self.roots:
                said, stacks = folder / f"{pid}.log", folder / f"{pid}.txt"
                command = [program, "record", "--pid", str(pid), "--output", str(stacks)]
                command += ["--duration", str(math.ceil(self.limit_s))]
                with said.open("wb") as log:
                    process = subprocess.Popen(
                        [*command, *self.sampling.flags()],
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=log,
                        start_new_session=True,  # Ctrl-C is for mmload, which then asks for it
                    )
                self._spies.append(_Spy(pid, process, said, stacks))
            self._wait_until_ready()
        except BaseException:
            self.abandon()
            raise
        self._started_ns = MonotonicClock.now_ns()
        self._cpu_s = processes.cpu_s(processes.tree(self.roots))

    def _wait_until_ready(self) -> None:
        deadline_ns = MonotonicClock.now_ns() + READY_TIMEOUT_S * NS_PER_S
        for spy in self._spies:
            while _READY not in spy.words():
                if spy.process.poll() is not None:
                    raise refused(spy.pid, spy.words())
                if MonotonicClock.now_ns() > deadline_ns:
                    raise MmloadError(
                        f"py-spy did not begin within {READY_TIMEOUT_S} s: {_last(spy.words())}",
                        "without native functions it has less to read",
                    )
                pause(0.02)

    def stop(self) -> Session:
        """What was seen so far; the server may have ended."""
        duration_s = (MonotonicClock.now_ns() - self._started_ns) / NS_PER_S
        now = processes.cpu_s(processes.tree(self.roots))
        over = f"The profile ended after {self.limit_s:.0f} s, as the load did not."
        for spy in self._spies:
            spy.cpu_s = processes.cpu_s([spy.process.pid]).get(spy.process.pid)
            with contextlib.suppress(OSError):
                spy.process.send_signal(signal.SIGINT)
        spies = [spy.cpu_s for spy in self._spies if spy.cpu_s is not None]
        session = Session(
            profiler=_version(),
            rate_hz=self.sampling.rate_hz,
            duration_s=min(duration_s, self.limit_s),
            native=self.sampling.native,
            processes=[
                Profiled(pid, processes.command_of(pid), used - self._cpu_s.get(pid, 0.0))
                for pid, used in now.items()
            ],
            profiler_cpu_s=round(sum(spies), 3) if spies else None,
            problems=[over] if duration_s > self.limit_s else [],
        )
        try:
            for spy in self._spies:
                self._collect(spy, session)
        finally:
            self.abandon()
        return session

    def _collect(self, spy: _Spy, session: Session) -> None:
        try:
            spy.process.wait(WRITE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            session.problems.append(f"py-spy did not end within {WRITE_TIMEOUT_S} s.")
            return
        words = spy.words()
        if not spy.stacks.exists():
            session.problems.append(f"py-spy wrote nothing for process {spy.pid}: {_last(words)}")
            return
        with spy.stacks.open(encoding="utf-8", errors="replace") as file:
            stacks, damaged = parse(file)
        session.put(stacks)
        failed = _FAILED.search(words)
        session.failed_samples += int(failed[1]) if failed else 0
        behind = [float(n) / (1000 if unit == "ms" else 1) for n, unit in _BEHIND.findall(words)]
        if behind:
            session.problems.append(
                f"py-spy fell up to {max(behind):.1f} s behind on process {spy.pid}: samples came"
                " late; a lower rate, or no native functions, is easier for it."
            )
        if damaged:
            session.problems.append(f"{damaged} lines of py-spy's output could not be read.")

    def abandon(self) -> None:
        """Ends what runs and removes what was written."""
        for spy in self._spies:
            if spy.process.poll() is None:
                spy.process.kill()
            spy.process.wait()
        if self._folder is not None:
            self._folder.cleanup()


def refused(pid: int, words: str) -> MmloadError:
    """Why py-spy ended before it began, with the fix."""
    if _DENIED.search(words):
        return UsageError(
            f"process {pid} may not be profiled: the system forbids ptrace", ptrace_fix()
        )
    if _NO_PYTHON.search(words):
        return UsageError(
            f"process {pid} is no Python that py-spy knows",
            "name the server's own process, not a shell, proxy or container around it",
        )
    if _GONE.search(words) and not psutil.pid_exists(pid):
        return UsageError(f"there is no process {pid}", "see `ps` for the server's process id")
    return MmloadError(f"py-spy could not look into process {pid}: {_last(words)}")


def ptrace_fix() -> str:
    """What to do, the likeliest first: by what this system says of itself."""
    fixes = ["run mmload with sudo, or as the server's user"]
    if _in_container():
        fixes.insert(0, "start the container with --cap-add SYS_PTRACE")
    with contextlib.suppress(OSError):
        if (scope := YAMA.read_text(encoding="ascii").strip()) != "0":
            fixes.insert(0, f"sudo sysctl kernel.yama.ptrace_scope=0 (it is {scope})")
    return ", or ".join(fixes)


def _in_container() -> bool:
    return Path("/.dockerenv").exists() or Path("/run/.containerenv").exists()


def _program() -> str:
    beside = Path(sysconfig.get_path("scripts")) / "py-spy"
    found = str(beside) if beside.exists() else shutil.which("py-spy")
    if found is None:
        raise UsageError("py-spy is not installed", "pip install py-spy")
    return found


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return f"py-spy {version('py-spy')}"
    except PackageNotFoundError:
        return "py-spy"


def _last(words: str) -> str:
    """The first line that says what is wrong, without the trace of py-spy's own stack."""
    lines = [line.strip() for line in words.partition("Stack backtrace")[0].splitlines()]
    return " ".join(line for line in lines if line) or "it said nothing"
