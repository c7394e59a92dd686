"""Were the answers right: each against what was expected, folded into figures by class.

In: what is expected of each payload, and the records as they are read. Out: the summary's `answers`
part. Only ok requests are graded: a failed one is left out and counted, since a server that fails
has not answered wrongly. Keeps sums, never answers, so a run may be of any length.

Comparing is without regard to case, blanks at the ends or repeated, and dots at the end:
- exact: the answer is one of the expected;
- contains: one of the expected stands in the answer, as whole words;
- vqa: VQA accuracy, see `vqa`; the expected are what the annotators said;
- yesno: as POPE scores it, where yes is positive. The first sentence decides: `no` or `not` in it
  is a no, anything else a yes, as in POPE's own evaluate.py (which knows no `NO`); answers that say
  neither yes nor no are counted as `unclear`.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from mmload.analysis import vqa
from mmload.records import Outcome, Record
from mmload.rundir import ExpectedAnswer

METRICS: Final = ("exact", "contains", "vqa", "yesno")
ALL: Final = "all"
_WORD: Final = re.compile(r"[\w']+")


def plain(text: str) -> str:
    """One line in lower case without dots at the end."""
    return " ".join(text.split()).rstrip(".").lower()


def is_exact(answer: str, expected: Iterable[str]) -> bool:
    given = plain(answer)
    return any(plain(one) == given for one in expected)


def contains(answer: str, expected: Iterable[str]) -> bool:
    """Whole words: `red` stands in "a red car", not in "coloured"."""
    given = plain(answer)
    return any(
        word and re.search(rf"(?<!\w){re.escape(word)}(?!\w)", given) is not None
        for word in map(plain, expected)
    )


def says_yes(answer: str) -> bool:
    """POPE's rule: the first sentence, commas aside, has neither `no` nor `not` among its words."""
    words = answer.partition(".")[0].replace(",", "").lower().split()
    return not {"no", "not"}.intersection(words)


def is_unclear(answer: str) -> bool:
    """Neither yes, no nor not is among its words: POPE takes such an answer for a yes."""
    return not {"yes", "no", "not"} & set(_WORD.findall(answer.lower()))


@dataclass(slots=True)
class _YesNo:
    """The four counts, and the answers that were neither."""

    true_positive: int = 0
    false_positive: int = 0
    true_negative: int = 0
    false_negative: int = 0
    unclear: int = 0

    def add(self, answer: str, expected: Iterable[str]) -> bool:
        """Whether the answer is right."""
        said, truth = says_yes(answer), any(says_yes(one) for one in expected)
        self.unclear += is_unclear(answer)
        if said:
            self.true_positive += truth
            self.false_positive += not truth
        else:
            self.false_negative += truth
            self.true_negative += not truth
        return said == truth

    def described(self) -> dict[str, Any] | None:
        positive = self.true_positive + self.false_positive
        n = positive + self.true_negative + self.false_negative
        if not n:
            return None
        precision = _share(self.true_positive, positive)
        recall = _share(self.true_positive, self.true_positive + self.false_negative)
        both = 2 * self.true_positive + self.false_positive + self.false_negative
        return {
            "n": n,
            "accuracy": _share(self.true_positive + self.true_negative, n),
            "precision": precision,
            "recall": recall,
            "f1": _share(2 * self.true_positive, both),
            "yes_share": _share(positive, n),
            "unclear": self.unclear,
        }


@dataclass(slots=True)
class _Scores:
    """Sums of one class."""

    n: int = 0
    left_out: int = 0
    score: float = 0.0
    exact: int = 0
    contains: int = 0
    vqa_n: int = 0
    vqa: float = 0.0
    yesno: _YesNo = field(default_factory=_YesNo)
    metrics: set[str] = field(default_factory=set)

    def described(self) -> dict[str, Any]:
        return {
            "metrics": [metric for metric in METRICS if metric in self.metrics],
            "n": self.n,
            "left_out": self.left_out,
            "score": _share(self.score, self.n),
            "exact": _share(self.exact, self.n),
            "contains": _share(self.contains, self.n),
            "vqa": _share(self.vqa, self.vqa_n),
            "yesno": self.yesno.described(),
        }


def _share(part: float, whole: int) -> float | None:
    return round(part / whole, 6) if whole else None


class Grader:
    """Grades records on their way to somewhere else: `for r in grader.through(records)`."""

    def __init__(self, expected: Iterable[ExpectedAnswer]) -> None:
        self._expected = {one.payload: one for one in expected}
        self._scores: dict[str, _Scores] = {}

    def through(self, records: Iterable[Record]) -> Iterator[Record]:
        """The same records."""
        for record in records:
            expected = self._expected.get(record.payload)
            if expected is not None:
                self.add(record, expected)
            yield record

    def add(self, record: Record, expected: ExpectedAnswer) -> None:
        if record.outcome in (Outcome.dropped, Outcome.unsent):
            return
        scores = [
            self._scores.setdefault(name, _Scores()) for name in (ALL, "c:" + record.media_class)
        ]
        for one in scores:
            one.metrics.add(expected.metric)
        if record.outcome is not Outcome.ok:
            for one in scores:
                one.left_out += 1
            return
        exact = is_exact(record.answer, expected.expected)
        within = contains(record.answer, expected.expected)
        for one in scores:
            one.n += 1
            one.exact += exact
            one.contains += within
            match expected.metric:
                case "vqa":
                    accuracy = vqa.accuracy(record.answer, expected.expected)
                    one.vqa_n += 1
                    one.vqa += accuracy
                    one.score += accuracy
                case "yesno":
                    one.score += one.yesno.add(record.answer, expected.expected)
                case "contains":
                    one.score += within
                case _:
                    one.score += exact

    def section(self) -> dict[str, Any] | None:
        """`answers` of docs/summary.md; None when no request had an expected answer."""
        if not self._scores:
            return None
        described = {name: scores.described() for name, scores in self._scores.items()}
        everything = described.pop(ALL)
        classes = {name.removeprefix("c:"): one for name, one in described.items()}
        return {"all": everything, "classes": classes}
