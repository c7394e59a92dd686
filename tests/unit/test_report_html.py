"""The HTML report: well-formed, self-contained, and safe whatever a server says."""

import base64
import hashlib
import json
import random
import re
import subprocess
import sys
from html.parser import HTMLParser
from typing import Any

import pytest

from mmload.report import charts
from mmload.report.html import render_html
from mmload.report.markdown import render_markdown
from mmload.report.markup import script_json, tag, text
from mmload.report.terminal import render_text
from tests.unit import report_samples as samples

VOID = {"meta", "link", "br", "hr", "img", "input"}
CASES = ("stable", "growing", "invalid", "no_spans", "failures", "empty", "closed", "sequential")


class Page(HTMLParser):
    """Checks that every element is closed in order; collects what the tests ask for."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.styles: list[str] = []
        self.words: list[str] = []
        self.feed(source)
        self.close()
        assert self.open == [], "elements left open"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len({name for name, _ in attrs}) == len(attrs), f"<{tag}> repeats an attribute"
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-1:]}"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        inside = self.open[-1] if self.open else ""
        {"script": self.scripts, "style": self.styles}.get(inside, self.words).append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def figures(self) -> dict[str, Any]:
        figures: dict[str, Any] = json.loads(self.scripts[0])
        return figures


def page_of(case: str) -> Page:
    return Page(render_html(getattr(samples, case)(), {} if case == "empty" else samples.series()))


@pytest.mark.parametrize("case", CASES)
def test_well_formed(case: str) -> None:
    page = page_of(case)
    ids = [attrs["id"] for _, attrs in page.elements if "id" in attrs]
    assert len(ids) == len(set(ids))
    assert len(page.scripts) == 3
    assert {f"chart-{name}" for name in page.figures()} <= set(ids)


def test_asks_the_network_nothing() -> None:
    page = page_of("failures")
    for name, attrs in page.elements:
        assert name not in {"link", "img", "iframe", "object", "embed", "base", "form"}
        for key in ("src", "srcset", "action", "data", "background", "poster"):
            assert key not in attrs
        assert (attrs.get("href") or "#").startswith("#")
    assert not re.search(r"url\(|@import", "".join(page.styles))
    # plotly.js offers to upload charts, unless it is told not to
    assert "showSendToCloud: false" in page.scripts[2]
    assert 'plotlyServerURL: ""' in page.scripts[2]


def test_policy_allows_only_our_own_scripts() -> None:
    page = page_of("failures")
    meta = [attrs for name, attrs in page.elements if name == "meta" and "http-equiv" in attrs]
    policy = meta[0]["content"] or ""
    assert "default-src 'none'" in policy
    allowed = set(re.findall(r"'sha256-([^']+)'", policy))
    ours = {
        base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        for script in page.scripts[1:]
    }
    assert allowed == ours
    assert re.search(r"script-src[^;]*;", policy)
    assert "unsafe" not in re.findall(r"script-src[^;]*;", policy)[0]


def test_hostile_text_stays_text() -> None:
    source = render_html(samples.failures(), samples.series())
    page = Page(source)
    assert source.count("<script") == source.count("</script>") == 3
    assert "alert(1)" not in "".join(page.scripts[1:])
    assert "<script>alert(1)</script>" in page.text
    assert not re.search("[\x00-\x08\x0e-\x1f]", "".join(page.words))


def test_a_traced_process_in_a_few_words() -> None:
    summary = samples.stable()
    summary["server_processes"] = [
        {
            "pid": 7,
            "role": "api_server",
            "notes": {
                "versions": {"vllm": "0.32.0"},
                "attached": {"processor": "vllm.a:B.c", "handoff": "vllm.d:E.f"},
                "missing": {"handoff": {"reason": "r"}, "tokenize": {"reason": "r"}},
            },
        }
    ]
    shown = Page(render_html(summary, samples.series())).text
    assert "role api_server, versions vllm 0.32.0, probes 2, not found tokenize" in shown
    assert "vllm.a:B.c" not in shown


def test_hostile_class_names_stay_text_in_charts() -> None:
    series = samples.series()
    series["latency"]["class"] = [samples.EVIL] * 150
    figure = charts.figures(samples.failures(), series)["latency"]
    assert figure["data"][0]["name"].startswith("&lt;script&gt;alert(1)&lt;/script&gt;")
    encoded = script_json(figure)
    assert "<" not in encoded and "&" not in encoded
    assert json.loads(encoded) == figure


def test_markup_escapes_all_but_markup() -> None:
    assert text('<a href="x">&') == "&lt;a href=&quot;x&quot;&gt;&amp;"
    assert tag("p", "a<b", tag("i", "c"), class_='"x"') == (
        '<p class="&quot;x&quot;">a&lt;b<i>c</i></p>'
    )
    assert text("a\x1b\x00b") == "a\\x1b\\x00b"
    with pytest.raises(ValueError, match="JSON compliant"):
        script_json(float("nan"))


def test_says_what_the_terminal_says() -> None:
    page = page_of("growing").text
    assert (
        "VALID 5.00 requests/s asked, 5.00 sent, 150 of 150 ok; the queue is growing by 1.67"
        " requests/s"
    ) in page
    for words in (
        "The processor is the bottleneck: 300 ms a request",
        "GPU (simulated)",
        "prefill (simulated)",
        "Contains simulated time",
        "AMD EPYC 7B13, 2 cores, 24.0 GiB",
        "arrival: constant",  # the scenario, as YAML
        "First output token's arrival minus the intended send time.",
    ):
        assert words in page
    assert "INVALID The generator was late" in page_of("invalid").text
    assert "503: overloaded, try again later" in page_of("failures").text


def test_split_chart_adds_up_and_keeps_the_phase_colours() -> None:
    summary = samples.growing()
    figure = charts.split(summary)
    assert figure is not None
    for i, column in enumerate(("mean", "p50", "p90", "p99")):
        total_s = sum(bar["x"][i] for bar in figure["data"])
        assert total_s == pytest.approx(summary["phases"][column]["e2e_ms"] / 1000)
    colours = [bar["marker"]["color"] for bar in figure["data"]]
    page = render_html(summary, {})
    assert all(f"background:{colour}" in page for colour in colours)
    assert figure["layout"]["title"]["text"].endswith("queueing is 93% of the mean")


def test_queue_chart_has_the_verdict_and_the_fullest_stages() -> None:
    figure = charts.queue(samples.growing(), samples.series()["queue"])
    assert figure is not None
    assert figure["layout"]["title"]["text"] == "Queue: growing by 1.67 requests/s"
    names = [line["name"] for line in figure["data"]]
    # the processor holds 1 of 50 requests at most: its line would lie on the axis
    assert names == ["completions", "arrivals", "in the system", "processor wait"]


def test_percentile_axis_is_one_over_one_minus_q() -> None:
    figure = charts.curve(samples.growing(), samples.series()["curve"])
    assert figure is not None
    ttft = figure["data"][0]
    assert ttft["x"] == pytest.approx([2, 4, 10, 20, 100])
    assert ttft["y"] == pytest.approx([8.484, 12.0, 15.28, 16.0, 16.828])
    assert figure["layout"]["xaxis"]["ticktext"] == ["50%", "90%", "99%"]
    assert figure["layout"]["xaxis"]["tickvals"] == pytest.approx([2, 10, 100])


def test_classes_differ_by_more_than_colour() -> None:
    series = samples.series()["latency"]
    series["class"] = ["15 frames 854x480", "1 image 1024x768", "other"] * 50
    figure = charts.latency(samples.stable(), series)
    assert figure is not None
    of_ttft = [points for points in figure["data"] if points["xaxis"] == "x"]
    assert [p["name"] for p in of_ttft] == ["15 frames 854x480", "1 image 1024x768", "other"]
    assert len({p["marker"]["symbol"] for p in of_ttft}) == 3
    assert len({p["marker"]["color"] for p in of_ttft}) == 3


def test_outcome_chart_only_when_something_failed() -> None:
    series = samples.series()["outcomes"]
    figure = charts.outcomes(series)
    assert figure is not None
    assert [bar["name"] for bar in figure["data"]] == ["http error", "timeout", "ok"]
    assert charts.outcomes(series | {"failed": {"timeout": [0, 0, 0]}}) is None
    assert charts.outcomes(None) is None


def _with_nulls(value: Any, chance: float, rng: random.Random) -> Any:
    if isinstance(value, dict):
        return {
            key: None if rng.random() < chance else _with_nulls(one, chance, rng)
            for key, one in value.items()
        }
    return value


@pytest.mark.parametrize("seed", range(40))
def test_nulls_anywhere_are_accepted(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plotly.offline.get_plotlyjs", lambda: "")
    rng = random.Random(seed)
    for case in ("growing", "stable", "failures", "sequential"):
        summary = _with_nulls(getattr(samples, case)(), rng.choice([0.02, 0.1, 0.4]), rng)
        series = {k: v for k, v in samples.series().items() if rng.random() < 0.8}
        Page(render_html(summary, series))
        render_text(summary, 80)
        render_markdown(summary)


@pytest.mark.parametrize("key", sorted(samples.sequential()))
def test_any_absent_key_is_accepted(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plotly.offline.get_plotlyjs", lambda: "")
    summary = samples.sequential()
    del summary[key]
    Page(render_html(summary, samples.series()))
    render_text(summary, 80)
    render_markdown(summary)


def test_one_request_at_a_time_has_no_queue_to_draw_or_to_judge() -> None:
    page = Page(render_html(samples.sequential(), samples.series()))
    assert "queue" not in page.figures() and "latency" in page.figures()
    assert "one at a time: cannot grow one" in page.text
    assert "queue" in Page(render_html(samples.stable(), samples.series())).figures()


def test_importing_the_report_is_cheap() -> None:
    code = "import sys, mmload.report.html, mmload.report.terminal, mmload.report.markdown\n"
    code += "print([m for m in ('rich', 'plotly', 'yaml', 'numpy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
