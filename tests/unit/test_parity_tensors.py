"""Distances worked out by hand, and what counts as the same."""

import math

import numpy as np
import pytest

from mmload.parity import tensors
from mmload.parity.tensors import BFLOAT16, Compared, Tensor, compare, of_array


def one(a: Tensor, b: Tensor) -> Compared:
    (found,) = compare({"t": a}, {"t": b})
    return found


def floats(*numbers: object) -> Tensor:
    return of_array(np.array(numbers, np.float32))


def test_rows_by_hand() -> None:
    found = one(floats([3, 4], [1, 0], [1, 1]), floats([4, 3], [0, 2], [1, 1]))
    assert found.verdict == "differs"
    assert (found.elements, found.differing) == (6, 4)
    assert found.first == tensors.First(index=[0, 0], a="3.0", b="4.0")
    assert found.max_abs == 2
    assert (found.rows, found.unmeasured_rows) == (3, 0)
    # cosines 24/25, 0, 1; relative errors sqrt(2)/5, sqrt(5)/1, 0
    cosine, error = found.cosine, found.rel_l2
    assert cosine is not None and error is not None
    assert cosine.worst == 0
    assert cosine.mean == pytest.approx((0.96 + 0 + 1) / 3, abs=1e-15)
    assert error.worst == pytest.approx(math.sqrt(5), abs=1e-15)
    assert error.mean == pytest.approx((math.sqrt(2) / 5 + math.sqrt(5)) / 3, abs=1e-15)
    # whole: a.b = 24 + 0 + 2, |a|^2 = 25 + 1 + 2, |b|^2 = 25 + 4 + 2, |a - b|^2 = 2 + 5 + 0
    assert cosine.whole == pytest.approx(26 / math.sqrt(28 * 31), abs=1e-15)
    assert error.whole == pytest.approx(math.sqrt(7 / 28), abs=1e-15)


def test_a_vector_and_a_scalar_are_one_row() -> None:
    vector = one(floats(1, 0, 0), floats(1, 1, 0))
    assert vector.rows == 1
    assert vector.cosine is not None and vector.rel_l2 is not None
    assert vector.cosine.worst == vector.cosine.whole == pytest.approx(1 / math.sqrt(2))
    assert vector.rel_l2.whole == 1
    scalar = one(of_array(np.array(2.0)), of_array(np.array(-1.0)))
    assert (scalar.rows, scalar.shapes) == (1, ([], []))
    assert scalar.first == tensors.First(index=[], a="2.0", b="-1.0")
    assert scalar.cosine is not None and scalar.cosine.whole == -1


def test_one_bit_is_a_difference() -> None:
    a = np.linspace(-1, 1, 24, dtype=np.float32).reshape(2, 3, 4)
    b = a.copy()
    b.view(np.uint32)[1, 0, 2] ^= 1
    found = one(of_array(a), of_array(b))
    assert (found.verdict, found.differing) == ("differs", 1)
    assert found.first is not None and found.first.index == [1, 0, 2]
    assert found.first.a != found.first.b
    assert found.max_abs == abs(float(a[1, 0, 2]) - float(b[1, 0, 2]))
    assert one(of_array(a), of_array(a.copy())).verdict == "identical"


def test_signed_zeros_differ_and_nans_do_not() -> None:
    zeros = one(floats(0.0, 1.0), floats(-0.0, 1.0))
    assert (zeros.verdict, zeros.differing, zeros.max_abs) == ("differs", 1, 0)
    other_nan = np.array([0x7FC00001, 0x3F800000], np.uint32).view(np.float32)
    assert np.isnan(other_nan[0])
    assert one(floats(math.nan, 1.0), of_array(other_nan)).verdict == "identical"


def test_what_is_not_finite() -> None:
    a = floats([math.nan, 3, 4], [math.inf, 1, 0], [1, 0, 0])
    b = floats([math.nan, 3, 3], [-math.inf, 1, 0], [1, 0, 0])
    found = one(a, b)
    assert (found.differing, found.rows, found.unmeasured_rows) == (2, 3, 1)
    assert found.max_abs == 1
    assert found.cosine is not None and found.rel_l2 is not None
    assert found.cosine.whole is None and found.rel_l2.whole is None
    assert found.cosine.worst == pytest.approx(21 / math.sqrt(25 * 18))
    assert found.rel_l2.worst == pytest.approx(1 / 5)
    assert found.rel_l2.mean == pytest.approx(1 / 10)
    nothing = one(floats(math.nan), floats(1.0))
    assert (nothing.verdict, nothing.unmeasured_rows) == ("differs", 1)
    assert nothing.cosine == tensors.Measure(whole=None, worst=None, mean=None)


def test_zero_vectors() -> None:
    found = one(floats([0, 0], [0, 0], [1, 0]), floats([0, 0], [1, 0], [0, 0]))
    # 0 against 0 is alike; 0 against b has no relative error; a against 0 is cosine 0, error 1
    assert (found.rows, found.unmeasured_rows) == (3, 1)
    assert found.cosine is not None and found.rel_l2 is not None
    assert (found.cosine.worst, found.cosine.mean) == (0, 0.5)
    assert (found.rel_l2.worst, found.rel_l2.mean) == (1, 0.5)


@pytest.mark.parametrize("size", [1e-200, 1e-320, 1e200, 1e308])
def test_no_square_runs_out_of_range(size: float) -> None:
    found = one(of_array(np.array([size, 0.0])), of_array(np.array([size, size])))
    assert found.cosine is not None and found.rel_l2 is not None
    assert found.cosine.whole == pytest.approx(1 / math.sqrt(2), rel=1e-12)
    assert found.rel_l2.whole == pytest.approx(1, rel=1e-12)
    assert found.max_abs == size


def test_another_type_with_the_same_values() -> None:
    half = of_array(np.array([1.0, 0.5], np.float16))
    assert one(floats(1.0, 0.5), half).verdict == "values"
    third = of_array(np.array([1 / 3], np.float16))
    assert one(floats(1 / 3), third).verdict == "differs"
    assert one(of_array(np.array([1, 2])), of_array(np.array([1, 2], np.int32))).verdict == "values"


def test_bfloat16_is_the_upper_half_of_a_float32() -> None:
    bits = np.array([0x3F80, 0xC000, 0x3EAB, 0x7FC0], np.uint16)  # 1, -2, about 1/3, NaN
    half = Tensor(BFLOAT16, bits)
    assert tensors.values(half, bits)[:3].tolist() == [1.0, -2.0, 0.333984375]
    assert one(half, floats(1, -2, 0.333984375, math.nan)).verdict == "values"
    found = one(Tensor(BFLOAT16, bits[2:3]), Tensor(BFLOAT16, np.array([0x3EAA], np.uint16)))
    assert found.dtypes == (BFLOAT16, BFLOAT16)
    assert found.first == tensors.First(index=[0], a="0.33398438", b="0.33203125")
    assert found.max_abs == 2**-9
    assert not found.exact


def test_shapes_and_names() -> None:
    a = {"x": floats([1, 2]), "gone": floats(1)}
    b = {"new": floats(1), "x": floats(1, 2)}
    found = compare(a, b)
    assert [(c.name, c.verdict) for c in found] == [
        ("x", "shape"),
        ("gone", "only_a"),
        ("new", "only_b"),
    ]
    assert found[0].shapes == ([1, 2], [2])
    assert found[2].dtypes == (None, "float32")


def test_nothing_in_them_is_identical() -> None:
    assert one(of_array(np.empty((0, 4))), of_array(np.empty((0, 4)))).verdict == "identical"


def test_grids_are_exact() -> None:
    found = one(of_array(np.array([[8, 30, 54]])), of_array(np.array([[8, 30, 52]])))
    assert found.exact
    assert found.first == tensors.First(index=[0, 2], a="54", b="52")


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    a = random.normal(size=(37, 11)).astype(np.float32)
    b = a + random.normal(size=a.shape).astype(np.float32) * 1e-3
    b[:20] = a[:20]
    whole = one(of_array(a), of_array(b))
    assert whole.cosine is not None
    for block in (5, 11, 25):  # less than a row, a row, two rows and a bit
        monkeypatch.setattr(tensors, "BLOCK", block)
        parts = one(of_array(a), of_array(b))
        assert (parts.first, parts.differing) == (whole.first, whole.differing)
        assert parts.first is not None and parts.first.index == [20, 0]
        assert parts.max_abs == whole.max_abs
        assert parts.cosine is not None
        assert parts.cosine.worst == pytest.approx(whole.cosine.worst, abs=1e-15)
        assert parts.cosine.whole == pytest.approx(whole.cosine.whole, abs=1e-15)


def test_bytes_in_the_other_order() -> None:
    assert one(floats(1, 2), of_array(np.array([1, 2], ">f4"))).verdict == "identical"
