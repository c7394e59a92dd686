"""Run folders on disk that hold a manifest and a finished summary, and nothing else."""

import json
from pathlib import Path
from typing import Any

import msgspec

from mmload import __version__
from mmload.rundir import RunManifest

Summary = dict[str, Any]


def write_run(folder: Path, summary: Summary) -> Path:
    """A run of this version with that summary."""
    run = summary["run"]
    manifest = RunManifest(
        name=run["name"],
        digest=run["digest"],
        started_at=run["started_at"],
        origin_ns=1,
        target=run["target"],
        model=run["model"],
        asked_qps=summary["asked_qps"],
        scenario=run["scenario"],
    )
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_bytes(msgspec.json.encode(manifest))
    (folder / "end.json").write_text("{}", encoding="utf-8")
    text = json.dumps({**summary, "mmload": __version__})
    (folder / "summary.json").write_text(text, encoding="utf-8")
    return folder
