"""`mmload sweep` as people run it: short runs of the embedded server whose processor is a timer, so
that more workers matter and OpenCV's threads cannot."""

import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mmload.cli import call
from tests.e2e.cli import alive, children_of, finish, mmload, summary_of

pytestmark = pytest.mark.slow

SMALL = ("--size", "160x96", "--max-tokens", "2", "--warmup", "1", "--quiet", "--json")
SHORT = ("--qps", "20", "--requests", "12", *SMALL)


PATIENCE_S = 400  # for nine runs, on a machine that others use too
SWEEP = (
    *("sweep", "--set", "renderer-workers=1,4", "--set", "omp-threads=1,2"),
    *("--set", "processor-fixed-ms=100", "--repeats", "2", "--out", "s"),
    *("--qps", "30", "--requests", "45", *SMALL),
)


@dataclass
class Killed:
    """A sweep that was killed in its second run, and then resumed."""

    folder: Path
    first: Path  # the records of the run that had ended, and what they were
    before: tuple[bytes, int]
    second: Path  # the folder of the run that had not
    process: Any
    said: tuple[int, str, str] | None = None

    def summary(self) -> dict[str, Any]:
        """What the resumed sweep printed, once it has ended."""
        if self.said is None:
            self.said = finish(self.process, PATIENCE_S)
        return summary_of(self.said[1])


@pytest.fixture(scope="module", autouse=True)
def killed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Killed]:
    """30/s against 100 ms of a worker: one is swamped, four are not. The resumed sweep runs beside
    this module's other tests; the last ones read it."""
    cwd = tmp_path_factory.mktemp("workers")
    process = mmload(*SWEEP, cwd=cwd)
    deadline = time.monotonic() + 120
    started: list[Path] = []
    while len(started) < 2:  # the second run's server is there
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.02)
        started = sorted(cwd.glob("s/p*/r1/server.log"))
    children = children_of(process.pid)
    process.kill()
    finish(process)
    (ended,) = json.loads((cwd / "s" / "sweep.json").read_text())["ended"]
    (first,) = cwd.glob(f"s/p{ended['point']:03d}-*/r1/records.jsonl")
    (second,) = (log.parent for log in started if log.parent != first.parent)
    while any(map(alive, children)):  # the server ends by itself
        assert time.monotonic() < deadline
        time.sleep(0.05)
    before = (first.read_bytes(), first.stat().st_mtime_ns)
    process = mmload("sweep", "--resume", "s", "--quiet", "--json", cwd=cwd)
    yield Killed(cwd / "s", first, before, second, process)
    if process.poll() is None:
        process.terminate()
        finish(process)


def test_a_value_that_the_server_refuses_is_a_result(tmp_path: Path) -> None:
    """A command of its own, with its environment; the other point goes on."""
    code, out, err = finish(
        mmload(
            *("sweep", "--set", "renderer-workers=0,2", "--env", "MMLOAD_TEST_UNSET="),
            *("--env", "MALLOC_ARENA_MAX=2", "--repeats", "1", "--out", "s", *SHORT),
            *("--", sys.executable, "-m", "mmload", "serve", "--port", "{port}"),
            *("--renderer-workers=7", "--processor-fixed-ms", "20"),
            cwd=tmp_path,
            env={"MMLOAD_TEST_UNSET": "x"},
        )
    )
    made = summary_of(out)
    assert code in (0, 3), err
    assert made["complete"] and made["runs"]["refused"] == 1
    refused, fine = made["points"]
    assert "renderer-workers" in refused["reasons"][0] and "exit code 2" in refused["reasons"][0]
    run = next(iter(tmp_path.glob("s/p001-*/r1")))
    manifest = json.loads((run / "manifest.json").read_text())
    assert "--renderer-workers=2" in manifest["launched"]["command"]
    assert manifest["launched"]["env"] == {"MALLOC_ARENA_MAX": "2"}
    assert manifest["launched"]["unset"] == ["MMLOAD_TEST_UNSET"]
    if made["runs"]["done"]:
        assert fine["valid_runs"] == 1
        assert made["recommendation"] is None  # one setting alone wins over nothing


def test_a_server_lacks_what_is_unset(tmp_path: Path) -> None:
    from mmload.serving.keeper import environment_of

    order = {"env": {"A": "1"}, "unset": ["PATH"]}
    inherited = {name: v for name, v in os.environ.items() if name != "PATH"}
    assert environment_of(order) == {**inherited, "A": "1"}


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--set", "rendrer-workers=1"], "did you mean renderer-workers"),
        (["--env", "HF_TOKEN=x"], "looks like a secret"),
        (["http://127.0.0.1:9", "--set", "renderer-workers=1,2"], "runs already"),
        (["http://u:p@127.0.0.1:9", "--qps", "1,2"], "holds a name or password"),
        (["--qps", "2,x"], "--qps: 'x' is not allowed"),
        (["--set", "omp-threads=1,2", "--repeats", "0"], "--repeats '0' is not allowed"),
        (["--objective", "ttft:p95"], "a run's summary has p50"),
        (["--no-effect-within", "200%"], "a share from above 0 to 50%"),
        (["--file", "nowhere.yaml"], "nowhere.yaml"),
        (["--set", "n=1,2", "--", "no-such-command", "--port", "1"], "no such command"),
    ],
)
def test_mistakes_are_told_before_anything_starts(
    args: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    end = args.index("--") if "--" in args else len(args)
    assert call(["sweep", *args[:end], "--dry-run", *args[end:]]) == 2
    assert words in capsys.readouterr().err


def test_the_plan_and_its_time_without_a_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "plan.yaml"
    file.write_text(
        "set: {renderer-workers: [1, 2]}\nload: {qps: [2, 5], duration: 10}\nrepeats: 2\n"
    )
    assert call(["sweep", "--file", str(file), "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("4 points x 2 repeats = 8 runs, about 2 min\n")
    assert out.count("renderer-workers=2, qps=5, repeat") == 2
    file.write_text("sets: {}\n")
    assert call(["sweep", "--file", str(file), "--dry-run"]) == 2
    assert "did you mean set" in capsys.readouterr().err


def test_a_killed_sweep_goes_on_where_it_was(killed: Killed) -> None:
    made = killed.summary()
    assert made["complete"] and sum(made["runs"].values()) == 8
    assert made["runs"]["failed"] == made["runs"]["refused"] == 0
    assert (killed.first.read_bytes(), killed.first.stat().st_mtime_ns) == killed.before
    aside = killed.folder / "earlier" / killed.second.parent.name / "r1-1"
    assert (aside / "server.log").exists()  # what the killed run left is kept
    assert json.loads((killed.folder / "summary.json").read_text()) == made
    assert "<html" in (killed.folder / "report.html").read_text()[:200]


def test_another_plan_in_its_folder_is_refused(
    killed: Killed, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(killed.folder.parent)
    assert call(["sweep", "--set", "renderer-workers=1,3", "--out", "s", *SHORT]) == 2
    said = capsys.readouterr().err
    assert "renderer-workers 1/4, now 1/3" in said and "--resume s" in said


def test_workers_matter_and_threads_do_not(killed: Killed) -> None:
    """45 requests at 30/s: the last waits 45 x (100 - 33) ms for one worker, nobody for four."""
    made = killed.summary()
    if made["runs"]["invalid"]:
        pytest.skip(f"this machine was too busy to send on time: {made['runs']}")
    workers, threads = made["effects"]
    assert (workers["name"], workers["verdict"]) == ("renderer-workers", "effect")
    assert workers["levels"][0]["ratio"] < 0.2
    assert threads["verdict"] in ("no_effect", "cant_tell")  # a busy machine can't tell
    assert made["recommendation"]["best_label"].startswith("renderer-workers=4")
    assert "--renderer-workers=4" in made["recommendation"]["command"]
    for point in made["points"]:
        assert point["capacity_qps"] == pytest.approx(
            10 * int(point["set"]["renderer-workers"]), rel=0.1
        )
        assert point["bottleneck"] == "processor"
