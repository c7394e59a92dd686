"""What Qwen3-VL's image and video processor does, in OpenCV and numpy: decoded frames to patches.

In: frames as decoders give them, uint8 (height, width, 3). Out: `pixel_values`, float32
(patches, 3 x 2 x 16 x 16) with values in [-1, 1], and the grid. The sizes, the order of patches
and the arithmetic are transformers' (5.24: `smart_resize`, `patchify`, `rescale_and_normalize` with
mean = std = 0.5, in `models/qwen3_vl/video_processing_qwen3_vl.py` and
`models/qwen2_vl/image_processing_qwen2_vl.py`), bit for bit where nothing is resized. Resized
pixels differ: OpenCV's bicubic kernel has a = -0.75 and no antialiasing, torch's has a = -0.5 and
antialiases.

How: bytes are moved, not floats. A line of 16 pixels of one colour moves as one 16-byte cell into
patch order, and only then becomes floats, by a table of the 256 possible values, written once into
the output. OpenCV and numpy release the GIL in each of these steps. No other state: any number of
threads may call it.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple, cast

import cv2
import numpy as np
from numpy.typing import NDArray

from mmload.processors.arithmetic import (
    IMAGE_LIMITS,
    MERGE,
    PATCH,
    TEMPORAL,
    Grid,
    Limits,
    MediaKind,
    image_grid,
    video_grid,
)

Frame = NDArray[np.uint8]

VALUES_A_PATCH: Final = 3 * TEMPORAL * PATCH * PATCH

# x / 255, minus the mean, over the deviation, as transformers fuses it: (x - 127.5) / 127.5
_NORMALISED: Final = ((np.arange(256, dtype=np.float32) - 127.5) / np.float32(127.5))[None, :]
_CELL: Final = np.dtype(f"V{PATCH}")  # one line of a patch in one colour


class Processed(NamedTuple):
    """The processor's output for one image or video."""

    pixel_values: NDArray[np.float32]  # (grid.patches, VALUES_A_PATCH)
    grid: Grid


def process(
    kind: MediaKind, frames: Sequence[Frame], image_limits: Limits = IMAGE_LIMITS
) -> Processed:
    """Resizes, normalises and patchifies one image (one frame) or video.

    Raises ValueError for no frames, frames of several sizes, and sizes that the model refuses.
    """
    if not frames:
        raise ValueError(f"a {kind} without frames")
    height, width = frames[0].shape[:2]
    for number, frame in enumerate(frames):
        if frame.shape != (height, width, 3) or frame.dtype != np.uint8:
            raise ValueError(
                f"frame {number} is {frame.dtype} {frame.shape}, the first uint8 ({height},"
                f" {width}, 3): all must be alike"
            )
    if kind == "image":
        grid = image_grid(height, width, image_limits)
    else:
        grid = video_grid(len(frames), height, width)
    out = np.empty((grid.patches, VALUES_A_PATCH), np.float32)
    rows = grid.h * grid.w
    pair = _PairPatcher(grid)
    for t in range(grid.t):
        first, second = (frames[min(TEMPORAL * t + i, len(frames) - 1)] for i in range(TEMPORAL))
        pair.write(first, second, out[t * rows : (t + 1) * rows])
    return Processed(out, grid)


class _PairPatcher:
    """Turns two frames into the patches of one temporal step, in its own scratch memory."""

    def __init__(self, grid: Grid) -> None:
        height, width = grid.size
        down, across = grid.h // MERGE, grid.w // MERGE
        self._size = (width, height)
        self._planes = np.empty((TEMPORAL, 3, height, width), np.uint8)
        cells = self._planes.view(_CELL)
        # axes: time, colour, merged row, row in it, line, merged column, column in it
        by_axis = cells.reshape(TEMPORAL, 3, down, MERGE, PATCH, across, MERGE)
        self._in_patch_order = by_axis.transpose(2, 5, 3, 6, 1, 0, 4)
        self._cells = np.empty(self._in_patch_order.shape, _CELL)
        self._bytes = self._cells.view(np.uint8).reshape(grid.h * grid.w, VALUES_A_PATCH)

    def write(self, first: Frame, second: Frame, out: NDArray[np.float32]) -> None:
        self._resize(first, self._planes[0])
        if second is first:  # an image, or an odd last frame
            self._planes[1] = self._planes[0]
        else:
            self._resize(second, self._planes[1])
        np.copyto(self._cells, self._in_patch_order)
        cv2.LUT(self._bytes, _NORMALISED, out)

    def _resize(self, frame: Frame, planes: Frame) -> None:
        if (frame.shape[1], frame.shape[0]) != self._size:
            frame = cast(Frame, cv2.resize(frame, self._size, interpolation=cv2.INTER_CUBIC))
        cv2.split(frame, list(planes))
