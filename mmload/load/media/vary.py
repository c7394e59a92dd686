"""Which quantiser steps of a file may be changed, and by how much: tables of steps to `Site`s.

JPEG and MPEG-4 hold one picture as 8 x 8 blocks of whole numbers and a table of 63 steps: number
times step is the amplitude of one spatial frequency. A step that is a little larger makes this
frequency a little stronger in the whole picture, while the numbers, and with them the length of the
file and the work to decode it, stay as they are. Goes in: the file, where its steps are, and the
picture's own frequencies. Comes out: sites. This never changes a step that the picture does not
use (the pixels would stay the same), and never so many that the picture could differ much.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mmload.load.media import Site

ENOUGH_VARIANTS: Final = 1 << 20
LARGEST_STEP: Final = 255  # eight bits
MOST_UNITS: Final = 7  # a step grows by 0 to 7 units; over 3 only where few steps are in use
WORST_MSE: Final = 255**2 / 10**3.4  # 34 dB, when every step has grown fully
FAIR_MSE: Final = WORST_MSE / 16  # what one growth may take while others are still to be had
# Positions in zigzag order, most wanted first. Under 3, one step moves a lot; over 20, most blocks
# are empty, and a server that scales the picture down would lose the difference.
POSITIONS: Final = (*range(20, 2, -1), *range(21, 64))
BLOCKS_AT_MOST: Final = 1024  # looked at, evenly over the picture
GROUP_BITS: Final = 24  # three bytes: four characters of base64

ZIGZAG: Final = sorted(
    range(64), key=lambda i: (i // 8 + i % 8, i // 8 if (i // 8 + i % 8) % 2 else i % 8)
)


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a file's table: eight bits that start at any bit of the file."""

    position: int  # in zigzag order, 1..63
    bit: int  # offset in the file, in bits
    value: int
    unit: int  # the smallest change worth making
    scale: float  # amplitude = whole number x value x scale


def sites(data: bytes, steps: Sequence[Step], frequencies: NDArray[np.float32]) -> tuple[Site, ...]:
    """The sites of a file: each a group of three bytes with all choices of the steps in it.

    `frequencies` are amplitudes as `frequencies` gives them. A step that straddles two groups is
    left alone. None if the picture has too little in it (a flat colour).
    """
    inside = [
        step
        for step in steps
        if step.position in POSITIONS
        and step.bit % GROUP_BITS <= GROUP_BITS - 8
        and (step.bit // GROUP_BITS + 1) * 3 <= len(data)
    ]
    groups: dict[int, list[tuple[Step, int]]] = {}
    for step, choices in zip(inside, _choices(inside, frequencies), strict=True):
        if choices > 1:
            groups.setdefault(step.bit // GROUP_BITS, []).append((step, choices))
    return tuple(_site(data, group, groups[group]) for group in sorted(groups))


def _choices(steps: Sequence[Step], frequencies: NDArray[np.float32]) -> list[int]:
    """How many values each step may take: 1 (it stays) to 8.

    All usable steps grow by one unit before any grows by two, cheap growths before dear ones, until
    there are enough variants or the worst of them would differ too much.
    """
    choices = [1] * len(steps)
    costs = [_cost(step, frequencies) for step in steps]
    order = sorted(range(len(steps)), key=lambda i: POSITIONS.index(steps[i].position))
    variants, left = 1, WORST_MSE
    for dearest in (FAIR_MSE, WORST_MSE):
        for units in range(1, MOST_UNITS + 1):
            for index in order:
                step, cost = steps[index], costs[index]
                if variants >= ENOUGH_VARIANTS:
                    return choices
                if cost is None or choices[index] != units:
                    continue
                extra = cost * (units**2 - (units - 1) ** 2)
                if extra <= min(left, dearest) and step.value + units * step.unit <= LARGEST_STEP:
                    left -= extra
                    choices[index] = units + 1
                    variants = variants // units * (units + 1)
    return choices


def _cost(step: Step, frequencies: NDArray[np.float32]) -> float | None:
    """Mean squared error a pixel when the step grows by one unit; None: too few blocks use it."""
    amplitudes = np.abs(frequencies[:, step.position])
    # A quarter, not a half: count only what is surely not zero in the file.
    numbers = np.floor(amplitudes / (step.value * step.scale) + 0.25)
    blocks = len(numbers)
    if np.count_nonzero(numbers) < max(4, blocks / 100):
        return None
    return float(np.mean(np.square(numbers))) * (step.unit * step.scale) ** 2 / 64


def _site(data: bytes, group: int, steps: Sequence[tuple[Step, int]]) -> Site:
    offset = group * 3
    original = int.from_bytes(data[offset : offset + 3], "big")
    options = []
    for units in itertools.product(*(range(choices) for _, choices in steps)):
        value = original
        for (step, _), count in zip(steps, units, strict=True):
            value += count * step.unit << (GROUP_BITS - 8 - step.bit % GROUP_BITS)
        options.append(value.to_bytes(3, "big"))
    return Site(offset, tuple(options))


def frequencies(grey: NDArray[np.generic]) -> NDArray[np.float32]:
    """Amplitudes of the 8 x 8 blocks of a plane: blocks x 64, zigzag order, orthonormal DCT.

    At most `BLOCKS_AT_MOST` blocks, spread evenly; incomplete blocks at the edges are left out.
    """
    rows, columns = grey.shape[0] // 8, grey.shape[1] // 8
    blocks = grey[: rows * 8, : columns * 8].reshape(rows, 8, columns, 8).swapaxes(1, 2)
    every = max(1, -(-rows * columns // BLOCKS_AT_MOST))
    chosen = np.arange(0, rows * columns, every)
    sample = blocks[chosen // max(1, columns), chosen % max(1, columns)].reshape(-1, 64)
    amplitudes: NDArray[np.float32] = sample.astype(np.float32) @ _BASIS.T
    return amplitudes


def _basis() -> NDArray[np.float32]:
    """64 x 64: row k takes a block (row by row) to its amplitude at zigzag position k."""
    wave, place = np.mgrid[0:8, 0:8]
    dct = np.cos((2 * place + 1) * wave * np.pi / 16) / 2
    dct[0] /= np.sqrt(2)
    return np.kron(dct, dct)[ZIGZAG].astype(np.float32)


_BASIS: Final = _basis()
