"""What only `predict` has: text without frames."""

import pytest

from mmload.records import Outcome
from tests.unit.wire_samples import MS, PREDICT, plain, play, read

TEXT = "Grüße, 世界 🙂".encode()


def test_text_as_it_comes() -> None:
    record = read(PREDICT, (120, b"A cat"), (150, b" on a mat"), (180, b"."))
    assert record.outcome is Outcome.ok and record.answer == "A cat on a mat."
    assert record.chunk_ns == [120 * MS, 150 * MS, 180 * MS]
    assert record.usage is None and record.output_tokens is None


def test_a_character_that_is_cut_counts_when_it_is_whole() -> None:
    record = read(PREDICT, (10, "ß".encode()[:1]), (20, "ß".encode()[1:]))
    assert record.answer == "ß" and record.chunk_ns == [20 * MS]
    assert record.first_byte_ns == 10 * MS


def test_any_cut_gives_the_same_text() -> None:
    """A chunk is a read, so their number is the only difference."""

    def without_chunks(*reads: bytes) -> dict[str, object]:
        return {**plain(read(PREDICT, *reads)), "chunk_ns": []}

    whole = without_chunks(TEXT)
    assert whole["answer"] == TEXT.decode()
    for at in range(1, len(TEXT)):
        assert without_chunks(TEXT[:at], TEXT[at:]) == whole
    assert without_chunks(*(TEXT[i : i + 1] for i in range(len(TEXT)))) == whole


def test_an_answer_that_stops_inside_a_character() -> None:
    """The token limit cuts bytes, not characters."""
    record = read(PREDICT, (10, b"Gr\xc3"))
    assert record.outcome is Outcome.ok and record.answer == "Gr\ufffd"


def test_nothing_is_empty() -> None:
    assert read(PREDICT, b"").outcome is Outcome.empty


@pytest.mark.parametrize(
    ("content_type", "body", "outcome", "words"),
    [
        ("application/json", b'{"error": "no model"}', Outcome.stream_error, "no model"),
        ("application/json", b'{"detail": "no model"}', Outcome.stream_error, "no model"),
        ("application/json", b'{"a": 1}', Outcome.malformed, "a body that is not plain text"),
        ("text/event-stream", b"data: x\n\n", Outcome.malformed, "a body that is not plain text"),
        ("text/html", b"<html>", Outcome.malformed, "a body that is not plain text: <html>"),
    ],
)
def test_what_is_no_text(content_type: str, body: bytes, outcome: Outcome, words: str) -> None:
    record = play("predict", [body[:3], body[3:]], content_type=content_type)
    assert record.outcome is outcome and record.message.startswith(words)
    assert record.first_output_ns is None


@pytest.mark.parametrize("content_type", ["", "text/plain", "application/octet-stream"])
def test_text_of_any_other_type(content_type: str) -> None:
    assert play("predict", [b"Hi"], content_type=content_type).answer == "Hi"
