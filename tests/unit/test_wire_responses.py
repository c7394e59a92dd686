"""What only Responses streams have: ends of several kinds, answers without deltas."""

import json
from typing import Any

import pytest

from mmload.records import Outcome
from tests.unit.wire_samples import (
    DONE,
    MS,
    RESPONSES,
    data,
    named,
    play,
    read,
    response,
    response_usage,
)

TEXT = RESPONSES.begin + RESPONSES.text("Hi")


def end(kind: str, *args: str, **more: Any) -> bytes:
    return named(f"response.{kind}", response=response(kind, *args, **more))


def test_incomplete_is_an_end_of_a_good_answer() -> None:
    reason = {"reason": "max_output_tokens"}
    usage = response_usage(7, 2, cached=4)
    record = read(RESPONSES, TEXT + end("incomplete", incomplete_details=reason, usage=usage))
    assert record.outcome is Outcome.ok and record.finish_reason == "max_output_tokens"
    assert (record.prompt_tokens, record.output_tokens, record.cached_tokens) == (7, 2, 4)


@pytest.mark.parametrize("kind", ["failed", "cancelled"])
def test_failed_is_a_failure(kind: str) -> None:
    error = {"code": "server_error", "message": "the engine died"} if kind == "failed" else None
    record = read(RESPONSES, TEXT + end(kind, error=error))
    assert record.outcome is Outcome.stream_error and record.answer == "Hi"
    assert record.message == (error["message"] if error else "the response is cancelled")


@pytest.mark.parametrize(
    "event",
    [
        named("error", message="boom", code=None),
        named("error", error={"message": "boom"}),
        data({"error": {"message": "boom"}}),
        b'event: error\ndata: {"message": "boom"}\n\n',
    ],
)
def test_error_events_of_all_shapes(event: bytes) -> None:
    record = read(RESPONSES, TEXT + event)
    assert (record.outcome, record.message) == (Outcome.stream_error, "boom")


def test_the_end_repeats_the_text_and_it_is_not_counted_twice() -> None:
    done = named("response.output_text.done", text="Hi")
    record = read(RESPONSES, (5, TEXT), (9, done + end("completed", "Hi")))
    assert record.answer == "Hi" and record.chunk_ns == [5 * MS]


def test_an_end_whose_text_never_came_as_deltas() -> None:
    record = read(RESPONSES, (1, RESPONSES.begin), (90, end("completed", "Hi you")))
    assert record.outcome is Outcome.ok and record.answer == "Hi you"
    assert record.first_output_ns == record.last_output_ns == 90 * MS


def test_a_done_of_a_gateway_ends_nothing_and_breaks_nothing() -> None:
    assert read(RESPONSES, TEXT + DONE).outcome is Outcome.truncated
    assert read(RESPONSES, TEXT + end("completed") + DONE).outcome is Outcome.ok


def test_events_whose_type_only_the_field_names() -> None:
    nameless = TEXT + end("completed")
    lines = [line for line in nameless.split(b"\n") if not line.startswith(b"event:")]
    assert read(RESPONSES, b"\n".join(lines)).outcome is Outcome.ok
    typeless = b'event: response.output_text.delta\ndata: {"delta": "Hi"}\n\n'
    assert read(RESPONSES, typeless + end("completed")).answer == "Hi"


def test_summaries_and_tools() -> None:
    item = {"type": "function_call", "name": "get", "arguments": ""}
    record = read(
        RESPONSES,
        (10, named("response.reasoning_summary_text.delta", delta="thinking")),
        (20, named("response.output_item.added", item={"type": "reasoning", "summary": []})),
        (30, named("response.output_item.added", item=item)),
        (40, named("response.function_call_arguments.delta", delta="{}")),
        (50, end("completed")),
    )
    assert (record.first_output_ns, record.first_answer_ns) == (10 * MS, 30 * MS)
    assert record.answer == "get{}" and record.outcome is Outcome.ok


def whole(body: object) -> bytes:
    return json.dumps(body).encode()


def test_whole_answers() -> None:
    output = [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
        {"type": "message", "content": [{"type": "refusal", "refusal": "No."}]},
        {"type": "function_call", "name": "get", "arguments": "{}"},
    ]
    body = {"status": "completed", "error": None, "output": output}
    record = play("responses", [(5, whole(body))], content_type="application/json")
    assert record.outcome is Outcome.ok and record.answer == "No.get{}"
    failed = {"status": "failed", "error": {"message": "boom"}, "output": []}
    record = play("responses", [whole(failed)], content_type="application/json")
    assert (record.outcome, record.message) == (Outcome.stream_error, "boom")
    record = play("responses", [b'{"id": 1}'], content_type="application/json")
    assert record.outcome is Outcome.malformed
