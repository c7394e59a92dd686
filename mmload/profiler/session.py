"""What a profiler saw, as a file: `profile.json`, and the same for speedscope.

`Session` holds every distinct stack with its number of samples, each function once. The cake, the
charts and the exports are made of it, at any later time.
"""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from mmload.profiler.stacks import Frame, Stack

FORMAT: Final = 1
SCHEMA: Final = "https://www.speedscope.app/file-format-schema.json"


class Profiled(msgspec.Struct, omit_defaults=True):
    """A process that was looked at. `cpu_s` is what it used in that time, all threads together."""

    pid: int
    command: str = ""
    cpu_s: float | None = None


class Session(msgspec.Struct, omit_defaults=True, kw_only=True):
    """One profile. `stacks` are (pid, thread, indices into `frames`, samples)."""

    format: int = FORMAT
    profiler: str  # name and version
    rate_hz: int  # samples a second of each thread that was not idle
    duration_s: float
    native: bool = False  # native functions too; the process was stopped for each sample
    processes: list[Profiled] = []
    profiler_cpu_s: float | None = None  # what the profiler itself used
    failed_samples: int = 0
    problems: list[str] = []
    frames: list[tuple[str, str, int]] = []
    stacks: list[tuple[int, str, list[int], int]] = []

    def put(self, stacks: Iterable[Stack]) -> None:
        """Adds stacks."""
        place = {key: i for i, key in enumerate(self.frames)}
        for pid, thread, frames, samples in stacks:
            indices = []
            for one in frames:
                key = (one.name, one.file, one.line)
                if key not in place:
                    place[key] = len(self.frames)
                    self.frames.append(key)
                indices.append(place[key])
            self.stacks.append((pid, thread, indices, samples))

    def all_stacks(self) -> Iterable[Stack]:
        frames = [Frame(*one) for one in self.frames]
        for pid, thread, indices, samples in self.stacks:
            yield Stack(pid, thread, tuple(frames[i] for i in indices), samples)


def speedscope(session: Session, name: str) -> dict[str, Any]:
    """The session in speedscope's format: a sampled profile a thread, the longest first.

    In seconds. Samples have no order in time: equal stacks were added up.
    """
    threads: dict[tuple[int, str], list[tuple[list[int], int]]] = {}
    for pid, thread, indices, samples in session.stacks:
        threads.setdefault((pid, thread), []).append((indices, samples))
    total = {key: sum(n for _, n in stacks) for key, stacks in threads.items()}
    profiles = [
        {
            "type": "sampled",
            "name": f"{thread or 'thread'} (process {pid})",
            "unit": "seconds",
            "startValue": 0,
            "endValue": total[pid, thread] / session.rate_hz,
            "samples": [indices for indices, _ in threads[pid, thread]],
            "weights": [n / session.rate_hz for _, n in threads[pid, thread]],
        }
        for pid, thread in sorted(threads, key=lambda key: (-total[key], key))
    ]
    return {
        "$schema": SCHEMA,
        "name": name,
        "exporter": session.profiler,
        "activeProfileIndex": 0,
        "shared": {
            "frames": [
                {"name": function, "file": file} | ({"line": line} if line else {})
                for function, file, line in session.frames
            ]
        },
        "profiles": profiles,
    }
