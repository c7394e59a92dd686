"""The check of tokens against arithmetic in words and as a part of the summary.

In: `tokens.Checked`. Out: the summary's `media_check`, a sentence a class, and the warnings.
"""

from collections.abc import Iterator
from typing import Any, Final

from mmload.analysis.tokens import Check, Checked, Range
from mmload.processors.families import PUBLISHED, Family

KEEP_FRAMES: Final = (
    """Start it with --media-io-kwargs '{"video":{"fps":30}}' --mm-processor-kwargs"""
    """ '{"do_sample_frames":false}' (vLLM), or send what it would sample."""
)
KEEP_IMAGES: Final = "Raise the server's limit on images a prompt (vLLM: --limit-mm-per-prompt)."


def section(checked: Checked | None) -> dict[str, Any] | None:
    """`media_check` of docs/summary.md."""
    if checked is None:
        return None
    family = checked.family
    return {
        "family": family.key if family else None,
        "title": family.title if family else None,
        "guessed_from": checked.guessed_from or None,
        "classes": {one.name: _class(one, family) for one in checked.checks},
    }


def _class(one: Check, family: Family | None) -> dict[str, Any]:
    text = one.text
    return {
        "kind": one.sent.kind,
        "sent": one.sent.units,
        "used": _pair(one.used),
        "expected_media_tokens": one.expected,
        "counted_tokens": _pair(one.counted),
        "counted_by": one.counted_by if one.counted else None,
        "text_tokens": _pair(text.tokens) if text else None,
        "text_rule": text.rule if text else None,
        "limits": one.variant or None,
        "verdict": one.verdict,
        "sentence": sentence(one, family),
    }


def _pair(found: Range | None) -> list[int] | None:
    return [round(found.least), round(found.most)] if found else None


def sentence(one: Check, family: Family | None) -> str:
    """What is known of one class, without its name."""
    sent = f"{one.sent.units} {one.sent.unit}{'' if one.sent.units == 1 else 's'}"
    if one.verdict == "sampled":
        return f"{sent} sent, the server used {_used(one)}{_why(one)}"
    if one.verdict == "as_sent":
        what = sent if one.sent.units == 1 else f"all {sent}"
        limits = "" if one.variant in ("", PUBLISHED) else f" ({one.variant})"
        return f"{what} used{limits}{_why(one)}"
    if one.verdict == "cant_tell" and one.used is not None:
        return f"can't tell: anything from {_used(one)} of {sent} explains the count{_why(one)}"
    if one.verdict == "unexplained":
        return f"no number of {one.sent.unit}s up to {one.sent.units} explains the count{_why(one)}"
    if one.obstacle:
        return f"can't tell: {one.obstacle}"
    if family is None:
        return "not checked: the model family is not known"
    if one.expected is None:
        return f"not checked: {family.title} has no rule for a {one.sent.kind} like this"
    return "not checked: the server does not say how many tokens it counted"


def _used(one: Check) -> str:
    assert one.used is not None
    least, most = round(one.used.least), round(one.used.most)
    if least == most:
        return str(least)
    return f"{least} or {most}" if most == least + 1 else f"{least} to {most}"


def _why(one: Check) -> str:
    """`: 1,215 media tokens counted, 3,240 by the arithmetic`, or with what the text may take."""
    if one.counted is None or one.expected is None:
        return ""
    least, most = one.counted
    number = f"{least:,.0f}" if least == most else f"{least:,.0f} to {most:,.0f}"
    expected = f"{one.expected:,} by the arithmetic"
    if one.counted_by == "multimodal_tokens":
        return f": {number} media tokens counted, {expected}"
    assert one.text is not None
    low, high = one.text.tokens
    text = f"{low:,.0f}" if low == high else f"{low:,.0f} to {high:,.0f}"
    return f": {number} prompt tokens counted, {expected} and {text} for the text ({one.text.rule})"


def warnings(checked: Checked | None) -> Iterator[tuple[str, str, str]]:
    """(code, message, hint) for each class that the server did not process as it was sent."""
    if checked is None:
        return
    family = checked.family
    for one in checked.checks:
        said = f"{one.name}: {sentence(one, family)}."
        if one.verdict == "sampled":
            frames = one.sent.kind == "video"
            samples = " It samples video." if frames else " It leaves images out."
            yield "sampled", said + samples, KEEP_FRAMES if frames else KEEP_IMAGES
        elif one.verdict == "unexplained" and family is not None:
            yield (
                "media_tokens",
                f"{said} It resizes by other limits than {family.title}'s"
                + (", or is another model." if checked.guessed_from else "."),
                "Look at its --mm-processor-kwargs (min_pixels, max_pixels), or name the family by"
                " --model-family.",
            )
