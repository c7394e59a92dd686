"""What the computing engine is made of and needs no torch: device time, the embedding cache."""

from typing import Any

from mmload.server.device_time import CudaTimeline, HostTimeline
from mmload.server.embedding_cache import EmbeddingCache

MS = 1_000_000


class ManualClock:
    def __init__(self) -> None:
        self.ns = 0

    def now_ns(self) -> int:
        return self.ns


class FakeCuda:
    """torch.cuda, as far as it is used: a device whose own time is set by the test."""

    def __init__(self) -> None:
        self.device_ms = 0.0
        self.waited: list[str] = []
        cuda = self

        class Event:
            def __init__(self, *, enable_timing: bool) -> None:
                assert enable_timing

            def record(self) -> None:
                self.at_ms = cuda.device_ms

            def elapsed_time(self, end: "Event") -> float:
                return end.at_ms - self.at_ms

            def synchronize(self) -> None:
                cuda.waited.append("event")

        self.Event = Event

    def current_stream(self) -> Any:
        cuda = self

        class Stream:
            def synchronize(self) -> None:
                cuda.waited.append("stream")

        return Stream()


def test_on_the_host_a_mark_is_its_time() -> None:
    clock = ManualClock()
    timeline = HostTimeline(clock)
    timeline.start()
    clock.ns = 5 * MS
    mark = timeline.mark()
    clock.ns = 9 * MS
    timeline.wait(mark)
    assert timeline.ns(mark) == 5 * MS


def test_device_time_is_laid_onto_the_hosts() -> None:
    clock, cuda = ManualClock(), FakeCuda()
    timeline = CudaTimeline(cuda, clock)
    clock.ns, cuda.device_ms = 1_000 * MS, 70.0
    timeline.start()
    clock.ns, cuda.device_ms = 1_001 * MS, 82.5  # the host has only queued what took 12.5 ms
    first = timeline.mark()
    cuda.device_ms = 90.0
    second = timeline.mark()
    assert cuda.waited == ["stream"], "marking waits for nothing"
    timeline.wait(second)
    assert cuda.waited == ["stream", "event"]
    assert timeline.ns(first) == 1_012_500_000
    assert timeline.ns(second) == 1_020 * MS
    # the next request starts anew: what the device's clock did meanwhile is of no interest
    clock.ns, cuda.device_ms = 5_000 * MS, 100.0
    timeline.start()
    cuda.device_ms = 101.0
    assert timeline.ns(timeline.mark()) == 5_001 * MS


def test_the_cache_keeps_the_last_used() -> None:
    cache: EmbeddingCache[str] = EmbeddingCache(2)
    cache.keep(b"a", "A")
    cache.keep(b"b", "B")
    assert cache.find(b"a") == "A"
    cache.keep(b"c", "C")  # b was not asked for since
    assert [cache.find(key) for key in (b"a", b"b", b"c")] == ["A", None, "C"]
    cache.keep(b"c", "C")
    assert cache.find(b"a") == "A", "keeping again takes no second place"


def test_a_cache_of_nothing() -> None:
    cache: EmbeddingCache[str] = EmbeddingCache(0)
    cache.keep(b"", "A")
    assert cache.find(b"") is None
