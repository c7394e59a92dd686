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

from pydantic import BeforeValidator, Field, model_validator

from mmload.load.schedule import MAX_ARRIVALS
from mmload.scenario_checks import check
from mmload.scenario_types import (
    AS_FILE,
    AUTO,
    AUTO_WARM_UP,
    BODY_FIELDS,
    DEFAULT_SIZE,
    ApiName,
    Arrival,
    Form,
    FrameCount,
    JsonObject,
    MediaClass,
    Model,
    ProfileSegment,
    Prompt,
    Rate,
    Seconds,
    Share,
    Size,
    Tokens,
    WarmUp,
    as_profile,
    listed,
)
from mmload.wire import APIS


class Scenario(Model):
    """Everything about a run but the server. Descriptions are the flags' help."""

    # to whom (not in the digest)
    url: str | None = Field(
        None, description="Base URL of the server; none: an embedded one is started for the run."
    )
    model: str | None = Field(None, description="Model name (the one that /v1/models lists).")
    model_family: Literal["qwen2-vl", "qwen2.5-vl", "qwen3-vl", "gemma-3", "gemma-4"] | None = (
        Field(
            None,
            description="Whose arithmetic to check prompt tokens by: qwen2-vl, qwen2.5-vl,"
            " qwen3-vl, gemma-3, gemma-4 (by the model's name).",
        )
    )
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
    profile: Annotated[tuple[ProfileSegment, ...], BeforeValidator(as_profile)] | None = Field(
        None, description="Rates over time instead of --qps: 2x10s,1-10x30s,0x5s; repeats."
    )
    trace: str | None = Field(
        None, description="JSONL file of arrivals to replay; see docs/inputs.md."
    )
    cameras: Annotated[int, Field(gt=0, le=100_000)] | None = Field(
        None, description="So many cameras instead of --qps, each sending what it filmed."
    )
    every: Seconds | None = Field(None, description="Seconds between a camera's requests (1).")
    phases: Literal["random", "even"] = Field(
        "random", description="When cameras begin: random (seeded), or evenly spread."
    )
    turns: Annotated[int, Field(gt=0, le=64)] = Field(
        1, description="Turns of a conversation, each sending the earlier ones again (1)."
    )
    think_time: Seconds | None = Field(
        None, description="Seconds from one turn of a conversation to the next (5)."
    )
    concurrency: Annotated[int, Field(gt=0, le=10_000)] | None = Field(
        None, description="Closed loop instead of --qps: keep so many requests under way."
    )
    sequential: bool = Field(False, description="One request at a time: a closed loop of one.")
    max_in_flight: Annotated[int, Field(gt=0)] | None = Field(
        None, description="Drop, and count, arrivals above this many in flight (no cap)."
    )
    warmup: WarmUp = Field(
        2,
        description="Requests sent one at a time before the clock starts, not measured (2). auto:"
        f" until the mean TTFT of 5 is no longer 5 % below that of the 5 before, {AUTO_WARM_UP} at"
        " most.",
    )
    cut_warmup: bool = Field(
        False, description="Leave a slow start out of the latencies (by MSER-5), and count it."
    )
    timeout: Seconds = Field(300.0, description="Seconds that a request may take in all (300).")
    retries: Annotated[int, Field(ge=0, le=10)] = Field(
        0, description="Times to send a failed request again; waits count in its latency (0)."
    )
    seed: Annotated[int, Field(ge=0, lt=2**63)] = Field(
        0, description="Seed of arrivals, media and mix (0)."
    )

    # what
    api: ApiName = Field("chat", description=f"The server's API: {', '.join(APIS)} (chat).")
    frames: Annotated[tuple[FrameCount, ...], BeforeValidator(listed)] | None = Field(
        None,
        description="Frames a request: 0 text, 1 an image, more a video, file: as the file is;"
        " 1,6,15 is a mix (1; of files: file).",
    )
    size: Annotated[tuple[Size, ...], BeforeValidator(listed)] | None = Field(
        None, description=f"WIDTHxHEIGHT in pixels ({DEFAULT_SIZE}); several make a mix."
    )
    mix: tuple[MediaClass, ...] | None = Field(
        None, description="Classes with weights, instead of frames and size (YAML only)."
    )
    media: str | None = Field(
        None, description="A file or folder of images and videos to send (synthetic media)."
    )
    dataset: str | None = Field(
        None, description="JSONL file of prompts, media and expected answers; see docs/inputs.md."
    )
    order: Literal["given", "shuffled"] = Field(
        "given", description="Lines of a dataset as given, or shuffled by the seed."
    )
    as_: Form = Field(
        "video",
        alias="as",
        description="Send frames as one MP4 (video), as so many images (frames), or as one video"
        " of JPEG files (jpeg-frames).",
    )
    media_url: Literal["serve"] | None = Field(
        None, description="serve: send URLs, from which mmload serves the media on loopback."
    )
    format: Literal["jpeg", "png", "webp"] | None = Field(
        None, description="Format of images: jpeg, png, webp (jpeg; files: their own)."
    )
    quality: Annotated[int, Field(ge=1, le=100)] = Field(
        85, description="Quality of JPEG and WebP images that mmload encodes (85)."
    )
    reencode: bool = Field(False, description="Decode and encode files again, at their own size.")
    send_invalid: bool = Field(
        False, description="Send strange files as they are, to see what the server does."
    )
    detail: Literal["auto", "low", "high"] | None = Field(
        None, description="detail of images: auto, low or high (not sent)."
    )
    fps: Annotated[float, Field(gt=0, le=240, allow_inf_nan=False)] = Field(
        2.0, description="Frame rate written into videos; servers sample by it (2)."
    )
    reuse: Share | None = Field(
        None, description="Share of requests that repeat an earlier one, exactly (0)."
    )
    prompt: Prompt = Field("Describe what you see.", description="Text of each request.")
    prompts: str | None = Field(
        None, description='File of prompts: one a line, or JSONL with a "prompt"; in turn.'
    )
    max_tokens: Tokens = Field(64, description="Output tokens asked for (64).")
    extra_body: JsonObject | None = Field(
        None, description="JSON object whose fields are added to every request's body."
    )
    mm_processor_kwargs: JsonObject | None = Field(
        None, description="JSON object: the body's mm_processor_kwargs (vLLM, LMDeploy)."
    )
    media_io_kwargs: JsonObject | None = Field(
        None, description="JSON object: the body's media_io_kwargs (vLLM, LMDeploy)."
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        check(self)
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
        if self.load_mode != "open" or self.profile or self.trace or self.turns > 1:
            return None
        if self.cameras is not None:
            return self.cameras / self.every_s
        return self.arrivals_qps

    @property
    def arrivals_qps(self) -> float:
        """Arrivals a second of the steady schedules: requests, or conversations."""
        return 5.0 if self.qps is None else self.qps

    @property
    def duration_s(self) -> float:
        if self.duration is not None:
            return self.duration
        if self.profile is not None and "duration" not in self.given:
            return math.fsum(s.seconds for s in self.profile)
        return 30.0

    @property
    def each_line_once(self) -> bool:
        """Whether a dataset alone says how many requests there are."""
        lengths = (self.duration, self.requests, self.profile, self.trace)
        return self.dataset is not None and all(length is None for length in lengths)

    @property
    def every_s(self) -> float:
        return 1.0 if self.every is None else self.every

    @property
    def think_time_s(self) -> float:
        return 5.0 if self.think_time is None else self.think_time

    @property
    def warmup_most(self) -> int:
        """Warm-up requests that there have to be bodies for."""
        return AUTO_WARM_UP if self.warmup == AUTO else int(self.warmup)

    @property
    def extra(self) -> dict[str, Any]:
        """Fields that every request's body has besides its own."""
        kwargs = {name: getattr(self, name) for name in BODY_FIELDS}
        given = {name: value for name, value in kwargs.items() if value is not None}
        return {**(self.extra_body or {}), **given}

    @cached_property
    def classes(self) -> tuple[MediaClass, ...]:
        """The media classes of the mix, at least one, each with everything filled in."""
        if self.mix is not None:
            return tuple(map(self.completed, self.mix))
        sizes: tuple[str | None, ...] = self.size or (None,)
        made: dict[MediaClass, None] = {}
        for frames in self.frames or (None,):
            for size in (None,) if frames == 0 else sizes:
                made.setdefault(self.completed(MediaClass(frames=frames, size=size)))
        return tuple(made)

    def completed(self, cls: MediaClass) -> MediaClass:
        """A class with the scenario's values where it leaves something out."""
        media = self.media if cls.media is None else cls.media
        sizes = self.size if cls.frames != 0 else None
        return cls.model_copy(
            update={
                "media": media,
                "frames": (1 if media is None else AS_FILE) if cls.frames is None else cls.frames,
                "size": sizes[0] if cls.size is None and sizes else cls.size,
                "as_": self.as_ if cls.as_ is None else cls.as_,
                "max_tokens": self.max_tokens if cls.max_tokens is None else cls.max_tokens,
            }
        )

    def resolved(self) -> dict[str, Any]:
        """Plain data, ready for YAML or JSON: what was given and the defaults that count."""
        plain = self.model_dump(mode="json", by_alias=True, exclude_none=True)
        if self.load_mode == "open" and not (self.profile or self.trace or self.cameras):
            plain["qps"] = self.arrivals_qps
        if self.mix is None and self.dataset is None:
            plain["frames"] = list(dict.fromkeys(cls.frames for cls in self.classes))
        if self.prompts is not None:
            plain.pop("prompt")
        if self.cameras is None:
            plain.pop("phases")
        else:
            plain["every"] = self.every_s
        if self.turns > 1:
            plain["think_time"] = self.think_time_s
        if self.requests is None and self.trace is None and not self.each_line_once:
            plain["duration"] = self.duration_s
        return plain

    def digest(self, file_hashes: Sequence[str] = ()) -> str:
        """12 hex digits over what is sent and how fast; user files count by their contents."""
        plain = {k: v for k, v in self.resolved().items() if k not in NOT_IN_DIGEST}
        for part in (plain, *plain.get("mix", ())):
            for key in _FILES:
                if key in part:
                    part[key] = "a file"
        plain["files"] = list(file_hashes)
        text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:12]


NOT_IN_DIGEST: Final = ("url", "model", "model_family", "out", "name", "warmup", "timeout")
_FILES: Final = ("media", "dataset", "prompts", "trace")
