"""VQA accuracy and its normalisation of answers, as the official evaluation does both.

In: an answer and what the annotators said. Out: 0 to 1. An annotator agrees when the normalised
answers are equal without regard to case; the accuracy is the mean, over all annotators, of
min(1, agreeing others / 3). So with the usual ten, 4 agreeing give 1, 3 give 0.9, 2 give 0.6 and 1
gives 0.3.

Source: VQAEval in VQA's PythonEvaluationTools/vqaEvaluation/vqaEval.py (github.com/GT-Vision-Lab/
VQA), with its oddities: a dot stays only before a digit, punctuation inside a word becomes a blank
but vanishes everywhere as soon as a digit has a comma, `none` is 0, and when all annotators agree
to the letter nothing is normalised.
"""

import re
from collections.abc import Sequence
from typing import Final

FEWEST_ANNOTATORS: Final = 4  # with fewer, three others cannot agree and the rule never gives 1

_PUNCTUATION: Final = ';/[]"{}()=+\\_-><@`,?!'
_DOT: Final = re.compile(r"\.(?!\d)")
_DOTS_MOST: Final = 32  # the official code hands re.UNICODE over as the count
_DIGIT_COMMA: Final = re.compile(r"\d,\d")
_ARTICLES: Final = frozenset(("a", "an", "the"))
_NUMBERS: Final = {
    word: str(value)
    for value, word in enumerate(
        ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
    )
} | {"none": "0"}

# The right forms; a word that lacks one of its apostrophes becomes the form.
_CONTRACTED: Final = (
    "ain't aren't can't could've couldn't couldn't've didn't doesn't don't hadn't hadn't've hasn't"
    " haven't he'd he'd've he's how'd how'll how's isn't it'd it'd've it'll ma'am mightn't"
    " mightn't've might've mustn't must've needn't not've o'clock oughtn't 'ow's'at shan't she'd've"
    " should've shouldn't shouldn't've somebody'd've somebody'll somebody's someone'd someone'd've"
    " someone'll someone's something'd something'd've something'll that's there'd there'd've"
    " there're there's they'd they'd've they'll they're they've 'twas wasn't we'd've we've weren't"
    " what'll what're what's what've when's where'd where's where've who'd who'd've who'll who's"
    " who've why'll why're why's won't would've wouldn't wouldn't've y'all y'all'll y'all'd've"
    " you'd you'd've you'll you're you've"
).split()
_CONTRACTIONS: Final = {
    form[:at] + form[at + 1 :]: form
    for form in _CONTRACTED
    for at, letter in enumerate(form)
    if letter == "'"
} | {"somebody'd": "somebodyd"}  # as it stands in the official table


def accuracy(answer: str, annotators: Sequence[str]) -> float:
    """From 0 to 1. Of fewer than `FEWEST_ANNOTATORS`, one that agrees is enough."""
    said = [_one_line(one) for one in annotators]
    given = _one_line(answer)
    few = len(said) < FEWEST_ANNOTATORS
    if few or len(set(said)) > 1:
        said = [normalised(one) for one in said]
        given = normalised(given)
    agree = [one.lower() == given.lower() for one in said]
    if few:
        return float(any(agree))
    total = sum(agree)
    return sum(min(1.0, (total - mine) / 3) for mine in agree) / len(agree)


def normalised(text: str) -> str:
    """Without punctuation, articles and capitals; number words and contractions in one form."""
    return _words(_without_punctuation(text))


def _one_line(text: str) -> str:
    return text.replace("\n", " ").replace("\t", " ").strip()


def _without_punctuation(text: str) -> str:
    out = text
    all_vanish = _DIGIT_COMMA.search(text) is not None
    for mark in _PUNCTUATION:
        at_an_edge = f"{mark} " in text or f" {mark}" in text
        out = out.replace(mark, "" if at_an_edge or all_vanish else " ")
    return _DOT.sub("", out, count=_DOTS_MOST)


def _words(text: str) -> str:
    words = (_NUMBERS.get(word, word) for word in text.lower().split())
    return " ".join(_CONTRACTIONS.get(word, word) for word in words if word not in _ARTICLES)
