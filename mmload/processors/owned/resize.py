"""The stock processors' resize: torch's antialiased bicubic kernel on uint8, kept channels-last.

transformers calls `torchvision...resize`, which calls `interpolate(mode="bicubic", antialias=True)`
on the uint8 tensor. Its kernel works in integers on interleaved colours: planar input is
interleaved before and separated after, channels-last input is taken as it lies, and the bits are
the same (torch 2.13, `aten/src/ATen/native/cpu/UpSampleKernelAVXAntialias.h`). Pillow, OpenCV, or
floats and rounding give other bits.

In: a frame and the size that the model's rule wants. Out: the frame resized, or itself.
"""

from typing import Any, Final

import numpy as np
import torch

from mmload.processors.owned.buffers import Buffers
from mmload.processors.owned.media import Frame

_GUARD: Final = 64  # bytes
_kernel: Any = torch.ops.aten._upsample_bicubic2d_aa.out


def resize(frame: Frame, size: tuple[int, int], buffers: Buffers) -> Frame:
    """`size`: (height, width). The result is the caller's until its last reference is gone."""
    if frame.shape[:2] == size:
        return frame
    out: Frame = buffers.take((*size, 3), np.uint8)
    _into(frame, out)
    return out


def _into(frame: Frame, out: Frame) -> None:
    height, width = out.shape[:2]
    _kernel(_tensor(frame), [height, width], False, None, None, out=_tensor(out))


def _tensor(frame: Frame) -> Any:
    """(1, 3, height, width), channels-last beyond doubt.

    The stride of the leading axis must be the whole image: with any other, which is as true of an
    axis of one, the kernel takes its slow planar path, and would write planar output past `out`.
    """
    height, width, _ = frame.shape
    tensor: Any = torch.from_numpy(frame)
    return tensor.as_strided((1, 3, height, width), (height * width * 3, 1, width * 3, 3))


def stays_in_bounds() -> bool:
    """Whether this torch writes into a given output, and there only. Some versions wrote past it
    when layouts differed; here they never do, and this looks once, on guarded memory."""
    frame = np.arange(7 * 11 * 3, dtype=np.uint8).reshape(7, 11, 3)
    for size in ((32, 64), (5, 9)):
        nbytes = size[0] * size[1] * 3
        memory = np.full(_GUARD + nbytes + _GUARD, 0xA5, np.uint8)
        _into(frame, memory[_GUARD:-_GUARD].reshape(*size, 3))
        fresh = torch.nn.functional.interpolate(
            _tensor(frame), size=size, mode="bicubic", antialias=True
        )
        written = memory[_GUARD:-_GUARD].reshape(*size, 3)
        if not np.array_equal(written, fresh[0].permute(1, 2, 0).numpy()):
            return False
        if (memory[:_GUARD] != 0xA5).any() or (memory[-_GUARD:] != 0xA5).any():
            return False
    return True
