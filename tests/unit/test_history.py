"""The index of runs, and the labels that people put on them."""

import contextlib
import json
from pathlib import Path

import pytest

from mmload.cli import call
from mmload.errors import UsageError
from mmload.history import Labels, index, label, read_labels
from mmload.report.index import render_index
from tests.unit import compare_samples as samples
from tests.unit import report_samples
from tests.unit.run_folders import write_run


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_run(tmp_path / "runs/b", samples.started(samples.before(), 60))
    write_run(tmp_path / "runs/a", samples.started(samples.after(), 120))
    write_run(tmp_path / "runs/sweep/point/1", samples.started(report_samples.invalid(), 0))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_runs_at_any_depth_oldest_first(root: Path) -> None:
    rows = index([Path("runs"), Path("runs/a")])
    assert [(r.folder, r.verdict, r.queue) for r in rows] == [
        ("runs/sweep/point/1", "INVALID", "growing"),
        ("runs/b", "VALID", "growing"),
        ("runs/a", "VALID", "stable"),
    ]
    b = rows[1]
    assert (b.ttft_p50_ms, b.ttft_p90_ms, b.ttft_p99_ms) == (8484.0, 15280.0, 16828.0)
    assert (b.qps, b.growth_per_s, b.name) == (5.0, 1.667, "fifteen-frames")
    assert b.classes == ["15 frames 854x480"] and b.problem == ""


def test_what_cannot_be_read_is_a_row_with_the_reason(root: Path) -> None:
    (root / "runs/a/summary.json").write_text("{", encoding="utf-8")
    (root / "runs/b/summary.json").unlink()
    (root / "runs/b/end.json").unlink()
    (root / "runs/sweep/point/1/summary.json").write_text('{"schema": 7}', encoding="utf-8")
    (root / "runs/c").mkdir()
    (root / "runs/c/manifest.json").write_text('{"format": 9, "mmload": "9"}', encoding="utf-8")
    (root / "runs/d").mkdir()
    (root / "runs/d/records.jsonl").touch()
    rows = {row.folder: row for row in index([Path("runs")])}
    assert rows["runs/a"].problem.startswith("summary.json is damaged: ")
    assert rows["runs/a"].name == "fifteen-frames"  # the manifest could be read
    assert rows["runs/b"].problem == "there is no summary.json; the run was killed"
    assert rows["runs/b"].fix == "make it again: mmload report runs/b"
    assert "has schema 7, this mmload reads 1" in rows["runs/sweep/point/1"].problem
    assert "format 9, made by mmload 9; this mmload" in rows["runs/c"].problem
    assert rows["runs/d"].problem.startswith("not a run folder")


def test_labels_are_added_removed_and_filtered_by(root: Path) -> None:
    a = root / "runs/a"
    assert read_labels(a) == Labels()
    assert label(a) == Labels() and not (a / "labels.json").exists()  # nothing was said
    label(a, add=["base", "v2", "base"], note="  before the\nallocator ")
    assert read_labels(a) == Labels(["base", "v2"], "before the allocator")
    label(root / "runs/b", add=["v2"])
    assert [row.folder for row in index([Path("runs")], tags=["v2"])] == ["runs/b", "runs/a"]
    assert [row.note for row in index([Path("runs")], tags=["v2", "base"])] == [
        "before the allocator"
    ]
    label(a, remove=["v2", "never"], note="")
    assert read_labels(a) == Labels(["base"])
    for bad in ("a b", "", "x" * 41, "a/b"):
        with pytest.raises(UsageError, match="is no tag"):
            label(a, add=[bad])
    with pytest.raises(UsageError, match="not a run folder"):
        label(root / "runs", add=["x"])
    (a / "labels.json").write_text("[]", encoding="utf-8")
    with pytest.raises(UsageError, match="damaged"):
        label(a, add=["x"])
    assert "labels.json: damaged" in {r.folder: r for r in index([Path("runs")])}["runs/a"].problem


def test_filter_by_scenario_name_or_digest(root: Path) -> None:
    def found(scenario: str) -> int:
        return len(index([Path("runs")], scenario=scenario))

    assert (found("fifteen-frames"), found("9f2c51d0"), found("9f2"), found("other")) == (
        3,
        3,
        0,
        0,
    )


@pytest.mark.parametrize("width", [80, 120])
def test_the_list_fits_and_says_all(root: Path, width: int) -> None:
    label(root / "runs/a", add=["base", "v2"], note="before the allocator")
    (root / "runs/c").mkdir()
    (root / "runs/c/manifest.json").write_text("{", encoding="utf-8")
    import msgspec

    rows = [msgspec.to_builtins(row) for row in index([Path("runs")])]
    text = render_index(rows, width)
    assert max(len(line) for line in text.splitlines()) <= width and text.isascii()
    words = " ".join(text.split())
    assert "8,484 ms 15.3 s 16.8 s growing" in words
    assert "[base, v2]" in words and '"before the allocator"' in words
    assert "INVALID" in words
    assert "Could not be read runs/c manifest.json: damaged" in words


def test_the_commands(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def mmload(*args: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = call(args)
        return (code, *capsys.readouterr())

    assert mmload("tag", "runs/a", "base", "--note", "first")[:2] == (0, "runs/a: base\nfirst\n")
    assert mmload("tag", "runs/a", "--remove", "base")[1] == "runs/a: no tags\nfirst\n"
    code, out, _ = mmload("list", "--json")
    assert code == 0 and [row["folder"] for row in json.loads(out)] == [
        "runs/sweep/point/1",
        "runs/b",
        "runs/a",
    ]
    code, out, _ = mmload("list")
    assert code == 0 and "runs/sweep/point/1" in out
    assert mmload("list", "--tag", "none") == (0, "", "mmload: no such runs\n")
    assert mmload("list", "nowhere")[0] == 2
    (root / "elsewhere").mkdir()
    with contextlib.chdir(root / "elsewhere"):
        code, _, err = mmload("list")
    assert code == 2 and "neither of runs and reports" in err
