"""A server whose work holds its event loop up: the waits, the stage to blame, and the sentence."""

import numpy as np

from mmload.analysis.join import join
from mmload.analysis.loop import Culprit, culprits, held_up
from mmload.analysis.phases import loop_wait_ms, split
from mmload.analysis.summary import summarise
from mmload.records import Record, RecordTable, Span
from tests.unit.analysis_samples import MS, ORIGIN_NS, S, manifest, record, span


def blocking_server(
    requests: int, every_ms: int = 200, each_ms: int = 300
) -> tuple[list[Record], list[Span]]:
    """Requests on a schedule, each encoded on the loop of one process, one after the other: request
    i starts at i x 300 ms, so it waits i x 100 ms. 20 ms of decoding elsewhere follow."""
    records: list[Record] = []
    spans: list[Span] = []
    for i in range(requests):
        arrives, starts = i * every_ms * MS, i * each_ms * MS
        ends = starts + each_ms * MS
        records.append(record(i, arrives, ends + 20 * MS))
        name = records[-1].request_id
        spans.append(span(name, "vision_encoder", starts, ends, on_loop=True))
        spans.append(span(name, "decode", ends, ends + 20 * MS))
    return records, spans


def test_each_request_waits_for_the_loop_exactly_as_long_as_it_was_held_up() -> None:
    records, spans = blocking_server(50)
    table = RecordTable.of(records)
    joined = join(table, spans, [], ORIGIN_NS)
    parts = split(np.arange(50), table.times, joined)
    waits = parts.ns[:, parts.stages.index("loop_wait")]
    assert waits.tolist() == [i * 100 * MS for i in range(50)]
    assert parts.ns[:, parts.stages.index("vision_encoder")].tolist() == [300 * MS] * 50
    assert parts.ns[:, -1].sum() == 0  # nothing is unattributed
    assert loop_wait_ms(parts) == 2450.0  # 100 ms x 0 to 49


def test_the_report_blames_the_stage_on_the_loop() -> None:
    records, spans = blocking_server(150)
    table = RecordTable.of(records)
    run = manifest(planned=150, schedule_s=30.0, asked_qps=5.0, traced=True)
    summary = summarise(run, None, table, spans, []).summary
    stage = summary["stages"]["vision_encoder"]
    assert stage["on_loop"] is True and stage["configured_width"] == 1
    assert stage["utilisation"] == 1.5 and round(stage["capacity_qps"], 3) == 3.333
    assert summary["stages"]["decode"]["on_loop"] is False
    assert summary["queue"]["verdict"] == "growing"
    blamed = summary["bottleneck"]
    assert blamed["stage"] == "vision_encoder" and blamed["settings"] == []
    assert blamed["sentence"] == (
        "The server's event loop is the bottleneck: 5.0 requests/s offered, 300 ms each (vision"
        " encoder 300 ms) on one loop is utilisation 1.50; it can carry 3.33 requests/s."
        " Meanwhile that process reads no request and sends no token. A thread or a process of its"
        " own for that work, or more server processes, move it."
    )
    [trap] = [w for w in summary["warnings"] if w["code"] == "blocks_loop"]
    assert trap["message"] == (
        "A request computes for 300 ms on the server's event loop (vision encoder 300 ms)."
        " Meanwhile that process reads no request and sends no token; requests waited 7450 ms for"
        " it at the mean."
    )
    for point in summary["phases"].values():
        assert abs(sum(point["phases"].values()) - point["e2e_ms"]) < 1e-6


def test_two_processes_have_two_loops() -> None:
    """Requests of one process do not wait for the other's loop."""
    records = [record(0, 0, 400 * MS), record(1, 100 * MS, 500 * MS), record(2, 0, 350 * MS)]

    def at(request: int, pid: int, stage: str, start: int, end: int, loop: bool = True) -> Span:
        facts = {"on_loop": True} if loop else {}
        start_ns, end_ns = ORIGIN_NS + start * MS, ORIGIN_NS + end * MS
        return Span(records[request].request_id, stage, start_ns, end_ns, pid=pid, facts=facts)

    spans = [
        at(0, 7, "encode", 0, 400),
        at(0, 7, "inner", 100, 200),  # nested: the loop was held up once
        at(1, 7, "encode", 400, 500),
        at(2, 8, "encode", 50, 150),
        at(2, 8, "short", 150, 154),  # what a loop is for
        at(2, 8, "decode", 154, 350, loop=False),
    ]
    table = RecordTable.of(records)
    joined = join(table, spans, [], ORIGIN_NS)
    held = held_up(
        np.arange(3),
        table.times["sent_ns"].astype(np.int64),
        np.array([400, 500, 350]) * MS,
        joined,
    )
    stretches = zip(held.owner, held.start_ns // MS, held.end_ns // MS, strict=True)
    assert sorted(tuple(map(int, s)) for s in stretches) == [
        (0, 0, 500),
        (1, 100, 500),
        (2, 50, 150),
    ]
    parts = split(np.arange(3), table.times, joined)
    waits = (parts.ns[:, parts.stages.index("loop_wait")] // MS).tolist()
    assert waits == [0, 300, 0]
    accept = (parts.ns[:, parts.stages.index("accept_wait")] // MS).tolist()
    assert accept == [0, 0, 50]


def test_short_work_on_the_loop_is_no_fault() -> None:
    records = [record(i, i * S, i * S + 10 * MS) for i in range(5)]
    spans = [span(r.request_id, "tokenize", r.intended_ns, r.intended_ns + 4 * MS, on_loop=True)
             for r in records]  # fmt: skip
    run = manifest(planned=5, schedule_s=5.0, asked_qps=1.0, traced=True)
    summary = summarise(run, None, RecordTable.of(records), spans, []).summary
    assert summary["stages"]["tokenize"]["on_loop"] is False
    assert "loop_wait" not in summary["phases"]["mean"]["stages"]
    assert not [w for w in summary["warnings"] if w["code"] == "blocks_loop"]


def test_a_function_that_no_span_tells_of_is_named() -> None:
    """Three stretches of `app.encode` (100, 200 and 300 ms), one of which a span explains; one of
    400 ms in which the thread did not work; one that is too short to count."""
    one = record(0, 0, 2000 * MS)

    def seen(start: int, end: int, where: str) -> Span:
        facts = {"where": where}
        return Span("", "loop_blocked", ORIGIN_NS + start, ORIGIN_NS + end, pid=1, facts=facts)

    spans = [
        span(one.request_id, "encode", 95 * MS, 205 * MS, on_loop=True),
        span(one.request_id, "decode", 1900 * MS, 2000 * MS),
        seen(100 * MS, 200 * MS, "app.encode"),
        seen(300 * MS, 500 * MS, "app.encode"),
        seen(600 * MS, 900 * MS, "app.encode"),
        seen(1000 * MS, 1400 * MS, ""),
        seen(1500 * MS, 1504 * MS, "app.short"),
    ]
    table = RecordTable.of([one])
    joined = join(table, spans, [], ORIGIN_NS)
    assert joined.stray_ids == 0
    assert culprits(joined) == [Culprit("app.encode", 2, 500 * MS), Culprit("", 1, 400 * MS)]
    parts = split(np.array([0]), table.times, joined)
    split_of = dict(zip(parts.stages, (parts.ns[0] // MS).tolist(), strict=True))
    assert split_of["loop_wait"] == 200 + 300 + 400  # beyond what its own spans account for
    assert split_of["encode"] == 110 and split_of["decode"] == 100
    assert split_of["unattributed"] == 2000 - 110 - 100 - 900 - 95  # 95: before its first span
    run = manifest(planned=1, schedule_s=2.0, asked_qps=0.5, traced=True)
    warnings = summarise(run, None, table, spans, []).summary["warnings"]
    [said] = [w["message"] for w in warnings if w["code"] == "loop_blocked"]
    assert said.startswith(
        "The server's event loop was held up 2 times, for 250 ms at the mean, by app.encode."
    )
