"""Gemma 4's processors, owned: decoded frames to padded patches and their positions.

The arithmetic (transformers 5.24, `models/gemma4/image_processing_gemma4.py` and
`models/gemma4/video_processing_gemma4.py`): the largest size in multiples of patch x pooling that
keeps the aspect within the budget of soft tokens, by stock's own function; antialiased bicubic
resize; x * (1 / 255) for images, (x - 0) / 255 for videos, which round differently; patches by row
and column, padded with zeros to the budget; positions (column, row), padded with -1. Each frame
goes through all of it at once, and its patches are written into their place in the output.

In: frames from `media.py` and the stock instance whose values are reproduced. Out: what stock
returns. Raises `Unusual` for sizes that stock refuses: it then says so itself.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mmload.processors.base import Processed
from mmload.processors.owned.media import Frame, Unusual
from mmload.processors.owned.patchify import Values
from mmload.processors.owned.tools import Tools, streamed, tensor

Size = tuple[int, int]
SizeRule = Callable[..., Size]


class Gemma4:
    """`stock`: an image or a video processor; `size_rule`: `get_aspect_ratio_preserving_size`."""

    def __init__(self, stock: Any, size_rule: SizeRule, tools: Tools) -> None:
        self._size_rule = size_rule
        self.tools = tools
        self._patch, self._pool = stock.patch_size, stock.pooling_kernel_size
        self._rows = stock.max_soft_tokens * self._pool**2

    def images(self, images: Sequence[Frame]) -> Processed:
        sizes = [self._size(image) for image in images]
        patches, positions = self._process(list(images), sizes)
        tokens = [self._tokens(size) for size in sizes]
        tensors = {
            "pixel_values": patches,
            "image_position_ids": positions,
            "num_soft_tokens_per_image": torch.tensor(tokens),
        }
        grids = [(1, *self._grid(size)) for size in sizes]
        return Processed(tensors, grids, tokens, self._core)

    def videos(self, videos: Sequence[Sequence[Frame]]) -> Processed:
        sizes = [self._size(frames[0]) for frames in videos]
        counts = [len(frames) for frames in videos]
        patches, positions = self._process(
            [frame for frames in videos for frame in frames],
            [size for size, count in zip(sizes, counts, strict=True) for _ in range(count)],
        )
        soft = [self._tokens(size) for size in sizes]
        tensors = {
            "pixel_values_videos": patches,
            "video_position_ids": positions,
            "num_frames_per_video": torch.tensor(counts),
            "num_soft_tokens_per_video": torch.tensor(soft),
        }
        grids = [(n, *self._grid(size)) for n, size in zip(counts, sizes, strict=True)]
        tokens = [n * each for n, each in zip(counts, soft, strict=True)]
        return Processed(tensors, grids, tokens, self._core)

    @property
    def _core(self) -> str:
        return f"owned ({self.tools.patcher.name})"

    def _size(self, frame: Frame) -> Size:
        height, width, _ = frame.shape
        try:
            return self._size_rule(
                height=height,
                width=width,
                patch_size=self._patch,
                max_patches=self._rows,
                pooling_kernel_size=self._pool,
            )
        except (ValueError, ZeroDivisionError) as error:
            raise Unusual("a size that the model refuses") from error

    def _grid(self, size: Size) -> Size:
        return size[0] // self._patch, size[1] // self._patch

    def _tokens(self, size: Size) -> int:
        down, across = self._grid(size)
        return int(down * across // self._pool**2)

    def _process(self, frames: Sequence[Frame], sizes: Sequence[Size]) -> tuple[Any, Any]:
        out = self.tools.output(len(frames), self._rows, self._patch**2 * 3)
        positions = np.empty((len(frames), self._rows, 2), np.int64)
        pieces = []
        for number, (frame, size) in enumerate(zip(frames, sizes, strict=True)):
            positions[number] = _positions(*self._grid(size), self._rows)
            pieces.append(partial(self._frame, frame, size, out[number], streamed(out)))
        self.tools.run(pieces)
        return tensor(out), torch.from_numpy(positions)

    def _frame(self, frame: Frame, size: Size, out: Values, large: bool) -> None:
        down, across = self._grid(size)
        resized = self.tools.resized(frame, size)
        self.tools.patcher.gemma(resized, self._patch, out[: down * across], large)
        out[down * across :] = 0


@lru_cache(maxsize=64)
def _positions(down: int, across: int, rows: int) -> NDArray[np.int64]:
    """(column, row) of each patch, row by row, then -1; shared, to be copied from only."""
    positions = np.full((rows, 2), -1, np.int64)
    row, column = np.divmod(np.arange(down * across), across)
    positions[: down * across] = np.stack([column, row], axis=1)
    positions.flags.writeable = False
    return positions
