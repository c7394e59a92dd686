"""When to send: arrival processes as intended times, computed whole before the start. Pure.

In: a rate profile, an arrival process, a seed. Out: int64 nanoseconds since the run's origin,
sorted. Two parts, multiplied: a *profile* says how many arrivals are due by a time (constant,
ramps, steps, bursts), a *process* says how unit-rate arrivals are spaced (evenly, Poisson, gamma).
Arrival i comes when the profile's integral reaches the process's i-th value.

A seed gives the same schedule on every machine and Python version. So the draws use only
`random.Random.random()`, whose sequence Python guarantees, and IEEE operations that are exact
everywhere (+ - * / sqrt and comparisons): the exponential is von Neumann's method, which needs no
logarithm. The gamma process needs one power, so its gaps are rounded to whole microseconds, far
coarser than libraries differ.
"""

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, count
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mmload.clock import NS_PER_S

Times = NDArray[np.int64]
Unit = Iterator[float]  # increasing positions of unit-rate arrivals

MAX_ARRIVALS: Final = 50_000_000


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of the rate profile: from `start_qps` to `end_qps`, linearly, in `seconds`."""

    start_qps: float
    end_qps: float
    seconds: float

    @property
    def arrivals(self) -> float:
        """The profile's integral over the segment."""
        return (self.start_qps + self.end_qps) / 2 * self.seconds

    def when(self, due: float) -> float:
        """Seconds into the segment at which its integral reaches `due` (at most `arrivals`)."""
        slope = (self.end_qps - self.start_qps) / self.seconds
        # The stable root of  slope/2 t^2 + start t = due.
        root = math.sqrt(max(0.0, self.start_qps * self.start_qps + 2 * slope * due))
        return min(self.seconds, 2 * due / (self.start_qps + root)) if due > 0 else 0.0


def even() -> Unit:
    """0, 1, 2, ...: constant spacing, the first arrival at once."""
    return (float(i) for i in count())


def poisson(rng: random.Random) -> Unit:
    """Running sums of independent exponentials of mean 1, from 0."""
    return accumulate(iter(lambda: exponential(rng), None), initial=0.0)


def gamma(rng: random.Random, shape: float) -> Unit:
    """Running sums of gamma gaps of mean 1; `shape` < 1 is burstier than Poisson, > 1 calmer."""
    return accumulate(iter(lambda: gamma_gap(rng, shape), None), initial=0.0)


def arrivals(
    unit: Unit, qps: float, *, duration_s: float | None = None, requests: int | None = None
) -> Times:
    """Arrivals at a steady rate: `round(u * 1e9 / qps)`, until `requests` of them or `duration_s`.

    The end is excluded: 5/s for 30 s is 150 arrivals, the last at 29.8 s.
    """
    limit_ns = math.inf if duration_s is None else duration_s * NS_PER_S
    return _collect((round(u * 1e9 / qps) for u in unit), limit_ns, requests)


def profiled_arrivals(
    unit: Unit,
    profile: Sequence[Segment],
    *,
    duration_s: float | None = None,
    requests: int | None = None,
) -> Times:
    """Arrivals along a profile, which repeats until `duration_s` or `requests` of them."""
    limit_ns = math.inf if duration_s is None else duration_s * NS_PER_S
    return _collect(_along(unit, profile), limit_ns, requests)


def _along(unit: Unit, profile: Sequence[Segment]) -> Iterator[int]:
    start_s, base, i = 0.0, 0.0, 0
    for due in unit:
        while due >= base + profile[i % len(profile)].arrivals:
            segment = profile[i % len(profile)]
            base += segment.arrivals
            start_s += segment.seconds
            i += 1
        yield round((start_s + profile[i % len(profile)].when(due - base)) * NS_PER_S)


def _collect(times_ns: Iterator[int], limit_ns: float, requests: int | None) -> Times:
    taken: list[int] = []
    most = MAX_ARRIVALS if requests is None else requests
    for time_ns in times_ns:
        if len(taken) >= most or time_ns >= limit_ns:
            break
        taken.append(time_ns)
    return np.array(taken, np.int64)


def exponential(rng: random.Random) -> float:
    """One exponential of mean 1 by comparisons alone (von Neumann, 1951).

    A run of uniforms that keeps falling and breaks at an odd position is accepted; each rejected
    run adds 1.
    """
    draw = rng.random
    whole = 0.0
    while True:
        first = last = draw()
        odd = True
        while (following := draw()) < last:
            last = following
            odd = not odd
        if odd:
            return whole + first
        whole += 1.0


def normal(rng: random.Random) -> float:
    """One standard normal by the ratio of uniforms; a logarithm only decides acceptance."""
    while True:
        u = 1.0 - rng.random()
        x = 1.7155277699214135 * (rng.random() - 0.5) / u
        if x * x <= -4.0 * math.log(u):
            return x


def gamma_gap(rng: random.Random, shape: float) -> float:
    """One gamma of the given shape and mean 1 (Marsaglia and Tsang, 2000), in steps of 1e-6."""
    boosted = shape if shape >= 1 else shape + 1
    d = boosted - 1 / 3
    c = 1 / math.sqrt(9 * d)
    while True:
        x = normal(rng)
        v = (1 + c * x) ** 3
        if v <= 0:
            continue
        if math.log(1.0 - rng.random()) < 0.5 * x * x + d - d * v + d * math.log(v):
            break
    value = d * v
    if shape < 1:
        value *= (1.0 - rng.random()) ** (1 / shape)
    return round(value / shape * 1e6) / 1e6


def exact_shares(weights: Sequence[float], n: int) -> list[int]:
    """Splits `n` by largest remainders: the parts sum to `n`, each within 1 of its share."""
    total = math.fsum(weights)
    exact = [n * w / total for w in weights]
    shares = [math.floor(x) for x in exact]
    by_remainder = sorted(range(len(weights)), key=lambda i: (shares[i] - exact[i], i))
    for i in by_remainder[: n - sum(shares)]:
        shares[i] += 1
    return shares


def shuffled(values: Sequence[int], rng: random.Random) -> list[int]:
    """Fisher-Yates on `random()` alone, so that the order is the same on every Python version."""
    out = list(values)
    for i in range(len(out) - 1, 0, -1):
        j = int(rng.random() * (i + 1))
        out[i], out[j] = out[j], out[i]
    return out


def seeded(seed: int, purpose: str) -> random.Random:
    """A generator of its own for each purpose ("arrivals", "media", "mix"): one can be changed
    without touching the others. Seeding by a string is SHA-512 based and stable."""
    return random.Random(f"mmload {purpose} {seed}")
