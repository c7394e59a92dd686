"""Reads a few sources once a second, in a thread, and appends what they say to a file.

In: sources. Out: lines of `metrics.jsonl` (`records.Sample`). The run must not notice: the thread
gives way to everything else, a source that fails is asked less and then no more, and nothing here
raises into the run.
"""

import os
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

import msgspec

from mmload.clock import NS_PER_S, Clock
from mmload.records import Sample

PERIOD_S: Final = 1.0
FAILURES_ALLOWED: Final = 8  # in a row; before, a source rests for as many periods as it failed
NICE: Final = 10


class SourceFailed(Exception):
    """A source has nothing to say, in words. `final`: asking again is no use."""

    def __init__(self, words: str, *, final: bool = False) -> None:
        super().__init__(words)
        self.words = words
        self.final = final


class Source(Protocol):
    """Something that has values now."""

    name: str

    def read(self) -> dict[str, float]:
        """The values. Raises SourceFailed. Takes less than the period."""
        ...

    def close(self) -> None:
        """Called once, in the thread that read."""
        ...


class Sampler:
    """A context manager around what is to be watched."""

    def __init__(
        self, sources: Sequence[Source], file: Path, clock: Clock, period_s: float = PERIOD_S
    ) -> None:
        self._sources = {source.name: source for source in sources}
        self._all = tuple(sources)
        self._failures = dict.fromkeys(self._sources, 0)  # in a row
        self._rests = dict.fromkeys(self._sources, 0)  # periods to leave it alone
        self._file = file
        self._clock = clock
        self._period_ns = round(period_s * NS_PER_S)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mmload-watch", daemon=True)

    def __enter__(self) -> "Sampler":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Waits for the reading under way, and takes a last one."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        if sys.platform == "linux":  # elsewhere it would slow the whole process
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)
        due_ns = self._clock.now_ns()
        try:
            with self._file.open("ab") as out:
                while self._sources:
                    for line in self._tick():
                        out.write(msgspec.json.encode(line) + b"\n")
                    out.flush()
                    if self._stop.is_set():
                        break
                    # A reading that took longer than the period costs its successors.
                    behind_ns = self._clock.now_ns() - due_ns
                    due_ns += (behind_ns // self._period_ns + 1) * self._period_ns
                    self._stop.wait((due_ns - self._clock.now_ns()) / NS_PER_S)
        except OSError:
            pass  # a full disk: the records' own writer says so
        finally:
            for source in self._all:
                source.close()

    def _tick(self) -> list[Sample]:
        lines = []
        for name, source in list(self._sources.items()):
            if self._rests[name]:
                self._rests[name] -= 1
                continue
            at_ns = self._clock.now_ns()
            try:
                lines.append(Sample(at_ns, name, source.read()))
                self._failures[name] = 0
            except SourceFailed as failure:
                lines.append(Sample(at_ns, name, error=failure.words))
                self._failures[name] += 1
                self._rests[name] = self._failures[name]
                if failure.final or self._failures[name] >= FAILURES_ALLOWED:
                    del self._sources[name]
        return lines
