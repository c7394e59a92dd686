"""Several sides of runs as one object, docs/compare.md: every metric, its change and its test.

In: `Side`s, the first of which is the base, each with the summaries of its runs. Out: plain Python
values that strict JSON can hold. Only the declared family of metrics is tested (`significance`),
for all sides together; every other row describes and has no p. Pure.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Final

from mmload.analysis import significance
from mmload.analysis.metrics import Metric, metric, open_loop
from mmload.analysis.quantiles import MIN_SAMPLES_P99
from mmload.analysis.significance import Comparison, Stat

Summary = dict[str, Any]
Section = dict[str, Any]

_QUANTILES: Final = ("p50", "p90", "p99")
_LATENCY_ROWS: Final = ("ttft", "ttft-from-sent", "ttfo", "tpot", "e2e", "e2e-from-sent")
_OTHER_ROWS: Final = ("achieved", "tokens", "failed", "in-flight", "growth")
_CLASS_ROWS: Final = tuple(f"{key}:{q}" for key in ("ttft", "e2e") for q in _QUANTILES)
_STAGE_QUANTILES: Final = ("mean", "p50", "p90")
_STEERED_BY: Final = ("ttft:p90", "e2e:p90")  # what the middle run of a side is the middle of


@dataclass(frozen=True, slots=True)
class Side:
    """A label and the summaries of its runs, at least one."""

    label: str
    summaries: tuple[Summary, ...]

    def values(self, one: Metric, part: Callable[[Summary], Summary | None]) -> list[float]:
        """A value of each run that has it; `part` picks what to look in."""
        found = [one.value(inside) for s in self.summaries if (inside := part(s)) is not None]
        return [value for value in found if value is not None]


def stages_of(sides: Sequence[Side]) -> list[str]:
    """Every stage that some run has, in order of appearance."""
    return list(dict.fromkeys(n for s in sides for one in s.summaries for n in _stages(one)))


def compared(
    sides: Sequence[Side],
    family: Sequence[Metric],
    also: Sequence[Metric] = (),
    *,
    paired: bool = False,
) -> Section:
    """The numbers of docs/compare.md. `also`: metrics to describe beside the usual ones. With
    `paired`, the i-th runs of the sides belong together."""
    tested = _tested(sides, family, paired)
    names = list(dict.fromkeys(_LATENCY_ROWS))
    if all(s.get("ttfo_ms") in (None, s.get("ttft_ms")) for one in sides for s in one.summaries):
        names.remove("ttfo")  # nothing but reasoning tells them apart
    rows = [metric(f"{key}:{q}") for key in names for q in _QUANTILES]
    rows += [metric(key) for key in _OTHER_ROWS]
    rows = list({one.name: one for one in (*rows, *family, *also)}.values())
    tests = sum(1 for one in tested.values() if one.before.values and one.after.values)
    return {
        "family": [one.name for one in family],
        "alpha": significance.ALPHA,
        "test": "Wilcoxon signed rank, exact" if paired else "Mann-Whitney, exact",
        "paired": paired,
        "tests": tests,
        "runs_needed": significance.runs_needed(max(tests, 1), paired=paired),
        "metrics": [row for one in rows if (row := _row(one, sides, _whole, tested))],
        "classes": {name: _class_rows(name, sides) for name in _classes(sides)},
        "stages": _stage_rows(sides),
        "queue": {side.label: _queue(side) for side in sides},
        "split": {side.label: _split(side) for side in sides},
        "answers": _answers(sides),
        "fewest_samples": fewest_samples(sides),
        "weak_p99": fewest_samples(sides) < MIN_SAMPLES_P99,
    }


def middle(side: Side) -> int:
    """Which run stands for its side in charts and splits: the middle one by TTFT p90."""
    for name in _STEERED_BY:
        values = [metric(name).value(summary) for summary in side.summaries]
        known = sorted((v, i) for i, v in enumerate(values) if v is not None)
        if known:
            return known[(len(known) - 1) // 2][1]
    return 0


def fewest_samples(sides: Sequence[Side]) -> int:
    """The fewest ok requests of any run."""
    return min((int(one.get("ok") or 0) for s in sides for one in s.summaries), default=0)


def _whole(summary: Summary) -> Summary:
    return summary


Tested = Mapping[tuple[str, str], Comparison]  # by metric and side


def _tested(sides: Sequence[Side], family: Sequence[Metric], paired: bool) -> Tested:
    base, *others = sides
    pairs = {
        f"{i} {one.name}": _pairs(base, other, one)
        if paired
        else (base.values(one, _whole), other.values(one, _whole))
        for i, other in enumerate(others)
        for one in family
    }
    found = significance.compare(pairs, paired=paired)
    return {
        (one.name, other.label): found[f"{i} {one.name}"]
        for i, other in enumerate(others)
        for one in family
    }


def _pairs(before: Side, after: Side, one: Metric) -> tuple[list[float], list[float]]:
    """The values of the pairs of which both runs have one."""
    values = [
        (one.value(a), one.value(b)) for a, b in zip(before.summaries, after.summaries, strict=True)
    ]
    both = [(a, b) for a, b in values if a is not None and b is not None]
    return [a for a, _ in both], [b for _, b in both]


def _row(
    one: Metric,
    sides: Sequence[Side],
    part: Callable[[Summary], Summary | None],
    tested: Tested | None = None,
) -> Section | None:
    """A row of a table; None when no run of any side has the metric."""
    values = [side.values(one, part) for side in sides]
    if not any(values):
        return None
    changes = []
    for side, after in zip(sides[1:], values[1:], strict=True):
        found = (tested or {}).get((one.name, side.label))
        changes.append(_change(found or Comparison.of(values[0], after), found is not None))
    return {
        "name": one.name,
        "title": one.title,
        "unit": one.unit,
        "better": one.better,
        "relative": one.relative,
        "sides": [_stat(Stat.of(of_side)) for of_side in values],
        "changes": changes,
    }


def _stat(stat: Stat) -> Section:
    interval = stat.interval
    return {
        "n": len(stat.values),
        "median": stat.median,
        "interval": None if interval is None else [interval.low, interval.high],
        "level": None if interval is None else round(interval.level, 6),
        "values": list(stat.values),
    }


def _change(found: Comparison, declared: bool) -> Section:
    return {
        "difference": found.difference,
        "log_ratio": found.log_ratio,
        "percent": found.percent,
        "declared": declared,
        "p": found.p,
        "p_holm": found.p_holm,
        "shown": found.shown,
        "why": found.why,
    }


def _classes(sides: Sequence[Side]) -> list[str]:
    return list(
        dict.fromkeys(n for s in sides for one in s.summaries for n in one.get("classes") or {})
    )


def _class_rows(name: str, sides: Sequence[Side]) -> list[Section]:
    def part(summary: Summary) -> Summary | None:
        found: Summary | None = (summary.get("classes") or {}).get(name)
        return found

    rows = [metric(row) for row in (*_CLASS_ROWS, "failed")]
    return [row for one in rows if (row := _row(one, sides, part))]


def _stages(summary: Summary) -> Summary:
    return summary.get("stages") or {}


def _stage_rows(sides: Sequence[Side]) -> list[Section]:
    made = []
    names = stages_of(sides)
    for name in names:
        rows = [
            row
            for q in _STAGE_QUANTILES
            if (row := _row(metric(f"{name}:{q}", names), sides, _whole))
        ]
        if not rows:
            continue
        known = [_stages(s)[name] for side in sides for s in side.summaries if name in _stages(s)]
        made.append(
            {
                "name": name,
                "title": known[0].get("title") or name,
                "phase": known[0].get("phase") or "",
                "simulated": any((one.get("facts") or {}).get("simulated") for one in known),
                "metrics": rows,
            }
        )
    return made


def _queue(side: Side) -> Section:
    """How often each verdict came, and the median growth of the runs that have one: open loops."""
    queues = [s["queue"] for s in side.summaries if s.get("queue") and open_loop(s)]
    words = [one.get("verdict") for one in queues]
    growth = [one["growth_per_s"] for one in queues if one.get("growth_per_s") is not None]
    return {
        "verdicts": {word: words.count(word) for word in dict.fromkeys(words)},
        "growth_per_s": significance.median(growth) if growth else None,
    }


def _split(side: Side) -> Section:
    """The split of the side's middle run: parts of several runs' medians would not add up."""
    number = middle(side)
    summary = side.summaries[number]
    return {
        "run": number,
        "phases": summary.get("phases") or {},
        "stages": {
            name: {key: one.get(key) for key in ("title", "phase", "facts")}
            for name, one in _stages(summary).items()
        },
    }


def _answers(sides: Sequence[Side]) -> Section | None:
    """Mean score over the runs of each side, where answers were expected."""
    made: Section = {}
    for side in sides:
        graded = [s["answers"]["all"] for s in side.summaries if s.get("answers")]
        made[side.label] = {
            key: fmean(known)
            if (known := [g[key] for g in graded if g.get(key) is not None])
            else None
            for key in ("score", "exact", "contains", "vqa")
        }
        made[side.label]["n"] = sum(g.get("n") or 0 for g in graded)
    return made if any(one["n"] for one in made.values()) else None
