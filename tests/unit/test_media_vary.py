"""Sites: whole groups of base64, chosen by what the picture uses, bounded in what they change."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from mmload.load.media import vary
from mmload.load.media.vary import Step

# ITU-T T.81, figure A.6, read row by row: the zigzag position of each place in a block.
T81_FIGURE_A6 = """
 0  1  5  6 14 15 27 28
 2  4  7 13 16 26 29 42
 3  8 12 17 25 30 41 43
 9 11 18 24 31 40 44 53
10 19 23 32 39 45 52 54
20 22 33 38 46 51 55 60
21 34 37 47 50 56 59 61
35 36 48 49 57 58 62 63
"""


def test_zigzag_is_that_of_the_standard() -> None:
    positions = [int(word) for word in T81_FIGURE_A6.split()]
    assert [positions[place] for place in vary.ZIGZAG] == list(range(64))


def test_frequencies_are_the_standards_dct() -> None:
    """Against the definition in T.81, A.3.3, summed term by term."""
    block = np.random.default_rng(1).integers(0, 256, (8, 8))
    positions = [int(word) for word in T81_FIGURE_A6.split()]
    found = vary.frequencies(block)[0]
    for v, u in [(0, 0), (0, 1), (1, 0), (2, 1), (7, 3), (7, 7)]:
        scale = (1 / math.sqrt(2) if u == 0 else 1) * (1 / math.sqrt(2) if v == 0 else 1) / 4
        wanted = scale * sum(
            float(block[y, x])
            * math.cos((2 * x + 1) * u * math.pi / 16)
            * math.cos((2 * y + 1) * v * math.pi / 16)
            for y in range(8)
            for x in range(8)
        )
        assert found[positions[8 * v + u]] == pytest.approx(wanted, abs=0.01)


def test_frequencies_of_many_blocks_are_an_even_sample() -> None:
    brightness = np.repeat(np.arange(64), 8)  # the number of the block row
    rows = np.repeat(brightness[:, None], 64 * 8, axis=1)
    found = vary.frequencies(rows)
    assert found.shape == (1024, 64)
    assert sorted(set(np.rint(found[:, 0] / 8))) == list(range(64))
    assert vary.frequencies(np.zeros((7, 100))).shape == (0, 64)
    assert vary.frequencies(np.zeros((8, 15))).shape == (1, 64)


def busy(amplitude: float, blocks: int = 100) -> NDArray[np.float32]:
    """Blocks with this amplitude at every frequency."""
    return np.full((blocks, 64), amplitude, np.float32)


def steps_at(first_byte: int, value: int = 10, unit: int = 1, count: int = 64) -> list[Step]:
    return [Step(k, 8 * (first_byte + k), value, unit, 1.0) for k in range(1, count)]


def test_sites_are_aligned_groups_with_the_original_first() -> None:
    data = bytes(range(10, 90))
    sites = vary.sites(data, steps_at(5), busy(10))
    assert sites
    offsets = [site.offset for site in sites]
    assert offsets == sorted(set(offsets))
    for site in sites:
        assert site.offset % 3 == 0
        assert site.options[0] == data[site.offset : site.offset + 3]
        assert {len(option) for option in site.options} == {3}
        assert len(set(site.options)) == len(site.options)
        for option in site.options:
            grown = [new - old for new, old in zip(option, site.options[0], strict=True)]
            assert all(0 <= g <= vary.MOST_UNITS for g in grown)
    # Zigzag 3..63 lies at bytes 8..68: nothing else may change.
    changed = {
        site.offset + i
        for site in sites
        for option in site.options
        for i in range(3)
        if option[i] != data[site.offset + i]
    }
    assert changed <= set(range(8, 69))
    assert 100_000 <= math.prod(len(s.options) for s in sites) <= 8 * vary.ENOUGH_VARIANTS


def test_low_steps_are_taken_first_and_all_grow_by_one_before_any_by_two() -> None:
    """20 steps of two values are 2**20: 18 at positions 3..20, then 21 and 22."""
    assert vary.ENOUGH_VARIANTS == 2**20
    sites = vary.sites(bytes(90), steps_at(4), busy(10))
    # Positions 3..22 are bytes 7..26: the first group, 6-8, has two of them, the others three.
    assert [(site.offset, len(site.options)) for site in sites] == [
        (6, 4),
        *((offset, 8) for offset in range(9, 27, 3)),
    ]


def test_few_steps_grow_further() -> None:
    """11 steps: 3**11 variants, and a fourth value for 7 of them makes 3**4 * 4**7 = 1,327,104."""
    sites = vary.sites(bytes(90), steps_at(0, count=14), busy(10))
    assert [len(site.options) for site in sites] == [27, 3 * 4 * 4, 64, 16]


def test_a_step_that_the_picture_does_not_use_stays() -> None:
    frequencies = busy(10)
    frequencies[:, 6] = 7.4  # under three quarters of a step of 10: maybe 0 in the file
    frequencies[5:, 7] = 0  # used by 5 blocks of 100: enough
    frequencies[3:, 8] = 0  # used by 3 blocks
    data = bytes(90)
    sites = vary.sites(data, steps_at(0), frequencies)
    (site,) = (site for site in sites if site.offset == 6)
    assert {option[0] for option in site.options} == {0}
    assert {option[1] for option in site.options} >= {0, 1}
    assert {option[2] for option in site.options} == {0}


def test_a_flat_picture_and_a_picture_of_no_blocks_have_no_sites() -> None:
    assert vary.sites(bytes(90), steps_at(0), busy(0)) == ()
    assert vary.sites(bytes(90), steps_at(0), np.zeros((0, 64), np.float32)) == ()
    assert vary.sites(bytes(90), [], busy(10)) == ()


def test_the_worst_variant_stays_over_34_db() -> None:
    """Numbers of 20 at each frequency: a unit costs 400/64 of mean square error, so 4 steps fit."""
    sites = vary.sites(bytes(90), steps_at(0), busy(200))
    assert sum(len(site.options) > 1 for site in sites) == 2
    assert math.prod(len(site.options) for site in sites) == 2**4


def test_no_step_grows_over_a_byte_and_none_reaches_over_a_group() -> None:
    assert vary.sites(bytes(90), steps_at(0, value=255), busy(255)) == ()
    last = vary.sites(bytes(90), steps_at(0, value=250, unit=2), busy(250))
    assert max(len(site.options) for site in last) <= 3**3
    # Five bits off: of three steps one straddles, two can vary.
    steps = [Step(k, 8 * k + 5, 10, 1, 1.0) for k in range(1, 64)]
    for site in vary.sites(bytes(90), steps, busy(10)):
        for option in site.options:
            value = int.from_bytes(option, "big")
            # Bits 13-20 and 5-12 of the group; 0-4 and 21-23 belong to others.
            assert value >> 19 == 0 and value & 7 == 0


def test_steps_beyond_the_files_last_whole_group_stay() -> None:
    assert all(site.offset + 3 <= 14 for site in vary.sites(bytes(14), steps_at(0), busy(10)))
