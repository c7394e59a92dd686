"""Who shows and asks what: exact shares, exact reuse, nothing twice that is not declared."""

from collections import Counter

import numpy as np
import pytest

from mmload.errors import UsageError
from mmload.load.prepare.plan import assign_classes, choose_media


def classes(n: int) -> np.ndarray:
    return assign_classes([1, 1, 2], n, seed=3)


def pairs(shown: np.ndarray, variant: np.ndarray) -> list[tuple[int, int]]:
    return list(zip(shown.tolist(), variant.tolist(), strict=True))


def test_classes_have_exact_shares_in_a_seeded_order() -> None:
    c = classes(101)
    assert Counter(c.tolist()) == {0: 25, 1: 25, 2: 51}
    assert c.tolist() == classes(101).tolist() != sorted(c.tolist())


def test_without_reuse_every_payload_is_distinct() -> None:
    variants = [50, 1, 30, 60]
    shown, variant, _ = choose_media(classes(100), [[0], [1, 2], [3]], variants, reuse=0.0, seed=1)
    assert len(set(pairs(shown, variant))) == 100
    assert all(v < variants[s] for s, v in pairs(shown, variant))


def test_classes_that_share_a_medium_never_send_one_variant_twice() -> None:
    shown, variant, _ = choose_media(classes(40), [[0], [0], [0]], [40], reuse=0.0, seed=1)
    assert sorted(variant.tolist()) == list(range(40)) and set(shown.tolist()) == {0}


@pytest.mark.parametrize("reuse", [0.1, 0.5, 0.9])
def test_reuse_is_exact_in_every_class(reuse: float) -> None:
    c = classes(400)
    shown, variant, _ = choose_media(c, [[0], [1], [2]], [1000] * 3, reuse=reuse, seed=1)
    for k, n in ((0, 100), (1, 100), (2, 200)):
        mine = pairs(shown[c == k], variant[c == k])
        repeats = sum(p in mine[:i] for i, p in enumerate(mine))
        assert repeats == round(reuse * n)
    assert len(set(pairs(shown, variant))) == 400 - 4 * round(reuse * 100)


def test_too_few_distinct_bodies_is_an_error_that_counts() -> None:
    with pytest.raises(UsageError, match="10 distinct bodies are needed, 4 can be made of 2 media"):
        choose_media(np.zeros(10, np.int32), [[0, 1]], [1, 3], reuse=0.0, seed=1)


def test_user_files_come_round_again() -> None:
    shown, variant, _ = choose_media(
        np.zeros(7, np.int32), [[0, 1, 2]], [1] * 3, reuse=None, seed=1
    )
    assert shown.tolist() == [0, 1, 2, 0, 1, 2, 0] and not variant.any()


def test_text_repeats_freely_beside_unique_media() -> None:
    shown, variant, script = choose_media(
        np.array([0, 1, 0, 1, 0], np.int32),
        [[0], [1]],
        [1, 9],
        reuse=0.0,
        seed=1,
        scripts_of_class=[[4, 5], [6]],
        bare=[0],
    )
    assert pairs(shown, variant) == [(0, 0), (1, 0), (0, 0), (1, 1), (0, 0)]
    assert script.tolist() == [4, 6, 5, 6, 4]


def test_prompts_go_round_by_themselves_and_a_repeat_repeats_its_prompt_too() -> None:
    shown, variant, script = choose_media(
        np.zeros(60, np.int32),
        [[0, 1]],
        [90, 90],
        reuse=0.5,
        seed=1,
        scripts_of_class=[[0, 1, 2]],
    )
    asked: dict[tuple[int, int], int] = {}
    fresh = []
    for pair, s in zip(pairs(shown, variant), script.tolist(), strict=True):
        if pair not in asked:
            fresh.append(s)
        assert asked.setdefault(pair, s) == s
    assert fresh == [0, 1, 2] * 10


def test_lines_of_a_dataset_keep_their_prompts() -> None:
    """Two lines ask about one file (set 0): three lines, nine requests."""
    shown, _, script = choose_media(
        np.zeros(9, np.int32),
        [[0, 0, 1]],
        [1, 1],
        reuse=None,
        seed=1,
        scripts_of_class=[[7, 8, 9]],
        tied=[0],
    )
    assert list(zip(shown.tolist(), script.tolist(), strict=True)) == [(0, 7), (0, 8), (1, 9)] * 3


def test_a_dataset_line_that_cannot_be_varied_further_is_an_error_not_left_out() -> None:
    """Lines in turn: 0, 1, 0, 1, 0; the second line's file has no third variant."""
    with pytest.raises(UsageError, match="6 distinct bodies are needed, 5 can be made of 2 media"):
        choose_media(
            np.zeros(6, np.int32),
            [[0, 1]],
            [9, 2],
            reuse=0.0,
            seed=1,
            scripts_of_class=[[0, 1]],
            tied=[0],
        )
