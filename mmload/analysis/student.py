"""Student's t: two-sided p-values and critical values for any, also fractional, degrees of freedom.

In: numbers. Out: numbers. The incomplete beta function by its continued fraction (DLMF 8.17.22,
evaluated by Lentz's method), to about 1e-12: forty lines instead of a dependency on scipy.
"""

import math
from typing import Final

_TINY: Final = 1e-300
_STEPS: Final = 500


def two_sided_p(t: float, df: float) -> float:
    """P(|T| >= |t|) for T with `df` > 0 degrees of freedom."""
    if math.isinf(t):
        return 0.0
    return incomplete_beta(df / 2, 0.5, df / (df + t * t))


def critical(confidence: float, df: float) -> float:
    """The t > 0 that |T| exceeds with probability 1 - `confidence`."""
    low, high = 0.0, 1.0
    while two_sided_p(high, df) > 1 - confidence:
        low, high = high, high * 2
    while high - low > 1e-10 * high:
        middle = (low + high) / 2
        if two_sided_p(middle, df) > 1 - confidence:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularised incomplete beta function I_x(a, b)."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):  # the fraction converges fast on the other side
        return 1 - incomplete_beta(b, a, 1 - x)
    log_front = (
        math.lgamma(a + b)
        - math.lgamma(a)
        - math.lgamma(b)
        + a * math.log(x)
        + b * math.log1p(-x)
        - math.log(a)
    )
    return math.exp(log_front) / _fraction(a, b, x)


def _fraction(a: float, b: float, x: float) -> float:
    """1 + d1/(1 + d2/(1 + ...))."""
    c, d, value = 1.0, 0.0, 1.0
    for n in range(1, _STEPS):
        m = n // 2
        if n % 2:
            term = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            term = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d = 1 / _away_from_zero(1 + term * d)
        c = _away_from_zero(1 + term / c)
        value *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return value


def _away_from_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
