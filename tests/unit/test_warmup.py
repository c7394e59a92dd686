"""The rule of `--warmup auto`."""

import pytest

from mmload.errors import UsageError
from mmload.load.warmup import has_settled
from mmload.scenario import Scenario
from mmload.scenario_file import load_scenario


def stops_after(latency_ns: list[int], classes: int = 1) -> int | None:
    """After how many requests the rule is content."""
    counts = range(1, len(latency_ns) + 1)
    return next((n for n in counts if has_settled(latency_ns[:n], classes)), None)


def test_it_goes_on_while_a_block_is_faster_than_the_one_before() -> None:
    assert stops_after([100] * 20) == 10  # nothing falls: the least there is
    assert stops_after([900] * 5 + [400] * 5 + [110] * 5 + [100] * 10) == 25
    assert stops_after([900] + [100] * 20) == 15  # one slow first request counts for its block
    assert stops_after([100] * 5 + [96] * 5) == 10  # 4 % is no fall
    assert stops_after([100] * 5 + [95] * 5 + [95] * 5) == 15  # 5 % is one
    assert stops_after([2**n for n in range(50, 0, -1)]) is None


def test_a_block_is_a_whole_round_through_the_classes() -> None:
    """A text, an image and a video take turns: blocks of five would compare unlike things."""
    assert stops_after([10, 100, 1000] * 10, classes=3) == 12
    assert stops_after([10] * 40, classes=7) == 14


def test_the_scenario_takes_a_number_or_auto() -> None:
    plain = Scenario.model_validate({})
    auto = load_scenario(None, {"warmup": "auto"})
    assert (auto.warmup, auto.warmup_most) == ("auto", 50)
    assert (plain.warmup_most, load_scenario(None, {"warmup": "0"}).warmup_most) == (2, 0)
    assert auto.digest() == plain.digest()  # it is not part of what is measured
    for wrong in ("some", "-1", "10001", "2.5"):
        with pytest.raises(UsageError, match="--warmup.*from 0 to 10000, or auto"):
            load_scenario(None, {"warmup": wrong})
