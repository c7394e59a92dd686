"""Owned against stock, bit for bit: a fast subset of what `mmload parity` runs.

The truth is transformers itself, on the same input; every tensor, dtype, stride, grid and count.
"""

import warnings
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from mmload.processors.base import Core, MediaProcessor, load
from mmload.processors.owned.validated import differs, sample

pytestmark = pytest.mark.hf

CORES: tuple[Core, ...] = ("torch", "numba")
FAMILIES = ("qwen3-vl", "gemma-4")


@cache
def pair(family: str, core: Core, threads: int = 1) -> tuple[MediaProcessor, MediaProcessor]:
    if core == "numba":
        pytest.importorskip("numba", reason="the extra [fast] is not installed")
    return load("stock", family), load("owned", family, core=core, threads=threads)


def same_image(processors: tuple[MediaProcessor, MediaProcessor], *images: Any) -> None:
    stock, owned = processors
    made = owned.images(images)
    assert made.fallback == ""
    assert differs(stock.images(images), made) == ""


def same_video(processors: tuple[MediaProcessor, MediaProcessor], *videos: Any) -> None:
    stock, owned = processors
    made = owned.videos(videos)
    assert made.fallback == ""
    assert differs(stock.videos(videos), made) == ""


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    "height, width", [(480, 854), (256, 320), (33, 47), (97, 1201), (700, 40), (5, 9), (31, 31)]
)
def test_sizes(family: str, core: Core, height: int, width: int) -> None:
    same_image(pair(family, core), sample(1, height, width)[0])
    same_video(pair(family, core), sample(2, height, width))


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("frames", [2, 3, 6, 15, 16])
def test_frames(family: str, core: Core, frames: int) -> None:
    same_video(pair(family, core, threads=2), sample(frames, 120, 214))


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("family", FAMILIES)
def test_an_output_beyond_the_caches(family: str, core: Core) -> None:
    same_video(pair(family, core, threads=2), sample(9, 480, 854))  # 48 and 17 MB


FORMS: dict[str, Any] = {
    "numpy": lambda video: video,
    "numpy planar": lambda video: np.ascontiguousarray(video.transpose(0, 3, 1, 2)),
    "numpy strided": lambda video: np.repeat(video, 2, axis=2)[:, :, ::2],
    "torch": torch.from_numpy,
    "torch planar": lambda video: torch.from_numpy(video).permute(0, 3, 1, 2).contiguous(),
    "torch permuted": lambda video: torch.from_numpy(video).permute(0, 3, 1, 2),
    "frames": list,
    "planar frames": lambda video: [frame.transpose(2, 0, 1) for frame in video],
    "tensors": lambda video: list(torch.from_numpy(video)),
    "pil": lambda video: [Image.fromarray(frame) for frame in video],
}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("form", FORMS)
def test_forms(family: str, form: str) -> None:
    video = FORMS[form](sample(3, 90, 161))
    # what NumPy says of the way in which stock stacks a list of tensors
    warnings.filterwarnings("ignore", category=DeprecationWarning)
    same_video(pair(family, "torch"), video)
    same_image(pair(family, "torch"), video[0], video[1])


def test_memory_that_may_not_be_written() -> None:
    frame = sample(1, 90, 161)[0]
    frame.flags.writeable = False
    _, owned = pair("qwen3-vl", "torch")
    made = owned.images([frame])  # stock warns; warnings are errors here
    assert made.fallback == ""
    assert differs(owned.images([frame.copy()]), made) == ""


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("family", FAMILIES)
def test_several_media_a_call(family: str, core: Core) -> None:
    media = [sample(4, 120, 200), sample(3, 64, 96), sample(4, 120, 200)]
    same_video(pair(family, core, threads=2), *media)
    same_image(pair(family, core, threads=2), *(video[0] for video in media))


UNEVEN = (("image_mean", (0.48, 0.45, 0.40)), ("image_std", (0.26, 0.27, 0.28)))
# As vLLM calls where the device does both: the output is bytes.
LEFT = (("do_rescale", False), ("do_normalize", False))
CONFIGURATIONS: dict[str, tuple[str, Any, Any]] = {
    "limits": (
        "qwen3-vl",
        (("size", {"shortest_edge": 4096, "longest_edge": 50_000}),),
        (("size", {"shortest_edge": 4096, "longest_edge": 100_000}),),
    ),
    "colours apart": ("qwen3-vl", UNEVEN, UNEVEN),
    "patches of 14": ("qwen3-vl", (("patch_size", 14),), (("patch_size", 14),)),
    "merge 1": ("qwen3-vl", (("merge_size", 1),), (("merge_size", 1),)),
    "merge 3": ("qwen3-vl", (("merge_size", 3),), (("merge_size", 3),)),
    "steps of three": (
        "qwen3-vl",
        (("temporal_patch_size", 3),),
        (("temporal_patch_size", 3),),
    ),
    "not normalised": ("qwen3-vl", (("do_normalize", False),), (("do_normalize", False),)),
    "another scale": ("qwen3-vl", (("rescale_factor", 0.01),), (("rescale_factor", 0.01),)),
    "capped frames": (
        "qwen3-vl",
        (),
        (("cap_pixels_per_frame", True), ("max_video_tokens", 16)),
    ),
    "gemma, colours apart": (
        "gemma-4",
        (*UNEVEN, ("do_normalize", True)),
        UNEVEN,
    ),
    "gemma, budgets": ("gemma-4", (("max_soft_tokens", 70),), (("max_soft_tokens", 140),)),
    "left to the device": ("qwen3-vl", LEFT, LEFT),
    "left to the device, merge 3": ("qwen3-vl", (*LEFT, ("merge_size", 3)), LEFT),
    "gemma, left to the device": ("gemma-4", LEFT, LEFT),
    "gemma, pooling": ("gemma-4", (("pooling_kernel_size", 2),), (("pooling_kernel_size", 2),)),
}


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_configurations(name: str, core: Core) -> None:
    if core == "numba":
        if name in ("patches of 14", "steps of three"):
            pytest.skip("not what the compiled loop is made for")
        pytest.importorskip("numba", reason="the extra [fast] is not installed")
    family, image, video = CONFIGURATIONS[name]
    stock = load("stock", family, image=dict(image), video=dict(video))
    owned = load("owned", family, core=core, threads=1, image=dict(image), video=dict(video))
    same_image((stock, owned), sample(1, 130, 260)[0])
    same_video((stock, owned), sample(3, 130, 260))


@pytest.mark.parametrize("family", FAMILIES)
def test_the_class_defaults(family: str) -> None:
    processors = load("stock", family, preset="class"), load("owned", family, preset="class")
    same_image(processors, sample(1, 130, 260)[0])
    same_video(processors, sample(3, 130, 260))


def test_fifteen_frames_of_480p_are_3240_tokens() -> None:
    """By the published rule: 480x864, 8 pairs of frames, 30 x 54 patches, four a token."""
    made = pair("qwen3-vl", "torch")[1].videos([sample(15, 480, 854)])
    assert made.grids == [(8, 30, 54)]
    assert made.tokens == [3240]
    assert made.tensors["pixel_values_videos"].shape == (12_960, 1536)
