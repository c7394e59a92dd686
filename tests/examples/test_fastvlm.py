"""examples/fastvlm: the report finds its fault, and finds it gone once it is mended.

Needs what examples/fastvlm/requirements.txt lists: `pip install -r` it beside mmload.
"""

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cli import finish, mmload, summary_of
from tests.e2e.test_trace import free_port, listening

EXAMPLE = Path(__file__).parents[2] / "examples" / "fastvlm"
NEEDS = ("fastapi", "onnx", "onnxruntime", "PIL", "multipart", "uvicorn")
missing = [name for name in NEEDS if importlib.util.find_spec(name) is None]
pytestmark = pytest.mark.skipif(
    bool(missing),
    reason=f"needs {', '.join(missing)}: pip install -r examples/fastvlm/requirements.txt",
)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fastvlm") / "models"
    made = subprocess.run([sys.executable, str(EXAMPLE / "make_models.py"), str(folder)])
    assert made.returncode == 0
    return folder


@contextmanager
def served(models: Path, folder: Path, encode: str) -> Iterator[str]:
    port = free_port()
    server = mmload(
        *("trace", "--out", f"spans-{encode}", "--", sys.executable, str(EXAMPLE / "server.py")),
        *(str(models), "--port", str(port), "--encode", encode),
        cwd=folder,
    )
    try:
        listening(port, server)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        finish(server, 30)


def load(url: str, folder: Path, name: str) -> dict[str, Any]:
    code, out, err = finish(
        mmload(
            *("run", url, "--api", "predict", "--qps", "5", "--requests", "40", "--json"),
            *("--arrival", "poisson"),  # so that some come while another is encoded
            *("--frames", "1", "--quiet", "--out", name),
            cwd=folder,
        )
    )
    assert code in (0, 3), err
    summary = summary_of(out)
    assert summary["ok"] == summary["joined"] == 40
    return summary


def test_the_report_shows_that_the_encoder_blocks_the_loop(models: Path, tmp_path: Path) -> None:
    with served(models, tmp_path, "loop") as url:
        before = load(url, tmp_path, "before")
    [said] = [w["message"] for w in before["warnings"] if w["code"] == "blocks_loop"]
    assert "vision encoder" in said and "preprocess" in said
    assert before["stages"]["vision_encoder"]["on_loop"] is True
    assert before["phases"]["mean"]["stages"]["loop_wait"] > 0
    with served(models, tmp_path, "thread") as url:
        after = load(url, tmp_path, "after")
    assert after["stages"]["vision_encoder"]["on_loop"] is False
    assert not [w for w in after["warnings"] if w["code"] == "blocks_loop"]
    assert after["stages"]["pool_wait"]["n"] == 40  # asyncio.to_thread's pool
