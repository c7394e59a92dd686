"""What stock makes of a pixel: 256 values a colour, so the whole arithmetic is a table.

transformers casts to float32, subtracts the mean and divides by the deviation, both divided by the
rescale factor in float32 beforehand (`rescale_and_normalize`, `_fuse_mean_std_and_rescale_factor`
in `image_processing_backends.py`); without normalising it multiplies by the rescale factor. In: a
stock processor. Out: the table, made by that very processor, and the constants of the same
arithmetic for a compiled loop. `reproduces` holds one against the other, for every value there is.
"""

from typing import Any, Final, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Operation = Literal["normalise", "rescale"]
Three = tuple[np.float32, np.float32, np.float32]

VALUES: Final = 256


# What is made of a pixel where nothing is.
BYTES: Final[NDArray[np.uint8]] = np.tile(np.arange(VALUES, dtype=np.uint8), (3, 1))


class Pixels(NamedTuple):
    """`table`: (3, 256). "normalise": (x - first) / second; "rescale": x * second."""

    table: Floats
    operation: Operation
    first: Three
    second: Three

    @property
    def one_table(self) -> bool:
        """Whether the three colours are treated alike, as they mostly are."""
        return bool((self.table == self.table[0]).all())

    @property
    def one_operation(self) -> bool:
        """Whether one operation does it for all colours: no mean, as Gemma has it. x - 0 is x."""
        return self.one_table and not any(self.first) and self.reproduces()

    def reproduces(self) -> bool:
        """Whether the constants give the table, bit for bit."""
        ramp = np.arange(VALUES, dtype=np.float32)
        first, second = (np.array(c, np.float32)[:, None] for c in (self.first, self.second))
        made = (ramp - first) / second if self.operation == "normalise" else ramp * second
        return bool((made.view(np.uint32) == self.table.view(np.uint32)).all())


def pixels_of(stock: Any) -> Pixels:
    """`stock`: an instance of transformers' image or video processor that rescales."""
    ramp = torch.arange(VALUES, dtype=torch.uint8).reshape(1, 1, 1, VALUES).repeat(1, 3, 1, 1)
    floats = stock.rescale_and_normalize(
        ramp, stock.do_rescale, stock.rescale_factor, stock.do_normalize, *_mean_and_std(stock)
    )
    table: Floats = np.ascontiguousarray(floats.numpy().reshape(3, VALUES))
    if stock.do_normalize:
        mean, std = (
            (torch.tensor(values) * (1.0 / stock.rescale_factor)).tolist()
            for values in _mean_and_std(stock)
        )
        return Pixels(table, "normalise", _three(mean), _three(std))
    return Pixels(table, "rescale", _three([0.0] * 3), _three([stock.rescale_factor] * 3))


def _mean_and_std(stock: Any) -> tuple[tuple[float, ...], tuple[float, ...]]:
    return tuple(stock.image_mean), tuple(stock.image_std)


def _three(values: list[float]) -> Three:
    red, green, blue = (np.float32(value) for value in values)
    return red, green, blue
