"""What callers pass, as frames that the owned cores take: uint8, (height, width, 3), contiguous.

Arrays and tensors that have this layout, as decoders give it, are taken without a copy; planar ones
are interleaved. Everything that the stock processor would treat in a way of its own (grey, alpha,
floats, other devices, shapes that read both ways) raises `Unusual`: it is stock's turn. Never
changes or keeps what it is given.
"""

from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

Frame = NDArray[np.uint8]

_CHANNELS = (1, 3, 4)  # sizes that transformers may take for the colour axis


class Unusual(Exception):
    """Stock's turn; the message is the reason, a few words that repeat from call to call."""


def image_frame(image: Any) -> Frame:
    """One image."""
    array = _array(image)
    if array.ndim != 3:
        raise Unusual(f"an image of {array.ndim} dimensions")
    return interleaved(array) if _planar(array.shape) else _contiguous(array)


def video_frames(videos: Sequence[Any]) -> list[list[Frame]]:
    """The frames of each video of one call."""
    arrays = [_frames(video) for video in videos]
    # transformers reads the layout off the first video and takes it for that of all
    layouts = {_planar(frame.shape) for frames in arrays for frame in frames}
    if len(layouts) != 1 or len({isinstance(video, list | tuple) for video in videos}) != 1:
        raise Unusual("videos of several layouts in one call")
    take = interleaved if layouts.pop() else _contiguous
    return [[take(frame) for frame in frames] for frames in arrays]


def _frames(video: Any) -> list[NDArray[np.uint8]]:
    if not isinstance(video, list | tuple):
        array = _array(video)
        if array.ndim != 4:
            raise Unusual(f"a video of {array.ndim} dimensions")
        return list(array)
    frames = [_array(frame) for frame in video]
    if not frames or frames[0].ndim != 3:
        raise Unusual("a video that is no list of frames")
    if any(frame.shape != frames[0].shape for frame in frames):
        raise Unusual("frames of several sizes")
    return frames


def _array(media: Any) -> NDArray[np.uint8]:
    if isinstance(media, Image.Image):
        if media.mode != "RGB":
            raise Unusual(f"PIL mode {media.mode}")
        return np.array(media)
    if isinstance(media, torch.Tensor):
        if media.device.type != "cpu":
            raise Unusual("a tensor on another device")
        if media.dtype != torch.uint8:
            raise Unusual("pixels other than uint8")
        array: NDArray[np.uint8] = media.numpy()
        return array
    if not isinstance(media, np.ndarray):
        raise Unusual(f"a {type(media).__name__}")
    if media.dtype != np.uint8:
        raise Unusual("pixels other than uint8")
    if any(stride < 0 for stride in media.strides):
        raise Unusual("negative strides")
    return media


def _planar(shape: tuple[int, ...]) -> bool:
    """Whether colours come first. Raises Unusual for anything but one clear axis of three."""
    first, last = shape[0] in _CHANNELS, shape[2] in _CHANNELS
    if first and last:
        raise Unusual("a shape with two axes for colours")
    if not (first or last):
        raise Unusual("a shape without an axis for colours")
    if shape[0 if first else 2] != 3:
        raise Unusual("grey or alpha")
    if 0 in shape:
        raise Unusual("a picture without pixels")
    return first


def _contiguous(array: NDArray[np.uint8]) -> Frame:
    # torch warns of memory that it may not write to, although nothing here writes
    return np.require(array, np.uint8, ["C", "W"])


def interleaved(array: NDArray[np.uint8]) -> Frame:
    """A planar frame, channels-last."""
    return np.asarray(cv2.merge([np.ascontiguousarray(plane) for plane in array]), np.uint8)
