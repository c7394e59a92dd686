"""The kinds of value that a scenario is made of, and how text of a command line becomes one.

Each kind checks itself and says what is allowed in a sentence (ValueError); `scenario_file` adds
the flag or the file and key. Nothing here opens a file.
"""

import json
from typing import Annotated, Any, Final, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
)

from mmload.load.schedule import Segment
from mmload.wire import APIS

DEFAULT_SIZE: Final = "854x480"
MOST_FRAMES: Final = 512
MOST_WARM_UP: Final = 10_000
AUTO: Final = "auto"  # instead of a number of warm-up requests: by `load.warmup`'s rule
AUTO_WARM_UP: Final = 50  # the most that it sends
BODY_FIELDS: Final = ("mm_processor_kwargs", "media_io_kwargs")
AS_FILE: Final = "file"  # instead of a number of frames: the file as it is

Arrival = Literal["constant", "poisson", "gamma"]
Form = Literal["video", "frames", "jpeg-frames"]
Frames = int | Literal["file"]


def listed(value: Any) -> Any:
    """Lists stay; text such as "1,6,15" is split, as people type it on a command line."""
    values = value if isinstance(value, list | tuple) else [value]
    return [
        part
        for v in values
        for part in ([p.strip() for p in v.split(",")] if isinstance(v, str) else [v])
    ]


def _frames(value: Any) -> Frames:
    if value == AS_FILE:
        return "file"
    try:
        number = int(value) if isinstance(value, int | str) and value is not True else -1
    except ValueError:
        number = -1
    if not 0 <= number <= MOST_FRAMES:
        raise ValueError(f"frames are an integer from 0 to {MOST_FRAMES}, or {AS_FILE}")
    return number


def _warm_up(value: Any) -> int | Literal["auto"]:
    if value == AUTO:
        return "auto"
    try:
        number = int(value) if isinstance(value, int | str) and value is not True else -1
    except ValueError:
        number = -1
    if not 0 <= number <= MOST_WARM_UP:
        raise ValueError(f"a number of requests from 0 to {MOST_WARM_UP}, or {AUTO}")
    return number


def _api(value: str) -> str:
    if value not in APIS:
        raise ValueError(f"mmload speaks {', '.join(APIS)}")
    return value


def _size(value: str) -> str:
    width, x, height = value.lower().partition("x")
    if not (x and width.isdigit() and height.isdigit()):
        raise ValueError("a size is WIDTHxHEIGHT in pixels, such as 854x480")
    if not (16 <= int(width) <= 8192 and 16 <= int(height) <= 8192):
        raise ValueError("width and height are 16 to 8192 pixels")
    return f"{int(width)}x{int(height)}"


def _json_object(value: Any) -> Any:
    """A JSON object, as text on the command line or as keys of a YAML file."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError as error:
            raise ValueError(f"not JSON: {error}") from None
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise ValueError("a JSON object is needed, such as '{\"top_p\": 0.9}'")
    return value


ApiName = Annotated[str, AfterValidator(_api)]
Size = Annotated[str, AfterValidator(_size)]
Rate = Annotated[float, Field(gt=0, le=100_000, allow_inf_nan=False)]
Seconds = Annotated[float, Field(gt=0, le=7 * 86_400, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)]
FrameCount = Annotated[Frames, PlainValidator(_frames)]
WarmUp = Annotated[int | Literal["auto"], PlainValidator(_warm_up)]
Prompt = Annotated[str, Field(min_length=1)]
Tokens = Annotated[int, Field(gt=0)]
JsonObject = Annotated[dict[str, Any], BeforeValidator(_json_object)]


class Model(BaseModel):
    """Frozen; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class MediaClass(Model):
    """One kind of request in the mix. What it leaves out it takes from the scenario.

    `frames` 0 is text alone, 1 an image, more a video, "file" a file as it is.
    """

    name: Annotated[str, Field(min_length=1, max_length=60)] | None = None
    frames: FrameCount | None = None
    size: Size | None = None
    as_: Form | None = Field(default=None, alias="as")
    media: str | None = None
    prompt: Prompt | None = None
    max_tokens: Tokens | None = None
    weight: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0

    @property
    def title(self) -> str:
        """The name that reports use, such as "15 frames 854x480"."""
        if self.name is not None:
            return self.name
        if self.frames == 0:
            return "text"
        native = self.media is not None and self.size is None
        size = "" if native else f" {self.size or DEFAULT_SIZE}"
        if self.frames == 1:
            return f"image{size}"
        if self.frames == AS_FILE:
            return f"file{size}"
        words = {"frames": "images", "jpeg-frames": "JPEG frames"}
        return f"{self.frames} {words.get(self.as_ or 'video', 'frames')}{size}"


def as_profile(value: Any) -> Any:
    """ "2x10s, 1-10x30s": rates and seconds, as the flag takes them."""
    if not isinstance(value, str):
        return value
    segments = []
    for part in value.split(","):
        rate, x, seconds = part.strip().removesuffix("s").partition("x")
        start, dash, end = rate.partition("-")
        if not x:
            raise ValueError("a profile is RATExSECONDS or FROM-TOxSECONDS, separated by commas")
        segments.append({"qps": start, "to": end if dash else start, "seconds": seconds})
    return segments


class ProfileSegment(Model):
    """A stretch of a rate profile: from `qps` to `to`, linearly, in `seconds`."""

    qps: Annotated[float, Field(ge=0, le=100_000, allow_inf_nan=False)]
    to: Annotated[float, Field(ge=0, le=100_000, allow_inf_nan=False)] | None = None
    seconds: Seconds

    def segment(self) -> Segment:
        return Segment(self.qps, self.qps if self.to is None else self.to, self.seconds)
