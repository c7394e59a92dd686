"""Grading: VQA accuracy by the official rule, POPE's figures, and what counts as an answer."""

import pytest

from mmload.analysis import vqa
from mmload.analysis.answers import (
    Grader,
    contains,
    is_exact,
    is_unclear,
    says_yes,
)
from mmload.records import Outcome, Record
from mmload.rundir import ExpectedAnswer
from tests.unit.analysis_samples import MS, documented_keys, record

# -- VQA ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("agreeing", "accuracy"),
    # Each annotator is left out once: k of ten give (k min(1, (k-1)/3) + (10-k) min(1, k/3)) / 10.
    [(0, 0.0), (1, 0.3), (2, 0.6), (3, 0.9), (4, 1.0), (10, 1.0)],
)
def test_the_ten_annotator_rule(agreeing: int, accuracy: float) -> None:
    annotators = ["red"] * agreeing + [f"other {i}" for i in range(10 - agreeing)]
    assert vqa.accuracy("Red", annotators) == pytest.approx(accuracy)


@pytest.mark.parametrize(
    ("text", "normalised"),
    [
        ("A red car.", "red car"),
        ("the Two dogs", "2 dogs"),
        ("none", "0"),
        ("ten", "10"),
        ("eleven", "eleven"),
        ("dont know", "don't know"),
        ("couldntve", "couldntve"),  # the table has forms that lack one apostrophe
        ("couldn'tve", "couldn't've"),
        ("somebody'd", "somebodyd"),  # the official table's own slip
        ("black-and-white", "black and white"),  # inside a word: a blank
        ("yes , sir", "yes sir"),  # at an edge: nothing
        ("1,000 - 2,000", "1000 2000"),  # a digit with a comma: everything vanishes
        ("3.5", "3.5"),  # a dot before a digit stays
        ("U.S.", "us"),
        ("5.", "5"),
        ("(left)", "left"),
        ("what?!", "what"),
        ("", ""),
    ],
)
def test_the_official_normalisation(text: str, normalised: str) -> None:
    assert vqa.normalised(text) == normalised


def test_nothing_is_normalised_where_all_annotators_agree() -> None:
    assert vqa.accuracy("a cat", ["cat"] * 10) == 0.0
    assert vqa.accuracy("a cat", ["cat"] * 9 + ["dog"]) == 1.0
    assert vqa.accuracy("CAT\n", ["cat"] * 10) == 1.0


def test_of_a_few_right_answers_any_one_will_do() -> None:
    assert vqa.accuracy("The cat.", ["cat"]) == 1.0
    assert vqa.accuracy("dog", ["cat", "a dog", "cow"]) == 1.0
    assert vqa.accuracy("bird", ["cat", "dog"]) == 0.0


# -- exact, contains, yes or no ----------------------------------------------------------------


def test_exact_and_contains() -> None:
    assert is_exact("  Red. ", ["blue", "red"])
    assert not is_exact("red car", ["red"])
    assert contains("It is a Red car.", ["red"])
    assert not contains("It is coloured.", ["red"])
    assert contains("New  York, I think", ["new york"])
    assert contains("costs $5", ["$5"])
    assert not contains("anything", ["", "."])


@pytest.mark.parametrize(
    ("answer", "yes", "unclear"),
    [
        ("Yes", True, False),
        ("no", False, False),
        ("No, there is none.", False, False),
        ("There is not. Yes.", False, False),  # the first sentence decides
        ("Yes. It is not far.", True, False),
        ("I see a chair", True, True),  # POPE takes it for a yes
        ("nothing at all", True, True),
        ("", True, True),
        ("NO\nwell", False, False),
    ],
)
def test_popes_reading_of_an_answer(answer: str, yes: bool, unclear: bool) -> None:
    assert says_yes(answer) is yes
    assert is_unclear(answer) is unclear


def graded(*pairs: tuple[str, ExpectedAnswer], **changed: object) -> dict[str, object]:
    records = [
        record(i, i * MS, i * MS, payload=i, answer=answer, **changed)
        for i, (answer, _) in enumerate(pairs)
    ]
    grader = Grader(
        ExpectedAnswer(i, expected.expected, expected.metric)
        for i, (_, expected) in enumerate(pairs)
    )
    assert list(grader.through(records)) == records
    section = grader.section()
    assert section is not None
    everything: dict[str, object] = section["all"]
    return everything


def yes_no(truth: str) -> ExpectedAnswer:
    return ExpectedAnswer(0, [truth], "yesno")


def test_yes_no_figures_of_a_known_table() -> None:
    """6 true positives, 1 false positive, 8 true negatives, 3 false negatives, two unclear."""
    pairs = [
        *[("Yes", yes_no("yes"))] * 5,
        ("A chair", yes_no("yes")),
        ("Perhaps", yes_no("no")),
        *[("No", yes_no("no"))] * 8,
        *[("no.", yes_no("yes"))] * 3,
    ]
    found = graded(*pairs)
    assert found["yesno"] == {
        "n": 18,
        "accuracy": round(14 / 18, 6),
        "precision": round(6 / 7, 6),
        "recall": round(6 / 9, 6),
        "f1": 0.75,  # 2 x 6 / (2 x 6 + 1 + 3)
        "yes_share": round(7 / 18, 6),
        "unclear": 2,
    }
    assert found["score"] == round(14 / 18, 6)
    assert (found["metrics"], found["vqa"]) == (["yesno"], None)


def test_yes_no_without_any_yes_has_no_precision() -> None:
    found = graded(("No", yes_no("no")))["yesno"]
    assert isinstance(found, dict)
    assert (found["precision"], found["recall"], found["f1"]) == (None, None, None)


def test_each_request_is_scored_by_its_own_metric() -> None:
    found = graded(
        ("red", ExpectedAnswer(0, ["Red"], "exact")),
        ("a red one", ExpectedAnswer(0, ["red"], "contains")),
        ("two", ExpectedAnswer(0, ["2"] * 3 + ["3"] * 7, "vqa")),
        ("wrong", ExpectedAnswer(0, ["right"], "exact")),
    )
    assert found == {
        "metrics": ["exact", "contains", "vqa"],
        "n": 4,
        "left_out": 0,
        "score": round((1 + 1 + 0.9 + 0) / 4, 6),
        "exact": 0.25,
        "contains": 0.5,
        "vqa": 0.9,
        "yesno": None,
    }


def test_failures_are_left_out_and_counted() -> None:
    right = ExpectedAnswer(0, ["red"])
    section = _mixed([Outcome.ok, Outcome.timeout, Outcome.ok, Outcome.dropped], right)
    assert section["all"]["n"] == 2
    assert section["all"]["left_out"] == 1  # the dropped one was never asked
    assert section["all"]["score"] == 1.0
    assert section["classes"]["a"]["left_out"] == 0
    assert section["classes"]["b"] == section["all"] | {
        "n": 1,
        "left_out": 1,
    }
    failed = _mixed([Outcome.timeout], right)["all"]
    assert (failed["n"], failed["score"], failed["exact"]) == (0, None, None)


def _mixed(outcomes: list[Outcome], expected: ExpectedAnswer) -> dict[str, dict]:  # type: ignore[type-arg]
    records: list[Record] = [
        record(i, i, i, media_class="ab"[i % 4 != 0], answer="red", outcome=outcome)
        for i, outcome in enumerate(outcomes)
    ]
    grader = Grader([expected])
    assert list(grader.through(records)) == records
    section = grader.section()
    assert section is not None
    return section


def test_without_expected_answers_there_is_nothing_to_say() -> None:
    grader = Grader([ExpectedAnswer(7, ["red"])])
    list(grader.through([record(0, 0, MS, answer="red")]))
    assert grader.section() is None


def test_every_key_is_documented() -> None:
    found = graded(("red", ExpectedAnswer(0, ["red"])))
    assert set(documented_keys("answers")) == set(found)
