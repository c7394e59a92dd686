"""`mmload capacity` on a server whose capacity is known: workers x 1000 / ms of a timer."""

import json
from pathlib import Path

import pytest

from mmload.cli import call
from tests.e2e.cli import finish, mmload, summary_of

pytestmark = pytest.mark.slow

COMMAND = (
    *("capacity", "--slo", "ttft:p99<2s", "--renderer-workers", "2"),
    *("--processor-fixed-ms", "50", "--size", "160x96", "--max-tokens", "2", "--warmup", "1"),
    *("--start", "24", "--precision", "1", "--repeats", "1", "--requests", "132"),
    *("--least-seconds", "1", "--no-server-hook", "--at-least", "45", "--out", "c"),
    *("--quiet", "--json"),
)


def test_the_interval_holds_the_truth(tmp_path: Path) -> None:
    """2 workers of 50 ms carry 40/s. From 24/s by doubling, without a prediction: 24 and 48."""
    process = mmload(*COMMAND, cwd=tmp_path)
    code, out, err = finish(process)
    made = summary_of(out)
    if made["generator_limit_qps"] is not None:
        pytest.skip("this machine was too busy to send on time")
    assert made["ended"] == "confirmed", err
    low, high = made["interval"]["passing_qps"], made["interval"]["failing_qps"]
    assert low < 40 < high
    assert code == 4 and made["reached"] is False and "NOT reached" in made["sentence"]
    best = next(run for run in made["runs"] if run["rate"] == low)
    assert best["good_share"] == 1.0 and best["goodput_qps"] == pytest.approx(low, rel=0.02)
    assert made["predicted"] is None  # no hook, no spans
    assert {p.name for p in (tmp_path / "c").iterdir()} >= {
        *("capacity.json", "summary.json", "report.html", "report.md", "server"),
        *(run["folder"] for run in made["runs"]),
    }
    code, out, err = finish(mmload("report", "c", "--json", cwd=tmp_path))
    assert code == 0 and json.loads(out) == made
    process = mmload(*COMMAND, cwd=tmp_path)  # the same again: there is nothing left to do
    code, out, err = finish(process)
    assert code == 4 and summary_of(out)["runs"] == made["runs"], err
    process = mmload(*COMMAND, "--media-workers", "3", cwd=tmp_path)
    code, out, err = finish(process)
    assert code == 2 and "holds another capacity search: server, launched differ" in err


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ([], "--slo: no objective"),
        (["--slo", "ttft:p99"], "with us, ms or s"),
        (["--slo", "ttft:p99<1s", "--requests", "50"], "132 is the least"),
        (["--slo", "ttft:p99<1s", "--scenario", "ramp"], "profile: a capacity search sets"),
        (["--slo", "ttft:p99<1s", "--scenario", "chat"], "turns: a capacity search sets"),
        (["http://127.0.0.1:9", "--slo", "ttft:p99<1s", "--renderer-workers", "2"], "a URL"),
    ],
)
def test_mistakes_are_told(
    args: list[str], words: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert call(["capacity", *args, "--out", str(tmp_path / "c")]) == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "c").exists()
