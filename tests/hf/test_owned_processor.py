"""When stock has its turn, and that it is counted; errors; threads; the self-check."""

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from mmload.errors import UsageError
from mmload.processors import stock as stock_module
from mmload.processors.base import MediaProcessor, Processed, load
from mmload.processors.owned import OwnedProcessor, validated
from mmload.processors.owned.pixels import pixels_of
from mmload.processors.owned.threads import Threads
from mmload.processors.owned.validated import differs, sample
from mmload.processors.stock import StockProcessor

pytestmark = pytest.mark.hf

FRAME = sample(1, 70, 90)[0]
VIDEO = sample(4, 70, 90)


@pytest.fixture(scope="module")
def stock() -> MediaProcessor:
    return load("stock", "qwen3-vl")


@pytest.fixture(scope="module")
def owned() -> MediaProcessor:
    return fresh()


def fresh() -> MediaProcessor:
    return load("owned", "qwen3-vl", core="torch", threads=1)


IMAGES: dict[str, tuple[Any, str]] = {
    "grey": (FRAME[:, :, :1], "grey or alpha"),
    "alpha": (np.dstack([FRAME, FRAME[:, :, 0]]), "grey or alpha"),
    "PIL grey": (Image.fromarray(FRAME).convert("L"), "PIL mode L"),
    "PIL alpha": (Image.fromarray(FRAME).convert("RGBA"), "PIL mode RGBA"),
    "floats": (FRAME.astype(np.float32), "pixels other than uint8"),
    "float tensor": (torch.from_numpy(FRAME).float(), "pixels other than uint8"),
    "three high": (sample(1, 3, 40)[0], "a shape with two axes for colours"),
}


@pytest.mark.parametrize("name", IMAGES)
def test_stock_has_its_turn(name: str, stock: MediaProcessor, owned: MediaProcessor) -> None:
    image, reason = IMAGES[name]
    made = owned.images([image])
    assert (made.core, made.fallback) == ("stock", reason)
    assert differs(stock.images([image]), made) == ""


def test_calls_are_counted_by_core_and_reason() -> None:
    owned = fresh()
    assert (owned.counts.cores, owned.counts.fallbacks) == ({}, {})
    owned.images([IMAGES["alpha"][0]])
    owned.images([IMAGES["PIL grey"][0]])
    owned.images([IMAGES["alpha"][0], FRAME])
    owned.images([FRAME, FRAME])
    owned.videos([VIDEO])
    assert owned.counts.cores == {"stock": 3, "owned (torch)": 2}
    assert owned.counts.fallbacks == {"grey or alpha": 2, "PIL mode L": 1}
    described = owned.describe()
    assert (described["calls"], described["fallbacks"]) == (
        owned.counts.cores,
        owned.counts.fallbacks,
    )


def test_videos_that_are_stocks_turn(stock: MediaProcessor) -> None:
    owned = fresh()
    grey = VIDEO[..., :1]
    assert differs(stock.videos([grey]), owned.videos([grey])) == ""
    planar = np.ascontiguousarray(VIDEO.transpose(0, 3, 1, 2))
    assert owned.videos([list(VIDEO), list(VIDEO)]).fallback == ""
    metadata = [{"total_num_frames": 4, "fps": 2.0}]
    sampled = owned.videos([VIDEO], do_sample_frames=True, metadata=metadata)
    expected = stock.videos([VIDEO], do_sample_frames=True, metadata=metadata)
    assert differs(expected, sampled) == ""
    mixed = [VIDEO, planar]  # stock reads both as it reads the first
    assert differs(stock.videos(mixed), owned.videos(mixed)) == ""
    assert owned.counts.fallbacks == {
        "grey or alpha": 1,
        "frames are sampled": 1,
        "videos of several layouts in one call": 1,
    }


def message(call: Callable[[], object]) -> str:
    with pytest.raises(ValueError) as caught:
        call()
    return str(caught.value)


def test_what_stock_refuses_is_refused_in_its_words(
    stock: MediaProcessor, owned: MediaProcessor
) -> None:
    before = owned.counts.cores
    long, one = sample(1, 4, 1000)[0], VIDEO[:1]
    flat = FRAME[:, :, 0]
    assert message(lambda: owned.images([flat])) == message(lambda: stock.images([flat]))
    assert message(lambda: owned.images([long])) == message(lambda: stock.images([long]))
    assert message(lambda: owned.videos([one])) == message(lambda: stock.videos([one]))
    uneven = [VIDEO[0], VIDEO[1, :50]]
    assert message(lambda: owned.videos([uneven])) == message(lambda: stock.videos([uneven]))
    assert owned.counts.cores == before


def test_a_stock_that_changed_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another release's processor, in effect: its images come out different by one bit."""
    process = StockProcessor.process_images

    def changed(self: StockProcessor, images: Any) -> Processed:
        made = process(self, images)
        made.tensors["pixel_values"].view(torch.int32)[-1, -1] ^= 1
        return made

    monkeypatch.setattr(StockProcessor, "process_images", changed)
    owned = fresh()
    made = owned.images([FRAME])
    reason = "self-check: pixel_values at 4x64x96"
    assert (made.core, made.fallback) == ("stock", reason)
    assert owned.describe()["image_core"] == reason
    assert owned.videos([VIDEO]).core == "owned (torch)"


@pytest.mark.parametrize(
    "values, reason",
    [
        ({"resample": 2}, "resample 2"),
        ({"do_resize": False}, "do_resize False"),
        ({"do_rescale": False}, "do_rescale False"),
    ],
)
def test_configurations_that_are_not_validated(values: dict[str, Any], reason: str) -> None:
    owned = load("owned", "qwen3-vl", core="torch", image=values)
    image = sample(1, 64, 96)[0]
    assert owned.images([image]).fallback == reason
    assert owned.videos([VIDEO]).fallback == ""


def test_a_class_of_somebody_elses() -> None:
    mine = type("Mine", (), {})()
    assert validated.refusal(mine) == f"class {__name__}.Mine"


def test_every_pixel_value_is_held_against_stock() -> None:
    processor = load("stock", "qwen3-vl")
    assert isinstance(processor, StockProcessor)
    pixels = pixels_of(processor.image)
    # (x - 127.5) / 127.5, by hand
    assert pixels.table[0, [0, 255]].tolist() == [-1.0, 1.0]
    assert pixels.table[2, 51] == np.float32(np.float32(51 - 127.5) / np.float32(127.5))
    assert pixels.reproduces()
    changed = pixels.table.copy()
    changed.view(np.uint32)[1, 200] ^= 1
    assert not pixels._replace(table=changed).reproduces()
    assert not pixels._replace(table=changed).one_table


def test_the_compiled_loop_is_held_against_every_pixel_value() -> None:
    pytest.importorskip("numba", reason="the extra [fast] is not installed")
    from mmload.processors.owned.fused_numba import FusedPatcher

    for family in ("qwen3-vl", "gemma-4"):
        processor = load("stock", family)
        assert isinstance(processor, StockProcessor)
        for instance in (processor.image, processor.video):
            pixels = pixels_of(instance)
            assert FusedPatcher(pixels).reproduces(pixels.table)
            changed = pixels.table.copy()
            changed.view(np.uint32)[2, 77] ^= 1
            assert not FusedPatcher(pixels).reproduces(changed)
    bytes_ = np.tile(np.arange(256, dtype=np.uint8), (3, 1))
    assert FusedPatcher(None).reproduces(bytes_)
    changed_bytes = bytes_.copy()
    changed_bytes[1, 13] ^= 1
    assert not FusedPatcher(None).reproduces(changed_bytes)


def test_torchs_threads_stay_as_they_were() -> None:
    seen: list[int] = []

    def read() -> None:
        thread = threading.Thread(target=lambda: seen.append(torch.get_num_threads()))
        thread.start()
        thread.join()

    before = torch.get_num_threads()
    read()
    owned = OwnedProcessor(StockProcessor.build("qwen3-vl", "hub", {}, {}), threads=3)
    owned.videos([VIDEO])
    read()
    assert torch.get_num_threads() == before
    assert seen == [seen[0]] * 2
    inside: list[int] = []
    threads = Threads(2)
    gate = threading.Barrier(2)  # both threads take one piece each

    def piece() -> None:
        gate.wait(timeout=30)
        if threading.current_thread() is not threading.main_thread():
            inside.append(torch.get_num_threads())

    threads.run([piece, piece])
    assert inside == [1]


def test_an_error_in_a_helper_reaches_the_caller() -> None:
    threads = Threads(2)
    gate = threading.Barrier(2)
    done: list[int] = []

    def fail() -> None:
        gate.wait(timeout=30)
        if threading.current_thread() is not threading.main_thread():
            raise ValueError("of a helper")
        done.append(1)

    with pytest.raises(ValueError, match="of a helper"):
        threads.run([fail, fail])
    assert done == [1]
    threads.run([lambda: done.append(2)])
    assert done == [1, 2]


def test_many_callers_at_once(stock: MediaProcessor) -> None:
    owned = load("owned", "qwen3-vl", threads=2)
    videos = [sample(3, 64 + 32 * n, 96) for n in range(4)]
    expected = [stock.videos([video]) for video in videos]
    wrong: list[str] = []

    def call(number: int) -> None:
        for _ in range(5):
            wrong.append(differs(expected[number], owned.videos([videos[number]])))

    callers = [threading.Thread(target=call, args=(n,)) for n in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert wrong == [""] * 20


def test_mistakes_are_told() -> None:
    with pytest.raises(UsageError, match="processor family 'qwen'"):
        load("stock", "qwen")
    with pytest.raises(UsageError, match="has no max_pixel"):
        load("stock", "qwen3-vl", image={"max_pixel": 5})
    with pytest.raises(UsageError, match="max_soft_tokens"):
        load("stock", "gemma-4", image={"max_soft_tokens": 71})
    with pytest.raises(UsageError, match="threads 0"):
        load("owned", "qwen3-vl", threads=0)


def test_a_transformers_without_the_class(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        stock_module.CLASSES["qwen3-vl"],
        "image",
        ("qwen2_vl.image_processing_qwen2_vl.Gone", "qwen9.gone.Gone"),
    )
    with pytest.raises(UsageError, match=r"has no qwen3-vl image processor .*qwen9\.gone\.Gone"):
        load("stock", "qwen3-vl")
