"""Whatever a server sends: a record with an outcome, no exception, bounded memory."""

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mmload.records import ANSWER_LIMIT, FAILURES, Outcome, Record
from mmload.wire import APIS, answer
from mmload.wire.errors import MESSAGE_LIMIT
from mmload.wire.sse import SseParser
from tests.unit.test_wire_streams import script
from tests.unit.wire_samples import DIALECTS, DONE, SSE, play

# no verdict on time: the machine may be busy
CALM = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
ENDINGS = (Outcome.ok, *FAILURES)
apis = st.sampled_from(sorted(APIS))
content_types = st.sampled_from([SSE, "application/json", "text/plain", ""])
statuses = st.sampled_from([200, 200, 200, 201, 204, 400, 429, 500])


def check(record: Record) -> None:
    assert record.outcome in ENDINGS
    assert len(record.message) <= MESSAGE_LIMIT and len(record.answer) <= ANSWER_LIMIT
    assert (record.outcome is Outcome.ok) == (record.message == "")
    assert (record.first_output_ns is None) == (record.chunk_ns == [])
    if record.outcome is Outcome.ok:
        assert record.first_output_ns is not None


@given(apis, st.lists(st.binary(max_size=300), max_size=12), content_types, statuses)
@CALM
def test_any_bytes(api: str, reads: list[bytes], content_type: str, status: int) -> None:
    check(play(api, reads, content_type=content_type, status=status))


@given(st.sampled_from(DIALECTS), st.data(), content_types)
@settings(CALM, max_examples=150)
def test_a_good_stream_with_a_wound(dialect: Any, data: st.DataObject, content_type: str) -> None:
    stream = script(dialect)
    start = data.draw(st.integers(0, len(stream)))
    end = data.draw(st.integers(start, min(len(stream), start + 40)))
    wounded = stream[:start] + data.draw(st.binary(max_size=20)) + stream[end:]
    cut = data.draw(st.integers(0, len(wounded)))
    check(play(dialect.api, [wounded[:cut], wounded[cut:]], content_type=content_type))


KEYS = [
    *("choices", "delta", "message", "content", "text", "usage", "finish_reason", "error"),
    *("type", "response", "output", "item", "name", "arguments", "tool_calls", "function"),
    *("status", "content_block", "thinking", "partial_json", "stop_reason", "input", "detail"),
    *("prompt_tokens", "completion_tokens", "input_tokens", "output_tokens", "reasoning"),
    *("prompt_tokens_details", "input_tokens_details", "multimodal_tokens", "cached_tokens"),
    *("incomplete_details", "reason", "summary", "object", "code", "refusal", "function_call"),
]
KINDS = [
    *("response.output_text.delta", "response.completed", "response.failed", "error"),
    *("response.output_item.added", "response.reasoning_text.delta", "message_start"),
    *("content_block_delta", "content_block_start", "message_delta", "message_stop", "abort"),
    *("tool_use", "completed", "failed", "text"),
]
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
    | st.sampled_from(KINDS)
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5)
    ),
    max_leaves=12,
)
objects = st.dictionaries(st.sampled_from(KEYS), values, max_size=6)


@given(apis, st.lists(objects, max_size=4))
@settings(CALM, max_examples=150)
def test_any_shape_of_event(api: str, events: list[dict[str, Any]]) -> None:
    reads = [b"data: " + json.dumps(event).encode() + b"\n\n" for event in events]
    check(play(api, [*reads, DONE]))


@given(apis, objects, statuses)
@settings(CALM, max_examples=150)
def test_any_shape_of_body(api: str, body: dict[str, Any], status: int) -> None:
    raw = json.dumps(body).encode()
    check(play(api, [raw], content_type="application/json", status=status))


@pytest.mark.parametrize("api", sorted(APIS))
@pytest.mark.parametrize("content_type", [SSE, "application/json", "text/plain"])
@pytest.mark.parametrize("status", [200, 500])
@pytest.mark.parametrize("start", [b"", b"data: "])
def test_a_body_without_end_holds_bounded_memory(
    api: str, content_type: str, status: int, start: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """100 MB in all; each read is new, so what is kept would be seen."""
    limit = 1 << 20
    monkeypatch.setattr(answer, "BODY_LIMIT_BYTES", limit)
    monkeypatch.setattr(answer, "SseParser", lambda: SseParser(limit))
    record = Record(index=0, request_id="r", media_class="x", payload=0, intended_ns=0)
    reader = APIS[api].reader(record)
    reader.head(status, content_type)
    tracemalloc.start()
    try:
        reader.feed(start, 0)
        for number in range(800):
            reader.feed(bytes([65 + number % 26]) * 131_072, 0)
        reader.close()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 * limit
    check(record)
    assert record.bytes_received == 800 * 131_072 + len(start)
    if status == 200 and api != "predict":
        assert record.outcome is Outcome.malformed
        assert record.message in (
            "an event of more than 1048576 bytes",
            "more than 1048576 bytes that are no event stream",
        )
