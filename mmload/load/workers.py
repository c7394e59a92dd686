"""The generator in processes of its own: one schedule, one clock origin, records straight to disk.

The parent (`LoadProcess`) keeps the terminal, the server and the user's signals away from the loop
that sends: even a single worker has a process, and a core, to itself. Each worker runs its share of
the schedule against the common origin and writes its own records file, so nothing is lost when
another dies. Over a pipe the parent says when to start and, perhaps, stop; workers tell how they
are doing a few times a second.
"""

import asyncio
import contextlib
import gc
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any, Final

from mmload.clock import NS_PER_S, MonotonicClock
from mmload.errors import MmloadError
from mmload.load.body_file import unpack
from mmload.load.children import held_back, unbothered
from mmload.load.generator import Generator, Tally
from mmload.load.http import HttpTransport
from mmload.load.job import LoadSpec, PlannedJob
from mmload.load.payloads import PayloadSet
from mmload.load.recorder import Recorder
from mmload.records import Outcome, Record

WATCHER_NICE: Final = 10
TICK_S: Final = 0.25
START_DELAY_NS: Final = 100_000_000
READY_TIMEOUT_S: Final = 60
STOP_TIMEOUT_S: Final = 10  # after which a worker that was asked to stop is killed


@dataclass(slots=True)
class Tick:
    """What a worker tells between ticks: running counts and the newest latencies."""

    worker: int
    tally: Tally
    ttft_ns: list[int] = field(default_factory=list)
    lag_ns: list[int] = field(default_factory=list)


@dataclass(slots=True)
class LoadResult:
    """How the load went, beside the records on disk."""

    origin_ns: int
    ended_ns: int  # since the origin
    interrupted: bool
    lost_records: int
    problems: list[str]


# -- the worker's side ---------------------------------------------------------------------------


def work(spec: LoadSpec, pipe: Connection) -> None:
    """Main function of a worker process."""
    unbothered()
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(_work(spec, pipe))
    except (EOFError, BrokenPipeError):
        pass  # the parent is gone; the records are on disk


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


async def _work(spec: LoadSpec, pipe: Connection) -> None:
    loop = asyncio.get_running_loop()
    payloads = PayloadSet(unpack(spec.bases, spec.body_file), spec.plan)
    job = PlannedJob(spec, payloads)
    recorder = Recorder(spec.records_file, spec.target.secrets, spec.spans_file)
    clock = MonotonicClock()
    transport = HttpTransport(spec.address, clock, keepalive=spec.target.keepalive)
    await transport.prepare()
    pipe.send("ready")
    origin_ns: int = await loop.run_in_executor(None, pipe.recv)

    tick = Tick(spec.worker, Tally())

    def emit(record: Record) -> None:
        recorder.emit(record)
        if record.sent_ns is not None:
            tick.lag_ns.append(record.sent_ns - record.intended_ns)
        if record.outcome is Outcome.ok and record.first_output_ns is not None:
            tick.ttft_ns.append(record.first_output_ns - record.intended_ns)

    generator = Generator(job, transport, clock, origin_ns, spec.limits, emit, tick.tally)

    async def tell() -> None:
        while True:
            await asyncio.sleep(TICK_S)
            pipe.send(tick)
            tick.ttft_ns.clear()
            tick.lag_ns.clear()

    def listen() -> None:
        try:
            pipe.recv()
        except EOFError:
            loop.remove_reader(pipe.fileno())
        generator.stop()

    teller = loop.create_task(tell())
    loop.add_reader(pipe.fileno(), listen)
    with _undisturbed():
        await generator.run()
    teller.cancel()
    loop.remove_reader(pipe.fileno())
    await transport.close()
    lost = await loop.run_in_executor(None, recorder.close)
    pipe.send(tick)
    pipe.send(("done", lost))


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """No garbage collection pauses (requests leave no cycles), short turns for the recorder."""
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(0.0005)
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()
        sys.setswitchinterval(interval_s)


# -- the parent's side ---------------------------------------------------------------------------


class LoadProcess:
    """Runs worker processes to their end. One use: `start()`, then `finish()` or `stop()`."""

    def __init__(self, specs: Sequence[LoadSpec]) -> None:
        self._specs = list(specs)
        self._pipes: list[Connection] = []
        self._processes: list[Any] = []
        self._origin_ns = 0
        self._stop_ns: int | None = None
        try:
            with held_back():
                for spec in specs:
                    self._launch(spec)
        except BaseException:
            self._kill()
            raise

    def _launch(self, spec: LoadSpec) -> None:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(
            target=work, args=(spec, theirs), name=f"mmload-worker-{spec.worker}", daemon=True
        )
        process.start()
        theirs.close()
        self._pipes.append(ours)
        self._processes.append(process)

    def start(self) -> int:
        """Waits until every worker is ready and sets the common origin; returns it."""
        now_ns = MonotonicClock.now_ns
        deadline_ns = now_ns() + READY_TIMEOUT_S * NS_PER_S
        for spec, pipe in zip(self._specs, self._pipes, strict=True):
            try:
                if not pipe.poll(max(0, deadline_ns - now_ns()) / NS_PER_S):
                    raise MmloadError(f"worker {spec.worker} was not ready in time")
                pipe.recv()
            except EOFError:
                raise MmloadError(f"worker {spec.worker} died while it started") from None
        self._origin_ns = now_ns() + START_DELAY_NS
        for pipe in self._pipes:
            pipe.send(self._origin_ns)
        return self._origin_ns

    def stop(self) -> None:
        """Asks the workers to stop: what is under way is cut off and recorded as such."""
        if self._stop_ns is None:
            self._stop_ns = MonotonicClock.now_ns()
        for pipe in self._pipes:
            with contextlib.suppress(OSError):
                pipe.send("stop")

    def finish(self, on_tick: Callable[[Tick], None], poll: Callable[[], None]) -> LoadResult:
        """Waits for all workers. `poll` is called several times a second (live view, server)."""
        # From here on this process only watches: where cores are few it must not take turns from
        # the ones that send and serve.
        with contextlib.suppress(OSError):
            os.nice(WATCHER_NICE)
        open_pipes = dict(zip(self._pipes, self._specs, strict=True))
        lost = 0
        problems: list[str] = []
        while open_pipes:
            for pipe in wait(list(open_pipes), timeout=TICK_S):
                assert isinstance(pipe, Connection)
                spec = open_pipes[pipe]
                try:
                    message = pipe.recv()
                except (EOFError, OSError):
                    del open_pipes[pipe]
                    problems.append(self._death(spec))
                    continue
                if isinstance(message, Tick):
                    on_tick(message)
                else:
                    lost += message[1]
                    del open_pipes[pipe]
            if self._stop_ns is not None and open_pipes:
                self._kill_if_overdue(self._stop_ns)
            poll()
        ended_ns = MonotonicClock.now_ns() - self._origin_ns
        self.close()
        return LoadResult(self._origin_ns, ended_ns, self._stop_ns is not None, lost, problems)

    def _kill_if_overdue(self, stop_ns: int) -> None:
        if MonotonicClock.now_ns() - stop_ns > STOP_TIMEOUT_S * NS_PER_S:
            self._kill()

    def _kill(self) -> None:
        for process in self._processes:
            process.kill()

    def _death(self, spec: LoadSpec) -> str:
        process = self._processes[spec.worker]
        process.join(5)
        try:
            recorded = spec.records_file.read_bytes().count(b"\n")
        except OSError:
            recorded = 0
        return (
            f"load worker {spec.worker} died (exit code {process.exitcode}):"
            f" {len(spec.indices) - recorded} of its {len(spec.indices)} requests are lost;"
            " run again, with more memory or fewer workers if it was killed"
        )

    def close(self) -> None:
        """Ends whatever is left."""
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.join(5)
            if process.is_alive():
                process.kill()
                process.join()
