"""The setting to use, by how much it wins over the next and over the default, or that none does.

In: the table. Out: a dictionary (docs/sweep.md). The best is the setting with the lowest score, the
geometric mean over the loads of its median objective. It is tested against the next (picking the
best two of several makes their difference smaller by chance, not larger) and against the default,
there with p times the number of settings it was picked from; where these are two claims, both p are
doubled (Bonferroni). Without a difference shown the default stays. Settings that the best is not
shown to beat are named, and which of them costs least.
"""

import math
from typing import Any

from mmload.sweep.axis_effects import change_data, in_words, p_words, percent_change
from mmload.sweep.effects import ALPHA, Change, change
from mmload.sweep.table import Setting, Table, rounded


def recommend(table: Table, title: str) -> dict[str, Any] | None:
    """None when the sweep has no setting to choose from, or no valid runs of two."""
    scored = [(score, s) for s in table.settings if (score := table.score_ms(s)) is not None]
    if len(table.settings) < 2 or len(scored) < 2:
        return None
    scored.sort(key=lambda entry: (entry[0], entry[1].number))
    best_ms, best = scored[0]
    next_ms, second = scored[1]
    over_next = _against(table, second, best)
    reference = next((s for _, s in scored if s.is_reference), None)
    over_reference = None
    if reference is not None and reference is not best:
        over_reference = _against(table, reference, best)
    claims = 2 if reference not in (None, best, second) else 1
    p_next = _adjusted(over_next, claims)
    p_reference = _adjusted(over_reference, claims * (len(scored) - 1))
    wins_next = _shown(over_next, p_next)
    wins_reference = _shown(over_reference, p_reference)
    equals = [s for _, s in scored[1:] if not _beats(table, best, s)]
    cheapest = _cheapest(table, [best, *equals])
    verdict = "wins" if wins_next else "beats_default" if wins_reference else "no_difference_shown"
    reference_word = "the default" if table.reference_is_default else "the reference"
    margins = [_margin("the next", second, over_next, p_next, next_ms, best_ms)]
    if reference is not None and reference is not best and reference is not second:
        reference_ms = next(score for score, s in scored if s is reference)
        margins.append(
            _margin(reference_word, reference, over_reference, p_reference, reference_ms, best_ms)
        )
    elif reference is second:
        margins[0] = margins[0].replace("the next (", f"the next, {reference_word} (", 1)
    use = best
    if verdict == "no_difference_shown":
        use = reference if reference in (best, *equals) else cheapest or best
    over = f", geometric mean over {len(table.loads)} loads" if len(table.loads) > 1 else ""
    lowest = f"{title} {_ms(best_ms)}{over}"
    if verdict == "no_difference_shown":
        keep = f"keep {reference_word}, {use.label}" if use is reference else f"{use.label} will do"
        lead = f"No difference shown, {keep}. The lowest was {best.label}: {lowest}"
    elif verdict == "beats_default":
        lead = f"Use {best.label}, or one that is not shown to be slower: {lowest}"
    else:
        lead = f"{'Keep' if best is reference else 'Use'} {best.label}: {lowest}"
    sentence = f"{lead}; {'; '.join(margins)}."
    if equals and cheapest is not None and cheapest not in (best, use):
        sentence += (
            f" Of the {len(equals)} not shown to be slower, {cheapest.label} costs least"
            f" ({table.cost_title})."
        )
    shown_margin = margins[-1] if verdict == "beats_default" else margins[0]
    return {
        "verdict": verdict,
        "headline": f"{lead}, {shown_margin}.",
        "sentence": sentence,
        "setting": use.number,
        "label": use.label,
        "best": best.number,
        "best_label": best.label,
        "score_ms": rounded(best_ms),
        "next": {"setting": second.number, "label": second.label} | change_data(over_next, p_next),
        "reference": None
        if reference is None
        else {
            "setting": reference.number,
            "label": reference.label,
            "is_default": table.reference_is_default,
        }
        | change_data(over_reference, p_reference),
        "not_shown_slower": [s.number for s in equals],
        "cheapest": cheapest.number if cheapest is not None else None,
    }


def _against(table: Table, other: Setting, best: Setting) -> Change | None:
    """The change from the other setting to the best, a cell a load."""
    return change(table.cells(other), table.cells(best), table.residual())


def _adjusted(one: Change | None, times: int) -> float | None:
    return None if one is None or one.p is None else min(1.0, one.p * times)


def _shown(one: Change | None, p: float | None) -> bool:
    return one is not None and p is not None and p < ALPHA and one.ratio < 1


def _beats(table: Table, best: Setting, other: Setting) -> bool:
    one = _against(table, other, best)
    return _shown(one, one.p if one else None)


def _cheapest(table: Table, group: list[Setting]) -> Setting | None:
    def cost(setting: Setting) -> float:
        costs = [table.cost(point) for point in setting.points.values()]
        return math.inf if None in costs else sum(c for c in costs if c is not None)

    priced = [s for s in group if math.isfinite(cost(s))]
    return min(priced, key=cost) if priced else None


def _margin(
    word: str, other: Setting, one: Change | None, p: float | None, other_ms: float, best_ms: float
) -> str:
    against = f"{word} ({other.label}, {_ms(other_ms)})"
    if one is None or p is None:
        return f"{percent_change(best_ms / other_ms)} against {against}, untested"
    said = f"p {p_words(p)}" if p < ALPHA else f"no difference shown, p {p_words(p)}"
    by = in_words(one)
    if one.ratio >= 1:  # medians and pairs of runs disagree: one of them alone would contradict
        by = f"{percent_change(best_ms / other_ms)} by medians and {by} by pairs of runs"
    return f"{by} against {against}, {said}"


def _ms(value: float) -> str:
    return f"{value / 1000:.3g} s" if value >= 10_000 else f"{value:,.4g} ms"
