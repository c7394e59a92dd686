"""The tables and facts of a comparison: one side against the base, as text, for all formats.

In: the object of docs/compare.md, which side, and what to call the two. Out: `Rows` and facts,
unescaped. The narrow forms fit 80 columns with names of up to 12 characters.
"""

from collections.abc import Sequence
from typing import Any, Final

from mmload.hook.stages import PHASE_TITLES, PHASES
from mmload.report import compare_words as words
from mmload.report import numbers, tables
from mmload.report.fields import Fact, get
from mmload.report.results import Rows, share

Section = dict[str, Any]
Names = tuple[str, str]

_SCORES: Final = ("score", "exact", "contains", "vqa")


def tables_of(made: Section, number: int, names: Names, *, wide: bool = False) -> list[Rows]:
    """Those that have something to show, in order. `number` is the side's place, from 1."""
    made_of = (
        metrics(made, number, names),
        classes(made, number, names),
        split(made, number, names),
        stages(made, number, names, wide=wide),
        answers(made),
    )
    return [rows for rows in made_of if rows.rows]


def metrics(made: Section, number: int, names: Names) -> Rows:
    """Every metric: medians, intervals where the runs allow them, change, p."""
    rows = made["metrics"]
    pairs = [(row["sides"][0], row["sides"][number], row["changes"][number - 1]) for row in rows]
    intervals = any(words.spread(stat) for a, b, _ in pairs for stat in (a, b))
    tested = any(found["p_holm"] is not None for _, _, found in pairs)
    judged = any(found["shown"] for _, _, found in pairs)
    head = ["", names[0], *(["+-"] * intervals), names[1], *(["+-"] * intervals), "change"]
    cells = []
    for row, (before, after, found) in zip(rows, pairs, strict=True):
        line = [row["title"]]
        for stat in (before, after):
            line.append(words.value(row, stat["median"]))
            line += [words.spread(stat)] * intervals
        line.append(words.change(row, found))
        line += [words.p_value(found)] * tested + [words.better(row, found)] * judged
        cells.append(line)
    head += ["p"] * tested + [""] * judged
    return Rows("Latency and rates", metrics_note(made, number), tuple(head), cells)


def metrics_note(made: Section, number: int) -> str:
    """What the columns are, and whether anything was tested."""
    whys = [row["changes"][number - 1]["why"] for row in made["metrics"]]
    why = next((w for w in whys if w.startswith("needs")), "")
    stats = [row["sides"][i] for row in made["metrics"] for i in (0, number)]
    counts = words.counts(made, number)
    parts = ["the value of the one run" if counts == (1, 1) else "medians of runs"]
    if any(stat["interval"] for stat in stats):
        level = min(stat["level"] for stat in stats if stat["level"])
        parts.append(f"+-: exact {100 * level:.1f}% interval of the median")
    else:
        parts.append("no interval: that needs 6 runs")
    changes = [row["changes"][number - 1] for row in made["metrics"]]
    if why and not any(found["p_holm"] is not None for found in changes):
        parts.append(f"no test: it {why}, and there are {counts[0]} and {counts[1]}")
    else:
        tests = made["tests"]
        holm = f" after Holm over {tests} tests" if tests > 1 else ""
        parts.append(f"p: {made['test']}{holm}; ~: no difference shown; rows without p describe")
        if why:
            parts.append(f"{numbers.NONE}: too few runs have a value, the test {why}")
    return "; ".join(parts)


def classes(made: Section, number: int, names: Names) -> Rows:
    """p90 by media class: before, after, and how many times faster."""
    cells = []
    for name, rows in made["classes"].items():
        for row in rows:
            if row["name"] in ("ttft:p90", "e2e:p90"):
                values = [words.value(row, row["sides"][i]["median"]) for i in (0, number)]
                cells.append([name, row["title"].split()[0], *values, words.ratio(row, number)])
    head = ("class", "p90 of", *names, "speed-up")
    return Rows("By media class", "", head, cells)


def split(made: Section, number: int, names: Names) -> Rows:
    """Where the time of the mean, p50, p90 and p99 request goes, the two sides line under line."""
    sides = [made["split"][made["sides"][i]["label"]] for i in (0, number)]
    phases = [p for p in PHASES if any(_part(side, "mean", p) is not None for side in sides)]
    cells = []
    if all(get(side, "phases", "mean") for side in sides):
        for phase in phases:
            for side, name, first in zip(sides, names, (True, False), strict=True):
                title = phase_title(sides, phase) if first else ""
                times = [numbers.ms(_part(side, q, phase)) for q, _ in tables.SPLIT_COLUMNS]
                cells.append([title, name, *times])
        for side, name, first in zip(sides, names, (True, False), strict=True):
            times = [numbers.ms(get(side, "phases", q, "e2e_ms")) for q, _ in tables.SPLIT_COLUMNS]
            cells.append(["E2E, the sum" if first else "", name, *times])
    head = ("", "", *(title.replace(" ", "\n") for _, title in tables.SPLIT_COLUMNS))
    note = (
        "" if max(words.counts(made, number)) == 1 else "the middle run of each side, by TTFT p90"
    )
    return Rows("Where the time goes", note, head, cells)


def _part(side: Section, quantile: str, phase: str) -> float | None:
    found: float | None = get(side, "phases", quantile, "phases", phase)
    return found


def phase_title(sides: Sequence[Section], phase: str) -> str:
    """A phase's title, marked when stages of it are simulated on one of the sides of the split."""
    title = {str(key): text for key, text in PHASE_TITLES.items()}[phase]
    marks = [
        bool(get(stage, "facts", "simulated"))
        for side in sides
        for stage in (get(side, "stages") or {}).values()
        if get(stage, "phase") == phase
    ]
    if not any(marks):
        return title
    return title + (tables.SIMULATED if all(marks) else " (partly simulated)")


def stages(made: Section, number: int, names: Names, *, wide: bool) -> Rows:
    """The time of a request in each stage, medians of runs; describes, tests nothing."""
    quantiles = ("mean", "p50", "p90") if wide else ("mean", "p90")
    cells = []
    known = {stage["name"]: stage for stage in made["stages"]}
    for _, stage in tables.ordered(known):
        rows = {row["name"].rpartition(":")[2]: row for row in stage["metrics"]}
        title = stage["title"] + (tables.SIMULATED if stage["simulated"] else "")
        line = [title]
        for q in quantiles:
            row = rows.get(q)
            if row is None:
                line += [numbers.NONE] * 2
                continue
            line += [words.value(row, row["sides"][i]["median"]) for i in (0, number)]
        of_mean = rows.get("mean")
        change = words.plain_change(of_mean, of_mean["changes"][number - 1]) if of_mean else ""
        cells.append([*line, change])
    head = ["stage", *(f"{q}\n{name}" for q in quantiles for name in names), "change\nof mean"]
    return Rows("Stages", "time of a request in each; not tested", tuple(head), cells)


def answers(made: Section) -> Rows:
    """Scores of all sides, where answers were expected."""
    found = made["answers"] or {}
    cells = [
        [label, numbers.count(one["n"]), *(share(one[key]) for key in _SCORES)]
        for label, one in found.items()
    ]
    head = ("side", "graded", "score", "exact", "contains", "VQA")
    return Rows("Answers", "share of right answers, mean of runs", head, cells)


# -- facts -------------------------------------------------------------------------------------


def side_facts(made: Section) -> list[Fact]:
    """What was compared: each side, the load, the digest."""
    facts = []
    for number, side in enumerate(made["sides"]):
        runs = numbers.plural(len(side["runs"]), "run")
        base = ", the base" if number == 0 else ""
        model = f", {side['model']}" if side["model"] else ""
        facts.append((side["label"], f"{side['path']} ({runs}{base}){model}"))
    facts.append(("load", words.load(made)))
    simulated = words.simulated(made)
    return [*facts, ("simulated", simulated)] if simulated else facts


def queue_facts(made: Section) -> list[Fact]:
    return [
        (label, f"the queue {said}")
        for label, queue in made["queue"].items()
        if (said := words.queue_words(queue))
    ]


def unlike_facts(made: Section) -> list[Fact]:
    """Every key that differs: scenario (where it was forced), settings, machine, versions."""
    unlike = made["unlike"]
    kinds = ("scenario", "beside", "settings", "machine", "versions")
    return [(one["key"], words.values(one)) for kind in kinds for one in unlike[kind]]


def threshold_facts(made: Section) -> list[Fact]:
    return [
        ("FAILED" if one["failed"] else "passed", threshold(made, one))
        for one in made["thresholds"]
    ]


def threshold(made: Section, one: Section) -> str:
    """`ttft:p99 > +5%: +12.31%`; names the side when there are several. With more digits than the
    tables have, lest +10.4 % fail `> +10%` as "+10%"."""
    unit = {"%": "%", "ms": " ms", "share": "%", "requests": ""}.get(one["in"], "/s")
    if one["value"] is None:
        found = "no value"
    elif one["in"] == "%":
        found = f"{one['value']:+,.2f}{unit}"
    elif one["in"] == "share":
        found = f"{100 * one['value']:.4g}{unit}"
    else:
        found = f"{one['value']:,.3f}".rstrip("0").rstrip(".") + unit
    of = f" ({one['side']})" if len(made["sides"]) > 2 else ""
    return f"{one['threshold']}{of}: {found}"


def parity_facts(made: Section) -> list[Fact]:
    return [(label, words.parity(found)) for label, found in (made["parity"] or {}).items()]


def left_out_facts(made: Section) -> list[Fact]:
    return [
        (side["label"], f"{one['folder']}: {one['reason']} -- {one['fix']}")
        for side in made["sides"]
        for one in side["left_out"]
    ]
