"""The HTML document around any report: one self-contained file, and the pieces that all share.

In: a title, sections of finished markup, figures. Out: the text of the page, with plotly.js, styles
and data inside. A content policy lets the page run only the two scripts that were put there, by
their hashes, and ask the network nothing.
"""

import base64
import hashlib
from collections.abc import Iterable
from importlib.resources import files
from string import Template
from typing import Any

from mmload.report.markup import Html, join, script_json, tag, text


def page(title: str, version: str, body: Iterable[Html], figures: dict[str, Any]) -> str:
    """The document; `figures` are drawn into the elements that `figure` made for their names."""
    from plotly.offline import get_plotlyjs

    plotly, script = get_plotlyjs(), _resource("report.js")
    return Template(_resource("template.html")).substitute(
        title=text(title),
        version=text(version),
        policy=text(_policy(plotly, script)),
        css=_resource("report.css"),
        body=join(body, "\n"),
        figures=script_json(figures),
        plotly=plotly,
        script=script,
    )


def section(title: str, *content: Html, id_: str = "") -> Html:
    """A titled section; nothing at all without content."""
    if not any(content):
        return Html()
    return tag("section", tag("h2", title), *content, id_=id_)


def key_figures(figures: Iterable[tuple[str, str, str]]) -> Html:
    """The key figures at the top of a page: label, value and note of each."""
    boxes = (
        tag(
            "div",
            tag("div", label, class_="label"),
            tag("div", value, class_="value"),
            tag("div", note, class_="note"),
            class_="key",
        )
        for label, value, note in figures
    )
    return tag("div", *boxes, class_="keys")


def figure(name: str, figures: dict[str, Any]) -> Html:
    """The place of a chart; nothing at all when it was not made."""
    if name not in figures:
        return Html()
    layout = figures[name]["layout"]
    box = tag("div", class_="chart", id=f"chart-{name}", style=f"height:{layout['height']}px")
    label = Html(layout["title"]["text"].replace('"', "&quot;"))  # charts escaped the rest
    return tag("figure", box, role="img", aria_label=label)


def code(sentence: str) -> Html:
    """Text in which `words` between backticks are code."""
    parts = sentence.split("`")
    return join(tag("code", part) if i % 2 else part for i, part in enumerate(parts))


def footer(version: str) -> Html:
    return tag("footer", tag("p", f"Made by mmload {version}. This file needs no network."))


def _resource(name: str) -> str:
    return files("mmload.report").joinpath(name).read_text(encoding="utf-8")


def _policy(*scripts: str) -> str:
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(one.encode()).digest()).decode()}'"
        for one in scripts
    )
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline';"
        " img-src data: blob:; form-action 'none'; base-uri 'none'"
    )
