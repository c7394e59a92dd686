"""From a scenario to everything that is ready before the clock starts: times, media, bodies.

Media of a class are made once (`BASES` synthetic ones, or what the files give) and varied per
request; see `payloads`. Synthetic media depend on the seed, the class and their number alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from mmload.clock import NS_PER_S
from mmload.errors import UsageError
from mmload.load import schedule as processes
from mmload.load.media import Media, files, images, probe, synthetic, videos
from mmload.load.media.opencv import Pixels
from mmload.load.payloads import (
    Base,
    PayloadSet,
    assign_classes,
    make_base,
    make_plan,
    with_warm_up,
)
from mmload.load.schedule import Times, arrivals, exact_shares, profiled_arrivals, seeded
from mmload.scenario import DEFAULT_SIZE, MediaClass, Scenario
from mmload.wire import APIS
from mmload.wire.base import Ask, MediaSlot

BASES: Final = 8  # distinct synthetic contents a class; varied into as many requests as there are
CLOSED_LOOP_REQUESTS: Final = 20_000  # prepared when a closed loop is bounded by time alone


@dataclass(frozen=True)
class Schedule:
    """When to send. In a closed loop the times are not used, only their number."""

    intended_ns: Times
    schedule_s: float
    concurrency: int | None = None
    stop_after_ns: int | None = None

    def __len__(self) -> int:
        return len(self.intended_ns)


def schedule(scenario: Scenario) -> Schedule:
    """The arrivals that a scenario asks for. Raises UsageError when there are none."""
    if scenario.load_mode != "open":
        return _closed(scenario)
    rng = seeded(scenario.seed, "arrivals")
    match scenario.arrival:
        case "constant":
            unit = processes.even()
        case "poisson":
            unit = processes.poisson(rng)
        case "gamma":
            unit = processes.gamma(rng, scenario.burstiness)
    limit_s = None if scenario.requests is not None else scenario.duration_s
    if scenario.profile is not None:
        segments = [segment.segment() for segment in scenario.profile]
        times = profiled_arrivals(unit, segments, duration_s=limit_s, requests=scenario.requests)
    else:
        assert scenario.rate is not None
        times = arrivals(unit, scenario.rate, duration_s=limit_s, requests=scenario.requests)
    if not len(times):
        raise UsageError(
            f"duration: {scenario.duration_s:g} s hold no arrival of this schedule",
            "lengthen it, or raise the rate",
        )
    last_s = float(times[-1]) / NS_PER_S
    if limit_s is None:  # the window of n arrivals at a rate is n gaps long
        limit_s = len(times) / scenario.rate if scenario.rate else last_s
    return Schedule(times, max(limit_s, last_s))


def _closed(scenario: Scenario) -> Schedule:
    concurrency = 1 if scenario.sequential else scenario.concurrency
    requests = scenario.requests or CLOSED_LOOP_REQUESTS
    timed = scenario.requests is None or scenario.duration is not None
    stop_after_ns = round(scenario.duration_s * NS_PER_S) if timed else None
    return Schedule(
        np.zeros(requests, np.int64),
        scenario.duration_s if timed else 0.0,
        concurrency,
        stop_after_ns,
    )


@dataclass(frozen=True)
class MediaPool:
    """Media of each class: `requests[c]` are the media lists that a request of class c may send."""

    requests: tuple[tuple[tuple[Media, ...], ...], ...]
    reuse: float | None  # the declared share of repeats; None: files come round as they are
    file_hashes: tuple[str, ...] = ()
    notes: list[str] = field(default_factory=list)

    def describe(self, scenario: Scenario, payloads: PayloadSet, n: int) -> dict[str, Any]:
        """What is sent, for the manifest: `n` counts the measured requests."""
        plan = payloads.plan
        distinct = len(np.unique(plan.payload[:n]))
        names = scenario.class_names()
        return {
            "source": scenario.media or "synthetic",
            "classes": {
                name: {
                    "base_contents": len(self.requests[c]),
                    "media_a_request": len(self.requests[c][0]),
                    "requests": int(np.count_nonzero(plan.media_class[:n] == c)),
                    "body_bytes": _mean_length(payloads, c, n),
                    "media": _kinds(self.requests[c]),
                }
                for c, name in enumerate(names)
            },
            "distinct": distinct,
            "reuse_asked": self.reuse,
            "reuse_actual": round(1 - distinct / n, 6) if n else 0.0,
        }


def _mean_length(payloads: PayloadSet, media_class: int, n: int) -> int:
    lengths = np.array([base.length for base in payloads.bases])
    chosen = payloads.plan.base[:n][payloads.plan.media_class[:n] == media_class]
    return round(float(lengths[chosen].mean())) if len(chosen) else 0


def _kinds(requests: Sequence[Sequence[Media]]) -> list[str]:
    """Distinct kinds in words, such as "video/mp4 854x480, 15 frames"."""
    kinds = {
        f"{m.mime} {m.width}x{m.height}" + (f", {m.frames} frames" if m.frames > 1 else "")
        for media in requests
        for m in media
    }
    return sorted(kinds)[:8]


def media(scenario: Scenario) -> MediaPool:
    """Makes or reads the media of every class. Raises UsageError that names the file at fault."""
    if scenario.media is not None:
        return _from_files(scenario, Path(scenario.media))
    shares = exact_shares([c.weight for c in scenario.classes], max(1, _planned(scenario)))
    made = tuple(
        tuple(
            _synthetic(scenario, c, cls, number)
            for number in range(1 if not cls.frames else max(1, min(BASES, share)))
        )
        for c, (cls, share) in enumerate(zip(scenario.classes, shares, strict=True))
    )
    return MediaPool(made, scenario.reuse or 0.0)


def _planned(scenario: Scenario) -> int:
    if scenario.requests is not None:
        return scenario.requests + scenario.warmup
    rate = scenario.rate
    return BASES * 100 if rate is None else round(rate * scenario.duration_s) + scenario.warmup


def _synthetic(
    scenario: Scenario, class_number: int, cls: MediaClass, number: int
) -> tuple[Media, ...]:
    if not cls.frames:
        return ()
    width, height = _pixels(cls.size or DEFAULT_SIZE)
    rng = synthetic.seeded(scenario.seed, class_number, number)
    if cls.frames == 1:
        pixels = synthetic.image_pixels(rng, width, height)
        return (images.encode(pixels, quality=scenario.quality),)
    return _as_asked(scenario, synthetic.video_frames(rng, width, height, cls.frames), "synthetic")


def _as_asked(scenario: Scenario, frames: Sequence[Pixels], source: str) -> tuple[Media, ...]:
    """Frames as one video or as so many images."""
    if scenario.as_ == "frames" or len(frames) == 1:
        return tuple(
            images.encode(frame, quality=scenario.quality, source=source) for frame in frames
        )
    return (videos.encode_mp4(frames, scenario.fps, source=source),)


def _from_files(scenario: Scenario, path: Path) -> MediaPool:
    """Image files go as their own bytes (varied only if reuse is declared); of clips, the asked
    number of frames is cut out and encoded."""
    facts = [probe.probe(file) for file in probe.find_media(path)]
    for fact in facts:
        probe.check(fact)
    notes = [f"{f.path.name}: {', '.join(f.oddities)}" for f in facts if f.oddities]
    varied = scenario.reuse is not None
    made = []
    for cls in scenario.classes:
        kind = "image" if cls.frames == 1 else "video"
        fitting = [f for f in facts if f.kind == kind]
        if cls.frames == 1 and not fitting:
            fitting = facts  # a frame of each clip
        if cls.frames and not fitting:
            raise UsageError(
                f"--media {path}: no {kind} for {cls.frames} frames a request",
                f"add {kind} files, or ask for other --frames",
            )
        made.append(
            tuple(_from_file(scenario, cls, f, varied) for f in fitting) if cls.frames else ((),)
        )
    hashes = tuple(sorted({m.sha256 for c in made for request in c for m in request}))
    return MediaPool(tuple(made), scenario.reuse, hashes, notes)


def _from_file(
    scenario: Scenario, cls: MediaClass, fact: probe.FileFacts, varied: bool
) -> tuple[Media, ...]:
    size = _pixels(cls.size) if cls.size is not None else None
    if fact.kind == "image":
        return (files.image_file(fact.path, size=size, quality=scenario.quality, varied=varied),)
    frames = files.extract_frames(fact.path, cls.frames, size=size)
    return _as_asked(scenario, frames, fact.path.name)


def _pixels(size: str) -> tuple[int, int]:
    width, _, height = size.partition("x")
    return int(width), int(height)


def payloads(scenario: Scenario, pool: MediaPool, model: str, n: int) -> PayloadSet:
    """Bodies and plan for `n` measured requests and the warm-up ones behind them.

    Raises UsageError if too few distinct bodies can be made.
    """
    api = APIS[scenario.api]
    bases: list[Base] = []
    of_class: list[list[int]] = []
    for requests in pool.requests:
        own = []
        for media_list in requests:
            slots = tuple(
                MediaSlot(m.kind, m.mime, f"@@mmload-{k}@@") for k, m in enumerate(media_list)
            )
            ask = Ask(model, scenario.prompt, slots, scenario.max_tokens)
            body = api.body(ask)
            named = [(s.token, m) for s, m in zip(slots, media_list, strict=True)]
            own.append(len(bases))
            bases.append(make_base(body, named))
        of_class.append(own)
    text_only = [c for c, cls in enumerate(scenario.classes) if not cls.frames]
    variants = [base.variants for base in bases]
    plan = make_plan(
        assign_classes([c.weight for c in scenario.classes], n, scenario.seed),
        of_class,
        variants,
        reuse=pool.reuse,
        seed=scenario.seed,
        without_media=text_only,
    )
    return PayloadSet(tuple(bases), with_warm_up(plan, of_class, variants, scenario.warmup))
