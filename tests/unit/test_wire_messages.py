"""What only Messages streams have: cumulative usage, blocks, signatures."""

import json

from mmload.records import Outcome
from tests.unit.wire_samples import DONE, MESSAGES, MS, block, data, named, play, read


def start(**usage: int | None) -> bytes:
    return named("message_start", message={"type": "message", "content": [], "usage": usage})


def delta(stop: str | None = "end_turn", **usage: int | None) -> bytes:
    return named("message_delta", delta={"stop_reason": stop}, usage=usage)


STOP = named("message_stop")
TEXT = MESSAGES.text("Hi")


def test_usage_is_cumulative_and_counts_the_cache() -> None:
    """Anthropic's input_tokens leave out what was read from the cache or written to it."""
    begin = start(
        input_tokens=3000,
        cache_creation_input_tokens=200,
        cache_read_input_tokens=57,
        output_tokens=1,
    )
    stream = begin + TEXT + delta(None, output_tokens=20) + TEXT + delta(output_tokens=40)
    record = read(MESSAGES, stream + STOP)
    assert (record.prompt_tokens, record.cached_tokens, record.output_tokens) == (3257, 57, 40)
    assert record.usage == {
        "input_tokens": 3000,
        "cache_creation_input_tokens": 200,
        "cache_read_input_tokens": 57,
        "output_tokens": 40,
    }


def test_usage_that_only_the_end_knows_and_nulls_that_say_nothing() -> None:
    begin = start(input_tokens=0, output_tokens=0)
    stream = begin + TEXT + delta(input_tokens=9, cache_read_input_tokens=None, output_tokens=4)
    record = read(MESSAGES, stream + STOP)
    assert (record.prompt_tokens, record.output_tokens, record.cached_tokens) == (9, 4, None)
    record = read(MESSAGES, start(input_tokens=9) + TEXT + delta(input_tokens=None) + STOP)
    assert record.prompt_tokens == 9


def test_a_signature_is_no_output() -> None:
    signature = block("signature_delta", signature="EqQBCgIYAhIM")
    redacted = named(
        "content_block_start", content_block={"type": "redacted_thinking", "data": "x"}
    )
    assert read(MESSAGES, signature + redacted + STOP).outcome is Outcome.empty
    record = read(
        MESSAGES,
        (10, block("thinking_delta", thinking="hm")),
        (50, signature),
        (90, TEXT),
        (99, delta() + STOP),
    )
    assert record.chunk_ns == [10 * MS, 90 * MS]
    assert (record.first_output_ns, record.first_answer_ns) == (10 * MS, 90 * MS)


def test_a_tools_name_and_a_block_that_starts_with_text() -> None:
    tool = {"type": "tool_use", "id": "t", "name": "get", "input": {}}
    text = {"type": "text", "text": "So: "}
    record = read(
        MESSAGES,
        (10, named("content_block_start", content_block=text)),
        (20, named("content_block_start", content_block=tool)),
        (30, block("input_json_delta", partial_json='{"a":1}')),
        (40, delta("tool_use") + STOP),
    )
    assert record.answer == 'So: get{"a":1}' and record.finish_reason == "tool_use"
    assert record.chunk_ns == [10 * MS, 20 * MS, 30 * MS]


def test_the_stop_is_the_end_and_a_stop_reason_is_not() -> None:
    assert read(MESSAGES, TEXT + delta()).outcome is Outcome.truncated
    assert read(MESSAGES, TEXT + DONE).outcome is Outcome.truncated
    assert read(MESSAGES, TEXT + delta() + STOP + DONE).outcome is Outcome.ok


def test_error_events_of_all_shapes() -> None:
    for event in (
        named("error", error={"type": "overloaded_error", "message": "Overloaded"}),
        data({"error": {"message": "Overloaded"}}),
        b'event: error\ndata: {"error": {"message": "Overloaded"}}\n\n',
    ):
        record = read(MESSAGES, TEXT + event)
        assert (record.outcome, record.message) == (Outcome.stream_error, "Overloaded")
    record = read(MESSAGES, b"event: error\ndata: {}\n\n")
    assert (record.outcome, record.message) == (Outcome.stream_error, "error")


def test_whole_answers() -> None:
    content = [
        {"type": "thinking", "thinking": "hm", "signature": "x"},
        {"type": "text", "text": "Hi"},
        {"type": "tool_use", "name": "get", "input": {"a": 1}},
    ]
    body = {"type": "message", "content": content, "stop_reason": "max_tokens", "usage": {}}
    record = play("messages", [(5, json.dumps(body).encode())], content_type="application/json")
    assert record.outcome is Outcome.ok and record.answer == 'Higet{"a":1}'
    assert record.finish_reason == "max_tokens" and len(record.chunk_ns) == 3
