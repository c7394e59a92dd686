"""A search's steps against a made-up server: pilot, budget, cooling down, what is written."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mmload.capacity import execute
from mmload.capacity.execute import Budget, Search
from mmload.capacity.search import PILOT, Rule
from mmload.capacity.state import Asked, begin, free_folder, load
from mmload.errors import UsageError
from mmload.records import Outcome, Record, RecordTable
from mmload.run import Options
from mmload.slo import parse_slo
from tests.unit.test_capacity_summary import rate_of

CAPACITY_QPS = 10.0


class Made(Search):
    """Answers at once below the capacity, and gives up a request above it; then it is slow for
    two looks."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.loads: list[tuple[str, dict[str, Any]]] = []
        self.slow_looks = 0

    def _load(self, name: str, how: dict[str, Any]) -> Any:
        self.loads.append((name, how))
        rate = how.get("qps", 0.0)
        fine = rate <= CAPACITY_QPS
        summary = dict(rate_of(rate, "pass" if fine else "fail", service_ms=100.0).summary)
        summary |= {"interrupted": False, "schedule_s": 1.0, "invalid_reasons": []}
        summary["failed"] = {} if fine else {"timeout": 1}
        summary["queue"] = {"verdict": "stable" if fine else "growing", "growth_per_s": 1.0}
        if not fine:
            self.slow_looks = 2
        elif how.get("sequential") and self.slow_looks:
            self.slow_looks -= 1
            summary["ttft_ms"] = {"p50": 5000.0, "p90": 5000.0, "p99": 5000.0}
        ms = 1_000_000
        record = Record(
            index=0,
            request_id="r",
            media_class="text",
            payload=0,
            intended_ns=0,
            sent_ns=0,
            first_output_ns=10 * ms,
            last_output_ns=20 * ms,
            outcome=Outcome.ok,
        )
        return RecordTable.of([record]), SimpleNamespace(summary=summary)


def _search(path: Path, budget: Budget, said: list[str], start: float = PILOT) -> Made:
    asked = Asked(
        started_at="",
        server="s",
        slos=["ttft:p99<500ms"],
        scenario={},
        start=start,
        precision=0.5,
        factor=2.0,
        repeats=1,
        requests_a_rate=160,
        least_s=10.0,
    )
    asked = begin(path, asked)
    slos = (parse_slo("ttft:p99<500ms"),)
    rates = [
        rate_of(one.rate, "pass" if one.rate <= CAPACITY_QPS else "fail", service_ms=100.0)
        for one in asked.ran
    ]
    rule = Rule(start=asked.start, precision=0.5, repeats=1)
    return Made(path, asked, rates, slos, rule, budget, Options(), None, said.append, None)


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execute, "pause", lambda _: None)


def test_pilot_steps_and_what_is_written(tmp_path: Path) -> None:
    said: list[str] = []
    search = _search(tmp_path / "c", Budget(), said)
    search.run()
    # 1 worker of 100 ms: half of 10/s, then .9 and 1.1 of it
    assert [one.rate for one in search.rates] == [5.0, 9.0, 11.0]
    assert search.loads[0][0] == "pilot" and search.loads[0][1]["sequential"] is True
    assert search.loads[1] == ("r001-5qps", {"qps": 5.0, "requests": 160})
    asked = load(tmp_path / "c")
    assert (asked.ended, asked.start) == ("confirmed", 5.0)
    assert [ran.rate for ran in asked.ran] == [5.0, 9.0, 11.0]
    assert any("11/s: fails" in line and "the queue grows by 1/s" in line for line in said)


def test_the_server_is_looked_at_until_it_is_calm(tmp_path: Path) -> None:
    search = _search(tmp_path / "c", Budget(), [])
    search.run()
    looks = [name for name, _ in search.loads if name.startswith("cool")]
    assert looks == ["cool003-1", "cool003-2", "cool003-3"]  # slow twice, then calm


def test_rates_are_as_long_as_asked_and_the_budget_holds(tmp_path: Path) -> None:
    search = _search(tmp_path / "c", Budget(requests=400), [], start=30.0)
    search.run()
    # 10 s at 30/s; 15/s would go beyond 400
    assert [how["requests"] for _, how in search.loads if "qps" in how] == [300]
    assert load(tmp_path / "c").ended == "max_requests"
    timed = _search(tmp_path / "t", Budget(seconds=25.0), [], start=5.0)
    timed.run()
    assert timed.rates == [] and load(tmp_path / "t").ended == "time_budget"  # 160 at 5/s: 32 s


def test_an_interrupted_search_goes_on(tmp_path: Path) -> None:
    whole = _search(tmp_path / "w", Budget(), [])
    whole.run()
    part = _search(tmp_path / "c", Budget(requests=330), [])
    part.run()
    assert [one.rate for one in part.rates] == [5.0, 9.0]
    assert load(tmp_path / "c").ended == "max_requests"
    rest = _search(tmp_path / "c", Budget(), [])
    rest.run()
    names = [name for name, how in rest.loads if "qps" in how]
    assert names == ["r003-11qps"]  # no pilot either
    assert [one.rate for one in rest.rates] == [one.rate for one in whole.rates]
    assert load(tmp_path / "c").ended == "confirmed"
    with pytest.raises(UsageError, match="holds another capacity search: start differ"):
        _search(tmp_path / "c", Budget(), [], start=3.0)
    (tmp_path / "c" / "r004-7qps").mkdir()
    (tmp_path / "c" / "r004-7qps" / "records.jsonl").write_text("x")
    assert not free_folder(tmp_path / "c", "r004-7qps").exists()
    assert (tmp_path / "c" / "earlier" / "r004-7qps-1" / "records.jsonl").exists()


def test_a_stop_ends_it(tmp_path: Path) -> None:
    search = _search(tmp_path / "c", Budget(), [], start=5.0)
    search.stop()
    search.run()
    assert load(tmp_path / "c").ended == "interrupted" and search.loads == []


def test_folders_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not the folder of a capacity search"):
        load(tmp_path)
    (tmp_path / "capacity.json").write_text(json.dumps({"format": 1}))
    with pytest.raises(UsageError, match="damaged"):
        load(tmp_path)
    with pytest.raises(UsageError, match="damaged"):
        _search(tmp_path, Budget(), [])
    (tmp_path / "capacity.json").rename(tmp_path / "notes.json")
    with pytest.raises(UsageError, match="not empty, and holds no capacity search"):
        _search(tmp_path, Budget(), [])
