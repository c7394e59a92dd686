"""Real runs of the embedded server, compared: a processor of 60 ms against one of 20 ms."""

import contextlib
import json
import shutil
from pathlib import Path

import pytest

from mmload.cli import call
from tests.e2e.cli import finish, mmload, summary_of

SCENARIO = ("--frames", "6", "--size", "128x128", "--duration", "2", "--max-tokens", "2")
COSTS = ("--encoder-fixed-ms", "0", "--prefill-fixed-ms", "0", "--decode-step-ms", "0.5")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """slow and fast, of one scenario, at the same time; and other, which says it was of another."""
    folder = tmp_path_factory.mktemp("runs")
    started = [
        mmload(
            *("run", "--qps", "10", *SCENARIO, *COSTS, "--quiet", "--json"),
            *("--processor-fixed-ms", processor_ms, "--out", name),
            cwd=folder,
        )
        for name, processor_ms in (("slow", "60"), ("fast", "20"))
    ]
    for code, out, err in [finish(process) for process in started]:
        assert code in (0, 3), err  # 3 only if this machine was too busy to send on time
        assert summary_of(out)["ok"] == summary_of(out)["planned"] == 20
    shutil.copytree(folder / "fast", folder / "other")
    (folder / "other/summary.json").unlink()
    manifest = json.loads((folder / "other/manifest.json").read_text(encoding="utf-8"))
    manifest["scenario"]["qps"], manifest["digest"] = 5.0, "another"
    (folder / "other/manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    return folder


def compare(runs: Path, capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    """`mmload compare` in this process; busy machines make INVALID runs, which are fine here."""
    capsys.readouterr()
    with contextlib.chdir(runs):
        code = call(["compare", *args, "--allow-invalid"])
    return (code, *capsys.readouterr())


def test_two_real_runs(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = compare(runs, capsys, "slow", "fast", "--json")
    assert code == 0, err
    made = summary_of(out)
    by_name = {stage["name"]: stage["metrics"][0] for stage in made["stages"]}
    slow, fast = (side["median"] for side in by_name["processor"]["sides"])
    assert slow >= 60 and 20 <= fast < slow
    assert [side["label"] for side in made["sides"]] == ["slow", "fast"]
    keys = {one["key"]: one["values"] for one in made["unlike"]["settings"]}
    assert keys["processor_fixed_ms"] == {"slow": [60.0], "fast": [20.0]}
    assert "one run a side: no test" in made["sentence"] and "simulated: " in made["sentence"]
    p90 = next(row for row in made["metrics"] if row["name"] == "ttft:p90")
    for side, name in zip(p90["sides"], ("slow", "fast"), strict=True):
        summary = json.loads((runs / name / "summary.json").read_text(encoding="utf-8"))
        assert side["values"] == [summary["ttft_ms"]["p90"]]


def test_files(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = compare(runs, capsys, "slow", "fast", "--out", "report")
    assert code == 0, err
    assert "compare.html, .md, .json" in out
    html = (runs / "report/compare.html").read_text(encoding="utf-8")
    figures = json.loads(html.split('id="figures">')[1].split("</script>")[0])
    assert {"queue", "latency", "ttft", "e2e", "split"} <= set(figures)
    made = json.loads((runs / "report/compare.json").read_text(encoding="utf-8"))
    markdown = (runs / "report/compare.md").read_text(encoding="utf-8")
    assert made["sentence"][:40] in markdown
    assert compare(runs, capsys, "slow", "fast", "--markdown")[1] == markdown


def test_unlike_scenarios_are_refused(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = compare(runs, capsys, "slow", "other")
    assert (code, out) == (2, "")
    assert "unlike scenarios: qps: slow 10, other 5 -- " in err and "--force" in err
    code, out, _ = compare(runs, capsys, "slow", "other", "--force")
    assert code == 0 and "Unlike scenarios, compared by force." in out


def test_thresholds_exit_4(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fine = ("--fail-if", "processor:mean > +5%", "--fail-if", "failed > 0")
    code, out, err = compare(runs, capsys, "slow", "fast", *fine)
    assert (code, err) == (0, "") and "passed" in out
    code, out, err = compare(runs, capsys, "fast", "slow", *fine, "--json")
    assert code == 4 and err.startswith("mmload: threshold failed: processor:mean > +5%: +")
    assert [one["failed"] for one in summary_of(out)["thresholds"]] == [True, False]
    code, _, err = compare(runs, capsys, "slow", "fast", *fine, "--significant")
    assert code == 2 and "the test needs 4 runs a side; there are 1 and 1" in err
    gone = ("--fail-if", "ttft:p99.9 > +5%", "--significant")  # too few requests for a p99.9
    code, _, err = compare(runs, capsys, "slow", "fast", *gone)
    assert code == 4 and "ttft:p99.9 > +5%: no value" in err


def test_without_a_summary_the_run_is_analysed_again(
    runs: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for name in ("slow", "fast"):
        shutil.copytree(runs / name, tmp_path / name)
    (tmp_path / "fast/summary.json").unlink()
    kept = compare(runs, capsys, "slow", "fast", "--json")[1]
    assert compare(tmp_path, capsys, "slow", "fast", "--json")[1] == kept


def test_usage(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for args, words in (
        (("slow",), "1 side to compare"),
        (("slow", "fast", "--metric", "ttft"), "--metric: 'ttft': ttft needs one of"),
        (("slow", "fast", "--significant"), "there is no change to test"),
        (("slow", "fast", "--out", "slow/summary.json"), "--out slow/summary.json: cannot be"),
    ):
        code, out, err = compare(runs, capsys, *args)
        assert (code, out) == (2, "") and words in err
