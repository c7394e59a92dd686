"""The cake: a profile added up by layer, in time and in depth. Pure.

In: a `Session`. Out: the `profile` object of docs/summary.md. Every sample of a thread that was
busy weighs 1 / rate seconds.

- Native functions without a layer (libc, the interpreter) are folded into their callers; one that
  was inlined into itself counts once.
- Samples of threads that only wait are left out, and counted: py-spy takes a thread for busy that
  has just been let go after the sample before.
- The *working layer* of a sample is that of its innermost function. Its time is the layer's self
  time; so self times add up to all samples. Inclusive time of a layer is that of all samples in
  which it is anywhere on the stack.
- A *glue* function hands on: less than `GLUE_BELOW` of the time under it is its own. `frames` and
  `glue_frames` are how many functions of a layer stand on the stack of the mean sample; `frames`
  add up to the mean depth.
- `calls_to_work`: functions on the stack before the working layer is entered for the last time.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from mmload.profiler.layers import LAYERS, TITLES, layer_of, module_path, package_of
from mmload.profiler.session import Session
from mmload.profiler.stacks import Frame
from mmload.profiler.waits import waits

GLUE_BELOW: Final = 0.05
TOP_FUNCTIONS: Final = 15
DEEPEST: Final = 3
DEEP_SHARE: Final = 0.005  # of the samples: rarer stacks are no example
TREE_SHARE: Final = 0.005  # of the samples: thinner slices cannot be seen
_COUNTED: Final = re.compile(r"(?:[-_ ]*\d+)+$")


@dataclass(slots=True)
class _Layered:
    """A stack with the layer of each of its frames."""

    pid: int
    group: str
    frames: tuple[Frame, ...]
    layers: list[str]
    samples: int

    @property
    def working(self) -> str:
        return self.layers[-1]

    @property
    def calls_to_work(self) -> int:
        calls = len(self.layers)
        while calls and self.layers[calls - 1] == self.working:
            calls -= 1
        return calls

    def runs(self) -> list[tuple[str, int]]:
        """(layer, index of its first frame) for each stretch of frames of one layer."""
        return [
            (layer, i)
            for i, layer in enumerate(self.layers)
            if not i or self.layers[i - 1] != layer
        ]


def cake(session: Session) -> dict[str, Any]:
    """Everything that a report says of a profile."""
    stacks, waiting = _layered(session)
    samples = sum(one.samples for one in stacks)
    functions = _Functions.of(stacks)
    cpu = [one.cpu_s for one in session.processes]
    cpu_s = sum(used for used in cpu if used is not None) if any(cpu) else None
    period_s = 1 / session.rate_hz
    return {
        "profiler": session.profiler,
        "rate_hz": session.rate_hz,
        "native": session.native,
        "duration_s": round(session.duration_s, 3),
        "samples": samples,
        "waiting_samples": waiting,
        "failed_samples": session.failed_samples,
        "sampled_s": round(samples * period_s, 3),
        "cpu_s": None if cpu_s is None else round(cpu_s, 3),
        "profiler_cpu_s": session.profiler_cpu_s,
        "problems": list(session.problems),
        "processes": [{"pid": one.pid, "command": one.command} for one in session.processes],
        "layers": _layers(stacks, functions, samples, period_s),
        "depth": _depth(stacks, functions),
        "threads": _threads(stacks, functions, period_s),
        "functions": functions.top(samples, period_s),
        "deepest": _deepest(stacks, functions, samples),
        "tree": _tree(stacks, samples, period_s),
    }


def _layered(session: Session) -> tuple[list[_Layered], int]:
    """The stacks of busy threads, and the number of samples of the others."""
    known: dict[Frame, str | None] = {}
    made, waiting = [], 0
    for pid, thread, frames, samples in session.all_stacks():
        if not frames or waits(frames):
            waiting += samples
            continue
        known.update((one, layer_of(one)) for one in frames if one not in known)
        own = [
            (one, layer)
            for before, one in zip((None, *frames), frames, strict=False)
            if (layer := known[one]) and (one != before or one.is_python)
        ]
        functions, layers = zip(*(own or [(frames[-1], "other")]), strict=True)
        group = _COUNTED.sub("", thread) or thread
        made.append(_Layered(pid, group, functions, list(layers), samples))
    return made, waiting


@dataclass(slots=True)
class _Functions:
    """Samples of each function, on top and anywhere on the stack."""

    own: Counter[Frame] = field(default_factory=Counter)
    under: Counter[Frame] = field(default_factory=Counter)

    @classmethod
    def of(cls, stacks: list[_Layered]) -> "_Functions":
        made = cls()
        for one in stacks:
            made.own[one.frames[-1]] += one.samples
            for function in set(one.frames):
                made.under[function] += one.samples
        return made

    def is_glue(self, function: Frame) -> bool:
        return self.own[function] < GLUE_BELOW * self.under[function]

    def top(self, samples: int, period_s: float) -> list[dict[str, Any]]:
        """Those that took most time themselves."""
        return [
            {
                "name": function.name,
                "where": where(function),
                "layer": layer_of(function) or "other",
                "self_s": round(n * period_s, 3),
                "self_share": round(n / samples, 4),
                "inclusive_s": round(self.under[function] * period_s, 3),
            }
            for function, n in self.own.most_common(TOP_FUNCTIONS)
        ]


def where(function: Frame) -> str:
    """Path inside the package; of a native function the library."""
    if function.file.startswith("<"):
        return function.file
    return module_path(function.file) or package_of(function)


def _layers(
    stacks: list[_Layered], functions: _Functions, samples: int, period_s: float
) -> dict[str, Any]:
    own: Counter[str] = Counter()
    inclusive: Counter[str] = Counter()
    frames: Counter[str] = Counter()
    glue: Counter[str] = Counter()
    for one in stacks:
        own[one.working] += one.samples
        for layer in set(one.layers):
            inclusive[layer] += one.samples
        for function, layer in zip(one.frames, one.layers, strict=True):
            frames[layer] += one.samples
            glue[layer] += one.samples * functions.is_glue(function)
    return {
        layer.key: {
            "title": layer.title,
            "self_s": round(own[layer.key] * period_s, 3),
            "self_share": round(own[layer.key] / samples, 4),
            "inclusive_s": round(inclusive[layer.key] * period_s, 3),
            "inclusive_share": round(inclusive[layer.key] / samples, 4),
            "frames": round(frames[layer.key] / samples, 2),
            "glue_frames": round(glue[layer.key] / samples, 2),
        }
        for layer in LAYERS
        if inclusive[layer.key]
    }


def _depth(stacks: list[_Layered], functions: _Functions) -> dict[str, Any] | None:
    """Means over samples, and the deepest stack."""
    samples = sum(one.samples for one in stacks)
    if not samples:
        return None

    def mean(value: Iterable[int]) -> float:
        return round(sum(v * s.samples for v, s in zip(value, stacks, strict=True)) / samples, 2)

    return {
        "mean": mean(len(one.frames) for one in stacks),
        "max": max(len(one.frames) for one in stacks),
        "glue": mean(sum(map(functions.is_glue, one.frames)) for one in stacks),
        "calls_to_work": mean(one.calls_to_work for one in stacks),
        "layers": mean(len(set(one.layers)) for one in stacks),
    }


def _threads(
    stacks: list[_Layered], functions: _Functions, period_s: float
) -> list[dict[str, Any]]:
    """Threads of one process whose names differ in a number only, taken together."""
    groups: dict[tuple[int, str], list[_Layered]] = defaultdict(list)
    for one in stacks:
        groups[one.pid, one.group].append(one)
    made = []
    for (pid, name), mine in groups.items():
        own: Counter[str] = Counter()
        for one in mine:
            own[one.working] += one.samples
        made.append(
            {
                "pid": pid,
                "thread": name,
                "self_s": round(own.total() * period_s, 3),
                "layers": {key: round(own[key] * period_s, 3) for key in TITLES if own[key]},
                "depth": _depth(mine, functions),
            }
        )
    return sorted(made, key=lambda one: -one["self_s"])


def _deepest(stacks: list[_Layered], functions: _Functions, samples: int) -> list[dict[str, Any]]:
    """Of each of the busiest groups of threads the stack with most calls before the work, among
    those of which there is more than a sample or two."""
    time: Counter[tuple[int, str]] = Counter()
    found: dict[tuple[int, str], _Layered] = {}
    for one in stacks:
        group = one.pid, one.group
        time[group] += one.samples
        if one.samples >= max(2, DEEP_SHARE * samples) and (
            group not in found or one.calls_to_work > found[group].calls_to_work
        ):
            found[group] = one
    chosen = [found[group] for group, _ in time.most_common() if group in found]
    return [
        {
            "pid": one.pid,
            "thread": one.group,
            "samples": one.samples,
            "depth": len(one.frames),
            "calls_to_work": one.calls_to_work,
            "frames": [
                {
                    "name": function.name,
                    "where": where(function),
                    "layer": layer,
                    "glue": functions.is_glue(function),
                }
                for function, layer in zip(one.frames, one.layers, strict=True)
            ],
        }
        for one in chosen[:DEEPEST]
    ]


def _tree(stacks: list[_Layered], samples: int, period_s: float) -> list[dict[str, Any]]:
    """Layers on layers: `parent` is an index into the list, None for a group of threads.

    A node stands for neighbouring frames of one layer; `entry` is the function by which it is
    entered most often. Children never take more time than their parent.
    """
    time: Counter[tuple[str, ...]] = Counter()
    entries: dict[tuple[str, ...], Counter[Frame]] = defaultdict(Counter)
    for one in stacks:
        path: tuple[str, ...] = (f"{one.pid} {one.group}",)
        time[path] += one.samples
        for layer, i in one.runs():
            path = (*path, layer)
            time[path] += one.samples
            entries[path][one.frames[i]] += one.samples
    kept = [path for path, n in time.items() if n >= TREE_SHARE * samples]
    place = {path: i for i, path in enumerate(sorted(kept, key=len))}
    made = []
    for path in place:
        entry = entries[path].most_common(1)
        made.append(
            {
                "parent": place[path[:-1]] if len(path) > 1 else None,
                "layer": path[-1] if len(path) > 1 else None,
                "title": TITLES[path[-1]] if len(path) > 1 else path[0].partition(" ")[2],
                "entry": f"{entry[0][0].name} ({where(entry[0][0])})" if entry else "",
                "s": round(time[path] * period_s, 3),
            }
        )
    return made
