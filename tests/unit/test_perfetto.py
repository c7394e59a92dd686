"""The trace of a run: checked against the rules of the Trace Event Format, and by hand."""

import io
import json
from collections import defaultdict
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mmload.records import Outcome, Record, Sample, ServerProcess, Span
from mmload.report.lanes import Slice, nesting
from mmload.report.perfetto import write
from tests.unit.analysis_samples import MS, ORIGIN_NS, DeterministicQueue, manifest, span

Event = dict[str, Any]


def trace(
    records: list[Record], spans: list[Span], samples: list[Sample] | None = None
) -> list[Event]:
    out = io.StringIO()
    count = write(manifest(), records, spans, samples or [], out)
    made = json.loads(out.getvalue())
    assert made["displayTimeUnit"] == "ms" and len(made["traceEvents"]) == count
    return list(made["traceEvents"])


def check(events: list[Event]) -> None:
    """What a reader of the format relies on."""
    named: set[tuple[int, int]] = set()
    slices: dict[tuple[int, int], list[Event]] = defaultdict(list)
    flows: dict[Any, list[Event]] = defaultdict(list)
    for event in events:
        phase, where = event["ph"], (event["pid"], event["tid"])
        if phase == "M":
            if event["name"] == "thread_name":
                assert where not in named
                named.add(where)
            continue
        assert event["name"] and isinstance(event["ts"], int | float)
        if phase == "X":
            assert event["dur"] >= 0 and where in named
            slices[where].append(event)
        elif phase == "C":
            assert event["args"] and all(
                isinstance(value, int | float) for value in event["args"].values()
            )
        else:
            assert phase in "sf"
            flows[event["id"]].append(event)
    for found in slices.values():  # perfectly nested, in the order of their begin
        ends: list[float] = []
        for one in found:
            begin, end = round(one["ts"] * 1000), round((one["ts"] + one["dur"]) * 1000)
            while ends and ends[-1] <= begin:
                ends.pop()
            assert not ends or end <= ends[-1], one
            ends.append(end)
        begins = [one["ts"] for one in found]
        assert begins == sorted(begins)
    for pair in flows.values():
        assert [one["ph"] for one in pair] == ["s", "f"] and pair[0]["ts"] <= pair[1]["ts"]
        assert pair[1]["bp"] == "e"
        for one in pair:  # an arrow ends on a slice
            assert any(
                each["ts"] <= one["ts"] <= each["ts"] + each["dur"]
                for each in slices[one["pid"], one["tid"]]
            )


def test_a_run_by_hand() -> None:
    """150 requests, 5 a second, 300 ms each on one worker: every request waits longer, so there
    are never fewer lanes than requests in flight, and arrows for all."""
    queue = DeterministicQueue()
    events = trace(queue.records, queue.spans)
    check(events)
    requests = [one for one in events if one.get("cat") == "request" and one["ph"] == "X"]
    assert len(requests) == 150
    assert sum(one["ph"] == "s" for one in events) == 150
    assert sum(one.get("cat") == "server" for one in events) == len(queue.spans)
    third = requests[2]  # arrives at 400 ms, the worker is free at 600, done at 900
    assert (third["ts"], third["dur"]) == (400_000.0, 500_000.0)
    assert third["args"]["request_id"] == "r-000002"
    in_flight = [one["args"]["requests"] for one in events if one["name"] == "in flight"]
    # Request i is done at 300 (i + 1) ms; the last arrives at 29.8 s, when 99 are done.
    assert max(in_flight) == 51 and in_flight[-1] == 0
    lanes = {one["tid"] for one in requests}
    assert len(lanes) == 51  # as many as were ever in flight


def test_the_parts_of_a_request() -> None:
    one = Record(
        index=0,
        request_id="a",
        media_class="x",
        payload=0,
        intended_ns=1 * MS,
        sent_ns=3 * MS,
        send_end_ns=4 * MS,
        first_output_ns=10 * MS,
        last_output_ns=19 * MS,
        closed_ns=20 * MS,
        outcome=Outcome.ok,
    )
    spans = [
        span("a", "processor", 5 * MS, 8 * MS),
        span("chatcmpl-a", "http_receive", 4 * MS, 5 * MS),
        span("warmup-1", "processor", -9 * MS, -8 * MS),
    ]
    events = trace([one], spans)
    check(events)
    parts = [(e["name"], e["ts"], e["dur"]) for e in events if e.get("cat") == "client"]
    assert parts == [
        ("lag", 1000.0, 2000.0),
        ("send", 3000.0, 1000.0),
        ("wait", 4000.0, 6000.0),
        ("stream", 10000.0, 10000.0),
    ]
    arrow = [(e["ph"], e["ts"], e["pid"]) for e in events if e["ph"] in "sf"]
    assert arrow == [("s", 3000.0, 2), ("f", 4000.0, 1)]  # the client is no process of the server


def test_a_request_that_failed_early_has_fewer_parts() -> None:
    early = Record(
        index=0,
        request_id="a",
        media_class="x",
        payload=0,
        intended_ns=0,
        sent_ns=1 * MS,
        closed_ns=2 * MS,
        outcome=Outcome.connection,
        message="refused",
    )
    unsent = Record(index=1, request_id="b", media_class="x", payload=0, intended_ns=0)
    events = trace([unsent, early], [])
    check(events)
    names = [(e["name"], e["dur"]) for e in events if e["ph"] == "X"]
    assert names == [("x", 2000.0), ("lag", 1000.0), ("send", 1000.0)]


def test_overlapping_spans_go_to_lanes_and_gauges_to_counters() -> None:
    records = DeterministicQueue(requests=2).records
    spans = [
        span("r-000000", "engine_wait", 0, 10 * MS),
        span("r-000001", "engine_wait", 5 * MS, 15 * MS),  # overlaps: another lane
        span("r-000001", "prefill", 6 * MS, 9 * MS),  # nests in the first: the same lane
        span("r-000000", "decode", 10 * MS, 12 * MS),  # begins as the first ends
    ]
    samples = [
        Sample(
            ORIGIN_NS + 7 * MS, "server", {"waiting": 2.0, "in_stage.decode": 1.0, "requests": 9}
        ),
        Sample(ORIGIN_NS + 8 * MS, "processes", {"cores": 1.5}),
        Sample(ORIGIN_NS + 9 * MS, "server", error="no answer"),
    ]
    events = trace(records, spans, samples)
    check(events)
    assert len({e["tid"] for e in events if e.get("cat") == "server"}) == 2
    counters = [(e["name"], e["ts"], e["args"]) for e in events if e["ph"] == "C"]
    assert counters[-3:] == [
        ("server: waiting", 7000.0, {"waiting": 2.0}),
        ("server: in_stage", 7000.0, {"decode": 1.0}),
        ("processes: cores", 8000.0, {"cores": 1.5}),
    ]


def test_another_hosts_clock_is_laid_on_ours() -> None:
    """Every exchange is 300 ms or more; the spans fill all but 1 ms at either end of the first."""

    class Lines(list[Span]):
        processes = [ServerProcess(pid=1, boot_id="there")]

    records = DeterministicQueue(requests=2).records
    far_ns = 3_200 * 1_000 * MS
    spans = Lines(
        [
            Span("r-000000", "processor", far_ns + 1 * MS, far_ns + 299 * MS, pid=1),
            Span("r-000001", "processor", far_ns + 310 * MS, far_ns + 590 * MS, pid=1),
        ]
    )
    out = io.StringIO()
    here = manifest(machine={"boot_id": "here"})
    write(here, records, spans, [], out)
    events = json.loads(out.getvalue())["traceEvents"]
    check(events)
    begins = [e["ts"] for e in events if e.get("cat") == "server"]
    assert begins == [1000.0, 310_000.0]


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=30))
def test_lanes_always_nest_and_lose_nothing(stays: list[tuple[int, int]]) -> None:
    found = [(Slice(at, at + length, "x", {}), i) for i, (at, length) in enumerate(stays)]
    lanes = nesting(found)
    assert sorted(i for lane in lanes for _, i in lane) == list(range(len(stays)))
    for lane in lanes:
        for k, (one, _) in enumerate(lane):
            for other, _ in lane[k + 1 :]:
                apart = other.start_ns >= one.end_ns or one.start_ns >= other.end_ns
                inside = one.start_ns <= other.start_ns and other.end_ns <= one.end_ns
                assert apart or inside
