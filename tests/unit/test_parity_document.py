"""The result as JSON, as text, and as an exit code."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mmload.cli import call
from mmload.parity.document import NO_BOUNDS, Bounds, allowed, of_files, of_gate
from mmload.parity.media import Medium
from mmload.parity.tensors import compare, of_array
from mmload.report.parity import render
from tests.unit.parity_samples import case, check

A: dict[str, Any] = {
    "hidden": np.array([[3, 4], [1, 0]], np.float32),
    "grid": np.array([[8, 30, 54]]),
    "pos": np.array([0.5, 0.25], np.float32),
}


def two_files(folder: Path, **other: Any) -> tuple[str, str]:
    np.savez(folder / "a.npz", **A)
    changed: dict[str, Any] = A | other
    np.savez(folder / "b.npz", **changed)
    return str(folder / "a.npz"), str(folder / "b.npz")


def test_two_files_that_are_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["parity", *two_files(tmp_path)]) == 0
    assert capsys.readouterr().out.startswith("IDENTICAL  3 tensors: 3 identical.\n")


def test_two_files_that_differ(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = two_files(tmp_path, hidden=np.array([[4, 3], [1, 0]], np.float32))
    assert call(["parity", a, b, "--json", "--out", str(tmp_path / "parity.json")]) == 4
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads((tmp_path / "parity.json").read_text())
    assert (printed["schema"], printed["kind"], printed["verdict"]) == (1, "files", "DIFFERS")
    assert (printed["passed"], printed["identical"], printed["bounds"]) == (False, False, None)
    assert printed["sentence"] == "3 tensors: 2 identical, 1 with other values."
    first = printed["tensors"][0]
    assert first["cosine"] == {
        "whole": pytest.approx(25 / 26),
        "worst": pytest.approx(0.96),
        "mean": pytest.approx(0.98),
    }
    assert first["first"] == {"index": [0, 0], "a": "3.0", "b": "4.0"}
    text = render(printed)
    assert "! differs     0.96000000 0.98000000 2.83e-01 1.41e-01 1.00e+00  hidden\n" in text
    assert call(["parity", a, b, "--min-cosine", "0.95"]) == 0
    assert call(["parity", a, b, "--min-cosine", "0.97"]) == 4
    assert call(["parity", a, b, "--min-cosine", "0.95", "--max-rel-l2", "0.2"]) == 4
    assert "Beyond the bounds: 1." in capsys.readouterr().out


def test_bounds_never_excuse_whole_numbers_shapes_and_rows_without_a_measure() -> None:
    wide = Bounds(min_cosine=-1, max_rel_l2=1e9)
    for other, fine in (
        (np.array([[8, 30, 52]]), False),
        (A["grid"].astype(np.int32), True),
        (A["grid"][0], False),
    ):
        (one,) = compare({"grid": of_array(A["grid"])}, {"grid": of_array(other)})
        assert allowed(one, wide) is fine
        assert not allowed(one, NO_BOUNDS)
    broken = np.array([[np.nan, 4], [1, 0]], np.float32)
    (one,) = compare({"t": of_array(A["hidden"])}, {"t": of_array(broken)})
    assert not allowed(one, wide)
    (one,) = compare({"t": of_array(A["hidden"])}, {})
    assert not allowed(one, wide)


def test_files_without_tensors_do_not_pass() -> None:
    found = of_files("a", "b", [])
    assert (found["verdict"], found["passed"]) == ("DIFFERS", False)
    assert render(found)


def test_missing_tensors_and_other_types_in_words() -> None:
    other = {"hidden": of_array(A["hidden"].astype(np.float64)), "new": of_array(A["pos"])}
    found = of_files("a", "b", compare({k: of_array(v) for k, v in A.items()}, other))
    assert found["sentence"] == (
        "4 tensors: 1 with the same values in another type, 2 in the first file only,"
        " 1 in the second file only."
    )
    text = render(found)
    assert "! only in B            -          -        -        -        -  new\n" in text
    assert "      float32 in A, float64 in B\n" in text


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["a.npz"], "there is nothing to compare it with"),
        (["a.npz", "b.npz", "--quick"], "are for processors"),
        (["a.npz", "b.npz", "--min-cosine", "2"], "must be from -1 to 1"),
        (["a.npz", "b.npz", "--max-rel-l2", "nan"], "must not be negative"),
        (["a.npz", "b.npz"], "a.npz: No such file"),
        (["--min-cosine", "0.9"], "processors have to be identical"),
        (["--family", "gemma-9"], "mmload owns qwen3-vl, gemma-4"),
        (["--core", "cuda"], "mmload has auto, torch"),
    ],
)
def test_bad_arguments(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["parity", *arguments]) == 2
    assert says in capsys.readouterr().err


def test_the_gate_names_the_extra_that_it_needs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in [name for name in sys.modules if name.startswith("mmload.processors.")]:
        if module != "mmload.processors.base":
            monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "torch", None)  # as if it were not installed
    assert call(["parity", "--quick"]) == 2
    assert "pip install 'mmload[hf]'" in capsys.readouterr().err


def gate_document(*changes: Any) -> dict[str, Any]:
    cases = [case(), case(Medium(3, 2), Medium(3, 2)), case(Medium(6, 1))]
    results = [one for change in changes for one in check(change, *cases)]
    machine = {"cpu_capability": "AVX2", "torch_threads": 2}
    return of_gate(results, matrix="quick", machine=machine, processors={})


def test_the_gate_is_passed() -> None:
    found = gate_document(lambda processed: processed)
    assert (found["verdict"], found["passed"]) == ("IDENTICAL", True)
    assert found["counts"] == {"identical": 2, "fell_back": 0, "refused": 1, "differs": 0}
    assert found["table"] == [
        {"family": "qwen3-vl", "kind": "image", "core": "torch", "checks": 3, **found["counts"]}
    ]
    assert found["refusals"] == {"ValueError: (1, 6, 3) is too flat": 1}
    assert found["cases"][2] == {
        "name": "qwen3-vl image: 6x1",
        "core": "torch",
        "outcome": "refused",
    }
    assert found["versions"]["numpy"] == np.__version__
    json.dumps(found, allow_nan=False)
    text = render(found)
    assert text.startswith(
        "IDENTICAL  3 checks: 2 made by an owned core, every bit as stock, 1 refused by\n  both.\n"
    )
    assert "\n  qwen3-vl  image  torch         3         2         0         1         0\n" in text
    assert all(len(line) <= 80 for line in text.splitlines())


def test_the_gate_is_failed() -> None:
    def off_by_one(processed: Any) -> Any:
        pixels = processed.tensors["pixel_values"] + np.float32(1)
        return processed._replace(tensors=processed.tensors | {"pixel_values": pixels})

    found = gate_document(off_by_one)
    assert (found["verdict"], found["passed"], found["identical"]) == ("DIFFERS", False, False)
    assert [one["name"] for one in found["differences"]] == [
        "qwen3-vl image: 6x4",
        "qwen3-vl image: 3x2 + 3x2",
    ]
    text = render(found)
    assert "    pixel_values: 72 of 72 elements, first at [0, 0]: " in text
    assert "largest difference 1.00e+00" in " ".join(text.split())
    assert all(len(line) <= 80 for line in text.splitlines())
    assert "No owned core" not in text


def test_a_gate_that_tested_nothing_is_not_passed() -> None:
    found = gate_document(lambda p: p._replace(core="stock", fallback="not validated"))
    assert (found["verdict"], found["passed"], found["identical"]) == ("NOT TESTED", False, True)
    assert found["fallbacks"] == {"not validated": 2}
    assert "No owned core was at work." in found["sentence"]
    assert "       2  not validated\n" in render(found)
