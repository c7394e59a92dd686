"""Sides from the disk: what is found, what is left out and why, and how sides are named."""

import json
import shutil
from pathlib import Path

import pytest

from mmload.compare.sides import load_sides, run_folders
from mmload.errors import InvalidRun, UsageError
from tests.unit import compare_samples as samples
from tests.unit import report_samples
from tests.unit.run_folders import write_run


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """before/1..3 and after/1..3."""
    for name, make in (("before", samples.before), ("after", samples.after)):
        for k in range(3):
            write_run(tmp_path / name / str(k + 1), samples.started(samples.slower(make(), k), k))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_runs_folders_of_runs_and_globs(root: Path) -> None:
    assert run_folders("before/2") == [Path("before/2")]
    assert run_folders("before") == [Path("before/1"), Path("before/2"), Path("before/3")]
    assert run_folders("before/[12]") == [Path("before/1"), Path("before/2")]
    assert len(run_folders("*")) == 6
    for k in (4, 9, 10):
        (root / f"after/{k}").mkdir()
        (root / f"after/{k}/manifest.json").touch()
    numbers = ["1", "2", "3", "4", "9", "10"]
    assert [one.name for one in run_folders("after")] == numbers
    assert [one.name for one in run_folders("after/*")] == numbers


def test_names(root: Path) -> None:
    def labels(*asked: str) -> list[str]:
        return [side.label for side in load_sides(asked)]

    assert labels("before", "after") == ["before", "after"]
    assert labels("before/1", "after/1") == ["before/1", "after/1"]  # "1" would not tell them apart
    assert labels("stock=before", "after/[12]") == ["stock", "after/[12]"]
    (root / "a=b").symlink_to("after")
    assert labels("before", "a=b") == ["before", "a=b"]  # a folder that is there is no name=PATH
    with pytest.raises(UsageError, match="x: is named twice"):
        labels("x=before", "x=after")
    with pytest.raises(UsageError) as caught:
        labels("before/1", "before/1")
    assert caught.value.message == f"{root / 'before/1'}: is named twice"
    with pytest.raises(UsageError, match="is no side"):
        labels("before", "name=")


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("nowhere", "nowhere: no such folder"),
        ("runs/nowhere", "runs/nowhere: no such folder"),
        ("x=nowhere", "x=nowhere: no such folder"),
        ("empty", "empty: neither a run folder nor a folder with runs in it"),
    ],
)
def test_paths_without_runs(root: Path, path: str, words: str) -> None:
    (root / "empty").mkdir()
    with pytest.raises(UsageError) as caught:
        load_sides(["before", path])
    assert caught.value.message == words and caught.value.hint


def test_bad_runs_are_left_out_by_name_and_the_others_go_on(root: Path) -> None:
    (root / "after/1/manifest.json").write_text("{", encoding="utf-8")
    later = {"format": 99, "mmload": "9.0"}
    (root / "after/2/manifest.json").write_text(json.dumps(later), encoding="utf-8")
    write_run(root / "after/4", report_samples.invalid())
    write_run(root / "after/5", samples.after() | {"interrupted": True})
    shutil.copytree(root / "after/3", root / "after/6")
    write_run(root / "after/7", samples.started(samples.after(), 7))
    (root / "after/7/end.json").write_text("{", encoding="utf-8")
    (root / "after/7/summary.json").unlink()
    profiled = {"profile": {"native": True}}
    write_run(root / "after/9", samples.started(samples.after(), 9) | profiled)
    (root / "after/8").mkdir()
    (root / "after/8/records.jsonl").touch()
    after = load_sides(["before", "after"])[1]
    assert [run.folder for run in after.runs] == [Path("after/3")]
    said = {one.folder.name: one.reason for one in after.left_out}
    assert said["1"].startswith("manifest.json: damaged: ")
    assert said["2"].startswith("manifest.json: format 99, made by mmload 9.0; this mmload")
    assert said["4"].startswith("INVALID: The generator was late: p99 of the schedule lag")
    assert said["5"] == "it was interrupted or killed"
    assert said["6"] == "a copy of after/3: a run counts once"
    assert said["7"].startswith("damaged: ")
    assert said["8"].startswith("not a run folder: manifest.json: ")
    assert said["9"].startswith("the profile stopped its server")
    assert all(one.fix for one in after.left_out)
    allowed = load_sides(["before", "after"], allow_invalid=True)[1]
    assert [run.folder.name for run in allowed.runs] == ["3", "4", "5", "9"]


def test_a_side_without_a_good_run_ends_it(root: Path) -> None:
    write_run(root / "bad/1", report_samples.invalid())
    with pytest.raises(InvalidRun) as caught:
        load_sides(["before", "bad"])
    assert caught.value.message.startswith("bad: no run to compare: bad/1: INVALID: ")
    assert caught.value.hint == "run it again, or compare it all the same by --allow-invalid"
    (root / "bad/1/manifest.json").write_text("{", encoding="utf-8")
    with pytest.raises(UsageError, match="bad: no run to compare: bad/1: manifest.json: damaged"):
        load_sides(["before", "bad"])


def test_pairs_are_left_out_together(root: Path) -> None:
    (root / "before/2/manifest.json").write_text("{", encoding="utf-8")
    before, after = load_sides(["before", "after"], paired=True)
    assert [run.folder.name for run in before.runs] == ["1", "3"]
    assert [run.folder.name for run in after.runs] == ["1", "3"]
    assert after.left_out[0].reason == "the run that it is paired with is left out"
    with pytest.raises(UsageError, match="before 3, one 1"):
        load_sides(["before", "one=after/1"], paired=True)


def test_a_copy_in_a_pair_takes_its_partner_along(root: Path) -> None:
    shutil.copytree(root / "after/3", root / "after/4")
    write_run(root / "before/4", samples.started(samples.before(), 9))
    before, after = load_sides(["before", "after"], paired=True)
    assert len(before.runs) == len(after.runs) == 3


def test_a_summary_of_another_version_is_made_again(root: Path) -> None:
    """There are no records here, so that the analysis says what it found: a damaged run."""
    file = root / "after/1/summary.json"
    summary = json.loads(file.read_text(encoding="utf-8")) | {"mmload": "0.0.1"}
    file.write_text(json.dumps(summary), encoding="utf-8")
    after = load_sides(["before", "after"])[1]
    assert [run.folder.name for run in after.runs] == ["2", "3"]
    assert "No request was sent" in after.left_out[0].reason


def test_parity_comes_along_if_it_is_an_object(root: Path) -> None:
    (root / "after/1/parity.json").write_text('{"verdict": "IDENTICAL"}', encoding="utf-8")
    (root / "after/2/parity.json").write_text("[]", encoding="utf-8")
    (root / "after/3/parity.json").write_text("{", encoding="utf-8")
    after = load_sides(["before", "after"])[1]
    assert [run.parity for run in after.runs] == [{"verdict": "IDENTICAL"}, None, None]
