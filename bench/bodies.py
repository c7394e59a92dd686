"""What every tool of the benchmark sends: chats with 15 frames, as one MP4 or as 15 JPEG files.

The clips are mmload's own synthetic ones, so mmload is only told their size, and its peers get
files of the same clips. `VIDEO_SIZE` and `FRAME_SIZE` are chosen such that both kinds make bodies
of about 0.73 MB. Peers repeat these eight; mmload varies each request.
"""

import base64
from collections.abc import Iterator
from functools import cache
from typing import Any, Final, Literal

from mmload.load.media import images, synthetic, videos

Kind = Literal["video", "frames"]

CLIPS: Final = 8  # as many as mmload makes for itself
FRAMES: Final = 15
VIDEO_SIZE: Final = "1120x630"
FRAME_SIZE: Final = "588x330"
PROMPT: Final = "Describe what you see."
MAX_TOKENS: Final = 16
FPS: Final = 2.0


def size(kind: Kind) -> str:
    """WIDTHxHEIGHT of the pictures."""
    return VIDEO_SIZE if kind == "video" else FRAME_SIZE


@cache
def media_urls(kind: Kind) -> tuple[tuple[str, ...], ...]:
    """Data URLs of each clip: one of a video, or one a frame."""
    width, height = map(int, size(kind).split("x"))
    return tuple(tuple(_urls(kind, clip, width, height)) for clip in range(CLIPS))


def _urls(kind: Kind, clip: int, width: int, height: int) -> Iterator[str]:
    rng = synthetic.seeded(0, 0, clip)  # as mmload run --seed 0 seeds the clips of its first class
    frames = synthetic.video_frames(rng, width, height, FRAMES)
    if kind == "video":
        made = [videos.encode_mp4(frames, FPS)]
    else:
        made = [images.encode(frame) for frame in frames]
    for media in made:
        yield f"data:{media.mime};base64,{base64.b64encode(media.data).decode()}"


def parts(kind: Kind, clip: int) -> list[dict[str, Any]]:
    """The content of the user's message, in the OpenAI format."""
    name = "video_url" if kind == "video" else "image_url"
    media = [{"type": name, name: {"url": url}} for url in media_urls(kind)[clip]]
    return [{"type": "text", "text": PROMPT}, *media]


def body(kind: Kind, clip: int) -> dict[str, Any]:
    """A whole request body."""
    return {
        "model": "truth",
        "messages": [{"role": "user", "content": parts(kind, clip)}],
        "max_tokens": MAX_TOKENS,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
