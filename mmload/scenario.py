"""What to send, how fast, to whom: one validated, frozen model behind YAML files and flags.

`scenario_file` reads them. The digest covers what is sent and how fast, not to whom or where the
results go: runs with equal digests may be compared.
"""

import hashlib
import json
import math
from collections.abc import Sequence
from functools import cached_property
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    model_validator,
)

from mmload.load.schedule import MAX_ARRIVALS, Segment

DEFAULT_SIZE: Final = "854x480"

Arrival = Literal["constant", "poisson", "gamma"]


def _listed(value: Any) -> Any:
    """Lists stay; text such as "1,6,15" is split, as people type it on a command line."""
    values = value if isinstance(value, list | tuple) else [value]
    return [
        part
        for v in values
        for part in ([p.strip() for p in v.split(",")] if isinstance(v, str) else [v])
    ]


def _size(value: str) -> str:
    width, x, height = value.lower().partition("x")
    if not (x and width.isdigit() and height.isdigit()):
        raise ValueError("a size is WIDTHxHEIGHT in pixels, such as 854x480")
    if not (16 <= int(width) <= 8192 and 16 <= int(height) <= 8192):
        raise ValueError("width and height are 16 to 8192 pixels")
    return f"{int(width)}x{int(height)}"


Size = Annotated[str, AfterValidator(_size)]
Rate = Annotated[float, Field(gt=0, le=100_000, allow_inf_nan=False)]
Seconds = Annotated[float, Field(gt=0, le=7 * 86_400, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)]
FrameCount = Annotated[int, Field(ge=0, le=512)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class MediaClass(_Model):
    """One kind of request in the mix. `frames` 0 is text alone, 1 an image, more a video."""

    frames: FrameCount = 1
    size: Size | None = None
    weight: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0

    def title(self, as_frames: bool, native: bool) -> str:
        """The name that reports use, such as "15 frames 854x480"."""
        if self.frames == 0:
            return "text"
        size = "" if native and self.size is None else f" {self.size or DEFAULT_SIZE}"
        if self.frames == 1:
            return f"image{size}"
        return f"{self.frames} {'images' if as_frames else 'frames'}{size}"


def _profile(value: Any) -> Any:
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


class ProfileSegment(_Model):
    """A stretch of a rate profile: from `qps` to `to`, linearly, in `seconds`."""

    qps: Annotated[float, Field(ge=0, le=100_000, allow_inf_nan=False)]
    to: Annotated[float, Field(ge=0, le=100_000, allow_inf_nan=False)] | None = None
    seconds: Seconds

    def segment(self) -> Segment:
        return Segment(self.qps, self.qps if self.to is None else self.to, self.seconds)


class Scenario(_Model):
    """Everything about a run but the server. Descriptions are the flags' help."""

    # to whom (not in the digest)
    url: str | None = Field(
        None, description="Base URL of the server; none: an embedded one is started for the run."
    )
    model: str | None = Field(None, description="Model name (the one that /v1/models lists).")
    out: str | None = Field(None, description="Run folder to make (runs/<time>-<name>).")

    name: str = Field(
        "run",
        pattern=r"^[\w.-]{1,60}$",
        description="Name of the scenario, for reports and the run folder.",
    )

    # how fast
    qps: Rate | None = Field(None, description="Arrivals per second, whatever the server does (5).")
    duration: Seconds | None = Field(None, description="Seconds of arrivals (30).")
    requests: Annotated[int, Field(gt=0, le=MAX_ARRIVALS)] | None = Field(
        None, description="How many requests, instead of --duration."
    )
    arrival: Arrival = Field(
        "constant", description="Spacing of arrivals: constant, poisson or gamma."
    )
    burstiness: Annotated[float, Field(gt=0, le=100)] = Field(
        1.0, description="Shape of gamma arrivals: below 1 bursty, 1 as Poisson, above 1 calmer."
    )
    profile: Annotated[tuple[ProfileSegment, ...], BeforeValidator(_profile)] | None = Field(
        None, description="Rates over time instead of --qps: 2x10s,1-10x30s,0x5s; repeats."
    )
    trace: str | None = Field(None, description="JSONL file of arrivals to replay.")
    concurrency: Annotated[int, Field(gt=0, le=10_000)] | None = Field(
        None, description="Closed loop instead of --qps: keep so many requests under way."
    )
    sequential: bool = Field(False, description="One request at a time: a closed loop of one.")
    max_in_flight: Annotated[int, Field(gt=0)] | None = Field(
        None, description="Drop, and count, arrivals above this many in flight (no cap)."
    )
    warmup: Annotated[int, Field(ge=0, le=10_000)] = Field(
        2, description="Requests sent one at a time before the clock starts, not measured (2)."
    )
    timeout: Seconds = Field(300.0, description="Seconds that a request may take in all (300).")
    seed: Annotated[int, Field(ge=0, lt=2**63)] = Field(
        0, description="Seed of arrivals, media and mix (0)."
    )

    # what
    api: Literal["chat"] = Field("chat", description="The server's API: chat.")
    frames: Annotated[tuple[FrameCount, ...], BeforeValidator(_listed)] = Field(
        (1,),
        description="Frames a request: 0 text, 1 an image, more a video; 1,6,15 is a mix (1).",
    )
    size: Annotated[tuple[Size, ...], BeforeValidator(_listed)] | None = Field(
        None, description=f"WIDTHxHEIGHT in pixels ({DEFAULT_SIZE}); several make a mix."
    )
    mix: tuple[MediaClass, ...] | None = Field(
        None, description="Classes with weights, instead of frames and size (YAML only)."
    )
    media: str | None = Field(
        None, description="A file or folder of images and videos to send (synthetic media)."
    )
    as_: Literal["video", "frames"] = Field(
        "video",
        alias="as",
        description="Send frames as one MP4 (video) or as so many images (frames).",
    )
    fps: Annotated[float, Field(gt=0, le=240, allow_inf_nan=False)] = Field(
        2.0, description="Frame rate written into videos; servers sample by it (2)."
    )
    quality: Annotated[int, Field(ge=1, le=100)] = Field(
        85, description="JPEG quality of images that mmload encodes (85)."
    )
    reuse: Share | None = Field(
        None, description="Share of requests that repeat an earlier medium, exactly (0)."
    )
    prompt: Annotated[str, Field(min_length=1)] = Field(
        "Describe what you see.", description="Text of each request."
    )
    max_tokens: Annotated[int, Field(gt=0)] = Field(64, description="Output tokens asked for (64).")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        closed = self.concurrency is not None or self.sequential
        pacing = [n for n in ("qps", "profile", "trace") if getattr(self, n) is not None]
        if self.concurrency is not None and self.sequential:
            raise ValueError("concurrency and sequential: give one of them")
        if closed and pacing:
            raise ValueError(
                f"{pacing[0]} is for the open loop, concurrency and sequential are a closed one:"
                " give one kind"
            )
        if len(pacing) > 1:
            raise ValueError(f"{' and '.join(pacing)}: give one of them")
        if self.duration is not None and self.requests is not None and not closed:
            raise ValueError("duration and requests: give one of them")
        if self.profile and not any(s.segment().arrivals > 0 for s in self.profile):
            raise ValueError("profile: every rate is 0, so nothing would be sent")
        if self.mix is not None and ("frames" in self.given or "size" in self.given):
            raise ValueError("mix says the frames and sizes itself: leave out frames and size")
        return self

    @property
    def given(self) -> set[str]:
        """Fields that a file or flag set."""
        return self.model_fields_set

    @property
    def load_mode(self) -> str:
        if self.sequential:
            return "sequential"
        return "closed" if self.concurrency is not None else "open"

    @property
    def rate(self) -> float | None:
        """The asked rate; None where there is no single one."""
        if self.load_mode != "open" or self.profile or self.trace:
            return None
        return 5.0 if self.qps is None else self.qps

    @property
    def duration_s(self) -> float:
        if self.duration is not None:
            return self.duration
        if self.profile is not None and "duration" not in self.given:
            return math.fsum(s.seconds for s in self.profile)
        return 30.0

    @cached_property
    def classes(self) -> tuple[MediaClass, ...]:
        """The media classes of the mix, at least one."""
        if self.mix is not None:
            return self.mix
        sizes: tuple[str | None, ...] = self.size or (None,)
        made: dict[tuple[int, str | None], MediaClass] = {}
        for frames in self.frames:
            for size in sizes if frames else (None,):
                made.setdefault((frames, size), MediaClass(frames=frames, size=size))
        return tuple(made.values())

    def class_names(self) -> tuple[str, ...]:
        native = self.media is not None
        return tuple(c.title(self.as_ == "frames", native) for c in self.classes)

    def resolved(self) -> dict[str, Any]:
        """Plain data, ready for YAML or JSON: what was given and the defaults that count."""
        plain = self.model_dump(mode="json", by_alias=True, exclude_none=True)
        if self.rate is not None:
            plain["qps"] = self.rate
        if self.mix is not None:
            plain.pop("frames")
        if self.requests is None:
            plain["duration"] = self.duration_s
        return plain

    def digest(self, file_hashes: Sequence[str] = ()) -> str:
        """12 hex digits over what is sent and how fast; user files count by their contents."""
        plain = {k: v for k, v in self.resolved().items() if k not in _NOT_IN_DIGEST}
        if self.media is not None:
            plain["media"] = list(file_hashes)
        text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:12]


_NOT_IN_DIGEST: Final = ("url", "model", "out", "name", "warmup", "timeout")
