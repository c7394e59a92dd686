"""MSER-5 on series whose transient is known."""

import numpy as np
import pytest

from mmload.analysis.warmup import BATCH, warmup_length


@pytest.mark.parametrize("transient", [0, 5, 50, 52, 100])
def test_a_known_transient_is_cut_within_one_batch(transient: int) -> None:
    noise = np.random.default_rng(transient).normal(0, 1, 400)
    values = 100 + noise
    values[:transient] += 50
    assert transient <= warmup_length(values) <= transient + BATCH


def test_a_decaying_transient_is_cut_where_it_is_noise() -> None:
    noise = np.random.default_rng(7).normal(0, 1, 1000)
    values = 100 + 80 * np.exp(-np.arange(1000) / 20) + noise
    # the excess falls under the noise of a batch's mean, 1 / sqrt(5), after 20 * ln(179) = 104
    assert 60 <= warmup_length(values) <= 140


@pytest.mark.parametrize("n", [20, 21, 99, 1000])
def test_never_over_half(n: int) -> None:
    for values in (np.arange(n, dtype=float), np.arange(n, dtype=float)[::-1] ** 3):
        assert warmup_length(values) <= n / 2
        assert warmup_length(values) % BATCH == 0


def test_short_and_constant_series_are_left_whole() -> None:
    assert warmup_length(np.empty(0)) == 0
    assert warmup_length(np.array([9.0] * 9 + [1.0] * 10)) == 0
    assert warmup_length(np.full(500, 0.1)) == 0
