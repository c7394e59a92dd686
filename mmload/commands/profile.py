"""`mmload profile`: whose code the time of a running server is spent in."""

import json
import sys
import threading
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from mmload import processes
from mmload.commands.signs import ended_by
from mmload.errors import MmloadError, UsageError
from mmload.load.reach import Reach
from mmload.load.target import parse_target
from mmload.profiler import files
from mmload.profiler.cake import cake
from mmload.profiler.collect import Profiler, Sampling
from mmload.profiler.session import Session
from mmload.report.terminal_cake import render_profile
from mmload.watching import profiled_roots, server_roots

MAX_RATE_HZ = 1000
GRACE_S = 60  # that py-spy goes on when mmload does not end it


def profile(
    url: Annotated[str | None, Parameter(help="Its address, if it is on this host.")] = None,
    /,
    *,
    pid: Annotated[int | None, Parameter(help="Process to profile, with its children.")] = None,
    duration: Annotated[float, Parameter(help="Seconds; Ctrl-C ends it sooner.")] = 30.0,
    rate: Annotated[int, Parameter(help="Samples a second.")] = 100,
    native: Annotated[
        bool,
        Parameter(
            help="Native functions too: whose C code works. Stops the server for each sample.",
            negative=(),
        ),
    ] = False,
    out: Annotated[
        Path | None, Parameter(help="Folder for profile.json and profile.speedscope.json.")
    ] = None,
    as_json: Annotated[
        bool, Parameter(name="--json", help="Print the numbers as JSON.", negative=())
    ] = False,
) -> int:
    """Profile a server that runs, by layer and depth of the stacks, with py-spy.

    Put it under load meanwhile: only busy threads are counted.
    """
    sampling = _sampling(native, rate)
    if duration <= 0:
        raise UsageError(f"--duration: {duration:g} is not allowed: seconds, more than 0", "try 30")
    if out is not None:
        _make(out)
    profiler = Profiler(_roots(url, pid), sampling, duration + GRACE_S)
    profiler.start()
    print(f"profiling for {duration:g} s", file=sys.stderr)
    _wait(duration)
    session = profiler.stop()
    if out is not None:
        _write(session, out)
    made = cake(session)
    if as_json:
        print(json.dumps(made, allow_nan=False, indent=1))
    else:
        render_profile(made, color=sys.stdout.isatty(), folder=str(out) if out else "")
    if not made["samples"]:
        print("mmload: no thread was busy: put the server under load", file=sys.stderr)
        return MmloadError.exit_code
    return 0


def _sampling(native: bool, rate: int) -> Sampling:
    if not 1 <= rate <= MAX_RATE_HZ:
        raise UsageError(f"--rate: {rate} is not allowed: from 1 to {MAX_RATE_HZ}", "try 100")
    if native and sys.platform != "linux":
        raise UsageError("--native: py-spy reads native functions on Linux only", "leave it out")
    return Sampling(native, rate)


def _roots(url: str | None, pid: int | None) -> list[int]:
    if (url is None) == (pid is None):
        raise UsageError("profile: name the server", "give --pid PID, or its URL on this host")
    if pid is not None:
        if not processes.tree([pid]):
            raise UsageError(f"--pid {pid}: there is no such process", "see `ps`")
        return [pid]
    target = parse_target(str(url), Reach())
    roots = server_roots(target, target.resolve(), None)
    if not roots:
        raise UsageError(
            f"{target.origin}: no process on this host is seen to listen there",
            "give its process by --pid; those of other users are seen by root only",
        )
    return profiled_roots(roots)


def _make(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
        if (out / files.PROFILE).exists():
            raise UsageError(f"--out {out}: holds a profile already", "name another folder")
    except OSError as error:
        raise UsageError(
            f"--out {out}: cannot be made: {error.strerror}", "name a folder that you may write to"
        ) from None


def _write(session: Session, out: Path) -> None:
    try:
        files.write(session, out)
    except OSError as error:
        raise MmloadError(
            f"--out {out}: cannot be written: {error.strerror}", "free space on that disk"
        ) from None


def _wait(seconds: float) -> None:
    """Until the time is over, or the user has seen enough."""
    enough = threading.Event()

    with ended_by(enough.set):
        enough.wait(seconds)
