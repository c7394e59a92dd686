"""What a sweep will do, in which order, and how long that takes; decided before the start. Pure.

Repeats are blocks: every point is run once before any is run again, each block in an order of its
own that the seed fixes. A machine that warms up, slows down or gets company during the sweep then
does it to all points alike, and the comparison within blocks takes it out.
"""

import hashlib
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import msgspec

from mmload.sweep.axes import Axis, Design, Point, show

FORMAT: Final = 1
EMBEDDED: Final = "embedded"
# Seconds that a run needs beside its schedule, until the first run has shown them.
EMBEDDED_OVERHEAD_S: Final = 5.0
COMMAND_OVERHEAD_S: Final = 45.0


class Server(msgspec.Struct, frozen=True, kw_only=True):
    """What is measured: the embedded server, a command that mmload starts, or a URL that is up.

    `url` beside a command says where that one listens.
    """

    command: tuple[str, ...] = ()
    url: str | None = None
    cpus: tuple[int, ...] = ()
    ready_timeout_s: float | None = None
    traced: bool = True

    @property
    def kind(self) -> str:
        return "command" if self.command else "url" if self.url is not None else EMBEDDED


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a sweep needs to be resumed: nothing is read again from files or flags."""

    format: int = FORMAT
    name: str
    server: Server
    axes: tuple[Axis, ...]
    points: tuple[Point, ...]
    scenarios: tuple[dict[str, Any], ...]  # one a point, resolved
    repeats: int
    seed: int
    objective: str = "ttft:p90"
    no_effect_within: float = 0.1

    @property
    def design(self) -> Design:
        return Design(axes=self.axes, points=self.points)

    def order(self) -> Iterator["Work"]:
        """All runs in the order to do them."""
        for repeat in range(1, self.repeats + 1):
            block = sorted(self.points, key=lambda point: self._lot(repeat, point.number))
            for point in block:
                yield Work(point.number, repeat)

    def _lot(self, repeat: int, point: int) -> bytes:
        """Hashes sort at random, and the same on every version and machine."""
        return hashlib.sha256(f"{self.seed}/{repeat}/{point}".encode()).digest()

    def schedule_s(self, point: int) -> float | None:
        """Seconds of arrivals of a point; None where only the server decides."""
        scenario = self.scenarios[point]
        if scenario.get("duration") is not None:
            return float(scenario["duration"])
        requests, qps = scenario.get("requests"), scenario.get("qps")
        return requests / qps if requests and qps else None


class Work(NamedTuple):
    """One run: a point, and which repeat of it (from 1)."""

    point: int
    repeat: int


class Estimate(NamedTuple):
    """`seconds` of all that is left; `known`: no part of it is a guess at a server's speed."""

    seconds: float
    known: bool


def estimate(plan: Plan, left: list[Work], overhead_s: float | None) -> Estimate:
    """How long the runs that are left will take. `overhead_s`: what a run took beside its schedule
    so far (None: none has ended)."""
    guess = EMBEDDED_OVERHEAD_S if plan.server.kind == EMBEDDED else COMMAND_OVERHEAD_S
    if plan.server.kind == "url":
        guess = 2.0
    beside_s = guess if overhead_s is None else overhead_s
    lengths = [plan.schedule_s(work.point) for work in left]
    known = [length for length in lengths if length is not None]
    return Estimate(
        sum(known) + beside_s * len(left),
        len(known) == len(lengths) and (overhead_s is not None or plan.server.kind != "command"),
    )


def differences(old: Plan, new: Plan) -> list[str]:
    """What differs between two plans, in words; empty for equal ones."""
    found = []
    for name in ("name", "server", "repeats", "seed", "objective", "no_effect_within"):
        if (a := getattr(old, name)) != (b := getattr(new, name)):
            found.append(f"{name.replace('_', ' ')} {_plain(a)}, now {_plain(b)}")
    before, after = ({(a.kind, a.name): a for a in plan.axes} for plan in (old, new))
    for key in dict.fromkeys((*before, *after)):
        a_values, b_values = (
            "/".join(map(show, axes[key].values)) if key in axes else "not there"
            for axes in (before, after)
        )
        if a_values != b_values:
            found.append(f"{key[1]} {a_values}, now {b_values}")
    if not found and old.points != new.points:
        found.append("the list of points")
    if not found and old.scenarios != new.scenarios:
        keys = {
            key
            for a, b in zip(old.scenarios, new.scenarios, strict=True)
            for key in {*a, *b}
            if a.get(key) != b.get(key)
        }
        found.append(f"of the load: {', '.join(sorted(keys))}")
    return found


def _plain(value: object) -> str:
    if isinstance(value, Server):
        return " ".join(value.command) or value.url or EMBEDDED
    return str(value)
