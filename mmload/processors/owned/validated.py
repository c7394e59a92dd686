"""What an owned core has been shown to reproduce, bit for bit; everything else is stock's turn.

Configurations: `refusal` names the first value of a stock instance that is outside of it. Kernels:
the compiled one is held against stock's arithmetic for every value of a pixel. Versions: stock
changes between releases, so `mismatch` runs both on a few shapes at start-up and compares every
tensor; a processor that fails is not used.
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import torch

from mmload.processors.base import Processed
from mmload.processors.owned.media import Frame, Unusual

_BICUBIC: Final = 3  # PIL's number
# Frames, height, width: an odd count, sizes that are and are not the model's multiples, scaling up
# and down. An image takes the first frame.
SHAPES: Final = ((4, 64, 96), (3, 110, 153), (5, 241, 140))
_STOCK: Final = ("Qwen2VLImageProcessor", "Qwen3VLVideoProcessor", "Gemma4Image", "Gemma4Video")


def refusal(stock: Any) -> str:
    """Why this instance's configuration is stock's turn; empty when it is not."""
    kind = type(stock)
    if not kind.__module__.startswith("transformers.models.") or not kind.__name__.startswith(
        _STOCK
    ):
        return f"class {kind.__module__}.{kind.__name__}"
    if not hasattr(stock, "rescale_and_normalize"):
        return "no rescale_and_normalize"
    wanted: dict[str, Any] = {"do_resize": True, "resample": _BICUBIC}
    if not raw(stock):
        wanted["do_rescale"] = True
    for name, value in wanted.items():
        if getattr(stock, name, None) != value:
            return f"{name} {getattr(stock, name, None)}"
    for name in ("do_center_crop", "do_pad", "crop_size", "pad_size", "device", "data_format"):
        if getattr(stock, name, None) not in (None, False, "channels_first"):
            return f"{name} {getattr(stock, name)}"
    if getattr(stock, "input_data_format", None) is not None:
        return "input_data_format"
    if kind.__name__.startswith("Qwen") and not _edges(stock.size):
        return f"size {stock.size}"
    for name in ("image_mean", "image_std"):
        values = getattr(stock, name)
        if not isinstance(values, list | tuple) or len(values) != 3:
            return f"{name} {values}"
    return ""


def raw(stock: Any) -> bool:
    """Whether it leaves the pixels as they are, bytes: both steps are the device's."""
    return stock.do_rescale is False and stock.do_normalize is False


def _edges(size: Any) -> bool:
    given = {key for key, value in dict(size).items() if value is not None}
    return given == {"shortest_edge", "longest_edge"} and all(dict(size)[key] for key in given)


def sample(frames: int, height: int, width: int) -> Frame:
    """Noise with every value in it, the same each time: (frames, height, width, 3)."""
    generator = np.random.default_rng(frames * height * width)
    video: Frame = generator.integers(0, 256, (frames, height, width, 3), dtype=np.uint8)
    return video


def mismatch(
    stock: Callable[[Any], Processed], owned: Callable[[Any], Processed], video: bool
) -> str:
    """What differs on the start-up shapes, in words; empty when nothing does."""
    for shape in SHAPES:
        words = "x".join(map(str, shape))
        media = sample(*shape)
        given = media if video else media[0]
        try:
            difference = differs(stock(given), owned(given))
        except (ValueError, Unusual) as error:
            return f"refused {words}: {error}"
        if difference:
            return f"{difference} at {words}"
    return ""


def differs(one: Processed, other: Processed) -> str:
    """The first thing that differs between two outputs; empty when all is the same."""
    if list(one.tensors) != list(other.tensors):
        return f"tensors {', '.join(other.tensors)}"
    for name, first in one.tensors.items():
        second = other.tensors[name]
        if (first.dtype, first.shape, first.stride()) != (
            second.dtype,
            second.shape,
            second.stride(),
        ):
            return f"{name}: {second.dtype} {tuple(second.shape)}, strides {second.stride()}"
        if not torch.equal(first, second):
            return name
    if one.grids != other.grids or one.tokens != other.tokens:
        return "grids or tokens"
    return ""
