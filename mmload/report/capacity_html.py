"""A capacity search as one HTML file: the interval, latency and goodput against rate, every run.

In: the object of docs/capacity.md. Out: the text of the page (`page` wraps it).
"""

from typing import Any

import yaml

from mmload.report import capacity_words, numbers, palette
from mmload.report.capacity_words import Section
from mmload.report.figures import Figure, axis, unit, wide_axis
from mmload.report.figures import figure as chart
from mmload.report.markup import Html, facts, join, table, tag
from mmload.report.page import figure, footer, key_figures, page, section
from mmload.report.words import carries

QUANTILES = ("p50", "p90", "p99")


def render_capacity_html(made: Section) -> str:
    figures = {"latency": latency(made), "goodput": goodput(made)} if made["rates"] else {}
    predicted = made["predicted"]
    body = [
        _header(made),
        _verdict(made),
        _keys(made),
        _notes(made),
        section(
            "Latency against rate",
            figure("latency", figures),
            tag("p", capacity_words.knee(made)),
        ),
        section("Goodput", figure("goodput", figures)),
        section("Rates", _rates(made)),
        section("What the spans predict", tag("p", predicted["sentence"]) if predicted else Html()),
        section("Runs", _runs(made)),
        section("Search", facts(capacity_words.facts(made)), _scenario(made)),
        section("Definitions", facts(made["definitions"].items())),
        footer(str(made["mmload"])),
    ]
    return page("Capacity - mmload", str(made["mmload"]), filter(None, body), figures)


def latency(made: Section) -> Figure:
    """Percentiles by rate, the interval as a band, and where the objectives end."""
    rows = made["rates"]
    factor, in_unit = unit([row[f"{q}_ms"] or 0 for row in rows for q in QUANTILES])
    data: list[Figure] = [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": q,
            "x": [row["rate"] for row in rows],
            "y": [None if row[f"{q}_ms"] is None else row[f"{q}_ms"] / factor for row in rows],
            "line": {
                "color": palette.SERIES_COLOURS[number],
                "dash": palette.SERIES_DASHES[number],
                "width": 2,
            },
            "marker": {"size": 6, "symbol": palette.SERIES_SYMBOLS[number]},
            "hovertemplate": f"{q} at %{{x:g}}/s: %{{y:.4~g}} {in_unit}<extra></extra>",
        }
        for number, q in enumerate(QUANTILES)
    ]
    values = [row[f"{q}_ms"] for row in rows for q in QUANTILES if row[f"{q}_ms"]]
    title = made["metric"].upper()
    return chart(
        f"{title} against rate; the band is the interval found",
        300,
        data,
        **_marks(made),
        xaxis=axis("requests/s"),
        yaxis=axis(f"{title}, {in_unit}", **wide_axis([v / factor for v in values])),
    )


def goodput(made: Section) -> Figure:
    """Requests a second that met all objectives, against the rate asked for."""
    rows = made["rates"]
    most = max(row["rate"] for row in rows)
    data: list[Figure] = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": "all good",
            "x": [0, most],
            "y": [0, most],
            "line": {"color": palette.MUTED, "dash": "dot", "width": 1.5},
            "hoverinfo": "skip",
        },
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": "goodput",
            "x": [row["rate"] for row in rows],
            "y": [row["goodput_qps"] for row in rows],
            "line": {"color": palette.SERIES_COLOURS[0], "width": 2},
            "hovertemplate": "%{y:.3~g}/s good of %{x:g}/s<extra></extra>",
        },
    ]
    return chart(
        f"Requests/s that met {' and '.join(made['slos'])}",
        220,
        data,
        **_marks(made),
        xaxis=axis("requests/s"),
        yaxis=axis("good requests/s"),
    )


def _marks(made: Section) -> dict[str, Any]:
    """The interval as a band, the prediction as a line."""
    low, high = made["interval"]["passing_qps"], made["interval"]["failing_qps"]
    upright: Figure = {"xref": "x", "yref": "paper", "y0": 0, "y1": 1}
    shapes, notes = [], []
    if low is not None and high is not None:
        shapes.append(
            {
                **upright,
                "type": "rect",
                "x0": low,
                "x1": high,
                "line": {"width": 0},
                "fillcolor": "rgba(10, 107, 75, 0.25)",
            }
        )
    if made["predicted"]:
        at = made["predicted"]["capacity_qps"]
        least = made["predicted"].get("capacity_least_qps") or at
        if at <= 1.5 * max(row["rate"] for row in made["rates"]):
            line = {"color": palette.INK, "dash": "dash", "width": 1.5}
            shapes += [
                {**upright, "type": "line", "x0": x, "x1": x, "line": line}
                for x in dict.fromkeys((least, at))
            ]
            notes.append(
                {
                    "x": at,
                    "y": 1,
                    "yref": "paper",
                    "yanchor": "bottom",
                    "text": "spans predict",
                    "showarrow": False,
                    "font": {"size": 11},
                }
            )
    return {"shapes": shapes, "annotations": notes}


def _header(made: Section) -> Html:
    about = [made["server"], capacity_words.load(made["scenario"]), made["started_at"]]
    return tag(
        "header",
        tag("p", "mmload capacity", class_="kicker"),
        tag("h1", "Capacity with ", " and ".join(made["slos"])),
        tag("p", join([part for part in about if part], " \u00b7 "), class_="subtitle"),
    )


def _verdict(made: Section) -> Html:
    bad = made["reached"] is False or made["interval"]["passing_qps"] is None
    word = "\u2713 Confirmed" if made["ended"] == "confirmed" else "Not confirmed"
    word = "\u2717 Not reached" if made["reached"] is False else word
    said = tag("p", tag("strong", word), made["sentence"])
    return tag("div", said, class_=f"verdict {'invalid' if bad else 'valid'}", role="status")


def _keys(made: Section) -> Html:
    low, high = made["interval"]["passing_qps"], made["interval"]["failing_qps"]
    predicted = made["predicted"]
    best = next((row for row in made["rates"] if row["rate"] == low), None)
    title = made["metric"].upper()
    keys = [
        ("highest passing", f"{low:g}/s" if low is not None else "-", "requests/s, confirmed"),
        ("lowest failing", f"{high:g}/s" if high is not None else "-", "requests/s"),
        (
            "spans predict",
            f"{carries(predicted)}/s" if predicted else "-",
            f"{predicted['title']}, {numbers.ms(predicted['service_ms'])}" if predicted else "",
        ),
    ]
    if best is not None:
        keys += [
            (f"{title} p90 there", numbers.ms(best["p90_ms"]), f"p99 {numbers.ms(best['p99_ms'])}"),
            ("goodput there", f"{numbers.rate(best['goodput_qps'])}/s", "requests that met all"),
        ]
    keys.append(("runs", numbers.count(len(made["runs"])), made["ended_words"]))
    if made["ended"] != "confirmed":
        keys[0] = (keys[0][0], keys[0][1], "requests/s, not confirmed")
    return key_figures(keys)


def _notes(made: Section) -> Html:
    boxes = []
    failing = made["interval"]["failing_qps"]
    if failing is not None:
        why = capacity_words.why(made["runs"], failing)
        boxes.append(
            tag("div", tag("p", tag("b", f"Why {failing:g}/s fails. "), f"{why}."), class_="blame")
        )
    if made["simulated"]:
        note = tag("p", tag("b", "Simulated. "), made["simulated"])
        boxes.append(tag("div", note, class_="simulated"))
    return join(boxes)


def _rates(made: Section) -> Html:
    rows = [
        [
            f"{row['rate']:g}",
            capacity_words.VERDICTS[row["verdict"]],
            f"{row['passed']} of {row['runs']}",
            *(numbers.ms(row[f"{q}_ms"]) for q in QUANTILES),
            numbers.percent(row["good_share"]),
            numbers.rate(row["goodput_qps"]),
        ]
        for row in made["rates"]
    ]
    title = made["metric"].upper()
    head = (
        "requests/s",
        "verdict",
        "runs passed",
        f"{title} p50",
        "p90",
        "p99",
        "good",
        "goodput/s",
    )
    return table(head, [("", rows)]) if rows else Html()


def _runs(made: Section) -> Html:
    rows = [
        [
            f"{run['rate']:g}",
            run["why"],
            capacity_words.VERDICTS[run["verdict"]],
            f"{run['ok']} of {run['requests']}",
            numbers.ms(run["ttft_ms"]["p99"]),
            capacity_words.QUEUES[run["queue"]],
            numbers.rate(run["utilisation"]),
            tag("small", "; ".join(run["reasons"])) if run["reasons"] else "",
        ]
        for run in made["runs"]
    ]
    head = ("requests/s", "step", "verdict", "ok", "TTFT p99", "queue", "util.", "why not")
    return table(head, [("", rows)], class_="failures") if rows else Html()


def _scenario(made: Section) -> Html:
    written = yaml.safe_dump(made["scenario"], sort_keys=False, allow_unicode=True, width=96)
    return tag("pre", tag("code", written.rstrip()))
