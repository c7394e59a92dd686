"""The installed command in a process of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any


def mmload(*args: str, cwd: Path, env: dict[str, str] | None = None) -> "subprocess.Popen[str]":
    """Starts `mmload ARGS`; the caller waits for it."""
    clean = {k: v for k, v in os.environ.items() if k not in ("MMLOAD_API_KEY", "OPENAI_API_KEY")}
    return subprocess.Popen(
        [sys.executable, "-m", "mmload", *args],
        cwd=cwd,
        env={**clean, **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: "subprocess.Popen[str]", timeout_s: float = 120) -> tuple[int, str, str]:
    """Exit code, standard output, standard error."""
    try:
        out, err = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise AssertionError(f"did not end within {timeout_s} s: {err[-2000:]}") from None
    return process.returncode, out, err


def summary_of(out: str) -> dict[str, Any]:
    """Strict JSON: NaN and Infinity are refused."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    parsed: dict[str, Any] = json.loads(out, parse_constant=refuse)
    return parsed


def children_of(pid: int) -> list[int]:
    """Living processes that `pid` started, and theirs."""
    import psutil

    try:
        return [child.pid for child in psutil.Process(pid).children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def alive(pid: int) -> bool:
    import psutil

    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
