"""Resized frames to patches, in NumPy and OpenCV: bytes are moved, and only then become floats.

In: resized frames, uint8 (height, width, 3). Out: written once, into rows of the given output.
The order of patches and of values within one is transformers':

- Qwen3-VL, `patchify` in `models/qwen3_vl/video_processing_qwen3_vl.py`: patches by merged row and
  merged column, then by row and column within the merged one; values by colour, frame, line, pixel.
- Gemma 4, `convert_video_to_patches` in `models/gemma4/video_processing_gemma4.py`: patches by row
  and column; values by line, pixel, colour.

A line of a patch moves as one cell of 16 (Qwen) or 48 (Gemma) bytes. The floats come from the
table of stock's arithmetic (`pixels.py`), in blocks that stay in the second-level cache. Where
stock neither rescales nor normalises (vLLM leaves both to the device), bytes are the output.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, Protocol

import cv2
import numpy as np
from numpy.typing import DTypeLike, NDArray

from mmload.processors.owned.buffers import Buffers
from mmload.processors.owned.media import Frame
from mmload.processors.owned.pixels import Floats, Pixels

Values = NDArray[Any]  # of the patcher's dtype

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
    dtype: DTypeLike  # of the output

    def qwen(
        self, frames: Sequence[Frame], patch: int, merge: int, out: Values, streamed: bool
    ) -> None:
        """The frames of one temporal step; `out`: (patches, 3 x frames x patch x patch)."""

    def gemma(self, frame: Frame, patch: int, out: Values, streamed: bool) -> None:
        """One frame; `out`: (patches, patch x patch x 3)."""


class TablePatcher:
    """The one that needs nothing compiled."""

    name = "torch"
    dtype: DTypeLike = np.float32

    def __init__(self, pixels: Pixels, buffers: Buffers) -> None:
        self._buffers = buffers
        self._pixels = pixels
        self._one_operation = pixels.one_operation
        self._one = pixels.table[:1] if pixels.one_table else None
        self._by_colour = [pixels.table[i : i + 1] for i in range(3)]
        self._interleaved = np.ascontiguousarray(pixels.table.T)[None]  # (1, 256, 3)

    def qwen(
        self, frames: Sequence[Frame], patch: int, merge: int, out: Values, streamed: bool
    ) -> None:
        bands = _Bands(frames, patch, merge)
        moved = self._buffers.take((bands.rows, out.shape[1]), np.uint8)
        planes = self._buffers.take(bands.planes, np.uint8)
        for band in bands:
            bytes_ = moved[: band.stop - band.start]
            bands.move(band, planes, bytes_)
            self._floats_by_colour(bytes_, out[band])

    def gemma(self, frame: Frame, patch: int, out: Values, streamed: bool) -> None:
        moved = self._buffers.take(out.shape, np.uint8)
        _move_gemma(frame, patch, moved)
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


class BytesPatcher:
    """For a stock processor that leaves the pixels as they are."""

    name = "bytes"
    dtype: DTypeLike = np.uint8

    def __init__(self, buffers: Buffers) -> None:
        self._buffers = buffers

    def qwen(
        self, frames: Sequence[Frame], patch: int, merge: int, out: Values, streamed: bool
    ) -> None:
        bands = _Bands(frames, patch, merge)
        planes = self._buffers.take(bands.planes, np.uint8)
        for band in bands:
            bands.move(band, planes, out[band])

    def gemma(self, frame: Frame, patch: int, out: Values, streamed: bool) -> None:
        _move_gemma(frame, patch, out)


class _Bands:
    """One temporal step's frames, some rows of merged patches at a time: slices of its patches.

    `rows`: patches of a band; `planes`: the shape of what `move` needs for a band's planes.
    """

    def __init__(self, frames: Sequence[Frame], patch: int, merge: int) -> None:
        self._frames, self._patch, self._merge = frames, patch, merge
        self._height, self._width, _ = frames[0].shape
        side = patch * merge
        a_row = self._width // patch * merge
        merged_rows = max(1, BLOCK // (a_row * 3 * len(frames) * patch * patch))
        self._lines = merged_rows * side  # of a band
        self.rows = merged_rows * a_row
        self.planes = (len(frames), 3, self._lines, self._width)

    def __iter__(self) -> Iterator[slice]:
        total = self._height // self._patch * (self._width // self._patch)
        return (slice(top, min(top + self.rows, total)) for top in range(0, total, self.rows))

    def move(self, band: slice, planes: NDArray[np.uint8], out: NDArray[np.uint8]) -> None:
        """Writes the patches of one band."""
        patch, merge, width, steps = self._patch, self._merge, self._width, len(self._frames)
        top = band.start // self.rows * self._lines
        bottom = min(top + self._lines, self._height)
        lines, side = bottom - top, patch * merge
        for step, frame in enumerate(self._frames):
            if step and frame is self._frames[step - 1]:  # an image, or an odd last frame
                planes[step, :, :lines] = planes[step - 1, :, :lines]
            else:
                cv2.split(frame[top:bottom], list(planes[step, :, :lines]))
        # axes: frame, colour, merged row, row in it, line, merged column, column in it
        cell = np.dtype(f"V{patch}")
        cells = planes[:, :, :lines].view(cell)
        by_axis = cells.reshape(steps, 3, lines // side, merge, patch, width // side, merge)
        np.copyto(
            out.view(cell).reshape(lines // side, width // side, merge, merge, 3, steps, patch),
            by_axis.transpose(2, 5, 3, 6, 1, 0, 4),
        )


def _move_gemma(frame: Frame, patch: int, out: NDArray[np.uint8]) -> None:
    height, width, _ = frame.shape
    down, across = height // patch, width // patch
    cell = np.dtype(f"V{patch * 3}")
    lines = frame.reshape(height, width * 3).view(cell).reshape(down, patch, across)
    np.copyto(out.view(cell).reshape(down, across, patch), lines.transpose(0, 2, 1))


def _blocks(rows: int, columns: int) -> list[slice]:
    step = max(1, BLOCK // columns)
    return [slice(top, min(top + step, rows)) for top in range(0, rows, step)]


def _look_up(source: NDArray[np.uint8], table: Floats, out: Floats) -> None:
    given: Any = cv2.LUT(source, table, out)
    if given is not out and not np.may_share_memory(given, out):
        out[...] = given  # OpenCV did not take the output as it is
