"""The cake as people see it: 80 columns, a chart, and HTML that no function's name can break."""

import io

import pytest

from mmload.profiler.cake import cake
from mmload.profiler.layers import LAYERS
from mmload.report import cake as words
from mmload.report.cake_chart import COLOURS, icicle
from mmload.report.html_cake import section
from mmload.report.markup import join
from mmload.report.terminal_cake import render_profile
from tests.unit.test_profiler import STACKS, session

KERNEL = "c10::function_ref<void (char**)>::callback_fn<at::direct_copy_kernel(x)::{y}>"


def test_the_terminal_in_80_columns() -> None:
    out = io.StringIO()
    render_profile(cake(session()), out=out, folder="p")
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    text = " ".join(" ".join(lines).split())
    assert "torch 0.60 s 60.0% 60.0% 1.20 0.60" in text
    assert "1.00 s of busy threads in 8.00 s, 100 samples a second, Python functions only" in text
    assert "The mean stack is 7.10 calls deep in 4.70 layers" in text
    assert "and 5.10 come before the layer that works. The deepest has 9." in text
    assert "Busiest threads: renderer, 0.90 s; 67% of that in torch" in text
    assert "profile.speedscope.json" in text


@pytest.mark.parametrize(
    "cpu_s, words_expected",
    [(0.5, "had no core"), (1.0, "1.00 s of CPU in that time."), (2.0, "threads without Python")],
)
def test_samples_against_cpu_time(cpu_s: float, words_expected: str) -> None:
    made = cake(session()) | {"cpu_s": cpu_s}
    assert words_expected in words.sentences(made)[0]


def test_the_chart_is_the_tree() -> None:
    made = cake(session())
    figure = icicle(made)
    assert figure is not None and icicle(None) is None and icicle({"tree": []}) is None
    data = figure["data"][0]
    assert data["parents"].count("") == 2
    assert len(data["ids"]) == len(data["values"]) == len(data["marker"]["colors"])
    assert "torch  60%" in data["labels"]
    assert figure["layout"]["title"]["text"].endswith("60% in torch")
    assert set(COLOURS) == {layer.key for layer in LAYERS}


def test_names_are_somebody_elses_words() -> None:
    evil = STACKS.replace("preprocess (", "<script>alert(1)</script> (")
    made = cake(session(evil))
    html = join(section({"profile": made}))
    assert "<script>" not in html and "&lt;script&gt;" in html
    figure = icicle(made)
    assert figure is not None and "<script>" not in str(figure)


def test_a_long_native_name_is_cut_to_what_it_does() -> None:
    function = {"name": KERNEL, "where": "torch/lib/libtorch_cpu.so"}
    assert words.name_of(function) == "... direct_copy_kernel ... (torch/lib/libtorch_cpu.so)"
    plain = words.name_of({"name": "f" * 99, "where": "a.so"})
    assert plain == f"{'f' * 66} ... (a.so)"
    assert words.name_of({"name": "?", "where": "a.so"}) == "no symbol (a.so)"


def test_a_run_without_a_profile_has_no_section() -> None:
    assert section({}) == [] == words.sentences(None)
