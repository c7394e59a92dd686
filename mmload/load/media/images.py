"""Pixels to image files (JPEG, PNG, WebP), and the places where a JPEG may be varied.

Goes in: 8-bit pixels, or a JPEG file's bytes. Comes out: `Media`, or sites. A JPEG is varied by its
luma quantiser steps: see `mmload.load.media.vary`. PNG and WebP have no such place and one variant.
"""

import hashlib
from typing import Final, Literal, get_args

import numpy as np

from mmload.errors import UsageError
from mmload.load.media import Media, Site, jpeg, vary
from mmload.load.media.opencv import Pixels, cv2

ImageFormat = Literal["jpeg", "png", "webp"]
FORMATS: Final[tuple[ImageFormat, ...]] = get_args(ImageFormat)
DEFAULT_QUALITY: Final = 85
_QUALITY_FLAG: Final[dict[str, int]] = {
    "jpeg": cv2.IMWRITE_JPEG_QUALITY,
    "webp": cv2.IMWRITE_WEBP_QUALITY,
}


def encode(
    pixels: Pixels,
    fmt: ImageFormat = "jpeg",
    quality: int = DEFAULT_QUALITY,
    source: str = "synthetic",
) -> Media:
    """An image file of these pixels (height x width x 3, or height x width for grey).

    `quality` is 1..100 for JPEG and WebP; PNG loses nothing and ignores it. Raises UsageError for a
    size that the format cannot hold.
    """
    height, width = pixels.shape[:2]
    flags = [_QUALITY_FLAG[fmt], quality] if fmt in _QUALITY_FLAG else []
    try:
        done, encoded = cv2.imencode("." + fmt, pixels, flags)
    except cv2.error:
        done = False
    if not done:
        raise UsageError(
            f"{source}: cannot be made a {fmt} of {width}x{height} pixels",
            "JPEG holds up to 65500 pixels a side, WebP 16383",
        )
    data = encoded.tobytes()
    return Media(
        kind="image",
        mime=f"image/{fmt}",
        data=data,
        width=width,
        height=height,
        frames=1,
        source=source,
        sha256=hashlib.sha256(data).hexdigest(),
        sites=jpeg_sites(data) if fmt == "jpeg" else (),
    )


def jpeg_sites(data: bytes) -> tuple[Site, ...]:
    """Where a JPEG file may be varied; () if it is of a kind whose steps cannot be judged.

    Only grey and YCbCr files with one 8-bit table for luma: in CMYK and RGB files the first
    component is not what a decoder gives as grey.
    """
    try:
        head = jpeg.read_head(data)
    except ValueError:
        return ()
    tables = head.tables.get(head.components[0], []) if head.components else []
    if (
        head.frame not in jpeg.COMMON_FRAMES
        or head.bits != 8
        or len(head.components) not in (1, 3)
        or head.adobe_transform not in (None, 1)
        or len(tables) != 1
        or tables[0].wide
    ):
        return ()
    stored = np.frombuffer(data, np.uint8)
    grey = cv2.imdecode(stored, cv2.IMREAD_GRAYSCALE | cv2.IMREAD_IGNORE_ORIENTATION)
    if grey is None:
        return ()
    steps = [
        vary.Step(position, 8 * at, data[at], unit=1, scale=1.0)
        for position, at in enumerate(range(tables[0].offset, tables[0].offset + 64))
        if position > 0 and data[at] > 0
    ]
    return vary.sites(data, steps, vary.frequencies(grey))
