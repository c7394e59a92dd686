"""Which request shows and asks what: exact shares, exact reuse, nothing twice that is not declared.

Goes in: the pool and the schedule. Comes out: arrays over all requests, the warm-up ones behind the
measured. Pure and seeded; media, mix and arrivals do not depend on one another.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mmload.errors import UsageError
from mmload.load.prepare.pool import MediaPool, Script, turn_prompts
from mmload.load.prepare.times import Numbers, Schedule
from mmload.load.prepare.trace import BY_THE_MIX, Trace
from mmload.load.schedule import exact_shares, seeded, shuffled
from mmload.scenario import Scenario


@dataclass(frozen=True)
class Choice:
    """What each request is. `shown` is a number into the pool's sets, `script` into `scripts`."""

    media_class: NDArray[np.int32]
    shown: Numbers
    variant: Numbers
    script: Numbers
    turn: Numbers

    def at(self, places: Numbers) -> "Choice":
        return Choice(
            self.media_class[places],
            self.shown[places],
            self.variant[places],
            self.script[places],
            self.turn[places],
        )

    def before(self, other: "Choice") -> "Choice":
        return Choice(
            np.concatenate([self.media_class, other.media_class]),
            np.concatenate([self.shown, other.shown]),
            np.concatenate([self.variant, other.variant]),
            np.concatenate([self.script, other.script]),
            np.concatenate([self.turn, other.turn]),
        )


def choose(
    scenario: Scenario, pool: MediaPool, schedule: Schedule
) -> tuple[Choice, tuple[Script, ...]]:
    """The choice of every request, and the scripts, to which a trace may add its own.

    Raises UsageError if there are not enough distinct bodies for the asked reuse.
    """
    scripts = pool.scripts
    if pool.cameras:
        chosen = _filmed(pool, schedule)
    else:
        chosen = _dealt(scenario, pool, schedule)
        if schedule.trace is not None:
            chosen, scripts = _as_traced(scenario, chosen, scripts, schedule.trace)
        if schedule.source is not None and schedule.turn is not None:
            chosen = replace(chosen.at(schedule.source), turn=schedule.turn)
    return chosen.before(_warm_up(pool, scenario.warmup_most)), scripts


def _dealt(scenario: Scenario, pool: MediaPool, schedule: Schedule) -> Choice:
    """A choice for each source: a request, or a conversation."""
    n = schedule.sources
    classes = _classes(scenario, pool, schedule)
    shown, variant, script = choose_media(
        classes,
        [cls.sets for cls in pool.classes],
        pool.variants,
        reuse=pool.reuse,
        seed=scenario.seed,
        scripts_of_class=[cls.scripts for cls in pool.classes],
        bare=[number for number, s in enumerate(pool.sets) if not s.media],
        tied=[c for c, cls in enumerate(pool.classes) if cls.tied],
    )
    return Choice(classes, shown, variant, script, np.zeros(n, np.int64))


def _classes(scenario: Scenario, pool: MediaPool, schedule: Schedule) -> NDArray[np.int32]:
    n = schedule.sources
    own = np.full(n, BY_THE_MIX, np.int32)
    if schedule.trace is not None:
        traced = schedule.trace.media_class
        numbers = np.array([*pool.trace_classes, BY_THE_MIX], np.int32)  # [-1] is the last
        own = numbers[traced]
    free = own == BY_THE_MIX
    if pool.lines is not None:
        own[free] = np.resize(pool.lines, int(free.sum()))
    elif free.any():
        weights = [pool.classes[c].weight for c in pool.mixed]
        dealt = assign_classes(weights, int(free.sum()), scenario.seed)
        own[free] = np.array(pool.mixed, np.int32)[dealt]
    return own


def assign_classes(weights: Sequence[float], n: int, seed: int) -> NDArray[np.int32]:
    """A class for each of `n` requests: exact shares of the weights, in seeded random order."""
    shares = exact_shares(weights, n)
    in_order = [c for c, share in enumerate(shares) for _ in range(share)]
    if len(weights) > 1:
        in_order = shuffled(in_order, seeded(seed, "mix"))
    return np.array(in_order, np.int32)


def choose_media(
    classes: NDArray[np.int32],
    sets_of_class: Sequence[Sequence[int]],
    variants: Sequence[int],
    *,
    reuse: float | None,
    seed: int,
    scripts_of_class: Sequence[Sequence[int]] | None = None,
    bare: Collection[int] = (),
    tied: Collection[int] = (),
) -> tuple[Numbers, Numbers, Numbers]:
    """Media set, variant and script of each request.

    Args:
        classes: class of each request.
        sets_of_class: the media sets (global numbers) that each class may use.
        variants: how many distinct contents each set can be.
        reuse: share of requests that repeat an earlier one of their class, exact. None: sets that
            cannot be varied come round again and again (user files as they are).
        seed: of the media; independent of arrivals and mix.
        scripts_of_class: what each class may ask, in turn.
        bare: sets without media, which may always repeat.
        tied: classes whose n-th script belongs to the n-th set.

    Raises UsageError if there are not enough distinct contents for the asked reuse.
    """
    n = len(classes)
    shown, variant, script = (np.zeros(n, np.int64) for _ in range(3))
    rng = seeded(seed, "media")
    used = [0] * len(variants)  # of all classes together: they may share a set
    for c, own in enumerate(sets_of_class):
        members = np.flatnonzero(classes == c)
        if not len(members):
            continue
        scripts = scripts_of_class[c] if scripts_of_class is not None else (0,)
        repeats: set[int] = set()
        if reuse and not all(s in bare for s in own):
            k = min(round(reuse * len(members)), len(members) - 1)
            repeats = set(shuffled(range(1, len(members)), rng)[:k])
        fresh: list[tuple[int, int, int]] = []
        endless = own if reuse is None else bare
        contents = _contents(own, variants, used, endless=endless, skip=c not in tied)
        for place, request in enumerate(members.tolist()):
            if place in repeats:
                chosen = fresh[int(rng.random() * len(fresh))]
            else:
                following = next(contents, None)
                if following is None:
                    raise UsageError(
                        f"--reuse {reuse:g}: {len(members) - len(repeats)} distinct bodies are"
                        f" needed, {len(fresh)} can be made of {len(own)} media",
                        "PNG, WebP and video files count once each: add media, allow repeats"
                        " (a higher --reuse, or none), or shorten the run",
                    )
                position, media_set, number = following
                asked = scripts[(position if c in tied else len(fresh)) % len(scripts)]
                chosen = (media_set, number, asked)
                fresh.append(chosen)
            shown[request], variant[request], script[request] = chosen
    return shown, variant, script


def _contents(
    own: Sequence[int],
    variants: Sequence[int],
    used: list[int],
    *,
    endless: Collection[int],
    skip: bool,
) -> Iterator[tuple[int, int, int]]:
    """(position, set, variant): the sets in turn, a new variant each time.

    A set whose variants are used up begins again if it is one of the `endless`, else it is passed
    over, or ends it all without `skip`.
    """
    alive = True
    while alive:
        alive = False
        for position, s in enumerate(own):
            if used[s] >= variants[s]:
                if s in endless:
                    used[s] = 0
                elif skip:
                    continue
                else:
                    return
            alive = True
            used[s] += 1
            yield position, s, used[s] - 1


def _as_traced(
    scenario: Scenario, chosen: Choice, scripts: tuple[Script, ...], trace: Trace
) -> tuple[Choice, tuple[Script, ...]]:
    """Prompts and token limits of the lines that have their own."""
    numbers = {script: k for k, script in enumerate(scripts)}
    asked = chosen.script.copy()
    for i, text in enumerate(trace.text.tolist()):
        prompt, max_tokens = trace.texts[text]
        if prompt is None and max_tokens is None:
            continue
        script = scripts[int(asked[i])]
        own = Script(
            script.prompts if prompt is None else turn_prompts((prompt,), 0, scenario.turns),
            script.max_tokens if max_tokens is None else max_tokens,
        )
        asked[i] = numbers.setdefault(own, len(numbers))
    return replace(chosen, script=asked), tuple(numbers)


def _filmed(pool: MediaPool, schedule: Schedule) -> Choice:
    """Each camera goes through its scene, then through the next variant of it."""
    assert schedule.source is not None and schedule.turn is not None
    cameras = schedule.source.tolist()
    shown, variant, script = [], [], []
    for camera, turn in zip(cameras, schedule.turn.tolist(), strict=True):
        filmed = pool.cameras[camera]
        lap, moment = divmod(turn, len(filmed))
        shown.append(filmed[moment])
        variant.append(lap)
        scripts = pool.classes[pool.camera_class[camera]].scripts
        script.append(scripts[turn % len(scripts)])
        if lap >= pool.sets[filmed[moment]].variants:
            raise UsageError(
                f"--cameras: a camera's scene can be varied {lap} times, which its requests exceed",
                "shorten the run",
            )
    return Choice(
        np.array(pool.camera_class, np.int32)[schedule.source],
        np.array(shown, np.int64),
        np.array(variant, np.int64),
        np.array(script, np.int64),
        np.zeros(len(cameras), np.int64),
    )


def _warm_up(pool: MediaPool, count: int) -> Choice:
    """`count` requests that go through the classes in turn.

    What they show is taken from the far end of what there is, so that no measured request finds its
    medium in a cache.
    """
    variants = pool.variants
    k = np.arange(count, dtype=np.int64)
    classes = k % len(pool.classes)
    shown, script = [], []
    for number, c in enumerate(classes.tolist()):
        cls = pool.classes[c]
        position = len(cls.sets) - 1 - number // len(pool.classes) % len(cls.sets)
        shown.append(cls.sets[position])
        script.append(cls.scripts[position % len(cls.scripts) if cls.tied else 0])
    most = np.array([variants[s] for s in shown], np.int64)
    return Choice(
        classes.astype(np.int32),
        np.array(shown, np.int64),
        np.maximum(most - 1 - k, 0),
        np.array(script, np.int64),
        np.zeros(count, np.int64),
    )
