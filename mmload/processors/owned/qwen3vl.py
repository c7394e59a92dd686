"""Qwen3-VL's processors, owned: decoded frames to `pixel_values` and `grid_thw`, in one pass each.

The arithmetic (transformers 5.24, `models/qwen3_vl/video_processing_qwen3_vl.py` and
`models/qwen2_vl/image_processing_qwen2_vl.py`, which Qwen3.5 and 3.6 use too): a size in multiples
of patch x merge within the limits on pixels, by stock's own `smart_resize`; antialiased bicubic
resize; (x - mean) / deviation; patches of two frames, an odd last frame (and an image) repeated.
Stock does each step for the whole video, in fresh memory, then copies the result once more to
concatenate the videos of a call. Here one temporal step goes through all of them while it is in the
cache, and is written into its place in the output.

In: frames from `media.py` and the stock instance whose values are reproduced. Out: what stock
returns. Raises `Unusual` for sizes that stock refuses: it then says so itself.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch

from mmload.processors.base import Processed
from mmload.processors.owned.media import Frame, Unusual
from mmload.processors.owned.patchify import Values
from mmload.processors.owned.tools import Tools, streamed, tensor

Size = tuple[int, int]
SmartResize = Callable[..., Size]


class _Plan(NamedTuple):
    """One medium: its frames, the size they get, and its grid of patches."""

    frames: Sequence[Frame]
    size: Size
    grid: tuple[int, int, int]

    @property
    def rows(self) -> int:
        t, h, w = self.grid
        return t * h * w


class Qwen3VL:
    """`stock`: an image or a video processor; `smart_resize`: of its module."""

    def __init__(self, stock: Any, smart_resize: SmartResize, tools: Tools) -> None:
        self._smart_resize = smart_resize
        self.tools = tools
        self._patch, self._merge = stock.patch_size, stock.merge_size
        self._temporal = stock.temporal_patch_size
        self._factor = self._patch * self._merge
        self._least, self._most = stock.size["shortest_edge"], stock.size["longest_edge"]
        # Since transformers 5.16: a cap on a frame's tokens, as qwen-vl-utils has it.
        capped = getattr(stock, "cap_pixels_per_frame", None)
        self._frame_cap = stock.max_video_tokens * self._factor**2 if capped else None

    def images(self, images: Sequence[Frame]) -> Processed:
        plans = [self._plan([image], self._image_size(*image.shape[:2])) for image in images]
        return self._process(plans, "pixel_values", "image_grid_thw")

    def videos(self, videos: Sequence[Sequence[Frame]]) -> Processed:
        plans = [
            self._plan(frames, self._video_size(len(frames), *frames[0].shape[:2]))
            for frames in videos
        ]
        return self._process(plans, "pixel_values_videos", "video_grid_thw")

    def _image_size(self, height: int, width: int) -> Size:
        return self._size(
            height,
            width,
            factor=self._factor,
            min_pixels=self._least,
            max_pixels=self._most,
        )

    def _video_size(self, frames: int, height: int, width: int) -> Size:
        most = self._most
        if self._frame_cap is not None:
            share = min(self._frame_cap, most // frames)
            most = max(share, int(self._least * 1.05)) * frames
        return self._size(
            num_frames=frames,
            height=height,
            width=width,
            temporal_factor=self._temporal,
            factor=self._factor,
            min_pixels=self._least,
            max_pixels=most,
        )

    def _size(self, *arguments: int, **named: int) -> Size:
        try:
            return self._smart_resize(*arguments, **named)
        except (ValueError, ZeroDivisionError) as error:
            raise Unusual("a size that the model refuses") from error

    def _plan(self, frames: Sequence[Frame], size: Size) -> _Plan:
        steps = -(-len(frames) // self._temporal)
        return _Plan(frames, size, (steps, size[0] // self._patch, size[1] // self._patch))

    def _process(self, plans: Sequence[_Plan], values: str, grid: str) -> Processed:
        columns = 3 * self._temporal * self._patch**2
        out = self.tools.output(sum(plan.rows for plan in plans), columns)
        pieces = []
        top = 0
        for plan in plans:
            rows = plan.grid[1] * plan.grid[2]
            last = len(plan.frames) - 1
            for step in range(plan.grid[0]):
                numbers = (step * self._temporal + i for i in range(self._temporal))
                frames = [plan.frames[min(number, last)] for number in numbers]
                piece = out[top : top + rows]
                pieces.append(partial(self._step, frames, plan.size, piece, streamed(out)))
                top += rows
        self.tools.run(pieces)
        grids = [plan.grid for plan in plans]
        merged = self._merge**2
        return Processed(
            {values: tensor(out), grid: torch.tensor(grids)},
            grids,
            [plan.rows // merged for plan in plans],
            f"owned ({self.tools.patcher.name})",
        )

    def _step(self, frames: Sequence[Frame], size: Size, out: Values, large: bool) -> None:
        resized: list[Frame] = []
        for number, frame in enumerate(frames):
            repeated = number > 0 and frame is frames[number - 1]
            resized.append(resized[-1] if repeated else self.tools.resized(frame, size))
        self.tools.patcher.qwen(resized, self._patch, self._merge, out, large)
