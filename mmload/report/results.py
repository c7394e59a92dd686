"""Tables that only some runs have: answers against what was expected, one request at a time.

And the check of what the server did with the media. In: the summary object of docs/summary.md. Out:
`Rows` and facts, as text, unescaped, the same for all formats.
"""

from typing import Final, NamedTuple

from mmload.report import numbers
from mmload.report.fields import Fact, Summary, get

ALL: Final = "all requests"


class Rows(NamedTuple):
    """A table: its title, a note in a sentence, the header and the cells."""

    title: str
    note: str
    head: tuple[str, ...]
    rows: list[list[str]]


def tables(summary: Summary) -> list[Rows]:
    """Those that the run has."""
    made = (sequential(summary), answers(summary), yes_no(summary))
    return [table for table in made if table is not None]


def sequential(summary: Summary) -> Rows | None:
    """What benchmarks that send one request at a time report, a row a class."""
    found = get(summary, "sequential")
    if not found:
        return None
    first = get(found[0], "avg_ttft_ms")
    rows = []
    for one in found:
        average = get(one, "avg_ttft_ms")
        against = f"x{average / first:.2f}" if first and average is not None else numbers.NONE
        times = [numbers.ms(get(one, f"{name}_ms")) for name in _SEQUENTIAL_TIMES]
        rows.append(
            [_with_resolution(one), numbers.count(get(one, "samples")), *times, against][
                : None if len(found) > 1 else -1
            ]
        )
    head = ("class", "samples", "avg", "min", "max", "std dev", "avg total", "ratio")
    return Rows(
        "One request at a time",
        "TTFT, and the time to the last output"
        + ("; ratio: the average TTFT over the first row's" * (len(found) > 1)),
        head if len(found) > 1 else head[:-1],
        rows,
    )


_SEQUENTIAL_TIMES: Final = ("avg_ttft", "min_ttft", "max_ttft", "std_dev_ttft", "avg_total")


def _with_resolution(one: Summary) -> str:
    name, resolution = str(get(one, "class")), get(one, "resolution")
    return f"{name} ({resolution})" if resolution and resolution not in name else name


def answers(summary: Summary) -> Rows | None:
    """Scores, a row a class."""
    found = _answers(summary)
    if not found:
        return None
    return Rows(
        "Answers",
        "share of right answers, requests that succeeded",
        ("class", "graded", "left out", "score", "exact", "contains", "VQA"),
        [
            [
                name,
                numbers.count(get(one, "n")),
                numbers.count(get(one, "left_out")),
                *(share(get(one, key)) for key in ("score", "exact", "contains", "vqa")),
            ]
            for name, one in found
        ],
    )


def yes_no(summary: Summary) -> Rows | None:
    """As POPE reports it; only where yes or no was asked."""
    found = [(name, one["yesno"]) for name, one in _answers(summary) if get(one, "yesno")]
    if not found:
        return None
    keys = ("accuracy", "precision", "recall", "f1", "yes_share")
    return Rows(
        "Yes or no",
        "yes is positive; an answer that is neither counts as yes",
        ("class", "n", "accuracy", "precision", "recall", "F1", "yes", "unclear"),
        [
            [
                name,
                numbers.count(get(one, "n")),
                *(share(get(one, key)) for key in keys),
                numbers.count(get(one, "unclear")),
            ]
            for name, one in found
        ],
    )


def _answers(summary: Summary) -> list[tuple[str, Summary]]:
    """All requests, and each class where there are several."""
    found = get(summary, "answers")
    if not found:
        return []
    classes = list((get(found, "classes") or {}).items())
    everything = (ALL, get(found, "all") or {})
    return [everything, *classes] if len(classes) > 1 else [(classes or [everything])[0]]


def share(value: float | None) -> str:
    """`80.4%`: answers are compared to a tenth."""
    return numbers.NONE if value is None else f"{100 * value:.1f}%"


def media_check(summary: Summary) -> list[Fact]:
    """Which arithmetic was used and what it says of each class; nothing without media."""
    found = get(summary, "media_check")
    if not found:
        return []
    title, guessed = get(found, "title"), get(found, "guessed_from")
    if title is None:
        model = f"not known from the model's name {guessed!r}" if guessed else "no model is named"
        family = f"{model}; name the family by --model-family"
    else:
        family = f"{title}, guessed from the model's name {guessed!r}" if guessed else str(title)
    classes = (get(found, "classes") or {}).items()
    said = [(str(name), str(get(one, "sentence") or numbers.NONE)) for name, one in classes]
    return [("arithmetic of", family), *said]
