"""The switch for the owned cores, on made-up modules of transformers' names: when it does
something, what it says when it cannot, and that each call is counted with its request."""

import logging
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from mmload.hook import bootstrap, owned, pools, spans, vllm_render
from mmload.records import ServerProcess
from mmload.rundir import SpanLines
from mmload.trace import environment_for

BENEATH = "mmload.processors.owned.beneath"


class Put:
    """Stands for the module with the cores: notes what is put where."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, error: Exception | None = None) -> None:
        self.calls: list[tuple[str, str]] = []
        self._error = error
        module: Any = ModuleType(BENEATH)
        module.put = self._put
        monkeypatch.setitem(sys.modules, BENEATH, module)

    def _put(self, module: ModuleType, core: str, report: Any, log: logging.Logger) -> None:
        assert report is owned.served
        self.calls.append((module.__name__, core))
        if self._error is not None:
            raise self._error


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(owned, "_started", False)
    monkeypatch.setattr(owned, "_told", set())
    monkeypatch.setattr(bootstrap, "TABLES", ())  # what they watch, they watch for good
    monkeypatch.setattr(pools, "watch", lambda: None)
    monkeypatch.setenv("MMLOAD_HOOK_DIR", str(tmp_path / "spans"))
    for name in owned.MODULES:
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    yield
    spans.shutdown()


def process(tmp_path: Path) -> ServerProcess:
    spans.record("processor", 1, 2, request_id="r")
    spans.shutdown()
    lines = SpanLines(sorted((tmp_path / "spans").glob("*.jsonl")))
    assert len(list(lines)) == 1
    return lines.processes[0]


@pytest.mark.parametrize("value", [None, "", "0"])
def test_nothing_happens_unless_it_is_asked_for(
    value: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = Put(monkeypatch)
    if value is None:
        monkeypatch.delenv(owned.VARIABLE, raising=False)
    else:
        monkeypatch.setenv(owned.VARIABLE, value)
    owned.plugin()
    assert put.calls == []
    assert "owned_processor" not in process(tmp_path).settings


@pytest.mark.parametrize(
    "value, core", [("1", "auto"), ("auto", "auto"), ("torch", "torch"), ("NUMBA", "numba")]
)
def test_cores_go_beneath_each_module_once(
    value: str, core: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = Put(monkeypatch)
    monkeypatch.setenv(owned.VARIABLE, value)
    owned.plugin()
    owned.plugin()
    bootstrap.start()
    assert put.calls == [(name, core) for name in owned.MODULES]
    assert process(tmp_path).settings["owned_processor"] == core


def test_the_modules_are_those_that_the_processors_know() -> None:
    source = Path(owned.__file__).parents[1] / "processors" / "stock.py"
    text = source.read_text(encoding="utf-8")
    named = re.findall(r'"(\w+\.(?:image|video)_processing_\w+)\.\w+",', text)
    assert sorted(f"transformers.models.{name}" for name in named) == sorted(owned.MODULES)


def test_without_the_hook_it_works_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    put = Put(monkeypatch)
    monkeypatch.delenv("MMLOAD_HOOK_DIR")
    monkeypatch.setenv(owned.VARIABLE, "1")
    owned.plugin()
    assert len(put.calls) == len(owned.MODULES)
    owned.served("owned (numba)", "")


@pytest.mark.parametrize("value", ["1", "fast"])
def test_what_cannot_be_is_said_and_stock_stays(
    value: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    put = Put(monkeypatch, ImportError("no cv2"))
    monkeypatch.setenv(owned.VARIABLE, value)
    owned.plugin()
    said = process(tmp_path).notes["owned"]["refused"]
    if value == "fast":
        assert said == "MMLOAD_OWNED_PROCESSOR=fast: it takes 1, auto, torch, numba"
        assert put.calls == []
    else:
        assert said == f"{owned.MODULES[-1]}: ImportError: no cv2"
    assert said in caplog.text


def test_calls_are_counted_with_the_span_of_their_request(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "vllm.mmload")
    owned.served("stock", "grey or alpha")  # no request's: a warm-up
    facts: dict[str, Any] = {}
    token = vllm_render._seen.set(facts)
    owned.served("owned (numba)", "")
    owned.served("stock", "grey or alpha")
    owned.served("owned (numba)", "")
    vllm_render._seen.reset(token)
    assert facts == {"owned_calls": 2, "stock_calls: grey or alpha": 1}
    assert caplog.text.count("grey or alpha") == 1  # once a process


def test_trace_switches_it_on(tmp_path: Path) -> None:
    assert environment_for(tmp_path, owned=True)[owned.VARIABLE] == "1"
    assert owned.VARIABLE not in environment_for(tmp_path)
