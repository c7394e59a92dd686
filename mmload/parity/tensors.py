"""Two sets of named tensors, compared: the same bit for bit, or how far apart.

In: `Tensor`s by name, from files or from processors. Out: one `Compared` a name. Reads no files and
needs numpy alone, so that an encoder's outputs can be judged where torch is not installed.

Two values are the same when their bits are, or when both are NaN: IEEE 754 leaves a NaN's payload
to the implementation. So 0.0 and -0.0 differ.

How far apart, for a (the first set, the reference) and b, in float64:

- cosine similarity, a.b / (|a| |b|), as `torch.nn.functional.cosine_similarity`, without its
  epsilon: 1 for two zero vectors, 0 when only one of them is zero;
- relative L2 error, |a - b| / |a|, the normwise relative error of N. J. Higham, "Accuracy and
  Stability of Numerical Algorithms", 2nd ed., section 1.2: 0 for two zero vectors.

Each is given for the whole tensor and for its rows, the vectors along the last axis (an embedding
a token, a patch's pixels): the mean and the worst. A scalar or a vector is one row. A row counts as
unmeasured, and is left out, when |a| = 0 < |b|, or when a value is infinite or NaN and the other
one is not the same; a place where both are NaN, or the same infinity, counts as 0 in both.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

BFLOAT16: Final = "bfloat16"
BLOCK: Final = 1 << 20  # elements in float64 at a time: some tens of MB, whatever the tensor

Verdict = Literal["identical", "values", "differs", "shape", "only_a", "only_b"]


class Tensor(NamedTuple):
    """`bits` holds the elements as they are stored; bfloat16 is held as uint16."""

    dtype: str  # numpy's names, and "bfloat16"
    bits: NDArray[Any]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.bits.shape

    @property
    def exact(self) -> bool:
        """Whole numbers and truth values: counts, grids and positions, never nearly right."""
        return self.dtype != BFLOAT16 and self.bits.dtype.kind in "biu"


class Measure(msgspec.Struct, frozen=True, kw_only=True):
    """A measure over a tensor. `worst` and `mean` are of its rows; None: nothing to measure."""

    whole: float | None
    worst: float | None
    mean: float | None


class First(msgspec.Struct, frozen=True, kw_only=True):
    """The first element, in C order, that is not the same, and both values as text."""

    index: list[int]
    a: str
    b: str


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a name. In pairs a comes first; None where that set lacks the name.

    `identical`: same type, shape and bits. `values`: every value is the same, the type is not.
    `differs`: the rest is filled in. `shape`: elements cannot be paired. `only_a`, `only_b`.
    """

    name: str
    verdict: Verdict
    dtypes: tuple[str | None, str | None]
    shapes: tuple[list[int] | None, list[int] | None]
    exact: bool  # see `Tensor.exact`
    elements: int = 0
    differing: int = 0
    first: First | None = None
    max_abs: float | None = None  # largest |a - b| over elements that are finite in both
    rows: int = 0
    unmeasured_rows: int = 0
    cosine: Measure | None = None
    rel_l2: Measure | None = None


def of_array(array: NDArray[Any]) -> Tensor:
    """A numpy array of numbers of at most 8 bytes or of truth values, in any order of bytes."""
    native = array.dtype.newbyteorder("=")
    return Tensor(array.dtype.name, np.asarray(array, native, order="C"))


def values(tensor: Tensor, part: NDArray[Any]) -> NDArray[np.float64]:
    """A part of the tensor's bits as float64."""
    if tensor.dtype == BFLOAT16:  # the upper half of a float32
        part = (part.astype(np.uint32) << 16).view(np.float32)
    with np.errstate(invalid="ignore"):  # signalling NaNs
        return part.astype(np.float64)


def compare(a: Mapping[str, Tensor], b: Mapping[str, Tensor]) -> list[Compared]:
    """One result a name, in the order of `a`, then what only `b` has."""
    names = [*a, *(name for name in b if name not in a)]
    return [_compare(name, a.get(name), b.get(name)) for name in names]


def _compare(name: str, a: Tensor | None, b: Tensor | None) -> Compared:
    def made(verdict: Verdict, **rest: Any) -> Compared:
        return Compared(
            name=name,
            verdict=verdict,
            dtypes=(a.dtype if a else None, b.dtype if b else None),
            shapes=(list(a.shape) if a else None, list(b.shape) if b else None),
            exact=any(t.exact for t in (a, b) if t),
            **rest,
        )

    if a is None or b is None:
        return made("only_b" if a is None else "only_a")
    if a.shape != b.shape:
        return made("shape")
    differing, first = _differing(a, b)
    if not differing:
        same: Verdict = "identical" if a.dtype == b.dtype else "values"
        return made(same, elements=a.bits.size)
    return made(
        "differs",
        elements=a.bits.size,
        differing=differing,
        first=_first(a, b, first),
        **_distances(a, b),
    )


def _differing(a: Tensor, b: Tensor) -> tuple[int, int]:
    """How many elements are not the same, and the flat index of the first."""
    flat_a, flat_b = a.bits.reshape(-1), b.bits.reshape(-1)
    count, first = 0, -1
    for start in range(0, flat_a.size, BLOCK):
        part_a, part_b = flat_a[start : start + BLOCK], flat_b[start : start + BLOCK]
        if a.dtype == b.dtype and part_a.tobytes() == part_b.tobytes():
            continue
        other = _not_same(a, b, part_a, part_b)
        found = int(np.count_nonzero(other))
        if found and not count:
            first = start + int(np.argmax(other))
        count += found
    return count, first


def _not_same(
    a: Tensor, b: Tensor, part_a: NDArray[Any], part_b: NDArray[Any]
) -> NDArray[np.bool_]:
    in_a, in_b = values(a, part_a), values(b, part_b)
    if a.dtype != b.dtype:
        other = in_a != in_b
    else:
        as_bits = np.dtype(f"u{a.bits.dtype.itemsize}")
        other = part_a.view(as_bits) != part_b.view(as_bits)
    unlike: NDArray[np.bool_] = other & ~(np.isnan(in_a) & np.isnan(in_b))
    return unlike


def _first(a: Tensor, b: Tensor, flat: int) -> First:
    index = np.unravel_index(flat, a.shape)
    return First(index=[int(i) for i in index], a=_word(a, index), b=_word(b, index))


def _word(tensor: Tensor, index: tuple[Any, ...]) -> str:
    """The shortest decimal that reads back as this value of this type."""
    one = tensor.bits[index]
    return str(np.float32(values(tensor, one))) if tensor.dtype == BFLOAT16 else str(one)


def _distances(a: Tensor, b: Tensor) -> dict[str, Any]:
    width = a.shape[-1] if len(a.shape) > 1 else a.bits.size
    rows = a.bits.size // width
    scale = _scale(a, b)
    # by row: a.b, |a|^2, |b|^2, |a - b|^2
    sums = np.zeros((4, rows))
    unlike = np.zeros(rows, np.bool_)
    most = 0.0
    for down, across in _blocks(rows, width):
        x = values(a, a.bits.reshape(rows, width)[down, across])
        y = values(b, b.bits.reshape(rows, width)[down, across])
        odd = ~(np.isfinite(x) & np.isfinite(y))
        if odd.any():
            alike = (x == y) | (np.isnan(x) & np.isnan(y))
            unlike[down] |= (odd & ~alike).any(axis=1)
            x[odd], y[odd] = 0.0, 0.0
        x *= scale
        y *= scale
        apart = x - y
        most = max(most, float(np.abs(apart).max()) / scale)
        for kind, (left, right) in enumerate(((x, y), (x, x), (y, y), (apart, apart))):
            sums[kind, down] += np.einsum("ij,ij->i", left, right)
    unmeasured = unlike | ((sums[1] == 0) & (sums[2] > 0))
    cosines, errors = _cosine(sums[:, ~unmeasured]), _rel_l2(sums[:, ~unmeasured])
    total = sums.sum(axis=1, keepdims=True)
    whole = not unlike.any() and not (total[1, 0] == 0 < total[2, 0])
    return {
        "max_abs": most if math.isfinite(most) else None,
        "rows": rows,
        "unmeasured_rows": int(np.count_nonzero(unmeasured)),
        "cosine": _measure(_cosine(total) if whole else None, cosines, np.min),
        "rel_l2": _measure(_rel_l2(total) if whole else None, errors, np.max),
    }


def _scale(a: Tensor, b: Tensor) -> float:
    """A power of two that brings both sets near 1, so that no square over- or underflows."""
    most = 0.0
    for tensor in (a, b):
        flat = tensor.bits.reshape(-1)
        for start in range(0, flat.size, BLOCK):
            size = np.abs(values(tensor, flat[start : start + BLOCK]))
            most = max(most, float(np.max(size, where=np.isfinite(size), initial=0.0)))
    return math.ldexp(1.0, min(max(-math.frexp(most)[1], -1000), 1000)) if most else 1.0


def _blocks(rows: int, width: int) -> Iterator[tuple[slice, slice]]:
    tall = max(1, BLOCK // width)
    for top in range(0, rows, tall):
        for left in range(0, width, BLOCK):
            yield slice(top, top + tall), slice(left, left + BLOCK)


def _cosine(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    dot, in_a, in_b = sums[:3]
    norms = np.sqrt(in_a) * np.sqrt(in_b)
    zero = norms == 0
    found = np.where(zero, (in_a == 0) & (in_b == 0), dot / np.where(zero, 1, norms))
    return np.asarray(np.clip(found, -1.0, 1.0))  # rounding may leave it


def _rel_l2(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    in_a, apart = sums[1], sums[3]
    return np.asarray(np.sqrt(apart) / np.sqrt(np.where(in_a == 0, 1, in_a)))  # apart is 0 there


def _measure(whole: NDArray[np.float64] | None, by_row: NDArray[np.float64], worst: Any) -> Measure:
    return Measure(
        whole=None if whole is None else float(whole[0]),
        worst=float(worst(by_row)) if by_row.size else None,
        mean=float(by_row.mean()) if by_row.size else None,
    )
