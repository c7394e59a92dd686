"""Event streams: whatever the cut, the same events; whatever the bytes, events or one error."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmload.wire.sse import Event, EventTooLarge, SseParser


def parse(*reads: bytes, finish: bool = False) -> list[tuple[bytes, bytes]]:
    parser = SseParser()
    events = [event for read in reads for event in parser.feed(read)]
    if finish:
        events += parser.finish()
    return [(event.name, event.data) for event in events]


STREAM = (
    b"\xef\xbb\xbf: ping\n\ndata: one\n\ndata:two\r\n\r\nevent: error\rdata: a\rdata:  b\r\r"
    b"id: 7\nretry: 10\ndata\n\nunknown: x\ndata: \xe2\x82\xac\r\n\r\n"
    b"event: lonely\n\ndata: last\n\n"
)
EVENTS = [
    (b"", b"one"),
    (b"", b"two"),
    (b"error", b"a\n b"),
    (b"", b""),
    (b"", "€".encode()),
    (b"", b"last"),
]


def test_the_grammar() -> None:
    assert parse(STREAM) == EVENTS


def test_every_split_in_two_gives_the_same_events() -> None:
    for at in range(len(STREAM) + 1):
        assert parse(STREAM[:at], STREAM[at:]) == EVENTS


def test_byte_by_byte() -> None:
    assert parse(*(bytes([b]) for b in STREAM)) == EVENTS


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_any_split(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(STREAM)]
    assert parse(*(STREAM[a:b] for a, b in zip(edges, edges[1:], strict=False))) == EVENTS


line = st.binary(max_size=30).filter(lambda b: b"\r" not in b and b"\n" not in b)


@given(
    st.lists(
        st.tuples(line.filter(lambda b: b), st.lists(line, min_size=1, max_size=3)), max_size=8
    ),
    st.sampled_from([b"\n", b"\r", b"\r\n"]),
    st.integers(1, 7),
)
def test_what_is_written_is_read(
    events: list[tuple[bytes, list[bytes]]], end: bytes, step: int
) -> None:
    stream = b": start" + end
    for name, data in events:
        stream += b"event: " + name + end + b"".join(b"data: " + d + end for d in data) + end
    reads = [stream[i : i + step] for i in range(0, len(stream), step)]
    assert parse(*reads) == [(name, b"\n".join(data)) for name, data in events]


@given(st.lists(st.binary(max_size=200), max_size=20))
def test_any_bytes_give_events_or_one_error_in_bounded_memory(reads: list[bytes]) -> None:
    parser = SseParser(max_event_bytes=256)
    try:
        for read in reads:
            for event in parser.feed(read):
                assert isinstance(event, Event)
    except EventTooLarge:
        return
    parser.finish()


def test_a_line_longer_than_any_reader_allows() -> None:
    big = b"x" * 600 * 1024
    assert parse(b"data: " + big[:1000], big[1000:] + b"\n", b"\n") == [(b"", big)]


def test_an_event_without_end_is_refused() -> None:
    parser = SseParser(max_event_bytes=1000)
    with pytest.raises(EventTooLarge):
        for _ in range(20):
            parser.feed(b"x" * 100)
    parser = SseParser(max_event_bytes=1000)
    with pytest.raises(EventTooLarge):
        for _ in range(200):
            parser.feed(b"data:\n")


@pytest.mark.parametrize("tail", [b"data: [DONE]", b"data: [DONE]\n", b"data: [DONE]\n\n"])
def test_a_forgotten_last_blank_line_is_forgiven(tail: bytes) -> None:
    assert parse(b"data: a\n\n", tail, finish=True) == [(b"", b"a"), (b"", b"[DONE]")]


def test_comments_of_ours_are_kept_and_others_are_not() -> None:
    stream = (
        b": ping\n\ndata: a\n\n: mmload-spans {1}\r\n:mmload-spans {2}\n: mmload\ndata: b\n\n"
        b": mmload-spans {3}"
    )
    for at in range(len(stream)):
        parser = SseParser()
        events = [*parser.feed(stream[:at]), *parser.feed(stream[at:]), *parser.finish()]
        assert [event.data for event in events] == [b"a", b"b"]
        assert parser.comments == [b"{1}", b"{2}", b"{3}"]


def test_comments_are_bounded() -> None:
    parser = SseParser()
    line = b": mmload-spans " + bytes(1000).replace(b"\0", b"x") + b"\n"
    for _ in range(2000):
        parser.feed(line)
    assert 1000 < len(parser.comments) < 1050
