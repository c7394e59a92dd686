"""What only chat streams (and completions, which share its reader) have: quirks of real servers."""

import json
from typing import Any

from mmload.records import Outcome
from tests.unit.wire_samples import CHAT, DONE, MS, data, play, read

USAGE = {"prompt_tokens": 3257, "completion_tokens": 40, "total_tokens": 3297}


def chunk(**fields: object) -> bytes:
    return data({"object": "chat.completion.chunk", **fields})


def test_the_finish_chunk_with_usage_ends_a_stream_without_done() -> None:
    """transformers serve: never `[DONE]`; usage rides in the finish chunk."""
    finish = chunk(choices=[{"delta": {}, "finish_reason": "length"}], usage=USAGE)
    record = read(CHAT, CHAT.begin + CHAT.text("Hi") + finish)
    assert record.outcome is Outcome.ok and record.finish_reason == "length"
    assert (record.prompt_tokens, record.output_tokens) == (3257, 40)


def test_done_ends_a_stream_without_a_finish_reason() -> None:
    record = read(CHAT, CHAT.text("Hi") + DONE)
    assert record.outcome is Outcome.ok and record.finish_reason is None


def test_only_done_is_empty() -> None:
    record = read(CHAT, DONE)
    assert (record.outcome, record.message) == (Outcome.empty, "the answer holds no output")


def test_every_delta_with_a_role_and_nulls_and_usage_null() -> None:
    """mlx-vlm's form."""
    nulls = {"role": "assistant", "reasoning": None, "tool_calls": None}
    deltas = [{**nulls, "content": text} for text in ("", "Hi", " you")]
    reads = [
        (10 * k, chunk(choices=[{"delta": delta, "finish_reason": None}], usage=None))
        for k, delta in enumerate(deltas)
    ]
    record = read(CHAT, *reads, (50, CHAT.end(7, 2)))
    assert record.first_output_ns == 10 * MS and record.answer == "Hi you"
    assert record.chunk_ns == [10 * MS, 20 * MS] and record.prompt_tokens == 7


def test_usage_on_every_chunk_the_last_one_holds() -> None:
    reads = [
        chunk(
            choices=[{"delta": {"content": "x"}}],
            usage={"prompt_tokens": 9, "completion_tokens": k},
        )
        for k in (1, 2, 3)
    ]
    record = read(CHAT, *reads, DONE)
    assert (record.prompt_tokens, record.output_tokens) == (9, 3)


def test_cached_and_media_tokens() -> None:
    for media in (3240, {"image": 3000, "video": 240}, {"image": 3240, "audio": None}):
        details = {"cached_tokens": 64, "multimodal_tokens": media}
        end = chunk(choices=[], usage={**USAGE, "prompt_tokens_details": details})
        record = read(CHAT, CHAT.text("Hi") + end + DONE)
        assert (record.cached_tokens, record.media_tokens) == (64, 3240)
    details = {"image_tokens": 576, "cached_tokens": 0}  # as guidellm's mock server counts them
    end = chunk(choices=[], usage={**USAGE, "prompt_tokens_details": details})
    assert read(CHAT, CHAT.text("Hi") + end + DONE).media_tokens == 576
    end = chunk(choices=[], usage={**USAGE, "prompt_tokens_details": None})
    record = read(CHAT, CHAT.text("Hi") + end + DONE)
    assert (record.cached_tokens, record.media_tokens) == (None, None)


def test_one_event_is_one_chunk_whatever_it_carries() -> None:
    delta = {"content": "Hi", "reasoning": "hm", "tool_calls": [{"function": {"name": "f"}}]}
    record = read(CHAT, chunk(choices=[{"delta": delta}]) + DONE)
    assert len(record.chunk_ns) == 1 and record.answer == "Hi"


def test_a_tools_name_is_the_first_of_its_output() -> None:
    name = chunk(choices=[{"delta": {"tool_calls": [{"function": {"name": "get", "x": 1}}]}}])
    old = chunk(choices=[{"delta": {"function_call": {"arguments": "{}"}}}])
    record = read(CHAT, (5, name), (9, old), DONE)
    assert record.answer == "get{}" and record.first_answer_ns == 5 * MS


def test_content_as_a_list_of_parts() -> None:
    parts = [{"type": "text", "text": "Hi"}, {"type": "x"}, {"type": "text", "text": " you"}]
    record = read(CHAT, chunk(choices=[{"delta": {"content": parts}}]) + DONE)
    assert record.answer == "Hi you"


def test_an_event_that_is_named_error() -> None:
    for body in (b'{"message": "boom"}', b'{"error": {"message": "boom"}}'):
        record = read(CHAT, CHAT.text("Hi") + b"event: error\ndata: " + body + b"\n\n" + DONE)
        assert record.outcome is Outcome.stream_error and "boom" in record.message


def test_an_error_that_says_nothing_is_none() -> None:
    """`"error": null` on every chunk is no error."""
    stream = chunk(choices=[{"delta": {"content": "Hi"}}], error=None)
    assert read(CHAT, stream + DONE).outcome is Outcome.ok


def test_an_error_object_without_a_message() -> None:
    for error, words in ((503, "503"), ({"code": 503}, "503"), ({"x": 1}, '{"x":1}')):
        record = read(CHAT, data({"error": error}))
        assert (record.outcome, record.message) == (Outcome.stream_error, words)


def test_a_message_instead_of_a_delta() -> None:
    """The whole answer as one event."""
    choices = [{"message": {"content": "Hi"}, "finish_reason": "stop"}]
    record = read(CHAT, data({"choices": choices}))
    assert record.outcome is Outcome.ok and record.answer == "Hi"


def test_a_whole_answer_of_an_unknown_shape() -> None:
    bodies: list[Any] = [{}, {"choices": 5}, {"choices": [1]}, {"choices": [{"message": 1}]}, []]
    for body in bodies:
        raw = json.dumps(body).encode()
        record = play("chat", [raw], content_type="application/json")
        assert record.outcome is Outcome.malformed
        assert record.message.startswith("a JSON body of an unknown shape")
