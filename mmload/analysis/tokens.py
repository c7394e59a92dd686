"""Did the server really process what was sent: its token counts against the family's arithmetic.

In: what each class sent (the manifest), what the server counted (usage), and how many frames its
processor saw (the hook's spans, where there are any). Out: a `Check` a class. How many frames the
server used is found backwards: which n, from 1 to what was sent, gives the counted tokens.

The tokens of the text itself are not known. They are a range, by the first rule that applies:
1. the prompt tokens of a class of text alone in the same run, or
2. what a class of one image leaves over (an image is never sampled), where that is likely; both
   where all classes share their prompts;
3. from nothing to a token for each byte of the prompt, and `TEMPLATE_TOKENS` for the template;
   unknown when the prompts are in a file.
Where the server counts media tokens apart, none of this is needed. A count that anything inside a
range explains is never called wrong.
"""

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mmload.analysis.measures import Measures, classes_in_order
from mmload.processors.families import FAMILY, Cost, Family, Variant, guess
from mmload.records import RecordTable
from mmload.rundir import RunManifest

TEMPLATE_TOKENS: Final = 128
_COUNTED_BY: Final = {"multimodal_tokens": "media_tokens", "prompt_tokens": "prompt_tokens"}


class Range(NamedTuple):
    """From `least` to `most`, both included."""

    least: float
    most: float

    @classmethod
    def of(cls, values: NDArray[np.float64]) -> "Range | None":
        """Of the numbers among `values`; None when all are NaN."""
        known = values[~np.isnan(values)]
        return cls(float(known.min()), float(known.max())) if len(known) else None


class Sent(NamedTuple):
    """The media of one request of a class: `items` images, or videos of `frames` frames each."""

    kind: str  # image | video
    items: int
    frames: int
    height: int
    width: int

    @property
    def units(self) -> int:
        """What can be left out of one medium or of the list: frames, or images."""
        return self.items if self.kind == "image" else self.frames

    @property
    def unit(self) -> str:
        return "image" if self.kind == "image" else "frame"


class Text(NamedTuple):
    """How many tokens the text takes, and which rule says so."""

    tokens: Range
    rule: str


@dataclass(slots=True)
class Check:
    """One class. `used` counts frames (or images) of what was sent; None: not known.

    `verdict`: as_sent; sampled (fewer were used); unexplained (no number of frames fits); cant_tell
    (several fit); not_counted (no usage, or no rule for this media).
    """

    name: str
    sent: Sent
    verdict: str = "not_counted"
    expected: int | None = None  # media tokens by the published limits
    counted: Range | None = None
    counted_by: str = ""  # multimodal_tokens | prompt_tokens
    text: Text | None = None  # assumed, where prompt tokens had to be used
    used: Range | None = None
    obstacle: str = ""  # why nothing can be told, where it is not the count itself
    variant: str = ""  # which limits explain the count


@dataclass(slots=True)
class Checked:
    """All classes with media. `family` is None when neither the user nor the model names one."""

    family: Family | None
    guessed_from: str  # the model's name; empty when the family was given
    checks: list[Check]


def check(
    manifest: RunManifest, table: RecordTable, m: Measures, frames_seen: NDArray[np.float64] | None
) -> Checked | None:
    """Checks every class that sent media; None when none did.

    `frames_seen`: by record, the frames that the server's processor was given; NaN for unknown.
    """
    sent = {
        name: found
        for name, facts in (manifest.media.get("classes") or {}).items()
        if (found := _sent(facts)) is not None
    }
    if not sent:
        return None
    given = manifest.scenario.get("model_family")
    model = manifest.model or str((manifest.server or {}).get("model") or "")
    family = FAMILY[given] if given in FAMILY else guess(model)
    checks = []
    for name, code in classes_in_order(table):
        if name not in sent:
            continue
        one = Check(name, sent[name])
        ok = m.ok & (table.media_class == code)
        for by, column in _COUNTED_BY.items():
            if one.counted is None:
                one.counted, one.counted_by = Range.of(table.counts[column][ok]), by
        checks.append(one)
        if (manifest.scenario.get("turns") or 1) > 1:
            one.verdict, one.obstacle = "cant_tell", "the media of earlier turns are counted too"
            continue
        if family is not None:
            _judge(one, family, _text(manifest, table, m, name, sent, family))
        if frames_seen is not None:
            _believe_hook(one, Range.of(frames_seen[ok]))
    return Checked(family, "" if given in FAMILY else model, checks)


def _sent(facts: dict[str, Any]) -> Sent | None:
    """What the manifest says of a class; None for text, and for media of several sizes."""
    kind, width, height = facts.get("kind"), facts.get("width"), facts.get("height")
    items, frames = facts.get("media_a_request"), facts.get("frames")
    if kind not in ("image", "video") or not (width and height and frames and items):
        return None
    return Sent(kind, items, frames // items if kind == "video" else 1, height, width)


# -- what the text takes -----------------------------------------------------------------------


def _text(
    manifest: RunManifest,
    table: RecordTable,
    m: Measures,
    name: str,
    sent: dict[str, Sent],
    family: Family,
) -> Text | None:
    """By the rules of this module; None when even the prompt's length is not known."""
    scenario = manifest.scenario
    likely = _likely(scenario)
    found = Text(likely, "an allowance for prompt and template") if likely else None
    own_prompts = any("prompt" in cls for cls in scenario.get("mix") or ())
    if own_prompts or scenario.get("dataset"):  # the classes do not share a text
        return found
    for other, code in classes_in_order(table):
        counted = Range.of(table.counts["prompt_tokens"][m.ok & (table.media_class == code)])
        if other == name or counted is None:
            continue
        if _is_text(manifest, other):
            return Text(counted, f"the class {other!r}")
        left = _left_over(sent.get(other), counted, family, likely)
        if left is not None:
            found = Text(left, f"what {other!r} leaves over")
    return found


def _is_text(manifest: RunManifest, name: str) -> bool:
    facts = (manifest.media.get("classes") or {}).get(name)
    return isinstance(facts, dict) and facts.get("kind") == "text"


def _left_over(
    sent: Sent | None, counted: Range, family: Family, likely: Range | None
) -> Range | None:
    """Rule 2: the text of a class of one image; None where that is not a likely length."""
    if sent is None or likely is None or sent.kind != "image" or sent.items != 1:
        return None
    cost = family.variants[0].image(sent.height, sent.width)
    least = max(counted.least - cost.media - cost.most, likely.least)
    most = min(counted.most - cost.media - cost.least, likely.most)
    return Range(least, most) if least <= most else None


def _likely(scenario: dict[str, Any]) -> Range | None:
    """Rule 3; None when the prompts are in files."""
    if scenario.get("dataset") or scenario.get("prompts"):
        return None
    mix = scenario.get("mix") or ()
    prompts = [scenario.get("prompt"), *(cls.get("prompt") for cls in mix)]
    longest = max((len(p.encode()) for p in prompts if isinstance(p, str)), default=0)
    return Range(0, TEMPLATE_TOKENS + longest)


# -- backwards from the count ------------------------------------------------------------------


def _judge(one: Check, family: Family, text: Text | None) -> None:
    """Fills in the verdict by the family's arithmetic."""
    tables = {variant.words: _costs(variant, one.sent) for variant in family.variants}
    full = one.sent.units
    published = tables[family.variants[0].words].get(full)
    one.expected = published.media if published else None
    if one.counted is None or one.expected is None:
        return
    if one.counted_by == "prompt_tokens":
        one.text = text
        if text is None:
            one.verdict, one.obstacle = "cant_tell", "the length of the prompts is not known"
            return
    fitting = _fitting(one, tables, exactly=True) or _fitting(one, tables, exactly=False)
    if not fitting:
        one.verdict = "unexplained"
        return
    whole = {words: units for words, units in fitting.items() if full in units}
    one.variant, units = next(iter((whole or fitting).items()))
    one.used = Range(units[0], units[-1])
    if not whole:
        one.verdict = "sampled"
    elif all(  # two frames are one patch: 15 frames cost what 16 do, and no count tells them apart
        tables[words][n].media == tables[words][full].media
        for words, units in fitting.items()
        for n in units
    ):
        one.verdict = "as_sent"
        one.used = Range(full, full)
    else:
        one.verdict = "cant_tell"


def _costs(variant: Variant, sent: Sent) -> dict[int, Cost]:
    """Frames or images used -> what the request's media then cost; without what is refused."""
    costs = {}
    for n in range(1, sent.units + 1):
        try:
            if sent.kind == "image":
                cost, times = variant.image(sent.height, sent.width), n
            elif variant.video is not None:
                cost, times = variant.video(n, sent.height, sent.width), sent.items
            else:
                continue
        except ValueError:
            continue
        costs[n] = Cost(times * cost.media, times * cost.least, times * cost.most)
    return costs


def _fitting(
    one: Check, tables: dict[str, dict[int, Cost]], *, exactly: bool
) -> dict[str, list[int]]:
    """Variant -> the numbers of frames or images that explain the count, variants with any."""
    return {
        words: units
        for words, costs in tables.items()
        if (units := [n for n, cost in costs.items() if _fits(one, cost, exactly)])
    }


def _fits(one: Check, cost: Cost, exactly: bool) -> bool:
    """Whether media of this cost explain the count.

    A count of media tokens may have the marks and timestamps in it. One that is the placeholders to
    the token is taken as such: with marks in it, it would be higher than theirs for the same media.
    """
    assert one.counted is not None
    least, most = one.counted
    if one.counted_by == "multimodal_tokens":
        return cost.media <= least and most <= cost.media + (0 if exactly else cost.most)
    if exactly:
        return False
    assert one.text is not None
    return (
        cost.media + cost.least + one.text.tokens.least <= least
        and most <= cost.media + cost.most + one.text.tokens.most
    )


def _believe_hook(one: Check, seen: Range | None) -> None:
    """What the processor was given bounds what was used from above: it may sample after that."""
    if seen is None:
        return
    most = one.sent.units * (one.sent.items if one.sent.kind == "video" else 1)
    if one.verdict == "sampled" and one.used is not None:
        if one.used.least <= seen.least and seen.most <= one.used.most:
            one.used = seen
    elif seen.least < most and one.sent.items == 1:
        one.verdict, one.used = "sampled", seen
