"""What is watched while the load runs: the server's gauges, its processes, and its stacks.

In: the run's folder, the target, and the pids of a server that mmload started itself. Out: files
in the folder. The server's processes are known when it is the run's own, or when the load goes to a
port of this host. Only a profile that was asked for and cannot be had is an error, before the load.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from mmload import processes
from mmload.clock import MonotonicClock
from mmload.errors import UsageError
from mmload.load.reach import Reach
from mmload.load.target import Target, parse_target
from mmload.load.transport import Address
from mmload.profiler import files
from mmload.profiler.collect import Profiler, Sampling
from mmload.rundir import RunDir
from mmload.watch.gpu import gpus
from mmload.watch.resources import Resources
from mmload.watch.sampler import Sampler, Source
from mmload.watch.scrape import Scrape

DRAIN_S: Final = 600  # that a profile goes on after the schedule's end, if the load does


@dataclass(frozen=True)
class Watching:
    """What the user asked for. `scrape` is a URL in place of the target's own /metrics."""

    scrape: str | None = None
    no_scrape: bool = False
    profile: Sampling | None = None


@contextlib.contextmanager
def watched(
    asked: Watching,
    folder: RunDir,
    target: Target,
    address: Address,
    own_pids: Sequence[int] | None,
    schedule_s: float,
    say: Callable[[str], None],
) -> Iterator[None]:
    """Around the load. Raises UsageError before it, and nothing after."""
    roots = server_roots(target, address, own_pids)
    sources = _sources(asked, target, address, roots)
    with contextlib.ExitStack() as stack:
        if asked.profile is not None:
            _seen(roots, target)
            profiler = Profiler(profiled_roots(roots), asked.profile, schedule_s + DRAIN_S)
            stack.enter_context(_profiled(profiler, folder, say))
        if sources:
            stack.enter_context(Sampler(sources, folder.samples_path, MonotonicClock()))
        yield


def server_roots(target: Target, address: Address, own_pids: Sequence[int] | None) -> list[int]:
    """The first processes of the server, as far as they are on this host and can be told."""
    if own_pids is not None:
        return processes.topmost(own_pids)
    host = str(address.sockaddr[0])
    if target.proxy is not None or not processes.is_here(host):
        return []
    return processes.listeners(target.port)


def _sources(asked: Watching, target: Target, address: Address, roots: list[int]) -> list[Source]:
    sources: list[Source] = []
    if roots:
        sources += [Resources(roots, MonotonicClock()), *gpus()]
    if asked.scrape is not None:
        # Another address: the key and the headers were given for the first one.
        other = replace(parse_target(asked.scrape, Reach(), versioned=False), headers=())
        sources.append(Scrape(other, other.resolve(), other.base_path or "/metrics"))
    elif not asked.no_scrape:
        sources.append(Scrape(target, address, f"{target.root_path}/metrics"))
    return sources


def profiled_roots(roots: list[int]) -> list[int]:
    """The first Python processes in these trees; the roots where none is known for one."""
    return processes.topmost(processes.pythons(processes.tree(roots))) or roots


def _seen(roots: list[int], target: Target) -> None:
    if not roots:
        raise UsageError(
            f"--profile-server: no process on this host is seen to listen for {target.origin}",
            "run `mmload profile --pid PID` on the server's host while the load runs",
        )


@contextlib.contextmanager
def _profiled(profiler: Profiler, folder: RunDir, say: Callable[[str], None]) -> Iterator[None]:
    say("starting the profiler")
    profiler.start()
    try:
        yield
    except BaseException:
        profiler.abandon()
        raise
    say("reading the profile")
    try:
        files.write(profiler.stop(), folder.path)
    except OSError as error:
        say(f"the profile could not be written: {error.strerror}")
