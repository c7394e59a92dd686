"""Synthetic media as a scenario asks for them, and frames as it asks them to be sent.

Media depend on the seed, their class and their number alone. A few contents a class are varied into
as many requests as there are. What cannot be varied (PNG, WebP) is made one by one, up to a bound.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from mmload.errors import UsageError
from mmload.load.media import images, synthetic, videos
from mmload.load.media.opencv import Pixels
from mmload.load.prepare.pool import MediaSet
from mmload.scenario import Scenario
from mmload.scenario_types import DEFAULT_SIZE, Form, MediaClass

CONTENTS: Final = 8  # distinct synthetic contents a class; varied into as many requests as needed
MOST_SEPARATE: Final = 256  # images of a class that are each made for one request
MOST_MOMENTS: Final = 16  # of a camera's scene, before it comes round in another variant
ALL_MOMENTS: Final = 64  # of all cameras together


def contents(scenario: Scenario, cls: MediaClass, requests: int, warm_up: int) -> int:
    """How many distinct media to make for a class of so many requests."""
    if not cls.frames:
        return 1
    if varied(scenario, cls):
        return max(1, min(CONTENTS, requests))
    needed = requests - round((scenario.reuse or 0.0) * requests) + warm_up
    _check_separate(scenario, cls, needed)
    return max(1, needed)


def _check_separate(scenario: Scenario, cls: MediaClass, requests: int) -> None:
    """Raises UsageError for more images than can be made one by one in reasonable time."""
    assert isinstance(cls.frames, int)
    if requests * cls.frames > MOST_SEPARATE:
        raise UsageError(
            f"--format {scenario.format}: such images cannot be varied, and"
            f" {requests * cls.frames} distinct ones are needed for {cls.title!r}; at most"
            f" {MOST_SEPARATE} are made one by one",
            "send jpeg, shorten the run (--requests), or allow repeats (--reuse)",
        )


def varied(scenario: Scenario, cls: MediaClass) -> bool:
    """Whether mmload can vary what it encodes for this class."""
    as_images = cls.frames == 1 or cls.as_ == "frames"
    return not as_images or scenario.format in (None, "jpeg")


def synthetic_set(scenario: Scenario, cls: MediaClass, class_number: int, number: int) -> MediaSet:
    """The n-th content of a class."""
    if not cls.frames:
        return MediaSet()
    assert isinstance(cls.frames, int)
    width, height = pixels_of(cls.size or DEFAULT_SIZE)
    rng = synthetic.seeded(scenario.seed, class_number, number)
    if cls.frames == 1:
        frames = [synthetic.image_pixels(rng, width, height)]
    else:
        frames = synthetic.video_frames(rng, width, height, cls.frames)
    return as_asked(scenario, cls, frames, "synthetic")


def as_asked(
    scenario: Scenario, cls: MediaClass, frames: Sequence[Pixels], source: str
) -> MediaSet:
    """Frames as one video, as so many images, or as a video of JPEG files; one as an image."""
    if len(frames) > 1 and cls.as_ == "video":
        return MediaSet((videos.encode_mp4(frames, scenario.fps, source),))
    if len(frames) > 1 and cls.as_ == "jpeg-frames":
        return MediaSet(tuple(videos.comma_jpeg(frames, scenario.quality, source)), joined=True)
    fmt = scenario.format or "jpeg"
    return MediaSet(tuple(images.encode(f, fmt, scenario.quality, source) for f in frames))


def form_of(cls: MediaClass) -> Form | None:
    """How a class sends several frames; None where there is nothing to choose."""
    return None if cls.frames in (0, 1) else cls.as_


def moments(scenario: Scenario, cls: MediaClass, cameras: int, requests: int) -> int:
    """How many requests of one camera show a scene's own moments before variants of them follow."""
    if varied(scenario, cls):
        return max(1, min(MOST_MOMENTS, requests, max(2, ALL_MOMENTS // cameras)))
    _check_separate(scenario, cls, requests * cameras)
    return requests


def filmed(
    scenario: Scenario, cls: MediaClass, class_number: int, camera: int, count: int
) -> Iterator[MediaSet]:
    """What one camera sends: `count` neighbouring stretches of one scene, `cls.frames` long."""
    assert isinstance(cls.frames, int)
    width, height = pixels_of(cls.size or DEFAULT_SIZE)
    rng = synthetic.seeded(scenario.seed, class_number, camera)
    footage = synthetic.footage(rng, width, height)
    for _ in range(count):
        yield as_asked(scenario, cls, list(islice(footage, cls.frames)), "synthetic")


def pixels_of(size: str) -> tuple[int, int]:
    width, _, height = size.partition("x")
    return int(width), int(height)
