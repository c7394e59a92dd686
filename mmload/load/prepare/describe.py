"""What a run sends, for its manifest: figures of the plan and the bodies, not of what was asked."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from mmload.load.media import Media
from mmload.load.payloads import PayloadSet
from mmload.load.prepare.pool import ClassPool, Link, MediaPool, MediaSet
from mmload.load.prepare.times import Schedule
from mmload.scenario import Scenario


def describe(
    scenario: Scenario, pool: MediaPool, schedule: Schedule, payloads: PayloadSet
) -> dict[str, Any]:
    """`reuse_actual` is the share of the requests with media that show what an earlier one showed,
    `reuse_asked` what the scenario declares of it: turns of a conversation repeat their media."""
    n = len(schedule)
    shown = payloads.plan.shown[:n]
    with_media = shown[shown >= 0]
    distinct = len(np.unique(with_media))
    asked = pool.reuse
    if asked is not None and scenario.turns > 1:
        asked = round(1 - (1 - asked) / scenario.turns, 6)
    return {
        "source": _source(scenario),
        "classes": {
            cls.name: _class(pool, c, cls, payloads, n) for c, cls in enumerate(pool.classes)
        },
        "distinct": len(np.unique(payloads.plan.payload[:n])),
        "reuse_asked": asked,
        "reuse_actual": round(1 - distinct / len(with_media), 6) if len(with_media) else 0.0,
        "as_url": scenario.media_url is not None,
        "turns": scenario.turns,
        "held_bytes": payloads.held_bytes(),
    }


def _source(scenario: Scenario) -> str:
    if scenario.cameras is not None:
        return f"synthetic, {scenario.cameras} cameras"
    return scenario.media or scenario.dataset or "synthetic"


def _class(
    pool: MediaPool, number: int, cls: ClassPool, payloads: PayloadSet, n: int
) -> dict[str, Any]:
    sets = [pool.sets[s] for s in dict.fromkeys(cls.sets)]
    mine = payloads.plan.media_class[:n] == number
    lengths = np.array([base.length for base in payloads.bases])
    bodies = lengths[payloads.plan.base[:n][mine]]
    return {
        "kind": _one({s.kind for s in sets}),
        "width": _one({m.width for s in sets for m in _files(s)}),
        "height": _one({m.height for s in sets for m in _files(s)}),
        "frames": _one({s.frames for s in sets}),
        "as": cls.form,
        "base_contents": len(sets),
        "media_a_request": _one({1 if s.joined else len(s.media) for s in sets}),
        "requests": int(np.count_nonzero(mine)),
        "body_bytes": round(float(bodies.mean())) if len(bodies) else 0,
        "media": _kinds(sets),
    }


def _files(media_set: MediaSet) -> list[Media]:
    return [m for m in media_set.media if isinstance(m, Media)]


def _one(values: set[Any]) -> Any:
    """The value that all have; None where they differ or nobody knows it."""
    return (values.pop() or None) if len(values) == 1 else None


def _kinds(sets: Sequence[MediaSet]) -> list[str]:
    """Distinct kinds in words, such as "video/mp4 854x480, 15 frames"."""
    kinds = dict.fromkeys(
        f"{m.kind} by URL"
        if isinstance(m, Link)
        else f"{m.mime} {m.width}x{m.height}" + (f", {m.frames} frames" if m.frames > 1 else "")
        for media_set in sets
        for m in media_set.media
    )
    return sorted(kinds)[:8]
