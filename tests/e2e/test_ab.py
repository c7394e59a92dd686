"""`mmload ab` as people run it: two sides by environment, one after the other, then compared."""

import json
import sys
from pathlib import Path

import pytest

from mmload.rundir import RunDir
from tests.e2e.cli import finish, mmload

pytestmark = pytest.mark.slow

SERVER = (sys.executable, str(Path(__file__).with_name("servers.py")), "good", "{port}")


def test_both_sides_run_and_are_compared(tmp_path: Path) -> None:
    args = (
        *("ab", "--frames", "0", "--requests", "3", "--qps", "20", "--warmup", "1"),
        *("--repeats", "1", "--after-env", "MY_TOKEN=secret-value", "--out", "ab", "--json"),
        *("--server-env", f"PIDS={tmp_path / 'pids'}", "--", *SERVER),
    )
    code, out, err = finish(mmload(*args, cwd=tmp_path))
    if code == 3 and "The generator sent" in err:
        pytest.skip("this machine was too busy to send on time")
    assert code == 0, err
    made = json.loads(out)
    assert [(side["label"], len(side["runs"])) for side in made["sides"]] == [
        *(("before", 1), ("after", 1)),
    ]
    ab = tmp_path / "ab"
    assert {file.name for file in ab.iterdir()} >= {"compare.html", "compare.md", "compare.json"}
    saved = json.loads((ab / "ab.json").read_text())
    assert saved["order"] == ["before/01", "after/01"]
    assert [one["status"] for one in saved["ended"]] == ["done", "done"]
    assert saved["sides"]["after"]["env"]["MY_TOKEN"] == "***"
    for label, token in (("before", None), ("after", "***")):
        launched = RunDir(ab / label / "01").manifest().launched
        assert launched is not None and launched["env"].get("MY_TOKEN") == token
    pids = (tmp_path / "pids").read_text().split()
    assert len(set(pids)) == len(pids) >= 2  # a fresh server each, and for a run made again

    # Nothing is left to do: the same command compares at once.
    code, again, err = finish(mmload(*args, cwd=tmp_path))
    assert code == 0 and json.loads(again) == made, err
    assert (tmp_path / "pids").read_text().split() == pids
