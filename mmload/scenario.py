"""What to send, how fast, to whom: one validated, frozen model behind YAML files and flags.

The keys of a YAML scenario are the long flags with underscores. Flags win over the file; what is
left is the default. `load_scenario` turns every problem into one UsageError line that names the
flag or the file and key, the value, what is allowed, and the fix. The digest covers what is sent
and how fast, not to whom or where the results go: runs with equal digests may be compared.
"""

import difflib
import hashlib
import json
import math
from collections.abc import Mapping
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from mmload.errors import UsageError
from mmload.flags import DEFAULT_SIZE, SCENARIO
from mmload.load.schedule import MAX_ARRIVALS, Segment

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
    """Everything about a run but the server. What each field means: `mmload.flags.SCENARIO`."""

    # to whom (not in the digest)
    url: str | None = Field(None)
    model: str | None = Field(None)
    out: str | None = Field(None)

    name: str = Field("run", pattern=r"^[\w.-]{1,60}$")

    # how fast
    qps: Rate | None = Field(None)
    duration: Seconds | None = Field(None)
    requests: Annotated[int, Field(gt=0, le=MAX_ARRIVALS)] | None = Field(None)
    arrival: Arrival = Field("constant")
    burstiness: Annotated[float, Field(gt=0, le=100)] = Field(1.0)
    profile: Annotated[tuple[ProfileSegment, ...], BeforeValidator(_profile)] | None = Field(None)
    trace: str | None = Field(None)
    concurrency: Annotated[int, Field(gt=0, le=10_000)] | None = Field(None)
    sequential: bool = Field(False)
    max_in_flight: Annotated[int, Field(gt=0)] | None = Field(None)
    warmup: Annotated[int, Field(ge=0, le=10_000)] = Field(2)
    timeout: Seconds = Field(300.0)
    seed: Annotated[int, Field(ge=0, lt=2**63)] = Field(0)

    # what
    api: Literal["chat"] = Field("chat")
    frames: Annotated[tuple[FrameCount, ...], BeforeValidator(_listed)] = Field((1,))
    size: Annotated[tuple[Size, ...], BeforeValidator(_listed)] | None = Field(None)
    mix: tuple[MediaClass, ...] | None = Field(None)
    media: str | None = Field(None)
    as_: Literal["video", "frames"] = Field("video", alias="as")
    fps: Annotated[float, Field(gt=0, le=240, allow_inf_nan=False)] = Field(2.0)
    quality: Annotated[int, Field(ge=1, le=100)] = Field(85)
    reuse: Share | None = Field(None)
    prompt: Annotated[str, Field(min_length=1)] = Field("Describe what you see.")
    max_tokens: Annotated[int, Field(gt=0)] = Field(64)

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

    @property
    def digest(self) -> str:
        """12 hex digits over what is sent and how fast."""
        plain = {k: v for k, v in self.resolved().items() if k not in _NOT_IN_DIGEST}
        text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:12]


_NOT_IN_DIGEST: Final = ("url", "model", "out", "name", "warmup", "timeout")


def load_scenario(file: str | None, flags: Mapping[str, Any]) -> Scenario:
    """The scenario of a YAML file (or a shipped name such as "mix") under the given flags.

    `flags` maps field names (by alias) to what was typed. Raises UsageError.
    """
    from_file, where = _read(file) if file is not None else ({}, "")
    values = {**from_file, **flags}
    # Flags replace a file's way of pacing instead of standing beside it.
    for group in _ALTERNATIVES:
        if any(key in flags for key in group):
            for key in group:
                if key not in flags:
                    values.pop(key, None)
    try:
        return Scenario.model_validate(values)
    except ValidationError as error:
        raise _usage_error(error, set(flags), where) from None


_ALTERNATIVES: Final = (
    ("qps", "profile", "trace", "concurrency", "sequential"),
    ("duration", "requests"),
    ("mix", "frames"),
)


def scenario_folder() -> Path:
    """Where the shipped scenarios are: beside the package when installed, else in the checkout."""
    packaged = Path(str(resources.files("mmload"))) / "scenarios"
    return packaged if packaged.is_dir() else packaged.parents[1] / "scenarios"


def shipped() -> dict[str, Path]:
    return {path.stem: path for path in sorted(scenario_folder().glob("*.yaml"))}


def _read(file: str) -> tuple[dict[str, Any], str]:
    path = Path(file)
    if not path.exists() and path.suffix == "" and path.name == file:
        names = shipped()
        if file not in names:
            raise UsageError(
                f"--scenario {file}: no such file or shipped scenario",
                f"name a YAML file or one of: {', '.join(names)}",
            )
        path = names[file]
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", "name a YAML file that can be read") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        problem = " ".join(str(error).split())
        raise UsageError(f"{path}: not YAML: {problem}", "correct the file") from None
    if not isinstance(values, dict):
        raise UsageError(f"{path}: holds no keys", "write `key: value` lines, such as `qps: 5`")
    values.setdefault("name", path.stem)
    return values, str(path)


def _usage_error(error: ValidationError, flags: set[str], file: str) -> UsageError:
    first = error.errors()[0]
    loc = [str(part) for part in first["loc"]]
    key = loc[0] if loc else ""
    flag = key in flags or not file
    source = f"--{key.replace('_', '-')}" if flag else f"{file}: {'.'.join(loc)}"
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        known = [f.alias or n for n, f in Scenario.model_fields.items()]
        if len(loc) > 1:
            known = list(MediaClass.model_fields if key == "mix" else ProfileSegment.model_fields)
        close = difflib.get_close_matches(loc[-1], known, n=1)
        hint = f"did you mean {close[0]}?" if close else f"allowed: {', '.join(sorted(known))}"
        return UsageError(f"{source}: no such key", hint)
    if not loc:
        return UsageError(f"{file}: {message}" if file else message, "see `mmload run --help`")
    shown = first["input"] if not isinstance(first["input"], dict) else "..."
    about = SCENARIO[name].help if (name := key.replace("_", "-")) in SCENARIO else ""
    return UsageError(f"{source}: {shown!r} is not allowed: {message}", about)
