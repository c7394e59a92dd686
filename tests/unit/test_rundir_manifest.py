"""A manifest says which mmload made it, for readers of other versions."""

import json
from pathlib import Path

import pytest

from mmload import __version__, rundir
from mmload.rundir import FORMAT, RunDir
from tests.unit.analysis_samples import manifest


def test_the_version_is_written_and_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = RunDir(tmp_path)
    run.write_json("manifest.json", manifest())
    said = json.loads((tmp_path / "manifest.json").read_text())
    assert (said["format"], said["mmload"]) == (FORMAT, __version__)
    monkeypatch.setattr(rundir, "__version__", "9.9")  # the reader's
    assert run.manifest().mmload == __version__


def test_a_manifest_without_a_version_is_of_an_unknown_one(tmp_path: Path) -> None:
    """As before 0.1.0: not of the reader's, whose figures would then be trusted."""
    run = RunDir(tmp_path)
    run.write_json("manifest.json", manifest())
    said = json.loads((tmp_path / "manifest.json").read_text())
    del said["mmload"], said["format"]
    (tmp_path / "manifest.json").write_text(json.dumps(said))
    assert run.manifest().mmload == "of an unknown version"
