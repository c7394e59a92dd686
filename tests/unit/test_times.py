"""Schedules of scenarios: conversations, cameras and traces, to the nanosecond."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mmload.errors import UsageError
from mmload.load.prepare import Schedule, schedule
from mmload.load.schedule import arrivals, even, poisson, seeded
from mmload.scenario import Scenario

S = 1_000_000_000


def times_of(**values: Any) -> Schedule:
    return schedule(Scenario.model_validate(values))


def whose(plan: Schedule) -> list[tuple[int, int]]:
    assert plan.source is not None and plan.turn is not None
    return list(zip(plan.source.tolist(), plan.turn.tolist(), strict=True))


def test_steady_schedules_are_those_of_the_processes() -> None:
    assert times_of(qps=5, duration=30).intended_ns.tolist() == [i * S // 5 for i in range(150)]
    drawn = times_of(qps=5, duration=30, arrival="poisson", seed=7)
    expected = arrivals(poisson(seeded(7, "arrivals")), 5, duration_s=30)
    assert drawn.intended_ns.tolist() == expected.tolist()
    assert times_of(requests=10, qps=4).schedule_s == 2.5


def test_turns_come_think_times_after_their_conversation_began() -> None:
    """One conversation a second for 2 s, 3 turns, 1.5 s apart: 0, 1.5, 3 and 1, 2.5, 4."""
    plan = times_of(qps=1, duration=2, turns=3, think_time=1.5)
    assert plan.intended_ns.tolist() == [int(t * S) for t in (0, 1, 1.5, 2.5, 3, 4)]
    assert whose(plan) == [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2)]
    assert plan.sources == 2 and plan.schedule_s == 4.0


def test_conversations_hold_exactly_the_asked_requests() -> None:
    """5 requests of 2 turns are 3 conversations, of which the last has no second turn yet."""
    plan = times_of(qps=1, requests=5, turns=2, think_time=10)
    assert plan.intended_ns.tolist() == [0, S, 2 * S, 10 * S, 11 * S]
    assert whose(plan) == [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1)]


def test_cameras_in_even_phases_are_a_steady_rate() -> None:
    """Four cameras every 2 s are 2 requests a second, camera by camera."""
    plan = times_of(cameras=4, every=2, duration=6, phases="even")
    assert plan.intended_ns.tolist() == arrivals(even(), 2, duration_s=6).tolist()
    assert whose(plan) == [(i % 4, i // 4) for i in range(12)]


def test_cameras_in_random_phases_keep_their_own_beat() -> None:
    plan = times_of(cameras=3, every=0.5, duration=10, seed=4)
    assert plan.source is not None
    assert np.all(np.diff(plan.intended_ns) >= 0) and len(plan) == 60
    phases = []
    for camera in range(3):
        own = plan.intended_ns[plan.source == camera]
        assert len(own) == 20 and set(np.diff(own).tolist()) == {S // 2}
        phases.append(int(own[0]))
    assert len(set(phases)) == 3 and max(phases) < S // 2
    again = times_of(cameras=3, every=0.5, duration=10, seed=4)
    other = times_of(cameras=3, every=0.5, duration=10, seed=5)
    assert again.intended_ns.tolist() == plan.intended_ns.tolist() != other.intended_ns.tolist()


def test_cameras_by_number_of_requests() -> None:
    plan = times_of(cameras=3, every=1, requests=7, phases="even")
    assert len(plan) == 7
    assert plan.intended_ns.tolist() == [round(i * S / 3) for i in range(7)]


def trace_file(tmp_path: Path, *lines: object) -> str:
    file = tmp_path / "trace.jsonl"
    file.write_text("".join(v if isinstance(v, str) else json.dumps(v) + "\n" for v in lines))
    return str(file)


def test_a_trace_is_replayed_to_the_nanosecond_from_its_first_line(tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    file.write_text(
        '{"timestamp": 1700000000.123456789}\n\n'
        '{"timestamp": 1700000000.123456790}\n{"timestamp": 1700000003}\n'
    )
    plan = times_of(trace=str(file))
    assert plan.intended_ns.tolist() == [0, 1, 2_876_543_211]
    assert plan.schedule_s == pytest.approx(2.876543211)
    assert len(times_of(trace=str(file), duration=1)) == 2
    assert len(times_of(trace=str(file), requests=1)) == 1


def test_instants_and_milliseconds(tmp_path: Path) -> None:
    instants = trace_file(
        tmp_path,
        {"timestamp": "2024-02-28T23:59:59.5"},
        {"timestamp": "2024-02-29T00:00:00Z"},
        {"timestamp": "2024-02-29T03:00:01+03:00"},
    )
    assert times_of(trace=instants).intended_ns.tolist() == [0, S // 2, 3 * S // 2]
    millis = trace_file(tmp_path, '{"timestamp_ms": 27482}\n', '{"timestamp_ms": 27499.5}\n')
    assert times_of(trace=millis).intended_ns.tolist() == [0, 17_500_000]


def test_conversations_may_begin_as_a_trace_says(tmp_path: Path) -> None:
    file = trace_file(tmp_path, {"timestamp": 5}, {"timestamp": 6})
    plan = times_of(trace=file, turns=2, think_time=0.25)
    assert plan.intended_ns.tolist() == [0, S // 4, S, 5 * S // 4]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"timestamp": 1', "trace.jsonl:2: not JSON"),
        ("[1]", "trace.jsonl:2: not a JSON object"),
        ("{}", "trace.jsonl:2: timestamp (seconds or ISO 8601) or timestamp_ms"),
        ('{"timestamp": 4, "timestamp_ms": 4}', "trace.jsonl:2: timestamp"),
        ('{"timestamp": "noon"}', "trace.jsonl:2: timestamp: 'noon' is not allowed"),
        ('{"timestamp": 1e99}', "trace.jsonl:2: timestamp"),
        ('{"timestamp": NaN}', "trace.jsonl:2: timestamp"),
        ('{"timestamp": true}', "trace.jsonl:2: timestamp: True is not allowed"),
        ('{"timestamp": 2.9}', "trace.jsonl:2: timestamp: earlier than that of the line before"),
        ('{"timestamp": 4, "frame": 3}', "trace.jsonl:2: frame: no such key"),
        ('{"timestamp": 4, "frames": 999}', "trace.jsonl:2: frames: 999 is not allowed"),
        ('{"timestamp": 4, "size": "big"}', "trace.jsonl:2: size: 'big' is not allowed"),
        ('{"timestamp": 4, "max_tokens": 0}', "trace.jsonl:2: max_tokens: 0 is not allowed"),
        ('{"timestamp": 4, "prompt": ""}', "trace.jsonl:2: prompt: '' is not allowed"),
    ],
)
def test_errors_name_file_and_line(tmp_path: Path, line: str, words: str) -> None:
    file = trace_file(tmp_path, '{"timestamp": 3}\n', line + "\n")
    with pytest.raises(UsageError) as caught:
        times_of(trace=file)
    assert words in caught.value.message and "\n" not in caught.value.message


def test_a_trace_that_is_not_there_or_empty(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--trace /nowhere: cannot be read: No such file"):
        times_of(trace="/nowhere")
    with pytest.raises(UsageError, match="holds no lines"):
        times_of(trace=trace_file(tmp_path, "\n"))
    with pytest.raises(UsageError, match="is a directory|Is a directory"):
        times_of(trace=str(tmp_path))
