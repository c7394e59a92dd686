"""Resized frames to patches, in NumPy and OpenCV: bytes are moved, and only then become floats.

In: resized frames, uint8 (height, width, 3). Out: written once, into rows of the given output.
The order of patches and of values within one is transformers':

- Qwen3-VL, `patchify` in `models/qwen3_vl/video_processing_qwen3_vl.py`: patches by merged row and
  merged column, then by row and column within the merged one; values by colour, frame, line, pixel.
- Gemma 4, `convert_video_to_patches` in `models/gemma4/video_processing_gemma4.py`: patches by row
  and column; values by line, pixel, colour.

A line of a patch moves as one cell of 16 (Qwen) or 48 (Gemma) bytes. The floats come from the
table of stock's arithmetic (`pixels.py`), in blocks that stay in the second-level cache.
"""

from collections.abc import Sequence
from typing import Any, Final, Protocol

import cv2
import numpy as np
from numpy.typing import NDArray

from mmload.processors.owned.buffers import Buffers
from mmload.processors.owned.media import Frame
from mmload.processors.owned.pixels import Floats, Pixels

# Outputs from this size on are not read back from a cache (measured: with half of it, storing past
# the caches makes the next reader slower by what it saves).
STREAM_FROM_BYTES: Final = 16 << 20
# Bytes a block. OpenCV starts threads of its own from 2 ** 18 values on.
BLOCK: Final = 192 * 1024


class Patcher(Protocol):
    """Writes patches. Any number of threads may use one at once, on outputs of their own.

    `streamed`: the output is too large for a cache to hold it until it is read.
    """

    name: str

    def qwen(
        self, frames: Sequence[Frame], patch: int, merge: int, out: Floats, streamed: bool
    ) -> None:
        """The frames of one temporal step; `out`: (patches, 3 x frames x patch x patch)."""

    def gemma(self, frame: Frame, patch: int, out: Floats, streamed: bool) -> None:
        """One frame; `out`: (patches, patch x patch x 3)."""


class TablePatcher:
    """The one that needs nothing compiled."""

    name = "torch"

    def __init__(self, pixels: Pixels, buffers: Buffers) -> None:
        self._buffers = buffers
        self._pixels = pixels
        self._one_operation = pixels.one_operation
        self._one = pixels.table[:1] if pixels.one_table else None
        self._by_colour = [pixels.table[i : i + 1] for i in range(3)]
        self._interleaved = np.ascontiguousarray(pixels.table.T)[None]  # (1, 256, 3)

    def qwen(
        self, frames: Sequence[Frame], patch: int, merge: int, out: Floats, streamed: bool
    ) -> None:
        height, width, _ = frames[0].shape
        side = patch * merge
        steps = len(frames)
        rows_a_band = width // patch * merge  # patches of one row of merged ones
        bands = max(1, BLOCK // (rows_a_band * out.shape[1]))  # at a time
        cell = np.dtype(f"V{patch}")
        planes = self._buffers.take((steps, 3, bands * side, width), np.uint8)
        moved = self._buffers.take((bands * rows_a_band, out.shape[1]), np.uint8)
        for top in range(0, height, bands * side):
            bottom = min(top + bands * side, height)
            lines, rows = bottom - top, (bottom - top) // patch * (width // patch)
            first = top // patch * (width // patch)
            for step, frame in enumerate(frames):
                if step and frame is frames[step - 1]:  # an image, or an odd last frame
                    planes[step, :, :lines] = planes[step - 1, :, :lines]
                else:
                    cv2.split(frame[top:bottom], list(planes[step, :, :lines]))
            # axes: frame, colour, merged row, row in it, line, merged column, column in it
            cells = planes[:, :, :lines].view(cell)
            by_axis = cells.reshape(steps, 3, lines // side, merge, patch, width // side, merge)
            target = moved[:rows].view(cell)
            np.copyto(
                target.reshape(lines // side, width // side, merge, merge, 3, steps, patch),
                by_axis.transpose(2, 5, 3, 6, 1, 0, 4),
            )
            self._floats_by_colour(moved[:rows], out[first : first + rows])

    def gemma(self, frame: Frame, patch: int, out: Floats, streamed: bool) -> None:
        height, width, _ = frame.shape
        down, across = height // patch, width // patch
        cell = np.dtype(f"V{patch * 3}")
        lines = frame.reshape(height, width * 3).view(cell).reshape(down, patch, across)
        moved = self._buffers.take((down * across, patch * patch * 3), np.uint8)
        np.copyto(moved.view(cell).reshape(down, across, patch), lines.transpose(0, 2, 1))
        for rows in _blocks(*moved.shape):
            if self._alike(moved[rows], out[rows]):
                continue
            colours = (-1, patch * patch, 3)
            source, target = moved[rows].reshape(colours), out[rows].reshape(colours)
            _look_up(source, self._interleaved, target)

    def _floats_by_colour(self, moved: NDArray[np.uint8], out: Floats) -> None:
        for rows in _blocks(*moved.shape):
            if self._alike(moved[rows], out[rows]):
                continue
            third = moved.shape[1] // 3
            for colour, table in enumerate(self._by_colour):
                columns = slice(colour * third, (colour + 1) * third)
                _look_up(moved[rows, columns], table, out[rows, columns])

    def _alike(self, moved: NDArray[np.uint8], out: Floats) -> bool:
        """Writes the floats if all colours are treated alike: by the quickest way that there is."""
        if self._one_operation:
            operate = np.divide if self._pixels.operation == "normalise" else np.multiply
            operate(moved, self._pixels.second[0], out=out)
        elif self._one is not None:
            _look_up(moved, self._one, out)
        return self._one_operation or self._one is not None


def _blocks(rows: int, columns: int) -> list[slice]:
    step = max(1, BLOCK // columns)
    return [slice(top, min(top + step, rows)) for top in range(0, rows, step)]


def _look_up(source: NDArray[np.uint8], table: Floats, out: Floats) -> None:
    given: Any = cv2.LUT(source, table, out)
    if given is not out and not np.may_share_memory(given, out):
        out[...] = given  # OpenCV did not take the output as it is
