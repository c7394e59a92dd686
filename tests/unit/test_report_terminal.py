"""The terminal report against golden files, and the rules that no layout may break.

After a wanted change: `MMLOAD_UPDATE_GOLDEN=1 pytest tests/unit/test_report_terminal.py`, then read
the difference of tests/golden/ before it is committed.
"""

import io
import os
import re
from pathlib import Path

import pytest

from mmload.report.terminal import render, render_text
from tests.unit import report_samples as samples

GOLDEN = Path(__file__).parent.parent / "golden"
CASES = ("stable", "growing", "invalid", "no_spans", "failures", "empty", "closed", "sequential")


def check_golden(name: str, text: str) -> None:
    file = GOLDEN / name
    if os.environ.get("MMLOAD_UPDATE_GOLDEN"):
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8"), f"{name}: see this module's docstring"


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("case", CASES)
def test_golden(case: str, width: int) -> None:
    text = render_text(getattr(samples, case)(), width, folder="runs/demo")
    check_golden(f"report_terminal_{case}_{width}.txt", text)


@pytest.mark.parametrize("width", [60, 80, 100, 120])
@pytest.mark.parametrize("case", CASES)
def test_fits_and_is_plain_ascii(case: str, width: int) -> None:
    text = render_text(getattr(samples, case)(), width)
    assert max(len(line) for line in text.splitlines()) <= width
    assert text.isascii()
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f]", text)
    assert not re.search("[ ]+$", text, re.MULTILINE)


@pytest.mark.parametrize(
    ("case", "words"),
    [
        (
            "growing",
            "VALID 5.00 requests/s asked, 5.00 sent, 150 of 150 ok; the queue is growing by 1.67"
            " requests/s",
        ),
        ("stable", "VALID 2.00 requests/s asked, 2.00 sent, 200 of 200 ok; the queue is stable"),
        (
            "invalid",
            "INVALID The generator was late: p99 of the schedule lag is 41.2 ms, over the limit of"
            " 25.0 ms. Use --workers 2, or run the generator on another machine. 3 records were"
            " lost. Free some disk space. 5.00 requests/s asked, 5.00 sent, 148 of 148 ok, 2"
            " dropped; the queue is growing by 1.67 requests/s",
        ),
        (
            "failures",
            "VALID 5.00 requests/s asked, 5.00 sent, 140 of 150 ok, 7 never sent, interrupted;"
            " can't tell whether the queue grows",
        ),
        (
            "empty",
            "INVALID No request was sent. Check the target and the scenario's rate. nothing was"
            " sent",
        ),
        (
            "closed",
            "VALID 3.21 requests/s sent, closed loop, 200 of 200 ok",
        ),
    ],
)
def test_verdict_comes_first(case: str, words: str) -> None:
    first_block = render_text(getattr(samples, case)(), 80).split("\n\n")[0]
    assert " ".join(first_block.split()) == words


def test_colour_only_repeats_what_words_say() -> None:
    summary = samples.growing()
    coloured = render_text(summary, 80, color=True)
    assert "\x1b[" in coloured
    bare = re.sub("\x1b\\[[0-9;]*m", "", coloured).replace("\u2588", "#")
    stripped = "\n".join(line.rstrip() for line in bare.split("\n"))
    assert stripped == render_text(summary, 80)


def test_hostile_text_cannot_drive_the_terminal() -> None:
    coloured = render_text(samples.failures(), 80, color=True)
    assert "\x1b[31mred" not in coloured  # the server's own escape
    assert "\\x1b[31mred" in coloured
    assert "[bold]x[/bold]" in coloured  # rich's markup is text too


def test_simulated_stages_are_marked_in_every_table() -> None:
    text = render_text(samples.growing(), 80)
    assert "GPU (simulated)" in text
    assert "prefill (simulated)" in text
    assert "decode (simulated)" in text
    assert re.search("^  simulated +prefill and decode sleep", text, re.MULTILINE)
    assert text.count("Contains simulated time") == 1
    assert "(simulated)" not in render_text(samples.stable(), 80)


def test_partly_simulated_phase_and_simulated_bottleneck() -> None:
    summary = samples.growing()
    del summary["stages"]["decode"]["facts"]["simulated"]
    summary["bottleneck"] = {"stage": "prefill", "sentence": "The prefill is the bottleneck."}
    text = " ".join(render_text(summary, 120).split())
    assert "GPU (partly simulated)" in text
    assert "The prefill is the bottleneck. This stage is simulated." in text


def test_bottleneck_is_marked_in_the_stage_table() -> None:
    marked = [line for line in render_text(samples.growing(), 80).splitlines() if line[:1] == ">"]
    assert [line.split()[1] for line in marked] == ["processor"]


def test_reasoning_shows_ttfo() -> None:
    assert "TTFO" in render_text(samples.stable(), 80)  # there the answer starts later
    assert "TTFO" not in render_text(samples.growing(), 80)  # there it is the same as TTFT


def test_render_writes_what_the_encoding_can_hold() -> None:
    summary = samples.growing()
    summary["run"]["model"] = "モデル"
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding="ascii")
    render(summary, console_width=80, out=out)
    out.flush()
    assert b"\\u30e2\\u30c7\\u30eb" in raw.getvalue()


def test_render_defaults_to_stdout_at_80_columns(capsys: pytest.CaptureFixture[str]) -> None:
    render(samples.growing(), folder="runs/demo")
    assert capsys.readouterr().out == render_text(samples.growing(), 80, folder="runs/demo")


def test_unknown_stage_keeps_its_name_and_place() -> None:
    summary = samples.growing()
    summary["stages"]["my_stage"] = {"title": None, "phase": "cpu", "ms": None, "facts": None}
    lines = render_text(summary, 80).splitlines()
    last = next(i for i, line in enumerate(lines) if line.startswith("  stream out"))
    assert lines[last + 1].split() == ["my_stage", "CPU", "-", "-", "-", "-", "-"]
