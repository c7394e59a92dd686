"""The order of runs, the time they take, and what makes two plans different."""

from collections import Counter

import msgspec
import pytest

from mmload.sweep.plan import Plan, Server, Work, differences, estimate
from tests.unit.sweep_samples import plan_of


def test_repeats_are_blocks_in_an_order_of_their_own() -> None:
    plan = plan_of(["renderer-workers=1,2,4", "omp-threads=1,2"], repeats=3)
    order = list(plan.order())
    assert Counter(order) == {Work(p, r): 1 for p in range(6) for r in (1, 2, 3)}
    blocks = [[w.point for w in order if w.repeat == r] for r in (1, 2, 3)]
    assert [w.repeat for w in order] == [1] * 6 + [2] * 6 + [3] * 6
    assert len({tuple(block) for block in blocks}) == 3
    assert order == list(plan.order())
    other = msgspec.structs.replace(plan, seed=1)
    assert list(other.order()) != order


def test_the_order_is_the_same_on_every_machine() -> None:
    """SHA-256 of "0/1/point", sorted: worked out with hashlib by hand."""
    plan = plan_of(["renderer-workers=1,2,4"], repeats=1)
    assert [w.point for w in plan.order()] == [1, 0, 2]


def test_positions_are_fair() -> None:
    """Over many seeds each point comes first equally often."""
    plan = plan_of(["renderer-workers=1,2,4"], repeats=1)
    first = Counter(
        next(iter(msgspec.structs.replace(plan, seed=s).order())).point for s in range(900)
    )
    assert all(240 < count < 360 for count in first.values())


def test_the_time_is_told_before_the_start() -> None:
    plan = plan_of(["renderer-workers=1,2"], repeats=3)  # 20 s each
    left = list(plan.order())
    assert estimate(plan, left, None) == (6 * 25.0, True)
    assert estimate(plan, left[:2], 3.0) == (2 * 23.0, True)
    command = plan_of(["n=1,2"], repeats=3, server=Server(command=("serve",)))
    assert estimate(command, left, None) == (6 * 65.0, False)
    assert plan.schedule_s(0) == 20.0
    by_count = msgspec.structs.replace(plan, scenarios=({"qps": 4.0, "requests": 30},) * 2)
    assert by_count.schedule_s(0) == 7.5
    closed = msgspec.structs.replace(plan, scenarios=({"requests": 30, "concurrency": 2},) * 2)
    assert closed.schedule_s(0) is None and not estimate(closed, left, 1.0).known


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (plan_of(["renderer-workers=1,2"], repeats=5), ["repeats 3, now 5"]),
        (plan_of(["renderer-workers=1,2,4"]), ["renderer-workers 1/2, now 1/2/4"]),
        (
            plan_of(["omp-threads=1"]),
            ["renderer-workers 1/2, now not there", "omp-threads not there, now 1"],
        ),
        (
            plan_of(["renderer-workers=1,2"], server=Server(url="http://x")),
            ["server embedded, now http://x"],
        ),
        (plan_of(["renderer-workers=1,2"], objective="e2e:p99"), ["objective ttft:p90, now e2e"]),
    ],
)
def test_what_differs_is_named(other: Plan, words: list[str]) -> None:
    found = differences(plan_of(["renderer-workers=1,2"]), other)
    assert len(found) == len(words)
    assert all(word in said for word, said in zip(words, found, strict=True))


def test_equal_plans_and_a_changed_load() -> None:
    plan = plan_of(["renderer-workers=1,2"])
    again = msgspec.json.decode(msgspec.json.encode(plan), type=Plan)
    assert differences(plan, again) == []
    slower = msgspec.structs.replace(plan, scenarios=({"qps": 4.0, "duration": 20.0},) * 2)
    assert differences(plan, slower) == ["of the load: qps"]
