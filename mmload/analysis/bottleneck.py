"""Which stage limits the server, what it can carry, and what moves it: one sentence, and its data.

In: the loads of the stages and the arrival rate. Out: a dictionary as docs/summary.md says, or None
when no stage's limit can be seen. A stage whose own queue grows is the bottleneck, whatever the
utilisations say: its wait is a fact, and a utilisation rests on a width. Else it is the busiest of
those whose width is known: as the server says it, or because requests waited for it. The most that
was ever in a stage without a queue is no limit of that stage, and is never called one.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from mmload.analysis.engine import Engine
from mmload.analysis.remedies import ANY_SERVER, Remedy
from mmload.analysis.stages import StageLoad

NEAR_LIMIT: Final = 0.7
_OFF_CPU: Final = 0.25
_STARVED: Final = 0.5  # off the CPU for most of its time: more workers would only wait with it
_CROWDED: Final = (
    "More workers would wait for the same cores: fewer at once, fewer threads each, or more cores"
    " move it."
)
_NONE: Final = Remedy((), "")
# Their work may well be to wait: for the network, for a device, for what a server's own code asks
_MAY_WAIT: Final = ("media_fetch", "pool_work", "encoder", "prefill", "decode")
_WAITED_FOR: Final = 0.05  # a wait of this share of the work is a queue, not a hand-over

# Where a stage's requests wait: the first of these that the server has. Some servers run the
# processor in the renderer's pool, others give it one of its own. A server's own stage `x` waits in
# `x_wait`.
_WAITS: Final[dict[str, tuple[str, ...]]] = {
    "media_decode": ("media_wait",),
    "tokenize": ("renderer_wait",),
    "processor": ("processor_wait", "renderer_wait"),
    "pool_work": ("pool_wait",),
    "encoder": ("engine_wait",),
    "prefill": ("engine_wait",),
    "decode": ("engine_wait",),
}


def bottleneck(
    loads: list[StageLoad],
    arrival_qps: float | None,
    remedies: Mapping[str, Remedy] = ANY_SERVER,
    engine: Engine | None = None,
) -> dict[str, Any] | None:
    """The limiting stage as docs/summary.md says; None if no stage's limit can be seen."""
    by_name = {load.name: load for load in loads}
    blamed = _behind_growing_wait(by_name)
    queue_grows = blamed is not None
    if blamed is None:
        seen = [load for load in loads if load.capacity_qps and load.utilisation is not None]
        known = [load for load in seen if _is_limit(load, by_name)]
        blamed = max(known or seen, key=lambda load: load.utilisation or 0.0, default=None)
    if blamed is None:
        return None
    loop = loop_load(loads)
    if loop is not None and arrival_qps:
        if blamed.on_loop or loop.utilisation(arrival_qps) >= NEAR_LIMIT:
            return loop.section(arrival_qps)  # it stretches whatever else that process does
    if engine is not None and arrival_qps:
        waited = queue_grows or any(_is_limit(load, by_name) for load in engine.alone)
        busier = waited and engine.utilisation(arrival_qps) >= (blamed.utilisation or 0.0)
        mine = blamed.name in {load.name for load in engine.stages}
        if mine or (busier and not queue_grows):
            return _engine_section(engine, arrival_qps, queue_grows, waited, remedies)
    is_limit = queue_grows or _is_limit(blamed, by_name)
    remedy = remedies.get(blamed.name, _NONE)
    return {
        "stage": blamed.name,
        "utilisation": rounded(blamed.utilisation),
        "capacity_qps": rounded(blamed.capacity_qps),
        "width": blamed.width,
        "settings": list(remedy.settings),
        "sentence": _sentence(blamed, arrival_qps, queue_grows, is_limit, remedy.words),
    }


class LoopLoad(NamedTuple):
    """The stages that hold the event loops up, together: they share them."""

    stages: list[StageLoad]  # the longest first
    width: int
    service_ms: float  # mean over the requests

    def utilisation(self, arrival_qps: float) -> float:
        return arrival_qps * self.service_ms / 1000 / self.width

    @property
    def parts(self) -> str:
        return ", ".join(f"{one.title} {one.self_service_ms:.0f} ms" for one in self.stages)

    def section(self, arrival_qps: float) -> dict[str, Any]:
        capacity_qps = 1000 * self.width / self.service_ms
        utilisation = self.utilisation(arrival_qps)
        loops = "one loop" if self.width == 1 else f"{self.width} loops"
        near = utilisation >= NEAR_LIMIT
        verdict = "is the bottleneck" if near else "is the busiest, but not near its limit"
        return {
            "stage": self.stages[0].name,
            "utilisation": rounded(utilisation),
            "capacity_qps": rounded(capacity_qps),
            "width": self.width,
            "settings": [],
            "sentence": (
                f"The server's event loop {verdict}: {arrival_qps:.1f} requests/s offered,"
                f" {self.service_ms:.0f} ms each ({self.parts}) on {loops} is utilisation"
                f" {utilisation:.2f}; it can carry {capacity_qps:.2f} requests/s. Meanwhile"
                " that process reads no request and sends no token. A thread or a process of its"
                " own for that work, or more server processes, move it."
            ),
        }


def _engine_section(
    engine: Engine,
    arrival_qps: float,
    queue_grows: bool,
    waited: bool,
    remedies: Mapping[str, Remedy],
) -> dict[str, Any]:
    longest = max(engine.alone, key=lambda load: load.service_ms or 0.0)
    remedy = remedies.get(longest.name, _NONE)
    utilisation, least_qps = engine.utilisation(arrival_qps), engine.least_qps
    parts = " and ".join(f"{load.title} {load.service_ms:.0f} ms" for load in engine.alone)
    turns = "one request at a time" if engine.engines == 1 else f"on {engine.engines} engines"
    said = (
        f"{arrival_qps:.1f} requests/s offered, {parts} each, {turns}, is utilisation"
        f" {utilisation:.2f}"
    )
    if engine.between and engine.busy is not None:
        between = " and ".join(load.title for load in engine.between)
        said += f"; with {between} it has work {engine.busy:.0%} of the time"
    most = f"{engine.most_qps:.2f} requests/s"
    carries = f"at most {most}" if least_qps is None else f"{least_qps:.2f} to {most}"
    near = queue_grows or utilisation >= NEAR_LIMIT
    if near and waited:
        sentence = f"The engine is the bottleneck: {said}. It can carry {carries}. {remedy.words}"
    elif waited:
        sentence = f"No stage is near its limit. The busiest is the engine: {said}. It can carry"
        sentence += f" {carries}."
    else:
        sentence = (
            f"No stage is known to be near its limit. The busiest is the engine: {said}; nothing"
            " waited for it, so it may be able to do more."
        )
    return {
        "stage": longest.name,
        "title": f"engine ({', '.join(load.title for load in engine.stages)})",
        "utilisation": rounded(utilisation),
        "capacity_qps": rounded(engine.most_qps),
        "capacity_least_qps": rounded(least_qps),
        "width": engine.engines,
        "settings": list(remedy.settings) if near and waited else [],
        "sentence": sentence.rstrip(),
    }


def loop_load(loads: list[StageLoad]) -> LoopLoad | None:
    """What a request does on its process's event loop; None if it holds none up."""
    holding = [load for load in loads if load.on_loop]
    service_ms = sum(load.self_service_ms for load in holding)
    if not service_ms:
        return None
    width = max(load.width for load in holding)
    longest = sorted(holding, key=lambda load: -load.self_service_ms)
    return LoopLoad(longest, width, service_ms)


def _is_limit(load: StageLoad, by_name: dict[str, StageLoad]) -> bool:
    """Whether the stage's width is what it can do, not just what it had to do."""
    if load.configured_width:
        return True
    wait = _wait_of(load, by_name)
    waited, worked = (one.ms["mean"] if one and one.ms else 0.0 for one in (wait, load))
    return waited > _WAITED_FOR * worked


def idle_pools(loads: list[StageLoad]) -> list[StageLoad]:
    """Stages that never used the width they were given although requests waited for them."""
    by_name = {load.name: load for load in loads}
    idle = []
    for load in loads:
        wait = _wait_of(load, by_name)
        given = load.configured_width or 0
        if wait is not None and load.observed_width < given and wait.observed_width > given:
            idle.append(load)
    return idle


def _behind_growing_wait(by_name: dict[str, StageLoad]) -> StageLoad | None:
    """Of the stages whose wait grows fastest, the longest: the others share its pool."""
    waits = [(wait, load) for load in by_name.values() if (wait := _wait_of(load, by_name))]
    growing = [(w, load) for w, load in waits if w.growth.verdict == "growing"]
    if not growing:
        return None
    fastest = max(wait.growth.growth_per_s for wait, _ in growing)
    works = [load for wait, load in growing if wait.growth.growth_per_s == fastest]
    return max(works, key=lambda load: load.ms["mean"] if load.ms else 0.0)


def _wait_of(load: StageLoad, by_name: dict[str, StageLoad]) -> StageLoad | None:
    if load.on_loop:  # what waits for the loop has not been read yet
        return by_name.get("accept_wait")
    waits = (by_name.get(name) for name in _WAITS.get(load.name, (f"{load.name}_wait",)))
    return next((wait for wait in waits if wait is not None), None)


def _sentence(
    load: StageLoad, arrival_qps: float | None, queue_grows: bool, is_limit: bool, remedy: str
) -> str:
    title = f"The {load.title}"
    worker = "worker" if load.width == 1 else "workers"
    if load.capacity_qps is None or load.utilisation is None or arrival_qps is None:
        return (
            f"{title} is the bottleneck: requests queue up in front of it. How much it can carry"
            f" cannot be told from its spans. {remedy}"
        ).rstrip()
    figures = (
        f"{arrival_qps:.1f} requests/s offered, {load.service_ms:.0f} ms each on {load.width}"
        f" {worker} is utilisation {load.utilisation:.2f}"
    )
    if not is_limit:
        return (
            f"No stage is known to be near its limit. The busiest is the {load.title}:"
            f" {arrival_qps:.1f} requests/s offered, {load.service_ms:.0f} ms each, at most"
            f" {load.width} at once; nothing waited for it, so it may be able to do more."
        )
    carries = f"it can carry {load.capacity_qps:.2f} requests/s"
    if not queue_grows and load.utilisation < NEAR_LIMIT:
        return f"No stage is near its limit. The busiest is the {load.title}: {figures}; {carries}."
    sentence = f"{title} is the bottleneck: {figures}; {carries}."
    if queue_grows and load.utilisation < 1:
        sentence = (
            f"{title} is the bottleneck: its queue grows although {figures}. Its {worker} did other"
            " work too, or it slowed down under load."
        )
    if load.off_cpu_share is not None and load.off_cpu_share > _OFF_CPU:
        may_wait = load.name in _MAY_WAIT
        others = "input, a device, other threads" if may_wait else "other threads of its own"
        sentence += (
            f" For {load.off_cpu_share:.0%} of that time its thread was not on a CPU: it waited for"
            f" the GIL, for {others}, or for a core."
        )
        if not may_wait and load.off_cpu_share > _STARVED and load.observed_width > 1:
            return f"{sentence} {_CROWDED}"
    return f"{sentence} {remedy}".rstrip()


def rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6) + 0.0  # no -0.0
