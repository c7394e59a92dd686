"""`mmload parity --quick` on the real processors, and that it finds what is wrong with them."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mmload.cli import call
from mmload.parity import gate, matrix
from mmload.parity.gate import CaseResult, Outcome
from mmload.parity.matrix import Case
from mmload.parity.media import Medium, fingerprint, make
from mmload.processors.base import Core, MediaProcessor, Processed, Which
from mmload.processors.families import FAMILY

pytestmark = pytest.mark.hf

IMAGE = Case("qwen3-vl", "image", "size", (Medium(97, 131),))
CLIP = Case("gemma-4", "video", "size", (Medium(97, 131, 3),))


def test_owned_is_stock(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "parity.json"
    code = call(["parity", "--quick", "--out", str(file)])
    found = json.loads(file.read_text())
    assert (code, found["verdict"], found["differences"]) == (0, "IDENTICAL", [])
    assert capsys.readouterr().out.startswith("IDENTICAL")
    assert found["checks"] == len(matrix.cases(quick=True)) == sum(found["counts"].values())
    assert {(row["family"], row["kind"]) for row in found["table"]} == {
        (family, kind) for family in ("qwen3-vl", "gemma-4") for kind in ("image", "video")
    }
    for row in found["table"]:  # plain media are not left to stock
        assert row["identical"] > row["checks"] / 2
    assert found["machine"]["cpu_capability"] == torch.backends.cpu.get_cpu_capability()
    assert found["versions"]["torch"] == torch.__version__
    assert set(found["processors"]) == {"qwen3-vl, auto", "gemma-4, auto"}


class Faulty:
    """An owned processor with a fault put into it."""

    def __init__(self, owned: MediaProcessor, change: Callable[[Processed], Processed]) -> None:
        self._owned = owned
        self._change = change

    def __getattr__(self, name: str) -> Any:
        return getattr(self._owned, name)

    def images(self, images: Any) -> Processed:
        return self._change(self._owned.images(images))

    def videos(self, videos: Any, **options: Any) -> Processed:
        return self._change(self._owned.videos(videos, **options))


@cache
def processor(which: Which, family: str, core: Core) -> MediaProcessor:
    return gate.build(which, Case(family, "image", "", ()), core)


def check(change: Callable[[Processed], Processed], *cases: Case) -> list[CaseResult]:
    def build(which: Which, case: Case, core: Core) -> Any:
        made = processor(which, case.family, core)
        return made if which == "stock" else Faulty(made, change)

    return list(gate.run(cases, ["torch"], build))


def pixels(processed: Processed) -> str:
    return next(name for name in processed.tensors if name.startswith("pixel_values"))


def with_pixels(processed: Processed, change: Callable[[Any], Any]) -> Processed:
    name = pixels(processed)
    return processed._replace(
        tensors=processed.tensors | {name: change(processed.tensors[name].clone())}
    )


def test_without_a_fault() -> None:
    assert [one.outcome for one in check(lambda p: p, IMAGE, CLIP)] == ["identical"] * 2


def test_one_bit_of_one_value() -> None:
    def flip(tensor: Any) -> Any:
        tensor.view(torch.int32).reshape(-1)[1234] ^= 1
        return tensor

    for found in check(lambda p: with_pixels(p, flip), IMAGE, CLIP):
        assert found.outcome is Outcome.differs
        (tensor,) = found.tensors
        assert (tensor.differing, tensor.dtypes) == (1, ("float32", "float32"))
        assert tensor.first is not None
        shape = tensor.shapes[0]
        assert shape is not None
        assert np.ravel_multi_index(tensor.first.index, shape) == 1234
        assert tensor.max_abs is not None and 0 < tensor.max_abs < 1e-6


def test_the_type_alone() -> None:
    for change, dtype in ((torch.Tensor.double, "float64"), (torch.Tensor.bfloat16, "bfloat16")):
        (found,) = check(lambda p, change=change: with_pixels(p, change), IMAGE)  # type: ignore[misc]
        assert found.outcome is Outcome.differs
        assert [t.dtypes for t in found.tensors] == [("float32", dtype)]


def test_strides_alone() -> None:
    (found,) = check(lambda p: with_pixels(p, lambda t: t.t().contiguous().t()), IMAGE)
    assert found.outcome is Outcome.differs
    assert "strides" in found.reason


def test_a_grid() -> None:
    def turned(processed: Processed) -> Processed:
        grid = processed.tensors["image_grid_thw"][:, [0, 2, 1]]
        return processed._replace(tensors=processed.tensors | {"image_grid_thw": grid.contiguous()})

    (found,) = check(turned, IMAGE)
    assert found.outcome is Outcome.differs
    assert [(t.name, t.exact) for t in found.tensors] == [("image_grid_thw", True)]


def test_a_refusal_that_stock_does_not_share() -> None:
    def refuse(processed: Processed) -> Processed:
        raise ValueError("not today")

    (found,) = check(refuse, CLIP)
    assert found.outcome is Outcome.differs
    assert found.reason == "owned refuses what stock accepts: ValueError: not today"


def test_counts_are_those_of_the_published_arithmetic() -> None:
    """Tokens of both sides come from the same reader of tensors; this is another source."""
    for family in ("qwen3-vl", "gemma-4"):
        rule = FAMILY[family].variants[0]
        (image,) = check(lambda p: p, Case(family, "image", "", (Medium(333, 777),)))
        (clip,) = check(lambda p: p, Case(family, "video", "", (Medium(333, 777, 6),)))
        assert rule.video is not None
        assert image.tokens == [rule.image(777, 333).media]
        assert clip.tokens == [rule.video(6, 777, 333).media]


@pytest.mark.parametrize("form", ["torch", "torch first", "torch permuted", "torch view", "pil"])
def test_forms_hold_the_same_pixels(form: str) -> None:
    plain = make(Medium(9, 7), 1)
    made = make(Medium(9, 7, None, form), 1)
    shown = np.asarray(made)
    assert np.array_equal(np.moveaxis(shown, 0, -1) if shown.shape[0] == 3 else shown, plain)
    if form != "pil":
        assert made.is_contiguous() is (form in ("torch", "torch first"))
    assert fingerprint([made])


@pytest.mark.parametrize("mode", ["L", "LA", "RGBA", "P", "1", "CMYK", "YCbCr"])
def test_pillows_modes(mode: str) -> None:
    assert make(Medium(9, 7, None, "pil", mode), 1).mode == mode
    frames = make(Medium(9, 7, 3, "pil frames", mode), 1)
    assert [frame.mode for frame in frames] == [mode] * 3
