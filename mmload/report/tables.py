"""The rows of the report's tables: latencies, the split of a request's time, stages, bottleneck.

In: the summary object of docs/summary.md, in which anything may be null. Out: titles and numbers,
unformatted and unescaped. A simulated stage is marked here, once, so that no format can print its
numbers without the mark.
"""

from dataclasses import dataclass
from typing import Any, Final

from mmload.hook.stages import PHASE_TITLES, PHASES, STAGE_BY_NAME, STAGE_ORDER, phase_of
from mmload.report import numbers
from mmload.report.fields import Summary, flat, get

Dist = dict[str, Any]

SIMULATED: Final = " (simulated)"
SPLIT_COLUMNS: Final = (
    ("mean", "mean"),
    ("p50", "p50 request"),
    ("p90", "p90 request"),
    ("p99", "p99 request"),
)
QUANTILES: Final = ("p50", "p90", "p99")
NO_LATENCY: Final = "No request succeeded, so there is no latency to show."
# in the title, in the width, in words
_SAID_ELSEWHERE: Final = ("simulated", "pool_width", "batched", "host_time")
PHASE_SHORT: Final = {"cpu": "CPU", "gpu": "GPU"}  # where PHASE_TITLES is too long
LATENCIES: Final = (
    ("ttft_ms", "TTFT"),
    ("ttft_from_sent_ms", "TTFT from sent"),
    ("ttfo_ms", "TTFO"),
    ("tpot_ms", "TPOT"),
    ("chunk_gap_ms", "chunk gap"),
    ("e2e_ms", "E2E"),
    ("e2e_from_sent_ms", "E2E from sent"),
    ("lag_ms", "schedule lag"),
)
SHORT: Final = ("ttft_ms", "ttft_from_sent_ms", "ttfo_ms", "tpot_ms", "e2e_ms", "lag_ms")


@dataclass(frozen=True, slots=True)
class StageRow:
    """A stage as a line of the stage table."""

    name: str
    title: str  # marked when simulated
    phase: str
    ms: Dist | None
    mean_ms: float | None
    n: int | None
    utilisation: float | None
    width: str
    capacity_qps: float | None
    facts: str


def latency_rows(source: Summary, keys: tuple[str, ...]) -> list[tuple[str, Dist | None]]:
    """(title, Dist) of the asked-for latencies of the run or of one class.

    TTFO is left out where it is the same as TTFT: nothing but reasoning tells them apart.
    """
    same = get(source, "ttfo_ms") in (None, get(source, "ttft_ms"))
    return [
        (title, get(source, key))
        for key, title in LATENCIES
        if key in keys and not (key == "ttfo_ms" and same)
    ]


def has_latency(summary: Summary) -> bool:
    return any(get(summary, key) for key in SHORT)


def simulated_note(summary: Summary) -> str:
    """Says that the latencies hold simulated time; empty when nothing is simulated."""
    what = get(summary, "run", "simulated")
    return f"Contains simulated time: {str(what).rstrip('.')}." if what else ""


def ordered(stages: Any) -> list[tuple[str, Any]]:
    """The items of a stage mapping in the order in which a request meets the stages."""
    last = len(STAGE_ORDER)
    return sorted((stages or {}).items(), key=lambda item: STAGE_ORDER.get(item[0], last))


def is_simulated(summary: Summary, stage: str) -> bool:
    return bool(get(summary, "stages", stage, "facts", "simulated"))


def stage_title(summary: Summary, stage: str) -> str:
    """The title of a stage, marked when its numbers are simulated."""
    known = STAGE_BY_NAME.get(stage)
    title = get(summary, "stages", stage, "title") or (known.title if known else stage)
    return f"{title}{SIMULATED}" if is_simulated(summary, stage) else str(title)


def phase_title(summary: Summary, phase: str) -> str:
    """The title of a phase, marked when all or some of its stages are simulated."""
    title = {str(key): text for key, text in PHASE_TITLES.items()}.get(phase, phase)
    inside = [
        is_simulated(summary, name)
        for name in get(summary, "stages") or {}
        if phase_of_stage(summary, name) == phase
    ]
    if any(inside):
        return f"{title}{SIMULATED}" if all(inside) else f"{title} (partly simulated)"
    return title


def split(summary: Summary) -> list[tuple[str, str, Summary]]:
    """(key, title, {"e2e_ms", "phases", "stages", ...}) of the columns that exist."""
    columns = get(summary, "phases") or {}
    return [
        (key, title, columns[key]) for key, title in SPLIT_COLUMNS if get(columns, key, "phases")
    ]


def split_phases(summary: Summary) -> list[str]:
    """The phases that some column of the split has, in order."""
    columns = [get(column, "phases") or {} for _, _, column in split(summary)]
    return [phase for phase in PHASES if any(phase in column for column in columns)]


def split_stages(summary: Summary, phase: str) -> list[str]:
    """The stages of a phase that some column of the split has, in order."""
    names: dict[str, None] = {}
    for _, _, column in split(summary):
        names.update(dict.fromkeys(get(column, "stages") or {}))
    names.pop(PHASES[-1], None)  # the unattributed rest is its own phase, and no stage
    return [name for name, _ in ordered(names) if phase_of_stage(summary, name) == phase]


def phase_of_stage(summary: Summary, stage: str) -> str:
    return str(get(summary, "stages", stage, "phase") or phase_of(stage))


def share(column: Summary, phase: str) -> float | None:
    """The part of a request's wall time that a phase took, from 0 to 1."""
    total, part = get(column, "e2e_ms"), get(column, "phases", phase)
    return min(max(part / total, 0.0), 1.0) if total and part is not None else None


def largest_phase(summary: Summary) -> str:
    """`queueing is 93% of the mean`: the largest part of the first column of the split."""
    (_, title, column), *_ = split(summary)
    phase = max(split_phases(summary), key=lambda phase: share(column, phase) or 0)
    return (
        f"{phase_title(summary, phase)} is {numbers.percent(share(column, phase))} of the {title}"
    )


def stage_rows(summary: Summary) -> list[StageRow]:
    rows = []
    for name, stage in ordered(get(summary, "stages")):
        observed, configured = get(stage, "observed_width"), get(stage, "configured_width")
        working = get(stage, "phase") != "queueing"  # a wait has no workers, only those who wait
        pool = f"/{numbers.count(configured)}" if working and configured is not None else ""
        rows.append(
            StageRow(
                name=name,
                title=stage_title(summary, name),
                phase=get(stage, "phase") or "",
                ms=get(stage, "ms"),
                mean_ms=get(stage, "mean_ms"),
                n=get(stage, "n"),
                utilisation=get(stage, "utilisation"),
                width=numbers.count(observed) + pool,
                capacity_qps=get(stage, "capacity_qps"),
                facts=_seen(stage),
            )
        )
    return rows


def _seen(stage: Any) -> str:
    """The means of what a stage's spans saw, as one line."""
    facts = {k: v for k, v in (get(stage, "facts") or {}).items() if k not in _SAID_ELSEWHERE}
    parts = [f"{label} {text}" for label, text in flat(facts)]
    off = get(stage, "off_cpu_share")
    parts.extend([f"off the CPU {numbers.percent(off)}"] if off is not None else [])
    words = ["batched"] if get(stage, "batched") else []
    words.extend(["host time"] if get(stage, "facts", "host_time") else [])
    return ", ".join([*words, *parts])


def bottleneck(summary: Summary) -> str:
    """One sentence; without spans, it says that there is none to name."""
    found = get(summary, "bottleneck")
    if not found:
        if get(summary, "joined"):
            return "No stage stands out as the bottleneck."
        why = str(get(summary, "run", "span_source") or "").rstrip(".")
        if any(trap["code"] == "no_spans" for trap in get(summary, "warnings") or []):
            why = f"none came{f' from {why}' if why else ''}"  # it names a source, no reason
        return f"Unknown without spans from inside the server{': ' if why else ''}{why}."
    sentence = get(found, "sentence") or stage_title(summary, get(found, "stage") or numbers.NONE)
    if is_simulated(summary, get(found, "stage") or "") and "simulated" not in sentence:
        sentence += " It is simulated." if found.get("title") else " This stage is simulated."
    return str(sentence)


def bottleneck_settings(summary: Summary) -> list[str]:
    return [str(name) for name in get(summary, "bottleneck", "settings") or []]
