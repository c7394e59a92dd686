"""A comparison in words and cells: the sentence for a pull request, changes, differences.

In: the object of docs/compare.md. Out: plain strings, ASCII but for names, unescaped and without
layout; the same for all formats. Never claims more than the data: without a test it says so, and a
difference that was not shown is "~", which is not "equal".
"""

from collections.abc import Sequence
from typing import Any, Final

from mmload.report import numbers
from mmload.report.fields import get

Section = dict[str, Any]

NOT_SHOWN: Final = "~"
FILES_DIFFER: Final = (
    "the digests differ and no key does, so the contents of the user's files do, or the defaults of"
    " the versions that made the runs"
)
_MOST_KEYS: Final = 8
_MOST_PERCENT: Final = 1000  # above, "x56" reads better
_QUEUE: Final = {"growing": "grew", "stable": "is stable", "cant_tell": "cannot be judged"}


# -- cells -------------------------------------------------------------------------------------


def value(row: Section, number: float | None) -> str:
    """A metric's value with its unit, where the title does not name it."""
    if number is None:
        return numbers.NONE
    if row["unit"] == "ms":
        return numbers.ms(number)
    if row["unit"] == "requests":  # a median of an even number of runs may end in a half
        return numbers.count(number) if number == int(number) else f"{number:,.1f}"
    if row["unit"] == "share":
        return numbers.percent(number)
    return f"{'-' if number < 0 else ''}{numbers.digits(abs(number))}"


def spread(stat: Section) -> str:
    """`4%`: how far the interval of the median reaches from it; empty without one."""
    middle, interval = stat["median"], stat["interval"]
    if interval is None or not middle:
        return ""
    reach = max(interval[1] - middle, middle - interval[0]) / abs(middle)
    return numbers.percent(reach)


def change(row: Section, found: Section) -> str:
    """`-98%`, `x56.3`, `-1.67` for what has no per cent, `~` where the test shows nothing."""
    if found["difference"] is None:
        return numbers.NONE
    if found["shown"] is False:
        return NOT_SHOWN
    return plain_change(row, found)


def plain_change(row: Section, found: Section) -> str:
    """The change whatever the test says."""
    if found["difference"] is None:
        return numbers.NONE
    if row["relative"] and found["percent"] is not None:
        if found["percent"] >= _MOST_PERCENT:
            return f"x{numbers.digits(1 + found['percent'] / 100)}"
        return percent(found["percent"])
    sign = "+" if found["difference"] > 0 else "-" if found["difference"] < 0 else ""
    return sign + value(row, abs(found["difference"]))


def percent(change: float) -> str:
    """`-98%`, `+3.2%`, `0%`; never "-100%" unless nothing is left."""
    size = abs(change)
    if round(size, 1) == 0:
        return "0%"
    sign = "+" if change > 0 else "-"
    if 99.5 <= size < 100 and change < 0:
        return f"-{min(99.9, round(size, 1)):.1f}%"
    return sign + numbers.percent(size / 100)


def p_value(found: Section) -> str:
    """p after Holm; empty for rows that only describe."""
    if found["p_holm"] is None:
        return numbers.NONE if found["declared"] else ""
    return probability(found["p_holm"])


def probability(p: float) -> str:
    return "<0.001" if p < 0.001 else f"{p:.3f}" if p < 0.0995 else f"{p:.2f}"


def better(row: Section, found: Section) -> str:
    """`better`, `worse`, or empty where no difference was shown."""
    if not found["shown"] or not found["difference"]:
        return ""
    return "better" if (found["difference"] < 0) == (row["better"] == "lower") else "worse"


def ratio(row: Section, side: int) -> str:
    """`5.3x`: the base over a side, so that more is faster; for the table by class."""
    base, other = row["sides"][0]["median"], row["sides"][side]["median"]
    return f"{numbers.digits(base / other)}x" if base and other else numbers.NONE


# -- sentences ---------------------------------------------------------------------------------


def sentence(made: Section) -> str:
    """What a person can paste into a pull request; a sentence for each side but the base."""
    others = range(1, len(made["sides"]))
    several = len(made["sides"]) > 2
    said = [_one_sentence(made, number, several) for number in others]
    lead = "Unlike scenarios, compared by force. " if made["forced"] else ""
    lead += f"{invalid(made)} " if invalid(made) else ""
    if several:
        lead += f"At {load(made)}, "
    tail = f" (simulated: {simulated(made)})" if simulated(made) else ""
    return f"{lead}{'. '.join(said)}{tail}."


def _one_sentence(made: Section, number: int, several: bool) -> str:
    base, side = made["sides"][0], made["sides"][number]
    names = (f"in {base['label']}", f"in {side['label']}") if several else ("before", "after")
    parts = [
        _headline(made, number, names) + ("" if several else f" at {load(made)}"),
        _queues(made, base, side, names),
        _failures(made, number, names),
        _parity(made, side),
    ]
    lead = f"{side['label']} against {base['label']}: " if several else ""
    return lead + "; ".join(part for part in parts if part)


def _headline(made: Section, number: int, names: tuple[str, str]) -> str:
    rows = {row["name"]: row for row in made["metrics"]}
    wanted = ["ttft:p90", *made["family"]] if "ttft:p90" in made["family"] else made["family"]
    row = next((rows[name] for name in wanted if name in rows), None)
    if row is None:
        return "nothing to compare: no request succeeded"
    found = row["changes"][number - 1]
    before, after = (row["sides"][i]["median"] for i in (0, number))
    if before is None or after is None:
        which = names[0] if before is None else names[1]
        return f"{row['title']} cannot be compared: there is none {which}"
    a, b, unit = value(row, before), value(row, after), _unit(row)
    by, title = plain_change(row, found), row["title"]
    how = _tested(made, row, number)
    if found["shown"]:
        return f"{title} went from {a} to {b}{unit} ({by}, {how})"
    both = f"{a} {names[0]}, {b}{unit} {names[1]}"
    if found["shown"] is False:
        return f"{title}: no difference shown ({both}, {how})"
    return f"{title} was {a} {names[0]} and {b}{unit} {names[1]} ({by}, {how})"


def _unit(row: Section) -> str:
    return (
        "" if row["unit"] in ("ms", "share") or row["unit"] in row["title"] else f" {row['unit']}"
    )


def _tested(made: Section, row: Section, number: int) -> str:
    """How sure that is: runs, test, p."""
    found = row["changes"][number - 1]
    many = runs(row, number)
    if found["p_holm"] is None:
        return f"{many}: no test"
    tests = made["tests"]
    holm = f" after Holm over {tests} tests" if tests > 1 else ""
    pairs = " in pairs" if made["paired"] else ""
    return f"{many}{pairs}, p = {probability(found['p_holm'])}{holm}"


def invalid(made: Section) -> str:
    """`3 of 10 runs are INVALID, interrupted or slowed by a profile.`; empty when none is."""
    every = [run for side in made["sides"] for run in side["runs"]]
    bad = sum(not run["valid"] for run in every)
    are = "is" if bad == 1 else "are"
    return (
        f"{bad} of {len(every)} runs {are} INVALID, interrupted or slowed by a profile."
        if bad
        else ""
    )


def simulated(made: Section) -> str:
    """What is simulated in any of the sides, each thing once; empty: nothing."""
    parts = [part for side in made["sides"] for part in side["simulated"].split("; ") if part]
    return "; ".join(dict.fromkeys(parts))


def counts(made: Section, number: int) -> tuple[int, int]:
    """Runs of the base and of a side."""
    return len(made["sides"][0]["runs"]), len(made["sides"][number]["runs"])


def runs(row: Section, number: int) -> str:
    """`5 runs a side`, `one run a side`, `3 and 5 runs`."""
    a, b = row["sides"][0]["n"], row["sides"][number]["n"]
    if a != b:
        return f"{a} and {b} runs"
    return "one run a side" if a == 1 else f"{a} runs a side"


def load(made: Section) -> str:
    """`5 requests/s of 15 frames 854x480`; each side's own where they differ."""
    said = dict.fromkeys(_load(side) for side in made["sides"])
    return " against ".join(said)


def _load(side: Section) -> str:
    classes = side["classes"]
    what = " and ".join(classes) if len(classes) < 3 else f"{len(classes)} classes of media"
    of = f" of {what}" if what else ""
    if side["asked_qps"] is not None:
        rate = f"{side['asked_qps']:g}"
        return f"{rate} request{'' if rate == '1' else 's'}/s{of}"
    mode = {"sequential": "one request at a time", "closed": "a closed loop"}
    return f"{mode.get(side['load_mode'], 'varying rates')}{of}"


def _queues(made: Section, base: Section, side: Section, names: tuple[str, str]) -> str:
    if base["load_mode"] != "open":
        return ""  # a closed loop cannot grow a queue
    before, after = (queue_words(made["queue"][one["label"]]) for one in (base, side))
    if not before or not after:
        return ""
    if before == after:
        return f"the queue {before} in both"
    return f"the queue {before} {names[0]} and {after} {names[1]}"


def queue_words(queue: Section) -> str:
    """`grew by 1.67/s`, `is stable`, `grew by 1.67/s in 3 of 5 runs`, `cannot be judged`."""
    verdicts, by = queue["verdicts"], queue["growth_per_s"]
    if not verdicts:
        return ""
    word = next((w for w in ("growing", "stable", "cant_tell") if w in verdicts), "")
    text = _QUEUE[word]
    if word == "growing" and by is not None:
        text += f" by {numbers.rate(by)}/s" if by > 0 else ""
    total = sum(verdicts.values())
    return text if verdicts[word] == total else f"{text} in {verdicts[word]} of {total} runs"


def _failures(made: Section, number: int, names: tuple[str, str]) -> str:
    row = next((row for row in made["metrics"] if row["name"] == "failed"), None)
    if row is None:
        return ""
    counts = [sum(row["sides"][i]["values"]) for i in (0, number)]
    if not any(counts):
        return ""
    return (
        f"{numbers.plural(counts[0], 'request')} failed {names[0]},"
        f" {numbers.count(counts[1])} {names[1]}"
    )


def _parity(made: Section, side: Section) -> str:
    found = get(made, "parity", side["label"])
    return parity(found) if found else ""


def parity(found: Section) -> str:
    """The verdict of parity.json and its own sentence."""
    said = str(get(found, "sentence") or "").strip().rstrip(".")
    return f"parity {get(found, 'verdict') or 'unknown'}{': ' if said else ''}{said}"


# -- differences -------------------------------------------------------------------------------


def differences(found: Sequence[Section]) -> str:
    """`qps: before 5, after 10; frames: before 15, after 6`, at most a few keys."""
    said = [f"{one['key']}: {values(one)}" for one in found[:_MOST_KEYS]]
    if len(found) > _MOST_KEYS:
        said.append(f"and {len(found) - _MOST_KEYS} more keys")
    return "; ".join(said)


def values(difference: Section) -> str:
    return ", ".join(f"{label} {setting(v)}" for label, v in difference["values"].items())


def setting(of_side: Sequence[Any]) -> str:
    """A side's values of one key: `5`, `not set`, `1 or 2` when its runs differ."""
    return " or ".join(_plain(one) for one in of_side)


def _plain(one: Any) -> str:
    if one is None:
        return "not set"
    if isinstance(one, bool):
        return "yes" if one else "no"
    if isinstance(one, list):
        return ",".join(_plain(v) for v in one)
    return f"{one:g}" if isinstance(one, float) else str(one)
