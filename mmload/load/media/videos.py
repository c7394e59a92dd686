"""Frames to a clip: one MP4 file, or JPEG files for servers that take frames joined by commas.

Goes in: frames of one size. Comes out: `Media`. MP4 is MPEG-4 part 2, the one video encoder that
every OpenCV wheel has; its sites are quantiser steps in the file's header, see
`mmload.load.media.mpeg4`. It holds even sizes only: of an odd side the last row or column is cut
off, and `Media.width` and `height` say what is left.
"""

import hashlib
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mmload.errors import UsageError
from mmload.load.media import Media, Site, images, mpeg4, vary
from mmload.load.media.opencv import Pixels, cv2

LARGEST_SIDE = 8190  # 13 bits, even
# Full-range grey to the 16..235 of video.
VIDEO_RANGE = np.float32(219 / 255)


def encode_mp4(frames: Sequence[Pixels], fps: float, source: str = "synthetic") -> Media:
    """An MP4 file of these frames (each height x width x 3, all of one size).

    Raises UsageError for no frames, unequal sizes, a side under 2 or over 8190, or a rate that the
    encoder refuses.
    """
    width, height = _even_size(frames, source)
    with tempfile.TemporaryDirectory(prefix="mmload-") as folder:
        path = Path(folder) / "clip.mp4"
        fourcc = cv2.VideoWriter.fourcc(*"mp4v")
        writer = cv2.VideoWriter(str(path), cv2.CAP_FFMPEG, fourcc, fps, (width, height))
        if not writer.isOpened():
            raise UsageError(
                f"{source}: OpenCV cannot write an MP4 of {width}x{height} at {fps:g} frames/s",
                "choose a common size and rate, such as 854x480 at 2",
            )
        for frame in frames:
            writer.write(np.ascontiguousarray(frame[:height, :width]))
        writer.release()
        data = path.read_bytes()
    sites: tuple[Site, ...] = ()
    changed = mpeg4.with_matrices(data)
    if changed is not None:
        data = changed.data
        grey = cv2.cvtColor(frames[0][:height, :width], cv2.COLOR_BGR2GRAY) * VIDEO_RANGE
        sites = vary.sites(data, changed.steps, vary.frequencies(grey))
    return Media(
        kind="video",
        mime="video/mp4",
        data=data,
        width=width,
        height=height,
        frames=len(frames),
        source=source,
        sha256=hashlib.sha256(data).hexdigest(),
        sites=sites,
    )


def comma_jpeg(
    frames: Sequence[Pixels], quality: int = images.DEFAULT_QUALITY, source: str = "synthetic"
) -> list[Media]:
    """Each frame as a JPEG, for a `data:video/jpeg;base64,<f1>,<f2>` body; sizes must be equal."""
    _one_size(frames, source)
    return [images.encode(frame, "jpeg", quality, source) for frame in frames]


def _one_size(frames: Sequence[Pixels], source: str) -> tuple[int, int]:
    sizes = {frame.shape[1::-1] for frame in frames}
    if len(sizes) != 1:
        found = ", ".join(f"{w}x{h}" for w, h in sorted(sizes)) or "no frames"
        raise UsageError(
            f"{source}: a clip needs frames of one size, not {found}", "give one size for all"
        )
    width, height = sizes.pop()
    return width, height


def _even_size(frames: Sequence[Pixels], source: str) -> tuple[int, int]:
    full_width, full_height = _one_size(frames, source)
    width, height = full_width & ~1, full_height & ~1
    if not (2 <= width <= LARGEST_SIDE and 2 <= height <= LARGEST_SIDE):
        raise UsageError(
            f"{source}: an MP4 of {full_width}x{full_height} pixels is not possible",
            f"sides from 2 to {LARGEST_SIDE} pixels, even",
        )
    return width, height
