"""What a run says of the server's work: were all frames used, were the answers right, how fast one
at a time; on the embedded server, whose frames, tokens and answers are known."""

import contextlib
import csv
import io
import json
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from mmload.cli import call
from tests.e2e.cli import finish, mmload, summary_of

QUICK = ("--max-tokens", "2", "--quiet", "--json", "--out", "run")


def run(tmp_path: Path, *args: str) -> dict[str, Any]:
    code, out, err = finish(mmload("run", *args, *QUICK, cwd=tmp_path))
    assert code in (0, 3), err  # 3 only if this machine was too busy to send on time
    return summary_of(out)


def report(capsys: pytest.CaptureFixture[str], folder: Path, *args: str) -> tuple[int, str, str]:
    """`mmload report` in this process, paths being relative to `folder`."""
    capsys.readouterr()
    with contextlib.chdir(folder):
        code = call(["report", *args])
    return (code, *capsys.readouterr())


def warned(summary: dict[str, Any]) -> dict[str, str]:
    return {w["code"]: f"{w['message']} {w['hint']}" for w in summary["warnings"]}


def test_a_server_that_samples_is_found_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    summary = run(
        tmp_path,
        *("--qps", "20", "--frames", "15,1,0", "--size", "320x192", "--requests", "9"),
        *("--max-video-frames", "6"),
    )
    check = summary["media_check"]
    assert (check["family"], check["guessed_from"]) == ("qwen3-vl", "mmload-embedded")
    video = check["classes"]["15 frames 320x192"]
    # 320x192 is 10 x 6 tokens: 8 pairs of frames were sent, 3 were used
    assert (video["expected_media_tokens"], video["counted_tokens"]) == (480, [180, 180])
    assert (video["verdict"], video["used"]) == ("sampled", [6, 6])
    # 256 x 256 pixels at least for an image: sqrt(65536 / 61440) = 1.03280; 331/32 -> 11, 199 -> 7
    image = check["classes"]["image 320x192"]
    assert (image["verdict"], image["counted_tokens"]) == ("as_sent", [77, 77])
    said = warned(summary)["sampled"]
    assert "15 frames sent, the server used 6: 180 media tokens counted, 480" in said
    assert '"do_sample_frames":false' in said
    code, text, _ = report(capsys, tmp_path, "run")
    assert code == 0 and "What the server did with the media" in text


def test_a_server_that_does_not_checks_out_to_the_token(tmp_path: Path) -> None:
    summary = run(
        tmp_path,
        *("--qps", "20", "--frames", "15,2,1", "--size", "320x192,854x480", "--requests", "12"),
        *("--model-family", "qwen3-vl"),
    )
    check = summary["media_check"]
    assert check["guessed_from"] is None
    assert {one["verdict"] for one in check["classes"].values()} == {"as_sent"}
    for one in check["classes"].values():
        assert one["counted_tokens"] == [one["expected_media_tokens"]] * 2
    assert check["classes"]["15 frames 854x480"]["expected_media_tokens"] == 3240
    assert not {"sampled", "media_tokens", "cache_hits"} & set(warned(summary))
    assert summary["answers"] is None and summary["sequential"] is None


def test_answers_are_graded_beside_latency(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With two tokens, the embedded server answers "Lorem ipsum" to everything."""
    cv2.imwrite(str(tmp_path / "a.png"), np.zeros((64, 96, 3), np.uint8))
    asked: list[dict[str, Any]] = [
        {"expected": "lorem ipsum", "metric": "exact"},
        {"expected": ["dolor", "ipsum"], "metric": "contains"},
        {"expected": ["Lorem ipsum."] * 3 + ["dolor"] * 7, "metric": "vqa"},
        {"expected": "no", "metric": "yesno"},
    ]
    lines = [json.dumps({"image": "a.png", "prompt": "What is it?", **one}) for one in asked]
    (tmp_path / "asked.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    summary = run(tmp_path, "--dataset", "asked.jsonl", "--sequential", "--requests", "4")
    graded = summary["answers"]["all"]
    assert graded["metrics"] == ["exact", "contains", "vqa", "yesno"]
    assert (graded["n"], graded["left_out"]) == (4, 0)
    # 0.9: three of ten annotators agree; "Lorem ipsum" is neither yes nor no, so it counts as yes
    assert graded["score"] == round((1 + 1 + 0.9 + 0) / 4, 6)
    assert (graded["exact"], graded["contains"], graded["vqa"]) == (0.5, 0.75, 0.9)
    assert graded["yesno"]["accuracy"] == 0 and graded["yesno"]["unclear"] == 1
    code, text, _ = report(capsys, tmp_path, "run", "--markdown")
    assert code == 0
    assert "**Answers:**" in text and "**Yes or no:**" in text
    assert text.endswith("\n") and not text.endswith("\n\n")


def test_one_at_a_time_over_two_resolutions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    summary = run(
        tmp_path,
        *("--sequential", "--api", "predict", "--size", "128x128,256x256", "--requests", "4"),
        *("--answer-tokens", "4"),
    )
    rows = summary["sequential"]
    assert [(row["resolution"], row["samples"], row["failed"]) for row in rows] == [
        ("128x128", 2, 0),
        ("256x256", 2, 0),
    ]
    for row in rows:
        assert row["min_ttft_ms"] <= row["avg_ttft_ms"] <= row["max_ttft_ms"] < row["avg_total_ms"]
        half_apart = (row["max_ttft_ms"] - row["min_ttft_ms"]) / 2
        assert abs(row["std_dev_ttft_ms"] - half_apart * 2**0.5) < 1e-5  # of two samples
    assert summary["queue"]["in_flight_max"] == 1

    code, text, _ = report(capsys, tmp_path, "run", "--sequential-csv", "-")
    assert code == 0
    assert [float(row["avg_ttft_ms"]) for row in csv.DictReader(io.StringIO(text))] == [
        row["avg_ttft_ms"] for row in rows
    ]
    code, text, _ = report(capsys, tmp_path, "run", "--markdown")
    assert code == 0 and "**One request at a time:**" in text


def test_exports_for_histogram_tools(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(tmp_path, "--qps", "20", "--size", "64x64", "--requests", "5")
    exports = ("--hgrm", "e2e.hgrm", "--measure", "e2e", "--hlog", "all.hlog", "--csv", "r.csv")
    code, out, err = report(capsys, tmp_path, "run", *exports)
    assert (code, out) == (0, ""), err
    hgrm = (tmp_path / "e2e.hgrm").read_text()
    assert "Total count    =            5" in hgrm
    hlog = (tmp_path / "all.hlog").read_text()
    assert hlog.startswith("#[Histogram log format version 1.3]") and "Tag=ttft," in hlog
    started = json.loads((tmp_path / "run" / "manifest.json").read_text())["started_at"]
    assert started.replace("T", " ")[:19] in hlog.splitlines()[1]
    assert len((tmp_path / "r.csv").read_text().splitlines()) == 6

    code, out, err = report(capsys, tmp_path, "run", "--sequential-csv", "t.csv")
    assert (code, out) == (2, "") and "open load" in err
    assert not (tmp_path / "t.csv").exists()
    code, out, err = report(capsys, tmp_path, "run", "--hgrm", "no/such/x")
    assert code == 2 and "--hgrm no/such/x: cannot be written" in err
    code, out, err = report(capsys, tmp_path, "nowhere", "--hlog", "-")
    assert code == 2 and "not a run folder" in err
