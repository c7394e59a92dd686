"""The gate finds what is wrong: each fault is put into an owned processor, and must be told."""

from typing import Any

import numpy as np
import pytest

from mmload.errors import UsageError
from mmload.parity.gate import Outcome, run
from mmload.parity.matrix import Case
from mmload.parity.media import Medium
from mmload.processors.base import Core, Processed, Which
from tests.unit.parity_samples import Fake, case, check


def same(processed: Processed) -> Processed:
    return processed


def changed(processed: Processed, **tensors: Any) -> Processed:
    return processed._replace(tensors=processed.tensors | tensors)


def flipped(processed: Processed) -> Processed:
    pixels = processed.tensors["pixel_values"].copy()
    pixels.view(np.uint32)[-1, -1] ^= 1
    return changed(processed, pixel_values=pixels)


def test_identical_and_refused_alike() -> None:
    found = check(same, case(), case(Medium(6, 4), Medium(3, 2)), case(Medium(6, 1)))
    assert [one.outcome for one in found] == ["identical", "identical", "refused"]
    assert [one.tokens for one in found] == [[24], [24, 6], []]
    assert [one.core for one in found] == ["owned (fake)", "owned (fake)", ""]
    assert found[2].reason == "ValueError: (1, 6, 3) is too flat"


def test_one_bit() -> None:
    (found,) = check(flipped)
    assert (found.outcome, found.reason) == (Outcome.differs, "pixel_values")
    (tensor,) = found.tensors
    assert (tensor.name, tensor.verdict, tensor.differing) == ("pixel_values", "differs", 1)
    assert tensor.first is not None and tensor.first.index == [23, 2]


def test_another_type() -> None:
    def double(processed: Processed) -> Processed:
        pixels = processed.tensors["pixel_values"].astype(np.float64)
        return changed(processed, pixel_values=pixels)

    (found,) = check(double)
    assert found.outcome is Outcome.differs
    assert [(t.verdict, t.dtypes) for t in found.tensors] == [("values", ("float32", "float64"))]


def test_another_kind_of_object() -> None:
    def listed(processed: Processed) -> Processed:
        return changed(processed, image_grid_thw=processed.tensors["image_grid_thw"].tolist())

    (found,) = check(listed)
    assert found.outcome is Outcome.differs
    assert found.reason == "image_grid_thw is a list, stock's a ndarray"


@pytest.mark.parametrize(
    ("wrong", "names"),
    [
        ({"grids": [(1, 6, 4)]}, "grids"),
        ({"tokens": [25]}, "tokens"),
        ({"grids": [(1, 4, 6)] * 2, "tokens": [24, 24]}, "grids, tokens"),
    ],
)
def test_a_wrong_grid_or_count(wrong: dict[str, Any], names: str) -> None:
    (found,) = check(lambda processed: processed._replace(**wrong))
    assert (found.outcome, found.reason) == (Outcome.differs, names)


def test_tensors_too_many_and_too_few() -> None:
    def other(processed: Processed) -> Processed:
        tensors = {"pixel_values": processed.tensors["pixel_values"], "mask": np.ones(3)}
        return processed._replace(tensors=tensors)

    (found,) = check(other)
    assert [(t.name, t.verdict) for t in found.tensors] == [
        ("image_grid_thw", "only_a"),
        ("mask", "only_b"),
    ]


def test_refusals_that_are_not_shared() -> None:
    def refuse(processed: Processed) -> Processed:
        raise ValueError("no such size")

    (found,) = check(refuse)
    assert found.outcome is Outcome.differs
    assert found.reason == "owned refuses what stock accepts: ValueError: no such size"

    class Flat(Fake):
        def images(self, images: Any) -> Processed:
            return super().images([np.zeros((2, 2, 3), np.uint8)])

    class Typed(Fake):
        def images(self, images: Any) -> Processed:
            raise TypeError("flat")

    for owned, words in (
        (Flat("owned"), "owned accepts what stock refuses: ValueError: (1, 6, 3) is too flat"),
        (Typed("owned"), "stock raises ValueError ((1, 6, 3) is too flat), owned TypeError (flat)"),
    ):
        build = _builder({"stock": Fake("stock"), "owned": owned})
        (found,) = run([case(Medium(6, 1))], ["torch"], build)
        assert (found.outcome, found.reason) == (Outcome.differs, words)


def test_fallback_is_told_and_has_to_be_explained() -> None:
    def fell_back(processed: Processed) -> Processed:
        return processed._replace(core="stock", fallback="float input")

    (found,) = check(fell_back)
    assert (found.outcome, found.core, found.reason) == (Outcome.fell_back, "stock", "float input")
    (silent,) = check(lambda processed: processed._replace(core="stock"))
    assert silent.outcome is Outcome.differs
    (wrong,) = check(lambda processed: flipped(fell_back(processed)))
    assert wrong.outcome is Outcome.differs


def test_leftovers_in_a_buffer_that_is_used_again() -> None:
    calls = []

    def second_is_wrong(processed: Processed) -> Processed:
        calls.append(processed)
        return flipped(processed) if len(calls) == 2 else processed

    (found,) = check(second_is_wrong)
    assert (found.outcome, found.reason) == (Outcome.differs, "the second time: pixel_values")


def test_one_buffer_for_two_outputs() -> None:
    """The first output is changed by the second call: it is compared after that."""
    held: list[Any] = []

    def shared(processed: Processed) -> Processed:
        if held:
            held[0].fill(0)
        held[:] = [processed.tensors["pixel_values"]]
        return processed

    (found,) = check(shared)
    assert (found.outcome, found.reason) == (Outcome.differs, "pixel_values")


def test_media_stay_as_they_were() -> None:
    class Writes(Fake):
        def images(self, images: Any) -> Processed:
            made = super().images(images)
            images[0][0, 0, 0] += 1
            return made

    build = _builder({"stock": Fake("stock"), "owned": Writes("owned")})
    (found,) = run([case()], ["torch"], build)
    assert found.outcome is Outcome.differs
    assert found.reason == "a processor wrote into the media that it was given"


def test_a_processor_is_built_once_for_its_settings() -> None:
    built: list[tuple[Which, str]] = []

    def build(which: Which, case: Case, core: Core) -> Fake:
        built.append((which, str(dict(case.settings))))
        if case.settings:
            raise UsageError(f"{which}: patch_size: no")
        return Fake(which)

    asked = [case(), case(Medium(3, 2)), case(settings={"patch_size": 0})]
    found = list(run(asked, ["torch"], build))
    assert [one.outcome for one in found] == ["identical", "identical", "refused"]
    assert found[2].reason == "UsageError: stock: patch_size: no"
    assert [which for which, _ in built] == ["stock", "owned", "stock", "owned"]


def test_without_the_extra_the_gate_does_not_go_on() -> None:
    def build(which: Which, case: Case, core: Core) -> Fake:
        raise UsageError("needs transformers", "pip install 'mmload[hf]'")

    with pytest.raises(UsageError, match="needs transformers"):
        next(run([case()], ["torch"], build))


def _builder(processors: dict[Which, Fake]) -> Any:
    return lambda which, case, core: processors[which]
