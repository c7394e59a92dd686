"""What `ab`, `sweep` and `capacity` share: folders that guard what is done, and a run's end."""

from pathlib import Path

import msgspec
import pytest

from mmload.batch import folder
from mmload.batch.runner import duration
from mmload.errors import UsageError

KIND = folder.Kind("a sweep", "mmload sweep", "sweep.json", 1)


class Saved(msgspec.Struct, kw_only=True):
    format: int = 1
    mmload: str = "0"
    note: str = ""


def test_a_folder_keeps_what_was_saved_and_takes_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "out"
    assert not folder.holds(path, KIND)
    folder.create(path, KIND, Saved(note="first"))
    assert folder.holds(path, KIND) and folder.load(path, KIND, Saved).note == "first"
    folder.save(path, KIND, Saved(note="later"))
    assert folder.load(path, KIND, Saved).note == "later"
    with pytest.raises(UsageError, match="not empty, and holds no sweep"):
        folder.create(path, KIND, Saved())


def test_what_cannot_be_made_or_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"--out .*file: cannot be written: File exists"):
        folder.create(tmp_path / "file", KIND, Saved())
    with pytest.raises(UsageError, match=r"not the folder of a sweep: sweep.json: No such file"):
        folder.load(tmp_path, KIND, Saved)
    (tmp_path / "sweep.json").write_text('{"format": 2, "mmload": "9"}')
    with pytest.raises(UsageError, match=r"format 2, made by mmload 9; this mmload .* up to 1"):
        folder.load(tmp_path, KIND, Saved)
    (tmp_path / "sweep.json").write_text("{")
    with pytest.raises(UsageError, match=r"sweep.json: damaged"):
        folder.load(tmp_path, KIND, Saved)


def test_what_is_left_of_a_try_makes_way(tmp_path: Path) -> None:
    run, aside = tmp_path / "r1", tmp_path / "earlier" / "p0" / "r1"
    folder.make_way(run, aside)  # nothing there
    run.mkdir()
    folder.make_way(run, aside)  # an empty one is no loss
    assert not run.exists() and not aside.parent.exists()
    for number in (1, 2):
        run.mkdir()
        (run / "records.jsonl").write_text(str(number))
        folder.make_way(run, aside)
        kept = aside.with_name(f"r1-{number}") / "records.jsonl"
        assert not run.exists() and kept.read_text() == str(number)


@pytest.mark.parametrize(
    ("seconds", "words"), [(89.4, "89 s"), (90, "2 min"), (5399, "90 min"), (5400, "1.5 h")]
)
def test_durations(seconds: float, words: str) -> None:
    assert duration(seconds) == words
