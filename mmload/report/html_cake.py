"""The cake as a section of the HTML report: sentences, layers, functions, the deepest stack."""

from mmload.report import cake
from mmload.report.cake_chart import COLOURS
from mmload.report.fields import Summary, get
from mmload.report.markup import Html, join, swatch, table, tag
from mmload.report.results import Rows


def section(summary: Summary) -> list[Html]:
    """Nothing without a profile."""
    profile = get(summary, "profile")
    if not profile:
        return []
    layers = cake.layers(profile)
    keys = list(get(profile, "layers") or {})
    rows: list[list[object]] = [
        [join((swatch(COLOURS[key]), row[0])), *row[1:]]
        for key, row in zip(keys, layers.rows, strict=True)
    ]
    return [
        *(tag("p", sentence) for sentence in cake.sentences(profile)),
        table(layers.head, [("", rows)]),
        tag("p", f"{layers.note}.", class_="muted"),
        _titled(cake.functions(profile)),
        _titled(cake.deepest(profile)),
    ]


def _titled(found: Rows | None) -> Html:
    if found is None or not found.rows:
        return Html()
    return join((tag("h3", found.title), table(found.head, [("", found.rows)], class_="failures")))
