"""The core data of a run: one `Record` a request, and the same as columns (`RecordTable`).

Times are integer nanoseconds since the run's origin (`RunManifest.origin_ns` on the monotonic
clock); `None` means that it never happened. A failed request keeps what it saw; only `ok` records
enter latency figures. A record is one JSON line of `records.jsonl`.
"""

import enum
from collections.abc import Iterable, Iterator
from itertools import chain
from operator import attrgetter
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray


class Outcome(enum.StrEnum):
    """How a request ended. Every value but `ok`, `dropped` and `unsent` is a kind of failure."""

    ok = "ok"
    http_error = "http_error"  # a status outside 2xx
    stream_error = "stream_error"  # an error event inside a 200 stream
    truncated = "truncated"  # the stream ended before its protocol's end
    empty = "empty"  # a well-formed answer without any output
    malformed = "malformed"  # bytes that are not the API's format
    timeout = "timeout"
    connection = "connection"  # refused, reset, closed before an answer
    client_error = "client_error"  # this side: no file descriptors, for instance
    cut_off = "cut_off"  # still running when the run was interrupted or its drain time ended
    dropped = "dropped"  # over the asked-for in-flight cap: never sent
    unsent = "unsent"  # the run was interrupted before its turn


WARM_UP: Final = "warmup-"  # request ids of warm-up requests start with it; they are not recorded

FAILURES: Final[tuple[Outcome, ...]] = tuple(
    o for o in Outcome if o not in (Outcome.ok, Outcome.dropped, Outcome.unsent)
)


class Attempt(msgspec.Struct, omit_defaults=True, kw_only=True):
    """One sending of a request that was sent more than once (`--retries`)."""

    sent_ns: int
    closed_ns: int
    outcome: Outcome
    status: int | None = None
    message: str = ""


class Record(msgspec.Struct, omit_defaults=True, kw_only=True):
    """One request as the client saw it. All `*_ns` are nanoseconds since the run's origin."""

    index: int  # position in the schedule, from 0
    request_id: str  # sent as X-Request-Id
    media_class: str  # for instance "15 frames 854x480"
    payload: int  # index into the payload manifest
    intended_ns: int  # when the schedule said to send it
    sent_ns: int | None = None  # the generator let it go (connecting, when it must, comes after)
    connected_ns: int | None = None  # a connection is there; the first byte goes to the socket
    send_end_ns: int | None = None  # last byte handed to the socket
    headers_ns: int | None = None  # response head complete
    first_byte_ns: int | None = None  # first byte of the response body
    first_output_ns: int | None = (
        None  # TTFT: first non-empty content, reasoning, refusal, tool args
    )
    first_answer_ns: int | None = None  # TTFO: first output that is not reasoning
    last_output_ns: int | None = None  # E2E
    closed_ns: int | None = None  # the response ended, or the failure was noticed
    chunk_ns: list[int] = []  # arrival of every output chunk
    outcome: Outcome = Outcome.unsent
    status: int | None = None
    message: str = ""  # the server's or the system's own words, secrets redacted
    finish_reason: str | None = None
    prompt_tokens: int | None = None  # as the server's usage says
    output_tokens: int | None = None  # as the server's usage says, reasoning included
    cached_tokens: int | None = None
    media_tokens: int | None = None  # prompt_tokens_details.multimodal_tokens, where given
    usage: dict[str, Any] | None = None  # the server's usage object, whole
    answer: str = ""  # the text, cut at ANSWER_LIMIT characters
    bytes_sent: int = 0  # body bytes
    bytes_received: int = 0  # body bytes
    reused_connection: bool = False
    worker: int = 0
    attempts: list[Attempt] = []  # all of them if there was more than one; sent_ns is the first's
    spans: list[str] = []  # lines of the server's hook, from the response; they go to spans/


ANSWER_LIMIT: Final = 4096


class RecordTable:
    """Columns of many records, for analysis: numpy arrays of one length, in schedule order.

    `times[name]` is float64 nanoseconds since the origin, NaN for "never"; exact, since 2**53 ns is
    104 days. `counts[name]` is float64 with NaN for "not given". `outcome` and `media_class` are
    integer codes into `Outcome` and `class_names`. `gaps_ns` holds all chunk gaps of ok records.
    """

    TIMES: Final = (
        "intended_ns",
        "sent_ns",
        "connected_ns",
        "send_end_ns",
        "headers_ns",
        "first_byte_ns",
        "first_output_ns",
        "first_answer_ns",
        "last_output_ns",
        "closed_ns",
    )
    COUNTS: Final = (
        "prompt_tokens",
        "output_tokens",
        "cached_tokens",
        "media_tokens",
        "bytes_sent",
        "bytes_received",
    )

    def __init__(self) -> None:
        self.index: NDArray[np.int64] = np.empty(0, np.int64)
        self.times: dict[str, NDArray[np.float64]] = {n: np.empty(0) for n in self.TIMES}
        self.counts: dict[str, NDArray[np.float64]] = {n: np.empty(0) for n in self.COUNTS}
        self.outcome: NDArray[np.int8] = np.empty(0, np.int8)
        self.media_class: NDArray[np.int32] = np.empty(0, np.int32)
        self.class_names: list[str] = []
        self.request_ids: list[str] = []
        self.payload: NDArray[np.int64] = np.empty(0, np.int64)
        self.chunks: NDArray[np.int32] = np.empty(0, np.int32)  # output chunks a record
        self.reused_connection: NDArray[np.bool_] = np.empty(0, np.bool_)
        self.gaps_ns: NDArray[np.float64] = np.empty(0)
        self.messages: dict[str, list[str]] = {}  # outcome -> first few distinct messages
        self.retried = 0  # records that were sent more than once
        self.resent = 0  # how many sendings more that was

    def __len__(self) -> int:
        return len(self.index)

    def is_outcome(self, outcome: Outcome) -> NDArray[np.bool_]:
        """Mask of the records with this outcome."""
        mask: NDArray[np.bool_] = self.outcome == _OUTCOME_CODE[outcome]
        return mask

    @classmethod
    def of(cls, records: Iterable[Record], batch: int = 1024) -> "RecordTable":
        """Builds the columns in batches; memory is the columns and one batch. Sorted by `index`."""
        table = cls()
        columns: dict[str, list[NDArray[Any]]] = {}
        class_code: dict[str, int] = {}
        for part in _batches(records, batch):
            table._add(part, columns, class_code)
        if columns:
            # each column's parts are let go as soon as they are joined
            joined = {name: np.concatenate(columns.pop(name)) for name in list(columns)}
            table._settle(joined)
        table.class_names = list(class_code)
        return table

    def _add(
        self,
        part: list[Record],
        columns: dict[str, list[NDArray[Any]]],
        class_code: dict[str, int],
    ) -> None:
        def put(name: str, values: NDArray[Any]) -> None:
            columns.setdefault(name, []).append(values)

        numbers = np.array(list(map(_NUMBERS, part)), np.float64).T.copy()
        for name, values in zip((*self.TIMES, *self.COUNTS), numbers, strict=True):
            put(name, values)
        put("index", np.array([r.index for r in part], np.int64))
        put("payload", np.array([r.payload for r in part], np.int64))
        put("chunks", np.array([len(r.chunk_ns) for r in part], np.int32))
        put("outcome", np.array([_OUTCOME_CODE[r.outcome] for r in part], np.int8))
        put("reused", np.array([r.reused_connection for r in part], np.bool_))
        codes = [class_code.setdefault(r.media_class, len(class_code)) for r in part]
        put("media_class", np.array(codes, np.int32))
        put("gaps", _gaps([r.chunk_ns for r in part if r.outcome is Outcome.ok]))
        self.request_ids.extend(r.request_id for r in part)
        for r in part:
            if r.attempts:
                self.retried += 1
                self.resent += len(r.attempts) - 1
            if r.message and r.outcome is not Outcome.ok:
                seen = self.messages.setdefault(r.outcome.value, [])
                if len(seen) < 3 and r.message not in seen:
                    seen.append(r.message)

    def _settle(self, joined: dict[str, NDArray[Any]]) -> None:
        order = np.argsort(joined["index"], kind="stable")
        for name in self.TIMES:
            self.times[name] = joined.pop(name)[order]
        for name in self.COUNTS:
            self.counts[name] = joined.pop(name)[order]
        self.index = joined["index"][order]
        self.payload = joined["payload"][order]
        self.chunks = joined["chunks"][order]
        self.outcome = joined["outcome"][order]
        self.media_class = joined["media_class"][order]
        self.reused_connection = joined["reused"][order]
        self.gaps_ns = joined["gaps"]
        ids = self.request_ids
        self.request_ids = [ids[i] for i in order]


_NUMBERS: Final = attrgetter(*RecordTable.TIMES, *RecordTable.COUNTS)
_OUTCOME_CODE: Final = {outcome: code for code, outcome in enumerate(Outcome)}


def _gaps(lists: list[list[int]]) -> NDArray[np.float64]:
    """Differences of neighbours within each list, of all lists in one go."""
    lengths = np.fromiter(map(len, lists), np.int64, len(lists))
    flat = np.fromiter(chain.from_iterable(lists), np.int64, int(lengths.sum()))
    within = np.ones(max(len(flat) - 1, 0), np.bool_)
    starts = np.cumsum(lengths)[:-1]
    within[starts[(starts > 0) & (starts < len(flat))] - 1] = False  # from one list to the next
    return np.diff(flat)[within].astype(np.float64)


def _batches(records: Iterable[Record], size: int) -> Iterator[list[Record]]:
    part: list[Record] = []
    for record in records:
        part.append(record)
        if len(part) == size:
            yield part
            part = []
    if part:
        yield part


class Span(msgspec.Struct, omit_defaults=True):
    """One stage of one request on the server, as a line of the hook's JSONL says it.

    `start_ns`/`end_ns` are the server's monotonic clock (not the run's origin). `facts` holds what
    was seen there: `pool_width`, `cpu_ns` (thread CPU time), `threads`, `frames`, `pixels`, ...
    """

    request_id: str
    stage: str
    start_ns: int
    end_ns: int
    pid: int = 0
    thread: str = ""
    phase: str | None = None
    facts: dict[str, Any] = {}


class ServerProcess(msgspec.Struct, omit_defaults=True):
    """What the hook says of the process it sits in (first line of a span file), and losses."""

    pid: int
    role: str = "server"
    host: str = ""
    boot_id: str = ""
    hook: str = ""  # version of mmload that wrote it
    python: str = ""
    monotonic_ns: int = 0
    wall_ns: int = 0
    settings: dict[str, Any] = {}  # what the server was told: workers, threads, simulated, ...
    # versions: package -> version; attached: event -> where; missing: event -> {reason, merged};
    # pools: name -> width; blind: what cannot be seen -> why; saw: anything else
    notes: dict[str, dict[str, Any]] = {}
    lost: int = 0  # spans dropped by a full buffer or a dead disk


class Sample(msgspec.Struct, omit_defaults=True):
    """A line of metrics.jsonl: what a source said at a time of the host's monotonic clock.

    `source` is "server" (its /metrics), "processes" or "gpu N: NAME"; `values` are those of
    `mmload.watch`. With an `error` there are none.
    """

    at_ns: int
    source: str
    values: dict[str, float] = {}
    error: str = ""
