"""A real vLLM in a process group of its own, under the hook, for the length of a `with`."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
START_S = 420  # 35 s on an idle machine, 85 when nothing is compiled yet
METRIC = re.compile(r"^(vllm:\w+)(?:\{[^}]*\})? (\S+)$", re.MULTILINE)


def venv() -> Path:
    """The environment that vLLM is in; skips the test when there is none."""
    given = os.environ.get("MMLOAD_VLLM_VENV")
    folder = Path(given) if given else HERE / ".venv"
    if not (folder / "bin" / "vllm").exists():
        pytest.skip(f"no vLLM in {folder}: tests/real/vllm/install.sh, or MMLOAD_VLLM_VENV=FOLDER")
    return folder


def model(folder: Path) -> Path:
    """The tiny model, made in `folder`."""
    command = [str(venv() / "bin" / "python"), str(HERE / "build_model.py"), str(folder)]
    subprocess.run(command, check=True, timeout=120)
    return folder


@dataclass(frozen=True)
class Running:
    """A server that answers."""

    url: str
    spans: Path
    log: Path
    group: int  # of its processes

    def metrics(self) -> dict[str, float]:
        """vLLM's own counters and gauges, by name."""
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=60) as response:
            text = response.read().decode()
        return {name: float(value) for name, value in METRIC.findall(text)}


@contextlib.contextmanager
def vllm(
    folder: Path, model: Path, *flags: str, trace: bool, plugin: bool, owned: bool = False
) -> Iterator[Running]:
    """Serves `model`. `trace`: under `mmload trace`; `plugin`: with the entry points that an
    installed mmload has, told where the spans go; `owned`: with the owned processor cores."""
    folder.mkdir()
    spans, log = folder / "spans", folder / "server.log"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = ["bash", str(HERE / "serve.sh"), str(venv()), str(model), str(port), *flags]
    env = {**os.environ, "VLLM_STATE": str(folder / "state")}
    env.pop("OMP_NUM_THREADS", None)
    if trace:
        switch = ["--owned"] if owned else []
        hooked = [sys.executable, "-m", "mmload", "trace", "--out", str(spans), *switch]
        command = [*hooked, "--", *command]
    elif owned:
        env["MMLOAD_OWNED_PROCESSOR"] = "1"
    if plugin:
        env["MMLOAD_HOOK_DIR"] = str(spans)
        env["PYTHONPATH"] = os.pathsep.join([str(installed(folder / "site")), str(ROOT)])
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=out, env=env, cwd=ROOT, start_new_session=True
        )
    try:
        _wait(process, f"http://127.0.0.1:{port}/health", log)
        yield Running(f"http://127.0.0.1:{port}", spans, log, process.pid)
    finally:
        _end(process)


def installed(folder: Path) -> Path:
    """What pip writes beside an installed package, as far as entry points go."""
    info = folder / "mmload-0.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mmload\nVersion: 0.0\n")
    declared = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    entries = re.search(r'entry-points."vllm.general_plugins"\]\n((?:\w+ = ".*\n)+)', declared)
    assert entries is not None
    lines = re.findall(r'^(\w+) = "([\w.:]+)"', entries[1], re.MULTILINE)
    plugins = "".join(f"{name} = {path}\n" for name, path in lines)
    (info / "entry_points.txt").write_text(f"[vllm.general_plugins]\n{plugins}")
    return folder


def _wait(process: "subprocess.Popen[bytes]", url: str, log: Path) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text(errors="replace")[-3000:]
        try:
            with urllib.request.urlopen(url, timeout=5) as response:
                if response.status == 200:
                    return
        except OSError:
            time.sleep(0.5)
    raise AssertionError(f"not ready within {START_S} s: {log.read_text(errors='replace')[-3000:]}")


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Asks the server to end, then ends all that it started."""
    process.send_signal(signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=60)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(timeout=30)
