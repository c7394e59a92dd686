"""Decodes media as they arrive in requests: base64, JPEG and friends, MP4. Runs in pool threads.

In: a `MediaPart`, or the bytes of a fetched URL. Out: RGB frames, uint8 (height, width, 3). OpenCV
does the real decoding, and releases the GIL meanwhile. `data:video/jpeg;base64,F1,F2,...` is a
video of single pictures. Raises `MediaError`, which names the part; never keeps a file.
"""

import base64
import binascii
import os
import re
import tempfile
from dataclasses import dataclass
from typing import Final, cast

import cv2
import numpy as np
from numpy.typing import NDArray

from mmload.processors.arithmetic import MediaKind
from mmload.server.request import MediaError

Frame = NDArray[np.uint8]

UNKNOWN_FPS: Final = 24.0  # what transformers' processors assume of videos that do not say

_DATA_URI: Final = re.compile(r"data:([\w.+/-]*)((?:;[^;,]*)*),", re.ASCII)
_SCRATCH: Final = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # else the usual place


@dataclass(frozen=True, slots=True)
class Decoded:
    """Frames of one image (one) or video, with the encoded size."""

    kind: MediaKind
    frames: tuple[Frame, ...]
    encoded_bytes: int
    times_s: tuple[float, ...] = (0.0,)  # of each frame, from the start of the video

    @property
    def size(self) -> tuple[int, int]:
        """(height, width) of each frame."""
        return self.frames[0].shape[0], self.frames[0].shape[1]

    @property
    def decoded_bytes(self) -> int:
        return sum(frame.nbytes for frame in self.frames)


def decode_data_uri(kind: MediaKind, uri: str, max_frames: int) -> Decoded:
    """Decodes a `data:` URI. Raises MediaError."""
    head = _DATA_URI.match(uri[:200])
    if head is None or "base64" not in head.group(2).lower():
        raise MediaError(f"the {kind} is no data:TYPE;base64, URI: {uri[:40]!r}...")
    mime = head.group(1).lower()
    if mime and not mime.startswith(("image/", "video/", "application/octet-stream")):
        raise MediaError(f"unsupported media type {mime!r}: image/* and video/* are accepted")
    body = uri[head.end() :]
    if mime in ("video/jpeg", "video/png"):
        pictures = [_from_base64(kind, text) for text in body.split(",")]
        frames = [_picture(data) for data in pictures]
        return _checked(kind, frames, sum(map(len, pictures)), max_frames, UNKNOWN_FPS)
    return decode_bytes(kind, _from_base64(kind, body), max_frames)


def decode_bytes(kind: MediaKind, data: bytes, max_frames: int) -> Decoded:
    """Decodes a whole file. Raises MediaError."""
    if not data:
        raise MediaError(f"the {kind} is empty: 0 bytes")
    frames, fps = ([_picture(data)], UNKNOWN_FPS) if kind == "image" else _video(data)
    return _checked(kind, frames, len(data), max_frames, fps)


def _checked(
    kind: MediaKind, frames: list[Frame], encoded_bytes: int, limit: int, fps: float
) -> Decoded:
    if any(frame.shape != frames[0].shape for frame in frames):
        raise MediaError(f"the frames of the {kind} differ in size")
    kept = _sampled(len(frames), limit)
    times_s = tuple(i / fps for i in kept)
    return Decoded(kind, tuple(frames[i] for i in kept), encoded_bytes, times_s)


def _from_base64(kind: MediaKind, text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise MediaError(f"the {kind} is not valid base64: {error}") from error


def _picture(data: bytes) -> Frame:
    try:
        picture = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR) if data else None
    except cv2.error as error:  # over OpenCV's limit on pixels, for instance
        raise MediaError(f"the image cannot be decoded: {error.err}") from error
    if picture is None:
        raise MediaError(f"the image cannot be decoded ({len(data)} bytes): corrupt or unsupported")
    return cast(Frame, cv2.cvtColor(picture, cv2.COLOR_BGR2RGB))


def _video(data: bytes) -> tuple[list[Frame], float]:
    """All frames, and how many of them a second."""
    with tempfile.NamedTemporaryFile(dir=_SCRATCH, prefix="mmload-", suffix=".media") as file:
        file.write(data)
        file.flush()
        capture = cv2.VideoCapture(file.name, cv2.CAP_FFMPEG)
        try:
            fps = capture.get(cv2.CAP_PROP_FPS)
            frames: list[Frame] = []
            while True:
                read, frame = capture.read()
                if not read:
                    break
                frames.append(cast(Frame, cv2.cvtColor(frame, cv2.COLOR_BGR2RGB)))
        finally:
            capture.release()
    if not frames:
        raise MediaError(f"the video cannot be decoded ({len(data)} bytes): corrupt or unsupported")
    return frames, fps if fps > 0 else UNKNOWN_FPS


def _sampled(frames: int, limit: int) -> list[int]:
    """Evenly spaced, first and last included, as transformers' `sample_frames` does."""
    if frames <= limit:
        return list(range(frames))
    return [int(i) for i in np.linspace(0, frames - 1, limit).round()]
