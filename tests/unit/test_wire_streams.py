"""What every API's reader must be right about, in one table: the same happenings, each API's words.

The cases are those of "Public failures" that belong to streams; each is fed whole, byte by byte
and cut at every place, and the records are equal.
"""

from typing import Any

import pytest

from mmload.records import Outcome
from tests.unit.wire_samples import (
    CHAT,
    DIALECTS,
    DONE,
    MESSAGES,
    MS,
    SSE,
    STREAMS,
    Dialect,
    plain,
    play,
    read,
)

each = pytest.mark.parametrize("dialect", DIALECTS, ids=str)
each_stream = pytest.mark.parametrize("dialect", STREAMS, ids=str)


def only(word: str) -> pytest.MarkDecorator:
    """The APIs that have words for it."""
    having = [d for d in STREAMS if getattr(d, word) is not None]
    return pytest.mark.parametrize("dialect", having, ids=str)


def times(record: Any) -> tuple[int | None, ...]:
    """First output, first answer, last output in ms."""
    found = (record.first_output_ns, record.first_answer_ns, record.last_output_ns)
    return tuple(None if ns is None else ns // MS for ns in found)


@each
def test_the_first_token_is_not_the_role_chunk(dialect: Dialect) -> None:
    record = read(
        dialect,
        (1, dialect.begin),
        (150, dialect.blanks),
        (200, dialect.text("Hi")),
        (250, dialect.text(" you")),
        (260, dialect.blanks + dialect.end(7, 2)),
    )
    assert record.outcome is Outcome.ok and record.message == ""
    assert times(record) == (200, 200, 250)
    assert [ns // MS for ns in record.chunk_ns] == [200, 250]
    assert record.answer == "Hi you"
    assert record.first_byte_ns == 1 * MS
    assert record.finish_reason == dialect.finish


@each_stream
def test_usage_is_the_servers(dialect: Dialect) -> None:
    """Ten chunks of four tokens; a prompt of which an image is the larger part."""
    stream = dialect.begin + b"".join(dialect.text("a b c d ") for _ in range(10))
    record = read(dialect, stream + dialect.end(3257, 40))
    assert (record.prompt_tokens, record.output_tokens) == (3257, 40)
    assert len(record.chunk_ns) == 10
    assert record.usage is not None and 40 in record.usage.values()


@only("thought")
def test_reasoning_is_output_and_no_answer(dialect: Dialect) -> None:
    assert dialect.thought is not None
    record = read(
        dialect,
        dialect.begin,
        (100, dialect.thought("hmm")),
        (150, dialect.blanks),
        (200, dialect.thought(" so")),
        (300, dialect.text("Yes")),
        (310, dialect.end(7, 9)),
    )
    assert times(record) == (100, 300, 300)
    assert len(record.chunk_ns) == 3
    assert record.answer == "Yes" and record.outcome is Outcome.ok


@only("thought")
def test_reasoning_alone_is_an_answer_that_was_cut(dialect: Dialect) -> None:
    assert dialect.thought is not None
    record = read(dialect, (100, dialect.thought("hmm")), (110, dialect.end(7, 1)))
    assert record.outcome is Outcome.ok
    assert times(record) == (100, None, 100) and record.answer == ""


@only("refusal")
def test_a_refusal_is_output(dialect: Dialect) -> None:
    assert dialect.refusal is not None
    record = read(dialect, (50, dialect.refusal("No.")), (60, dialect.end(7, 1)))
    assert times(record) == (50, 50, 50) and record.answer == "No."


@only("tool")
def test_tool_arguments_are_output(dialect: Dialect) -> None:
    assert dialect.tool is not None
    stream = [(50, dialect.tool('{"city": ')), (70, dialect.tool('"Ulm"}'))]
    record = read(dialect, (1, dialect.begin), *stream, (80, dialect.end(7, 4)))
    assert times(record) == (50, 50, 70) and record.answer == '{"city": "Ulm"}'
    assert record.outcome is Outcome.ok


@only("error")
def test_an_error_after_three_tokens(dialect: Dialect) -> None:
    assert dialect.error is not None
    reads = [(k, dialect.text(f"w{k} ")) for k in (1, 2, 3)]
    record = read(dialect, dialect.begin, *reads, (9, dialect.error("CUDA error: out of memory")))
    assert record.outcome is Outcome.stream_error
    assert record.message == "CUDA error: out of memory"
    assert record.answer == "w1 w2 w3 " and times(record) == (1, 1, 3)  # what came is kept


@only("error")
def test_an_error_at_once_echoing_the_image(dialect: Dialect) -> None:
    assert dialect.error is not None
    uri = "data:image/jpeg;base64," + "/9j4" * 200_000
    record = read(dialect, dialect.error(f"cannot load {uri} as an image"))
    assert record.outcome is Outcome.stream_error
    assert record.message == "cannot load data:image/jpeg;base64,... as an image"


@each_stream
@pytest.mark.parametrize("text", ["", "Hi"])
def test_a_stream_without_its_end_is_truncated(dialect: Dialect, text: str) -> None:
    record = read(dialect, dialect.begin + dialect.text(text))
    assert record.outcome is Outcome.truncated and record.answer == text
    assert record.message == "the stream ended before its end marker"


@each_stream
def test_a_stream_that_is_cut_anywhere_is_truncated(dialect: Dialect) -> None:
    """The connection was closed in an orderly way in the middle of an event, even of a character:
    neither malformed nor a success, unless the end marker is there."""
    stream = raw(script(dialect))
    seen = [read(dialect, stream[:at]).outcome for at in range(len(stream) + 1)]
    ended = seen.index(Outcome.ok)
    assert set(seen[:ended]) == {Outcome.truncated}
    assert set(seen[ended:]) == {Outcome.ok}
    assert stream.rindex(b'"stop"' if dialect.finish == "stop" else b'{"type"') < ended


@each_stream
def test_an_end_without_output_is_no_fast_success(dialect: Dialect) -> None:
    record = read(dialect, dialect.begin + dialect.blanks + dialect.end(7, 0))
    assert record.outcome is Outcome.empty
    assert record.message == "the answer holds no output"
    assert times(record) == (None, None, None)


@each
@pytest.mark.parametrize("body", [b"", b"\n", DONE])
def test_a_200_with_nothing_or_only_done(dialect: Dialect, body: bytes) -> None:
    record = play(dialect.api, [body])
    assert record.outcome in (Outcome.empty, Outcome.truncated, Outcome.malformed)


@each_stream
@pytest.mark.parametrize("size", [150, 600])
def test_one_line_of_many_kib(dialect: Dialect, size: int) -> None:
    text = "x" * (size * 1024)
    stream = dialect.begin + dialect.text(text) + dialect.end(7, 1)
    reads = [stream[i : i + 65_536] for i in range(0, len(stream), 65_536)]
    record = read(dialect, *reads)
    assert record.outcome is Outcome.ok
    assert record.answer == "x" * 4096 and len(record.chunk_ns) == 1
    assert record.bytes_received == len(stream)


def variants(stream: bytes) -> dict[str, bytes]:
    """The same events in other letters, all of them allowed."""
    events = stream.split(b"\n\n")
    return {
        "crlf": stream.replace(b"\n", b"\r\n"),
        "cr": stream.replace(b"\n", b"\r"),
        "no space": stream.replace(b"data: ", b"data:"),
        "pings": b": ping\n\n".join(event + b"\n\n" for event in events[:-1]) + b":\n\n",
        "names": b"".join(b"id: 1\nretry: 5\n:\n" + e + b"\n\n" for e in events[:-1]),
        "two data lines": stream.replace(b'", "', b'",\ndata: "'),
        "mark": b"\xef\xbb\xbf" + stream,
        "no last blank line": stream[:-1],
        "no last line end": stream[:-2],
    }


def script(dialect: Dialect) -> bytes:
    """A stream with all that the API has, and characters of 2, 3 and 4 bytes."""
    parts = [dialect.begin, dialect.blanks]
    parts += [dialect.thought("grübel…")] if dialect.thought else []
    parts += [dialect.text("Grüße, "), dialect.text("世界 "), dialect.text("🙂")]
    parts += [dialect.tool('{"a": 1}')] if dialect.tool else []
    return b"".join(parts).replace(rb"\u00fc", "ü".encode()) + dialect.end(7, 5)


def raw(stream: bytes) -> bytes:
    """With the characters themselves, not JSON's escapes, so that UTF-8 can be cut."""
    text = stream.decode()
    for escaped, character in (("\\u4e16\\u754c", "世界"), ("\\ud83d\\ude42", "🙂")):
        text = text.replace(escaped, character)
    return text.encode()


@each_stream
def test_any_letters_and_any_cut_give_the_same_record(dialect: Dialect) -> None:
    stream = raw(script(dialect))
    assert "世界".encode() in stream
    whole = read(dialect, stream)
    assert whole.outcome is Outcome.ok
    assert whole.answer == "Grüße, 世界 🙂" + ('{"a": 1}' if dialect.tool else "")
    assert plain(read(dialect, *(stream[i : i + 1] for i in range(len(stream))))) == plain(whole)
    for at in range(len(stream) + 1):
        assert plain(read(dialect, stream[:at], stream[at:])) == plain(whole), at
    for name, other in variants(stream).items():
        assert other != stream
        expected = {**plain(whole), "bytes_received": len(other)}
        assert plain(read(dialect, other)) == expected, name
        single = (other[i : i + 1] for i in range(len(other)))
        assert plain(read(dialect, *single)) == expected, name


@only("error")
def test_a_failed_stream_is_the_same_however_it_is_cut(dialect: Dialect) -> None:
    assert dialect.error is not None
    stream = dialect.begin + dialect.text("Hi") + dialect.error("kaputt")
    whole = plain(read(dialect, stream))
    for at in range(len(stream) + 1):
        assert plain(read(dialect, stream[:at], stream[at:])) == whole


@each_stream
@pytest.mark.parametrize("content_type", ["text/plain", "", "application/x-ndjson"])
def test_a_stream_under_another_name(dialect: Dialect, content_type: str) -> None:
    stream = dialect.begin + dialect.text("Hi") + dialect.end(7, 1)
    whole = plain(read(dialect, stream))
    assert plain(play(dialect.api, [stream], content_type=content_type)) == whole
    single = [stream[i : i + 1] for i in range(len(stream))]
    assert plain(play(dialect.api, single, content_type=content_type)) == whole


@only("whole")
@pytest.mark.parametrize("content_type", ["application/json", SSE])
def test_a_server_that_does_not_stream(dialect: Dialect, content_type: str) -> None:
    import json

    assert dialect.whole is not None
    body = json.dumps(dialect.whole("Hi you")).encode()
    reads = [(5, body[:10]), (9, body[10:])]
    record = play(dialect.api, reads, content_type=content_type)
    assert record.outcome is Outcome.ok and record.answer == "Hi you"
    assert (record.prompt_tokens, record.output_tokens) == (7, 3)
    assert times(record) == (9, 9, 9) and len(record.chunk_ns) == 1
    assert record.finish_reason == dialect.finish


@only("whole")
def test_a_200_whose_json_is_an_error(dialect: Dialect) -> None:
    body = b'{"error": {"message": "no capacity", "type": "server_error"}}'
    for content_type in ("application/json", SSE):
        record = play(dialect.api, [body], content_type=content_type)
        assert (record.outcome, record.message) == (Outcome.stream_error, "no capacity")


@each_stream
def test_a_page_instead_of_an_answer(dialect: Dialect) -> None:
    page = b"<html><body>Welcome</body></html>"
    record = play(dialect.api, [page], content_type="text/html")
    assert record.outcome is Outcome.malformed
    assert record.message == f"neither an event stream nor JSON: {page.decode()}"


@each_stream
@pytest.mark.parametrize("event", [b"data: {\n\n", b"data: hello\n\n", b"data: [1, 2\n\n"])
def test_an_event_that_is_no_json_is_malformed(dialect: Dialect, event: bytes) -> None:
    stream = dialect.begin + dialect.text("Hi") + event + dialect.end(7, 1)
    record = read(dialect, stream)
    assert record.outcome is Outcome.malformed
    assert record.message.startswith("an event that is not JSON (")
    assert record.answer == "Hi"


@each_stream
@pytest.mark.parametrize("event", [b"data: 5\n\n", b"data: [1]\n\n", b'data: "x"\n\n'])
def test_an_event_that_is_no_object_is_malformed(dialect: Dialect, event: bytes) -> None:
    record = read(dialect, dialect.begin + event + dialect.text("Hi") + dialect.end(7, 1))
    assert record.outcome is Outcome.malformed
    assert record.message.startswith("an event of an unknown shape")


@each_stream
def test_brackets_without_end_are_malformed(dialect: Dialect) -> None:
    """Deeper than any JSON reader goes: no exception."""
    for body, content_type in (
        (b"data: " + b"[" * 100_000 + b"\n\n", SSE),
        (b'data: {"a":' + b'{"a":' * 100_000 + b"\n\n", SSE),
        (b"[" * 100_000, "application/json"),
    ):
        record = play(dialect.api, [body], content_type=content_type)
        assert record.outcome is Outcome.malformed and len(record.message) <= 400


@each
@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"error": {"message": "bad image", "type": "BadRequestError"}}', "HTTP 400: bad image"),
        (b'{"object": "error", "message": "bad image", "code": 400}', "HTTP 400: bad image"),
        (b'{"type": "error", "error": {"type": "x", "message": "bad"}}', "HTTP 400: bad"),
        (b'{"detail": "bad image"}', "HTTP 400: bad image"),
        (b'{"detail": [{"loc": ["body"]}]}', 'HTTP 400: [{"loc":["body"]}]'),
        (b'{"error": "bad image"}', "HTTP 400: bad image"),
        (b"<h1>Bad Gateway</h1>\n", "HTTP 400: <h1>Bad Gateway</h1>"),
        (b"Internal Server Error", "HTTP 400: Internal Server Error"),
        (b"", "HTTP 400"),
        (b"[" * 50_000, "HTTP 400: " + "[" * 387 + "..."),
    ],
)
def test_a_status_with_the_servers_words(dialect: Dialect, body: bytes, words: str) -> None:
    for content_type in ("application/json", SSE, ""):
        record = play(dialect.api, [body[:9], body[9:]], status=400, content_type=content_type)
        assert (record.outcome, record.message) == (Outcome.http_error, words)
        assert record.status == 400 and record.first_output_ns is None


@each
@pytest.mark.parametrize("status", [204, 301, 404, 500, 503])
def test_no_status_but_a_good_one_is_a_success(dialect: Dialect, status: int) -> None:
    record = play(dialect.api, [], status=status)
    without_body = (Outcome.empty, Outcome.truncated, Outcome.malformed)
    assert record.outcome in (without_body if status == 204 else (Outcome.http_error,))


@each_stream
def test_the_first_failure_is_the_one_that_is_told(dialect: Dialect) -> None:
    stream = dialect.begin + b"data: {\n\n" + (dialect.error or (lambda m: b""))("later")
    assert read(dialect, stream).outcome is Outcome.malformed


@pytest.mark.parametrize("dialect", [CHAT, STREAMS[1]], ids=str)
@pytest.mark.parametrize("reason", ["abort", "error"])
def test_a_finish_by_which_the_server_says_that_it_failed(dialect: Dialect, reason: str) -> None:
    stream = dialect.text("Hi") + dialect.end(7, 1).replace(b'"stop"', f'"{reason}"'.encode())
    record = read(dialect, stream)
    assert record.outcome is Outcome.stream_error and record.finish_reason == reason
    assert record.message == f"the server ended the answer with '{reason}'"


@each_stream
@pytest.mark.parametrize("usage", [None, {}, [], "x", {"prompt_tokens": -1, "input_tokens": "7"}])
def test_strange_usage_is_not_counted(dialect: Dialect, usage: Any) -> None:
    import json

    end = json.dumps({"choices": [], "type": "message_delta", "delta": {}, "usage": usage})
    stream = dialect.text("Hi") + f"data: {end}\n\n".encode()
    record = read(dialect, stream + dialect.end(7, 1).replace(b'"usage"', b'"other"'))
    assert record.prompt_tokens is None and record.outcome is Outcome.ok, record.message


def test_counts_that_no_file_could_hold() -> None:
    record = read(CHAT, CHAT.text("Hi") + CHAT.end(10**30, 1))
    assert (record.prompt_tokens, record.output_tokens) == (None, 1)
    record = read(MESSAGES, MESSAGES.text("Hi") + MESSAGES.end(10**30, 1))
    assert (record.prompt_tokens, record.output_tokens) == (None, 1)
    large = CHAT.end(7, 1).replace(b'"total', b'"more": "' + b"x" * 100_000 + b'", "total')
    record = read(CHAT, CHAT.text("Hi") + large)
    assert record.usage is None and record.prompt_tokens == 7
