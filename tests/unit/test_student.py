"""Student's t against printed tables and closed forms."""

import math

import pytest

from mmload.analysis.student import critical, incomplete_beta, two_sided_p


@pytest.mark.parametrize(
    ("confidence", "df", "printed"),
    [
        (0.95, 1, 12.706),
        (0.95, 2, 4.303),
        (0.95, 5, 2.571),
        (0.95, 10, 2.228),
        (0.95, 30, 2.042),
        (0.95, 120, 1.980),
        (0.99, 1, 63.657),
        (0.99, 10, 3.169),
        (0.90, 4, 2.132),
    ],
)
def test_critical_values_are_those_of_the_tables(
    confidence: float, df: float, printed: float
) -> None:
    assert round(critical(confidence, df), 3) == printed


@pytest.mark.parametrize("t", [0.1, 1.0, 3.0, 40.0])
def test_one_and_two_degrees_of_freedom_have_closed_forms(t: float) -> None:
    assert two_sided_p(t, 1) == pytest.approx(1 - 2 / math.pi * math.atan(t), rel=1e-10)
    assert two_sided_p(-t, 2) == pytest.approx(1 - t / math.sqrt(2 + t * t), rel=1e-9)


def test_the_ends() -> None:
    assert two_sided_p(0.0, 3.5) == 1.0
    assert two_sided_p(math.inf, 3.5) == 0.0
    assert incomplete_beta(2, 3, 0.0) == 0.0 and incomplete_beta(2, 3, 1.0) == 1.0
    # I_x(2, 3) = 6x^2 - 8x^3 + 3x^4
    assert incomplete_beta(2, 3, 0.4) == pytest.approx(6 * 0.16 - 8 * 0.064 + 3 * 0.0256)


def test_fractional_degrees_lie_between_their_neighbours() -> None:
    assert critical(0.95, 3) < critical(0.95, 2.5) < critical(0.95, 2)
