"""Comparisons of made-up sides: what is refused, said, tested and never claimed.

After a wanted change of the golden files: `make golden`, then read their difference.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from mmload.analysis import alike
from mmload.analysis.metrics import HEADLINE, metric
from mmload.compare.build import build
from mmload.compare.sides import LoadedSide
from mmload.errors import UsageError
from mmload.report import compare_tables
from mmload.report import compare_words as words
from mmload.report.compare_markdown import render_markdown
from mmload.report.compare_terminal import render_text
from tests.unit import compare_samples as samples
from tests.unit import report_samples
from tests.unit.test_report_terminal import check_golden

FAMILY = [metric(name) for name in HEADLINE]
CASES = {
    "one": lambda: samples.two(1),
    "six": lambda: samples.two(6),
    "three": lambda: samples.three(6),
}


def made(sides: list[LoadedSide], *names: str, **how: Any) -> dict[str, Any]:
    return build(sides, [metric(name) for name in names] or FAMILY, **how)


def row(comparison: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(r for r in comparison["metrics"] if r["name"] == name)
    return found


# -- how it looks ------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES)
def test_golden(case: str) -> None:
    comparison = made(CASES[case]())
    check_golden(f"compare_terminal_{case}_80.txt", render_text(comparison, 80))
    check_golden(f"compare_markdown_{case}.md", render_markdown(comparison))


@pytest.mark.parametrize("width", [80, 100, 120])
@pytest.mark.parametrize("case", CASES)
def test_fits_and_is_plain_ascii(case: str, width: int) -> None:
    text = render_text(made(CASES[case]()), width, folder="report")
    assert max(len(line) for line in text.splitlines()) <= width
    assert text.isascii()
    assert not re.search("[ ]+$", text, re.MULTILINE)


@pytest.mark.parametrize("case", CASES)
def test_it_is_strict_json(case: str) -> None:
    comparison = made(CASES[case]())
    assert json.loads(json.dumps(comparison, allow_nan=False)) == comparison


# -- the sentence ------------------------------------------------------------------------------


def test_one_run_a_side_is_described_and_not_tested() -> None:
    """Promises 10 and 13."""
    comparison = made(samples.two(1))
    assert comparison["sentence"] == (
        "TTFT p90 was 15.3 s before and 210 ms after (-99%, one run a side: no test) at 5"
        " requests/s of 15 frames 854x480; the queue grew by 1.67/s before and is stable after"
        " (simulated: prefill and decode sleep for 60 ms and 12 ms a token)."
    )
    for one in comparison["metrics"]:
        assert all(stat["interval"] is None for stat in one["sides"])
        assert all(found["p"] is None and found["shown"] is None for found in one["changes"])
    assert row(comparison, "ttft:p90")["changes"][0]["why"] == (
        "needs 4 runs a side (5 for 5 metrics tested together)"
    )
    assert "no test: it needs 4 runs a side" in render_text(comparison, 200)


def test_five_runs_a_side_show_the_headline() -> None:
    comparison = made(samples.two(5))
    # 2 / 252 x 5 = 0.0397
    assert comparison["sentence"].startswith(
        "TTFT p90 went from 15.3 s to 210 ms (-99%, 5 runs a side, p = 0.040 after Holm over 5"
        " tests) at 5 requests/s of 15 frames 854x480; the queue grew by 1.67/s before"
    )
    assert comparison["runs_needed"] == 5
    found = row(comparison, "ttft:p90")
    assert found["sides"][0]["median"] == 15280 * 1.002  # run 2 of 0..4 per mille
    assert found["changes"][0]["shown"] is True
    assert words.better(found, found["changes"][0]) == "better"
    assert row(comparison, "achieved")["changes"][0]["shown"] is False  # the same rate: "~"
    assert (
        words.change(row(comparison, "achieved"), row(comparison, "achieved")["changes"][0]) == "~"
    )
    assert row(comparison, "tpot:p90")["changes"][0]["declared"] is False


def test_four_runs_a_side_show_one_declared_metric() -> None:
    assert row(made(samples.two(4)), "ttft:p90")["changes"][0]["why"] == (
        "needs 5 runs a side for 5 metrics tested together"
    )
    one = made(samples.two(4), "ttft:p90")
    assert row(one, "ttft:p90")["changes"][0]["p_holm"] == 2 / 70
    assert "4 runs a side, p = 0.029) at" in one["sentence"]


def test_pairs() -> None:
    one = made(samples.two(6), "ttft:p90", paired=True)
    assert row(one, "ttft:p90")["changes"][0]["p_holm"] == 2 / 64
    assert "6 runs a side in pairs, p = 0.031" in one["sentence"]


def test_no_difference_is_said_as_not_shown() -> None:
    sides = [samples.side("a", samples.before, 6), samples.side("b", samples.before, 6, 60)]
    comparison = made(sides)
    assert comparison["sentence"].startswith(
        "TTFT p90: no difference shown (15.3 s before, 15.3 s after, 6 runs a side, p = 1.00"
    )
    assert "the queue grew by 1.67/s in both" in comparison["sentence"]


def test_swapping_the_sides_negates_every_change() -> None:
    """Promise 13, on every row of the report."""
    there, back = made(samples.two(6)), made(samples.two(6)[::-1])
    for one, other in zip(there["metrics"], back["metrics"], strict=True):
        a, b = one["changes"][0], other["changes"][0]
        assert one["name"] == other["name"] and a["difference"] == -b["difference"]
        if a["log_ratio"] is not None:
            assert a["log_ratio"] == -b["log_ratio"]
        assert (a["p"], a["p_holm"], a["shown"]) == (b["p"], b["p_holm"], b["shown"])
        assert one["sides"] == other["sides"][::-1]


def test_invalid_runs_that_were_allowed_are_counted_first() -> None:
    sides = samples.two(5)
    sides[0].runs[1].summary["valid"] = False
    sides[1].runs[2].summary["interrupted"] = True
    sides[1].runs[3].summary["profile"] = {"native": True}
    comparison = made(sides)
    said = "3 of 10 runs are INVALID, interrupted or slowed by a profile. "
    assert comparison["sentence"].startswith(f"{said}TTFT p90")
    assert comparison["notes"][0].startswith(said)


def test_failures_are_in_the_sentence() -> None:
    sides = samples.two(1)
    sides[1].runs[0].summary["failed"] = {"timeout": 3}
    assert "; 0 requests failed before, 3 after" in made(sides)["sentence"]


def test_a_side_on_which_nothing_succeeded() -> None:
    sides = samples.two(1)
    sides[1].runs[0].summary.update({key: None for key in samples.LATENCIES}, ok=0)
    comparison = made(sides)
    assert "TTFT p90 cannot be compared: there is none after" in comparison["sentence"]
    assert render_text(comparison, 80) and render_markdown(comparison)


def test_parity_is_in_the_sentence_and_the_report() -> None:
    sides = samples.two(1)
    run = sides[1].runs[0]
    parity = {"verdict": "IDENTICAL", "sentence": "480 cases, all identical.", "counts": {}}
    sides[1].runs[0] = type(run)(run.folder, run.summary, parity)
    comparison = made(sides)
    assert "; parity IDENTICAL: 480 cases, all identical (simulated" in comparison["sentence"]
    assert comparison["parity"] == {"after": parity}
    assert "Outputs" in render_text(comparison, 80)


def test_answers_are_put_side_by_side() -> None:
    sides = samples.two(2)
    for k, one in enumerate(sides[1].runs):
        graded = {"n": 10, "score": 0.5 + 0.1 * k, "exact": 0.5, "contains": None, "vqa": None}
        one.summary["answers"] = {"all": graded, "classes": {}}
    found = made(sides)["answers"]["after"]
    assert (found["n"], round(found["score"], 9), found["contains"]) == (20, 0.55, None)


# -- likeness ----------------------------------------------------------------------------------


def unlike() -> list[LoadedSide]:
    sides = samples.two(1)
    run = sides[1].runs[0].summary["run"]
    run["digest"] = "other"
    run["scenario"] |= {"qps": 10.0, "size": None, "timeout": 20}
    return sides


def test_unlike_scenarios_are_refused_by_key() -> None:
    with pytest.raises(UsageError) as caught:
        made(unlike())
    assert caught.value.message == (
        "unlike scenarios: qps: before 5, after 10; size: before 854x480, after not set"
    )
    assert "--force" in caught.value.hint


def test_force_goes_on_and_says_so() -> None:
    comparison = made(unlike(), force=True)
    assert comparison["sentence"].startswith("Unlike scenarios, compared by force. TTFT p90 was")
    assert [one["key"] for one in comparison["unlike"]["scenario"]] == ["qps", "size"]
    assert [one["key"] for one in comparison["unlike"]["beside"]] == ["timeout"]
    assert comparison["notes"][0].startswith("The scenarios are not alike: qps: before 5, after 10")


def test_files_with_other_contents_are_refused_without_a_key() -> None:
    sides = samples.two(1)
    sides[1].runs[0].summary["run"]["digest"] = "other"
    with pytest.raises(UsageError, match="contents of the user's files"):
        made(sides)


def test_settings_and_machines_that_differ_are_named() -> None:
    sides = samples.two(2)
    sides[1].runs[1].summary["run"]["machine"]["cores"] = 4
    comparison = made(sides)
    assert comparison["unlike"]["settings"] == [
        {"key": "processor_workers", "values": {"before": [1], "after": [2]}},
        {"key": "torch_threads", "values": {"before": [1], "after": [8]}},
        {"key": "processor: torch threads", "values": {"before": [1.0], "after": [8.0]}},
    ]
    assert comparison["unlike"]["machine"] == [
        {"key": "cores", "values": {"before": [2], "after": [2, 4]}}
    ]
    assert any(
        "The machines differ: cores: before 2, after 2 or 4" in n for n in comparison["notes"]
    )


def test_what_the_hook_saw_counts_as_settings() -> None:
    notes = {"versions": {"vllm": "0.12.0"}, "missing": {"decode": {"reason": "moved"}}}
    process = {"role": "engine", "settings": {"max_num_seqs": 8}, "notes": notes}
    found = alike.settings({"run": {"server": None}, "server_processes": [process], "stages": {}})
    assert found == {
        "engine": {"max_num_seqs": 8},
        "version of vllm": "0.12.0",
        "hook without decode": True,
    }


def test_sides_that_ran_one_after_the_other_are_warned_of() -> None:
    in_turn = made(samples.two(5))["notes"]
    apart = [samples.side("a", samples.before, 5), samples.side("b", samples.after, 5, 1000)]
    said = [n for n in made(apart)["notes"] if "came before all of another" in n]
    assert said and not [n for n in in_turn if "came before" in n]


def test_differences_go_into_nested_keys() -> None:
    a = {"mix": [{"frames": 1}, {"frames": 6}], "env": {"OMP": "1"}}
    b = {"mix": [{"frames": 1}, {"frames": 15}], "env": {}}
    assert alike.differences({"a": [a], "b": [b]}) == [
        {"key": "mix.1.frames", "values": {"a": [6], "b": [15]}},
        {"key": "env.OMP", "values": {"a": ["1"], "b": [None]}},
    ]
    assert alike.differences({"a": [a, a], "b": [a]}) == []


# -- cells -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (0.0, "0%"),
        (0.01, "0%"),
        (-98.6, "-99%"),
        (-99.97, "-99.9%"),
        (-100.0, "-100%"),
        (3.21, "+3.2%"),
    ],
)
def test_percent(change: float, text: str) -> None:
    assert words.percent(change) == text


@pytest.mark.parametrize(
    ("verdicts", "by", "text"),
    [
        ({"growing": 5}, 1.667, "grew by 1.67/s"),
        ({"stable": 2, "growing": 3}, 1.2, "grew by 1.20/s in 3 of 5 runs"),
        ({"cant_tell": 1, "stable": 4}, 0.0, "is stable in 4 of 5 runs"),
        ({"cant_tell": 1}, 3.3, "cannot be judged"),
        ({}, None, ""),
    ],
)
def test_queues_in_words(verdicts: dict[str, int], by: float | None, text: str) -> None:
    assert words.queue_words({"verdicts": verdicts, "growth_per_s": by}) == text


def test_large_changes_are_factors_and_counts_have_none() -> None:
    ms = {"unit": "ms", "relative": True}
    found = {"difference": 9.0, "percent": 4500.0, "shown": None}
    assert words.plain_change(ms, found) == "x46.0"
    growth = {"unit": "requests/s", "relative": False}
    assert words.plain_change(growth, found | {"difference": -1.667}) == "-1.67"


def test_names_from_elsewhere_drive_nothing() -> None:
    sides = samples.two(1)
    sides[1].label = report_samples.EVIL
    comparison = made(sides)
    assert "\x1b" not in render_text(comparison, 80)
    assert "<script" not in render_markdown(comparison).replace("\\<", "")


def test_no_path_of_this_machine_in_the_goldens() -> None:
    golden = Path(__file__).parents[1] / "golden"
    for file in golden.glob("compare_*"):
        assert "/tmp" not in file.read_text(encoding="utf-8")


def test_the_median_of_two_counts_keeps_its_half() -> None:
    sides = samples.two(2)
    sides[0].runs[0].summary["failed"] = {"timeout": 1}
    found = row(made(sides), "failed")
    assert words.value(found, found["sides"][0]["median"]) == "0.5"
    assert words.change(found, found["changes"][0]) == "-0.5"
    assert words.value(found, 3.0) == "3"


def test_a_metric_of_too_few_runs_does_not_hide_that_the_others_are_tested() -> None:
    sides = samples.two(5)
    for run in sides[0].runs[:2]:
        run.summary["ttft_ms"] = None
    note = compare_tables.metrics_note(made(sides), 1)
    assert "p: Mann-Whitney, exact after Holm over 5 tests" in note and "no test:" not in note
    assert note.endswith(
        "-: too few runs have a value, the test needs 4 runs a side (5 for 5"
        " metrics tested together)"
    )


def test_a_run_on_both_sides_is_named() -> None:
    sides = samples.two(2)
    assert not any("several sides" in note for note in made(sides)["notes"])
    sides[1].runs.append(sides[0].runs[0])
    note = made(sides)["notes"][0]
    assert note.startswith(f"{sides[0].runs[0].folder} is on several sides: the sides are not")
