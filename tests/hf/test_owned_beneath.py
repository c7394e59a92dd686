"""Owned cores beneath transformers' classes: what a server gets from a patched class is what it
got before, bit for bit, whatever it asks for; and each call is told, with the reason where it is
stock's.

The classes are patched for the length of a test, as the plugin does for the life of a server.
"""

import copy
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from mmload.processors.base import Core
from mmload.processors.owned import beneath, trial
from mmload.processors.owned.qwen3vl import Qwen3VL
from mmload.processors.owned.validated import sample
from mmload.processors.stock import StockProcessor

pytestmark = pytest.mark.hf

LOG = logging.getLogger("test")
VIDEO = sample(4, 100, 150)
LEFT = {"do_rescale": False, "do_normalize": False}
# as Qwen's is, in transformers 5.16 to 5.24
LIMITS = {"shortest_edge": 4096, "longest_edge": 40_000}


class Both:
    """A family's instances of the patched classes, and what they gave before."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, family: str, core: Core = "torch") -> None:
        self.told: list[tuple[str, str]] = []
        stock = StockProcessor.build(family, "hub", {}, {})
        self.image, self.video = stock.image, stock.video
        monkeypatch.setattr(beneath, "_the_cores", None)
        for instance in (self.image, self.video):
            cls = type(instance)
            for name in ("_preprocess", "_prepare_input_videos"):
                if hasattr(cls, name):
                    # setattr of what is inherited, so that all is undone at the end
                    monkeypatch.setattr(cls, name, getattr(cls, name))
        for module in {type(self.image).__module__, type(self.video).__module__}:
            for _ in range(2):  # a plugin may come twice
                beneath.put(sys.modules[module], core, self._tell, LOG)

    def _tell(self, core: str, reason: str) -> None:
        self.told.append((core, reason))

    def same(self, kind: str, media: Any, **options: Any) -> list[tuple[str, str]]:
        """Compares, and says who served the call."""
        patched = getattr(self, kind)
        stock = copy.copy(patched)
        vars(stock)["_mmload_stock_only"] = True
        self.told.clear()
        expected = stock(media(), return_tensors="pt", **options)
        assert self.told == []
        made = patched(media(), return_tensors="pt", **options)
        assert type(made) is type(expected)
        assert list(made) == list(expected)
        for name, tensor in expected.items():
            if isinstance(tensor, torch.Tensor):
                assert (made[name].dtype, made[name].stride()) == (tensor.dtype, tensor.stride())
                assert torch.equal(made[name], tensor), name
            else:
                assert str(made[name]) == str(tensor)
        return list(self.told)


@pytest.fixture
def qwen(monkeypatch: pytest.MonkeyPatch) -> Both:
    return Both(monkeypatch, "qwen3-vl")


@pytest.fixture
def gemma(monkeypatch: pytest.MonkeyPatch) -> Both:
    return Both(monkeypatch, "gemma-4")


def pictures() -> list[Any]:
    first, second, third, fourth = VIDEO
    grey = Image.fromarray(second).convert("L")
    return [Image.fromarray(first), grey, Image.fromarray(third).convert("RGBA"), fourth]


OWNED = [("owned (torch)", "")]
BYTES = [("owned (bytes)", "")]


def test_images(qwen: Both, gemma: Both) -> None:
    for both in (qwen, gemma):
        assert both.same("image", pictures) == OWNED
        assert both.same("image", pictures, **LEFT) == BYTES
        assert both.same("image", lambda: [torch.from_numpy(VIDEO[0].copy())]) == OWNED


def test_gemmas_frames_as_vllm_calls(gemma: Both) -> None:
    frames = [Image.fromarray(frame) for frame in VIDEO]
    assert gemma.same("image", lambda: frames, max_soft_tokens=70) == OWNED


SAMPLED = {"do_sample_frames": True, "video_metadata": [{"total_num_frames": 9, "fps": 9.0}]}


@pytest.mark.parametrize(
    "options",
    [
        {"do_sample_frames": False},
        {"do_sample_frames": False, "return_metadata": True},
        {"do_sample_frames": True, "num_frames": 6, "fps": None, **SAMPLED},
        {"do_sample_frames": False, "size": LIMITS},
    ],
)
def test_videos(options: dict[str, Any], qwen: Both) -> None:
    video = sample(9, 100, 150)
    forms: list[Callable[[], Any]] = [
        lambda: [[video]],  # as vLLM calls
        lambda: video,
        lambda: torch.from_numpy(video),
        lambda: np.ascontiguousarray(video.transpose(0, 3, 1, 2)),
        lambda: np.repeat(video, 2, axis=2)[:, :, ::2],
    ]
    for form in forms:
        assert qwen.same("video", form, **options) == OWNED
    assert qwen.same("video", forms[0], **options, **LEFT) == BYTES


def test_gemmas_videos(gemma: Both) -> None:
    for options in ({}, {"max_soft_tokens": 140}):
        asked = {"do_sample_frames": False, **options}
        assert gemma.same("video", lambda: [VIDEO, VIDEO[:3]], **asked) == OWNED


def test_each_configuration_has_a_core_of_its_own(qwen: Both) -> None:
    for options in ({}, {"size": LIMITS}, {"image_mean": [0.1, 0.2, 0.3]}, {"merge_size": 1}):
        for _ in range(2):
            assert qwen.same("image", pictures, **options) == OWNED


@pytest.mark.parametrize(
    "options, reason",
    [
        ({"do_resize": False}, "do_resize False"),
        ({"resample": 2}, "resample 2"),
        ({"do_rescale": False}, "do_rescale False"),
    ],
)
def test_what_is_not_validated_is_stocks(options: dict[str, Any], reason: str, qwen: Both) -> None:
    video = sample(4, 64, 96)
    assert qwen.same("video", lambda: [[video]], do_sample_frames=False, **options) == [
        ("stock", reason)
    ]
    assert qwen.same("image", lambda: [video[0]], **options) == [("stock", reason)]


def test_pixels_that_are_not_validated_are_stocks(qwen: Both) -> None:
    floats = VIDEO.astype(np.float32)
    assert qwen.same("image", lambda: [floats[0]]) == [("stock", "pixels other than uint8")]
    assert qwen.same("video", lambda: floats, do_sample_frames=False) == [
        ("stock", "pixels other than uint8")
    ]
    alpha = np.dstack([VIDEO[0], VIDEO[1, :, :, 0]])
    assert qwen.same("image", lambda: [alpha], do_convert_rgb=False, do_normalize=False) == [
        ("stock", "grey or alpha")
    ]


def test_what_stock_refuses_is_refused_in_its_words(qwen: Both) -> None:
    long = sample(1, 4, 1000)[0]
    with pytest.raises(ValueError, match="absolute aspect ratio must be smaller than 200"):
        qwen.image([long], return_tensors="pt")
    assert qwen.told == [("stock", "a size that the model refuses")]


def test_other_classes_and_other_outputs_are_stocks(qwen: Both) -> None:
    mine = type("Mine", (type(qwen.image),), {})()
    assert mine([VIDEO[0]], return_tensors="pt")["pixel_values"].ndim == 2
    assert qwen.told == [("stock", "class Mine")]
    qwen.image([VIDEO[0]])
    assert qwen.told[1:] == [("stock", "no torch tensors are asked for")]


def test_a_failing_core_is_stocks_turn(
    qwen: Both, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert qwen.same("image", pictures) == OWNED

    def fail(self: Any, images: Any) -> Any:
        raise MemoryError("none left")

    monkeypatch.setattr(Qwen3VL, "images", fail)
    assert qwen.same("image", pictures) == [("stock", "MemoryError in the owned core")]
    assert "none left" in caplog.text


def test_a_core_that_cannot_be_made_is_stocks_turn(
    qwen: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> Any:
        raise RuntimeError("no")

    monkeypatch.setattr(beneath, "prepare", fail)
    assert qwen.same("image", pictures) == [("stock", "RuntimeError: no")]


def test_a_compiler_that_ends_its_process_does_not_end_the_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As LLVM does where it fails. The core that needs nothing compiled takes over."""
    monkeypatch.setattr(trial, "_CODE", "{!r}; import os; os.abort()")
    trial.compiles.cache_clear()
    both = Both(monkeypatch, "qwen3-vl", core="numba")
    assert both.same("image", pictures) == OWNED
    trial.compiles.cache_clear()


def test_the_compiled_core(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba", reason="the extra [fast] is not installed")
    both = Both(monkeypatch, "qwen3-vl", core="auto")
    assert both.same("image", pictures) == [("owned (numba)", "")]
    assert both.same("image", pictures, **LEFT) == [("owned (bytes, numba)", "")]
    video = sample(9, 100, 150)
    asked = {"do_sample_frames": False}
    assert both.same("video", lambda: [[video]], **asked) == [("owned (numba)", "")]


def test_a_report_that_fails_harms_nobody(qwen: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qwen, "told", None)
    assert qwen.image([VIDEO[0]], return_tensors="pt")["pixel_values"].ndim == 2


def test_configurations_are_not_without_end(qwen: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beneath, "MOST_CONFIGURATIONS", 2)
    told = [qwen.same("image", pictures, rescale_factor=0.01 * i) for i in (1, 2, 3, 1)]
    assert told == [OWNED, OWNED, [("stock", "more than 2 configurations")], OWNED]


def test_many_callers_at_once(qwen: Both) -> None:
    expected = qwen.image(pictures(), return_tensors="pt")["pixel_values"].clone()
    wrong: list[int] = []

    def call(number: int) -> None:
        for _ in range(5):
            if not torch.equal(
                qwen.image(pictures(), return_tensors="pt")["pixel_values"], expected
            ):
                wrong.append(number)

    callers = [threading.Thread(target=call, args=(n,)) for n in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert wrong == []
    assert qwen.told == OWNED * 21


@pytest.fixture
def in_child() -> Iterator[Callable[[Callable[[], bool]], bool]]:
    def run(work: Callable[[], bool]) -> bool:
        child = os.fork()
        if child == 0:
            signal_alarm(60)
            os._exit(0 if work() else 1)
        return os.waitpid(child, 0)[1] == 0

    yield run


def signal_alarm(seconds: int) -> None:
    import signal

    signal.alarm(seconds)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_makes_its_own(
    qwen: Both, in_child: Callable[[Callable[[], bool]], bool]
) -> None:
    expected = qwen.image(pictures(), return_tensors="pt")["pixel_values"]

    def same() -> bool:
        torch.set_num_threads(1)
        made = qwen.image(pictures(), return_tensors="pt")["pixel_values"]
        return torch.equal(made, expected) and qwen.told == OWNED * 2

    assert in_child(same)
