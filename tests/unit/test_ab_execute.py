"""How an A/B goes through its runs, with scripted runs instead of servers."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mmload.ab.execute import Execution
from mmload.ab.sides import LABELS, Shared, Typed, side_of
from mmload.ab.state import Saved, State
from mmload.batch import runner
from mmload.errors import MmloadError
from mmload.report.live import Quiet
from mmload.run import Options
from mmload.scenario import Scenario

Script = dict[str, list[str]]


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Script]:
    """What the tries of a run do, by its folder; done where nothing is said."""
    script: Script = {}

    class ScriptedRun:
        unwritten = ""
        server = None

        def __init__(self, scenario: Scenario, options: Options, _watcher: Any) -> None:
            assert scenario.out is not None and options.server is not None
            self.out = Path(scenario.out)

        def stop(self) -> None: ...

        def execute(self) -> tuple[None, Any]:
            said = script.get(f"{self.out.parent.name}/{self.out.name}", [])
            what = said.pop(0) if said else "done"
            self.out.mkdir(parents=True)
            (self.out / "manifest.json").write_text("{}")
            if what == "failed":
                raise MmloadError("the server did not start")
            if what == "killed":
                raise KeyboardInterrupt
            (self.out / "summary.json").write_text("{}")
            reasons = ["sent late"] if what == "invalid" else []
            summary = {"interrupted": what == "stopped", "valid": not reasons}
            return None, SimpleNamespace(summary={**summary, "invalid_reasons": reasons})

    monkeypatch.setattr(runner, "Run", ScriptedRun)
    yield script


def execution(folder: Path, repeats: int = 2) -> tuple[Execution, State, list[str]]:
    sides = {label: side_of(label, Shared(), Typed()) for label in LABELS}
    asked = Saved(started_at="now", order_seed=0, repeats=repeats)
    state = State.begin(folder / "ab", asked)
    said: list[str] = []
    scenario = Scenario.model_validate({"qps": 5, "duration": 10})
    return Execution(state, scenario, sides, Options(), said.append, Quiet), state, said


def statuses(state: State) -> dict[str, str]:
    return {one.work.folder: one.status for one in state.saved.ended}


def test_a_run_that_fails_is_said_and_the_others_go_on(tmp_path: Path, scripted: Script) -> None:
    scripted["after/01"] = ["failed"]
    scripted["after/02"] = ["invalid"]
    one, state, said = execution(tmp_path)
    assert one.estimate() == "about 60 s"  # 4 x (10 + 5)
    one.run()
    assert statuses(state) == {
        "before/01": "done",
        "after/01": "failed",
        "after/02": "done",
        "before/02": "done",
    }
    announced = [line.partition(";")[0] for line in said]
    assert announced == [
        *("run 1 of 4: before 01", "run 2 of 4: after 01"),
        "after 01: failed: the server did not start",
        *("run 3 of 4: after 02", "after 02: invalid: sent late"),
        *("run 4 of 4: before 02", "run 3 of 4: after 02 once more"),
    ]
    assert (state.path / "aside" / "after-02-1").is_dir()
    # The same command again: only what does not count is made.
    one, state, said = execution(tmp_path)
    assert [work.folder for work in one.left()] == ["after/01"]
    one.run()
    assert set(statuses(state).values()) == {"done"} and len(said) == 1


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_an_interrupted_run_does_not_count_and_is_made_again(
    how: str, tmp_path: Path, scripted: Script
) -> None:
    scripted["after/01"] = [how]
    one, state, _ = execution(tmp_path)
    one.run()
    assert one.stopped and statuses(state) == {"before/01": "done"}
    one, state, _ = execution(tmp_path)
    one.run()
    assert len(state.done()) == 4
    assert (state.path / "aside" / "after-01-1").is_dir()


def test_it_ends_early_where_neither_side_works(tmp_path: Path, scripted: Script) -> None:
    scripted["before/01"] = scripted["after/01"] = ["failed", "failed"]
    one, state, _ = execution(tmp_path, repeats=50)
    with pytest.raises(MmloadError, match="neither side works: the server did not start"):
        one.run()
    assert len(state.saved.ended) == 2


def test_a_run_is_invalid_at_most_twice(tmp_path: Path, scripted: Script) -> None:
    scripted["before/01"] = ["invalid"] * 3
    one, state, _ = execution(tmp_path)
    one.run()
    assert statuses(state)["before/01"] == "invalid" and len(scripted["before/01"]) == 1
