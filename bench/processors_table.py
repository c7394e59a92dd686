"""The results of `bench.processors` as Markdown.

    python -m bench.processors_table bench/results/processors.jsonl

A row's cell is stock's wall time over its own in the same round: the median over the rounds, and in
brackets the quartiles. Twice: calls that follow one another, and the first call after others had
the caches.
"""

import json
import statistics
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

Line = dict[str, Any]


def table(lines: Sequence[Line], which: str) -> Iterator[str]:
    """`which`: "next" or "first". Faults are in the former only."""
    rounds = [line for line in lines if line["kind"] == "round"]
    places = sorted({place(r) for r in rounds}, key=place_order)
    names = list(lines[0]["rows"])
    titles = ["family", "medium", "threads", "stock, ms", *names[1:]]
    if which == "next":
        titles.append("minor faults a call, in the rows' order")
    yield "| " + " | ".join(titles) + " |"
    yield "|" + "---|" * len(titles)
    for family, case, threads in places:
        here = [
            {name: call[which] for name, call in r["calls"].items()}
            for r in rounds
            if place(r) == (family, case, threads)
        ]
        stock_ms = statistics.median(calls["stock"]["wall_ns"] for calls in here) / 1e6
        cells = [family, case, str(threads), f"{stock_ms:.1f}"]
        for name in names[1:]:
            cells.append(with_quartiles([c["stock"]["wall_ns"] / c[name]["wall_ns"] for c in here]))
        if which == "next":
            faults = (statistics.median(c[name]["faults"] for c in here) for name in names)
            cells.append(" / ".join(f"{count:,.0f}" for count in faults))
        yield "| " + " | ".join(cells) + " |"


def with_quartiles(values: Sequence[float]) -> str:
    if len(values) < 2:
        return f"{values[0]:.1f}"
    low, middle, high = statistics.quantiles(values, n=4)
    return f"**{middle:.1f}** ({low:.1f}-{high:.1f})"


def place(line: Line) -> tuple[str, str, int]:
    return line["family"], line["case"], line["threads"]


def place_order(key: tuple[str, str, int]) -> tuple[str, bool, int, str, int]:
    family, case, threads = key
    return family, "frames" in case, len(case), case, threads


def callers(lines: Sequence[Line]) -> Iterator[str]:
    found = [line for line in lines if line["kind"] == "callers"]
    yield "| family | row | one caller, calls/s | two callers | two / one |"
    yield "|---|---|---|---|---|"
    for family in sorted({line["family"] for line in found}, reverse=True):
        for row in lines[0]["rows"]:
            here = [line for line in found if (line["family"], line["row"]) == (family, row)]
            one, two = (statistics.median(line[n] for line in here) for n in ("one", "two"))
            ratios = [line["two"] / line["one"] for line in here]
            yield f"| {family} | {row} | {one:.1f} | {two:.1f} | {with_quartiles(ratios)} |"


def parts(lines: Sequence[Line]) -> Iterator[str]:
    rounds = [line for line in lines if line["kind"] == "round"]
    yield "| family | medium | row | call, CPU ms | resize | patches | rest | a pass of writing |"
    yield "|---|---|---|---|---|---|---|---|"
    for line in lines:
        if line["kind"] != "parts":
            continue
        calls = [r["calls"][line["row"]]["next"] for r in rounds if place(r) == place(line)]
        call = statistics.median(c["cpu_ns"] for c in calls) / 1e6
        rest = call - line["resize_ms"] - line["patches_ms"]
        yield (
            f"| {line['family']} | {line['case']} | {line['row']} | {call:.1f}"
            f" | {line['resize_ms']:.1f} | {line['patches_ms']:.1f} | {rest:.1f}"
            f" | {line['one_pass_ms']:.1f} |"
        )


def about(lines: Sequence[Line]) -> Iterator[str]:
    rounds = [line for line in lines if line["kind"] == "round"]
    machine = lines[0]["machine"]
    load = statistics.median(line["load_average"] for line in rounds)
    count = len({id(r) for r in rounds}) // len({place(r) for r in rounds})
    yield f"- {count} rounds; load average {load:.1f} (median)"
    yield f"- torch {lines[0]['torch']}, transformers {lines[0]['transformers']}"
    yield (
        f"- {machine['cpu']}, {machine['cores']} cores, {machine['memory_gib']} GiB,"
        f" {machine['host_os']}, Python {machine['python']}, commit {machine['commit']}"
    )


def main() -> None:
    text = Path(sys.argv[1]).read_text(encoding="utf-8")
    lines = [json.loads(line) for line in text.splitlines()]
    for part in (table(lines, "next"), table(lines, "first"), callers(lines), parts(lines)):
        print("\n".join(part), end="\n\n")
    print("\n".join(about(lines)))


if __name__ == "__main__":
    main()
