"""vLLM's multimodal processor alone, in a process of its own: as it is, and with owned cores."""

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.real.vllm import server as real


class Processor:
    """`processor_child.py`, answering line by line."""

    def __init__(self, process: "subprocess.Popen[str]", log: Path) -> None:
        self._process, self._log = process, log
        self._line()  # ready

    def ask(self, case: str, seed: int) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"case": case, "seed": seed}) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._line())
        return answer

    def _line(self) -> str:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(("ready", "{")):  # vLLM's log may go there too
                return line
        raise AssertionError(self._log.read_text(errors="replace")[-3000:])


@contextlib.contextmanager
def processor(folder: Path, model: Path, mode: str, *, owned: bool) -> Iterator[Processor]:
    """`mode`: device or host, for rescaling and normalising."""
    folder.mkdir()
    log = folder / "log"
    env = {**os.environ, "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
    state = str(folder / "state")
    env |= {"VLLM_HOST_IP": "127.0.0.1", "VLLM_CONFIG_ROOT": state, "VLLM_CACHE_ROOT": state}
    env |= {"MMLOAD_OWNED_PROCESSOR": "1" if owned else "0"}
    env["PYTHONPATH"] = os.pathsep.join([str(real.installed(folder / "site")), str(real.ROOT)])
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    env.pop("OMP_NUM_THREADS", None)
    child = str(real.HERE / "processor_child.py")
    with log.open("wb") as err:
        process = subprocess.Popen(
            [str(real.venv() / "bin" / "python"), child, str(model), mode],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=err,
            env=env,
            text=True,
        )
    try:
        yield Processor(process, log)
    finally:
        process.kill()
        process.communicate()
