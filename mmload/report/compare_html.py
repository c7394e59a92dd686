"""A comparison as one HTML file, in the look of a run's report.

In: the object of docs/compare.md and the series of the runs. Out: the text of the page (`page`
wraps it). All text that came from elsewhere is escaped by `markup`.
"""

from typing import Any, Final

from mmload.report import compare_charts as charts
from mmload.report import compare_tables as tables
from mmload.report import compare_words as words
from mmload.report import numbers
from mmload.report.markup import Html, facts, join, table, tag
from mmload.report.page import code, figure, footer, key_figures, page, section
from mmload.report.results import Rows

Section = dict[str, Any]

_CHARTS: Final = {
    "Latency and rates": ("ttft", "e2e", "runs"),
    "Where the time goes": ("split",),
}
_KEYS: Final = ("ttft:p50", "ttft:p90", "ttft:p99", "e2e:p90", "achieved", "growth")


def render_html(made: Section, series: charts.Series) -> str:
    """The comparison as one self-contained HTML document."""
    figures = charts.figures(made, series)
    title = f"{' against '.join(reversed(_labels(made)))} - mmload"
    return page(title, made["mmload"], _body(made, figures), figures)


def _labels(made: Section) -> list[str]:
    return [side["label"] for side in made["sides"]]


def _body(made: Section, figures: dict[str, Any]) -> list[Html]:
    base, *others = _labels(made)
    parts = [
        tag(
            "header",
            tag("p", "mmload compare", class_="kicker"),
            tag("h1", f"{', '.join((base, *others[:-1]))} and {others[-1]}"),
            tag("p", words.load(made), class_="subtitle"),
        ),
        _verdict(made),
        *(_keys(made, number) for number in range(1, len(made["sides"]))),
        section("Compared", facts(tables.side_facts(made))),
        section("Left out", facts(tables.left_out_facts(made))),
        section("Before you believe it", *(_note(note) for note in made["notes"])),
        section(
            "Queue" if "queue" in figures else "Requests over time",
            figure("queue", figures),
            figure("latency", figures),
            facts(tables.queue_facts(made)),
        ),
    ]
    for number, other in enumerate(others, 1):
        several = f", {other} against {base}" if len(others) > 1 else ""
        for rows in tables.tables_of(made, number, (base, other), wide=True):
            drawn = _CHARTS.get(rows.title, ()) if number == 1 else ()  # charts have all sides
            above = (figure(name, figures) for name in drawn)
            parts.append(section(rows.title + several, *above, _table(rows)))
    parts += [
        section("Outputs", facts(tables.parity_facts(made))),
        section("What differs between the sides", facts(tables.unlike_facts(made))),
        section("Runs", _runs(made)),
        footer(made["mmload"]),
    ]
    return [part for part in parts if part]


def _verdict(made: Section) -> Html:
    """The sentence; red only when a threshold failed, for a comparison has no other verdict."""
    judged = tables.threshold_facts(made)
    failed = any(one["failed"] for one in made["thresholds"])
    lines = [tag("p", _mark(word), said) for word, said in judged]
    kind = "invalid" if failed else "valid" if judged else "neutral"
    return tag("div", tag("p", made["sentence"]), *lines, class_=f"verdict {kind}", role="status")


def _mark(word: str) -> Html:
    if word == "FAILED":
        return tag("strong", f"\u2717 {word}")
    return tag("b", f"\u2713 {word} ")


def _keys(made: Section, number: int) -> Html:
    """The headline of one side in boxes: after, then before and change."""
    rows = {row["name"]: row for row in made["metrics"]}
    figures = []
    for name in _KEYS:
        row = rows.get(name)
        if row is None:
            continue
        before, after = (words.value(row, row["sides"][i]["median"]) for i in (0, number))
        found = row["changes"][number - 1]
        p = words.p_value(found)
        test = f", p = {p}" if found["p_holm"] is not None else ""
        change = f"{words.change(row, found)}{test}"
        figures.append((row["title"], f"{before} \u2192 {after}", change))
    side = made["sides"][number]["label"]
    title = tag("p", f"{made['sides'][0]['label']} \u2192 {side}", class_="muted")
    return join((title, key_figures(figures)))


def _note(note: str) -> Html:
    return tag("div", tag("p", code(note)), class_="warning")


def _table(rows: Rows) -> Html:
    said = f"{rows.note[:1].upper()}{rows.note[1:]}.".replace("+-", "\u00b1")
    note = tag("p", said, class_="muted") if rows.note else ""
    head = [cell.replace("\n", " ").replace("+-", "\u00b1") for cell in rows.head]
    return join((table(head, [("", rows.rows)]), note))


def _runs(made: Section) -> Html:
    """Every run that took part, with its own numbers."""
    shown = [row for row in made["metrics"] if row["name"] in _KEYS]
    head = ["run", "started", "ok", *(row["title"] for row in shown)]
    groups: list[tuple[object, list[list[object]]]] = []
    for place, side in enumerate(made["sides"]):
        lines: list[list[object]] = []
        for number, run in enumerate(side["runs"]):
            cells: list[object] = [run["folder"], run["started_at"], numbers.count(run["ok"])]
            for row in shown:
                values = row["sides"][place]["values"]
                whole = len(values) == len(side["runs"])
                cells.append(words.value(row, values[number]) if whole else numbers.NONE)
            lines.append(cells)
        groups.append((side["label"], lines))
    return table(head, groups)
