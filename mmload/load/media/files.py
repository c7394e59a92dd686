"""A user's files as media: whole and as they are, re-encoded on request, or frames out of a clip.

Goes in: a path, and what is asked of it. Comes out: `Media`, or pixels. A file is sent as its own
bytes unless a size or format is asked for; then rotation notes, CMYK, palettes, deep colours and
transparency (over white, as vLLM does) become plain 8-bit colour. Strange files raise UsageError
that names them. Files are only read.
"""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmload.errors import UsageError
from mmload.load.media import Media, Site, images
from mmload.load.media.images import ImageFormat
from mmload.load.media.opencv import Pixels, cv2
from mmload.load.media.probe import FileFacts, check, probe


def image_file(
    path: Path,
    size: tuple[int, int] | None = None,
    fmt: ImageFormat | None = None,
    quality: int = images.DEFAULT_QUALITY,
    varied: bool = False,
    as_is: bool = False,
) -> Media:
    """An image file as media. Raises UsageError if it is a video, or strange and not `as_is`.

    With `size` (width, height, exactly) or `fmt` it is decoded and encoded again, else it is its
    own bytes; those have sites only if `varied` is asked for and it is a JPEG.
    """
    facts = _checked(path, as_is)
    if facts.kind != "image":
        raise UsageError(f"{path}: a video, where an image is needed", "ask for frames out of it")
    data = path.read_bytes()
    if size is None and fmt is None:
        sites = images.jpeg_sites(data) if varied and facts.mime == "image/jpeg" else ()
        return _own_bytes(facts, data, sites)
    pixels = decode_image(facts, data)
    if size is not None:
        pixels = resized(pixels, size)
    own = facts.mime.removeprefix("image/")
    kept: ImageFormat = next((f for f in images.FORMATS if f == own), "jpeg")
    return images.encode(pixels, fmt or kept, quality, path.name)


def video_file(path: Path, as_is: bool = False) -> Media:
    """A video file as its own bytes. Raises UsageError for an image, or a strange file."""
    facts = _checked(path, as_is)
    if facts.kind != "video":
        raise UsageError(f"{path}: an image, where a video is needed", "name a video file")
    return _own_bytes(facts, path.read_bytes())


def frame_rate(path: Path) -> float:
    """Frames a second, as the file's header says; 25 where it does not."""
    capture = _opened(path)
    rate = float(capture.get(cv2.CAP_PROP_FPS))
    capture.release()
    return rate if 0 < rate <= 1000 else 25.0


def extract_frames(
    path: Path, count: int | None, size: tuple[int, int] | None = None
) -> list[Pixels]:
    """`count` frames (None: all) spread evenly over what of a clip (or GIF) can be decoded.

    First and last frame are among them (of one, the first). The clip is decoded from the start, as
    headers and seeking can be wrong; rotation notes are followed; `size` is width, height, exactly.
    Raises UsageError for an image, a strange file, or a clip with fewer frames.
    """
    facts = _checked(path, as_is=False)
    if facts.kind == "image" and facts.frames == 1:
        raise UsageError(
            f"{path}: one picture, where a clip is needed to take {count or 'all'} frames from",
            "name a video file or an animated GIF",
        )
    if facts.kind == "image" and facts.mime != "image/gif":
        raise UsageError(
            f"{path}: frames cannot be taken out of an animated {facts.mime}",
            "make it a video file or a GIF",
        )
    decodable = _count(path)
    count = max(1, decodable) if count is None else count
    if not 1 <= count <= decodable:
        raise UsageError(
            f"{path}: {decodable} frames can be decoded, {count} were asked for",
            f"ask for 1 to {decodable} frames" if decodable else "replace the file",
        )
    wanted = [round(i * (decodable - 1) / max(1, count - 1)) for i in range(count)]
    frames = _frames(path, wanted)
    return frames if size is None else [resized(frame, size) for frame in frames]


def decode_image(facts: FileFacts, data: bytes) -> Pixels:
    """An image as displayed: height x width x 3. Raises UsageError if OpenCV cannot decode it."""
    stored = np.frombuffer(data, np.uint8)
    # "Unchanged" keeps transparency and all bits; of CMYK it would keep the inks.
    jpeg = facts.mime == "image/jpeg"
    flags = cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION if jpeg else cv2.IMREAD_UNCHANGED
    pixels = cv2.imdecode(stored, flags) if len(stored) else None
    if pixels is None and facts.mime == "image/gif":  # OpenCV 4.10 knows GIF only as video
        pixels = next(iter(_frames(facts.path, [0])), None)
    if pixels is None:
        raise UsageError(
            f"{facts.path}: cannot be decoded", "send it without a size or format, or replace it"
        )
    return oriented(_plain(pixels), facts.orientation)


def oriented(pixels: Pixels, orientation: int) -> Pixels:
    """Pixels turned and mirrored as an EXIF orientation (1..8) says they are to be displayed."""
    if orientation >= 5:
        pixels = pixels.swapaxes(0, 1)
    if orientation in (3, 4, 7, 8):
        pixels = pixels[::-1]
    if orientation in (2, 3, 6, 7):
        pixels = pixels[:, ::-1]
    return np.ascontiguousarray(pixels)


def resized(pixels: Pixels, size: tuple[int, int]) -> Pixels:
    """Exactly `size` (width, height), whatever that does to the shape."""
    height, width = pixels.shape[:2]
    if (width, height) == size:
        return pixels
    shrinks = size[0] * size[1] < width * height
    how = cv2.INTER_AREA if shrinks else cv2.INTER_CUBIC
    return np.asarray(cv2.resize(pixels, size, interpolation=how), np.uint8)


def _plain(pixels: NDArray[Any]) -> Pixels:
    """8 bits, three colours, transparency over white."""
    if pixels.dtype == np.uint16:
        pixels = cv2.convertScaleAbs(pixels, alpha=255 / 65535)
    if pixels.ndim == 2 or pixels.shape[2] == 1:
        pixels = cv2.cvtColor(pixels, cv2.COLOR_GRAY2BGR)
    if pixels.shape[2] == 4:
        opacity = pixels[..., 3:].astype(np.float32) / 255
        over = pixels[..., :3] * opacity + 255 * (1 - opacity)
        pixels = np.rint(over).astype(np.uint8)
    return np.asarray(pixels, np.uint8)


def _checked(path: Path, as_is: bool) -> FileFacts:
    facts = probe(path)
    if not as_is:
        check(facts)
    return facts


def _own_bytes(facts: FileFacts, data: bytes, sites: tuple[Site, ...] = ()) -> Media:
    return Media(
        kind=facts.kind,
        mime=facts.mime,
        data=data,
        width=facts.width,
        height=facts.height,
        frames=facts.frames,
        source=facts.path.name,
        sha256=hashlib.sha256(data).hexdigest(),
        sites=sites,
    )


def _opened(path: Path) -> cv2.VideoCapture:
    capture = cv2.VideoCapture(str(path), cv2.CAP_FFMPEG)
    capture.set(cv2.CAP_PROP_ORIENTATION_AUTO, 1)
    return capture


def _count(path: Path) -> int:
    """How many frames of a clip decode."""
    capture = _opened(path)
    count = 0
    while capture.grab():
        count += 1
    capture.release()
    return count


def _frames(path: Path, wanted: list[int]) -> list[Pixels]:
    """The frames with these numbers, which must rise; ends early where decoding does."""
    capture = _opened(path)
    frames: list[Pixels] = []
    for number in range(max(wanted) + 1):
        if not capture.grab():
            break
        if number in wanted:
            done, frame = capture.retrieve()
            if done:
                frames.append(np.asarray(frame, np.uint8))
    capture.release()
    return frames
