"""The client against a server that others wrote: opt-in, one run for each API it has.

    MMLOAD_REAL_URL=http://127.0.0.1:8000 MMLOAD_REAL_APIS=chat,responses,messages \
        pytest tests/real

`tests/real/README.md` says how to start such servers and what they taught. Asserted is what no
server's speed can change: every request ends well, outputs and counts are there, and all APIs of
one server count the same prompt for the same image and text.
"""

import os
from pathlib import Path

import pytest

from mmload.records import Outcome, Record
from mmload.rundir import RunDir
from tests.e2e.cli import finish, mmload

URL = os.environ.get("MMLOAD_REAL_URL", "")
NAMED = os.environ.get("MMLOAD_REAL_APIS", "chat").split(",")
MODEL = os.environ.get("MMLOAD_REAL_MODEL")
WITHOUT_USAGE = ("predict",)

pytestmark = pytest.mark.skipif(not URL, reason="opt-in: set MMLOAD_REAL_URL")


def run(folder: Path, api: str, *flags: str) -> list[Record]:
    model = (f"--model={MODEL}",) if MODEL else ()
    load = ("--requests=6", "--qps=1", "--warmup=1", "--max-tokens=16", "--size=320x240")
    command = ("run", URL, f"--api={api}", *model, *load, *flags, "--json", "--quiet", "--out=out")
    code, _, err = finish(mmload(*command, cwd=folder), timeout_s=300)
    assert code in (0, 3), err
    return list(RunDir(folder / "out").records())


@pytest.mark.parametrize("api", NAMED)
def test_an_api(tmp_path: Path, api: str) -> None:
    records = run(tmp_path, api, "--frames=0" if api == "completions" else "--frames=1")
    assert len(records) == 6
    for record in records:
        assert record.outcome is Outcome.ok, record.message
        assert record.first_output_ns is not None and record.headers_ns is not None
        assert record.headers_ns <= record.first_output_ns
        if api not in WITHOUT_USAGE:
            assert record.prompt_tokens and record.output_tokens
            assert len(record.chunk_ns) <= record.output_tokens <= 16


def test_all_apis_count_the_same_prompt(tmp_path: Path) -> None:
    apis = [api for api in NAMED if api not in ("completions", *WITHOUT_USAGE)]
    counted = {}
    for api in apis:
        folder = tmp_path / api
        folder.mkdir()
        counted[api] = {record.prompt_tokens for record in run(folder, api, "--frames=1")}
    assert len(set.union(*counted.values())) == 1, counted
