"""A sweep's folder: what is done stays, what is not is told, another plan is refused."""

from pathlib import Path

import pytest

from mmload.errors import UsageError
from mmload.sweep.plan import Work
from mmload.sweep.state import Ended, Saved, State
from tests.unit.sweep_samples import plan_of

PLAN = plan_of(["renderer-workers=1,2"], repeats=2)


def _begin(path: Path) -> State:
    return State.begin(path, Saved(plan=PLAN))


def test_what_ended_is_not_done_again(tmp_path: Path) -> None:
    state = _begin(tmp_path / "s")
    order = list(PLAN.order())
    assert state.left() == order
    state.finish(Ended(point=order[0].point, repeat=order[0].repeat, status="done", elapsed_s=1.0))
    state.finish(Ended(point=order[1].point, repeat=order[1].repeat, status="failed", reason="x"))
    again = _begin(tmp_path / "s")
    assert again.left() == order[2:]
    assert State.load(tmp_path / "s").saved.ended == state.saved.ended
    assert again.forget_failed() == 1
    assert again.left() == order[1:]


def test_invalid_runs_are_made_once_more_behind_their_block(tmp_path: Path) -> None:
    state = _begin(tmp_path / "s")
    first, second, *others = PLAN.order()
    state.finish(Ended(point=first.point, repeat=1, status="invalid", reason="late"))
    assert state.left() == [second, first, *others]
    state.finish(Ended(point=first.point, repeat=1, status="invalid", reason="late"))
    assert state.left() == [second, *others]
    assert [(one.status, one.tries) for one in state.saved.ended] == [("invalid", 2)]


def test_another_plan_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    _begin(tmp_path / "s")
    other = Saved(plan=plan_of(["renderer-workers=1,2,4"], repeats=2))
    with pytest.raises(UsageError) as error:
        State.begin(tmp_path / "s", other)
    assert "renderer-workers 1/2, now 1/2/4" in error.value.message
    assert "--resume" in error.value.hint


def test_other_folders_are_refused(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thing").write_text("x")
    with pytest.raises(UsageError, match="holds no sweep"):
        _begin(tmp_path / "full")
    with pytest.raises(UsageError, match="not the folder of a sweep"):
        State.load(tmp_path)
    (tmp_path / "sweep.json").write_text("{")
    with pytest.raises(UsageError, match="damaged"):
        State.load(tmp_path)
    _begin(tmp_path / "new")
    file = tmp_path / "new" / "sweep.json"
    file.write_text(file.read_text().replace('"format": 1', '"format": 99'))
    with pytest.raises(UsageError, match="format 99"):
        State.load(tmp_path / "new")


def test_what_an_earlier_try_left_is_moved_aside(tmp_path: Path) -> None:
    state = _begin(tmp_path / "s")
    work = Work(1, 2)
    folder = state.free_folder(work)
    assert folder == tmp_path / "s" / "p001-renderer-workers=2" / "r2"
    for number in (1, 2):
        folder.mkdir(parents=True)
        (folder / "records.jsonl").write_text(f"{number}")
        assert state.free_folder(work) == folder and not folder.exists()
    kept = tmp_path / "s" / "earlier" / "p001-renderer-workers=2"
    assert sorted(p.name for p in kept.iterdir()) == ["r2-1", "r2-2"]
    assert (kept / "r2-2" / "records.jsonl").read_text() == "2"
    assert list(folder.parent.iterdir()) == []  # its runs alone are its repeats
