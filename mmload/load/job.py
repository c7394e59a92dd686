"""The requests of one worker, ready to send: its share of the schedule, the plan and the bodies.

A `LoadSpec` is what a worker process is given: plain, picklable data. Bodies are not in it: they
lie in one file that every worker maps, see `body_file`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mmload.load.body_file import PackedBodies
from mmload.load.limits import Limits
from mmload.load.payloads import PayloadSet, Piece, Plan
from mmload.load.target import Target
from mmload.load.transport import Address
from mmload.records import Record
from mmload.wire import APIS
from mmload.wire.base import Reader


@dataclass(frozen=True)
class LoadSpec:
    """All that a worker needs. `indices` are positions in the whole schedule."""

    worker: int
    target: Target
    address: Address
    api: str
    content_type: str
    request_prefix: str  # request ids are this and the index
    class_names: tuple[str, ...]
    indices: NDArray[np.int64]
    intended_ns: NDArray[np.int64]
    plan: Plan  # of the whole run
    bases: PackedBodies
    body_file: Path
    records_file: Path
    spans_file: Path  # for spans that come inside the responses
    limits: Limits


class PlannedJob:
    """A `generator.Job` over a LoadSpec."""

    def __init__(self, spec: LoadSpec, payloads: PayloadSet) -> None:
        api = APIS[spec.api]
        self._spec = spec
        self._api = api
        self._payloads = payloads
        # Plain lists: indexing a numpy array makes a new object each time.
        self._indices = spec.indices.tolist()
        self._intended_ns = spec.intended_ns.tolist()
        path = spec.target.base_path + api.path
        own = api.own_headers(spec.target.authorization)
        self._heads = [
            spec.target.head("POST", path, spec.content_type, base.length, own) + b"X-Request-Id: "
            for base in payloads.bases
        ]

    def __len__(self) -> int:
        return len(self._indices)

    def intended_ns(self, i: int) -> int:
        when_ns: int = self._intended_ns[i]
        return when_ns

    def record(self, i: int) -> Record:
        index = self._indices[i]
        plan = self._payloads.plan
        return Record(
            index=index,
            request_id=f"{self._spec.request_prefix}-{index}",
            media_class=self._spec.class_names[plan.media_class[index]],
            payload=int(plan.payload[index]),
            intended_ns=self._intended_ns[i],
            bytes_sent=self._payloads.length(index),
            worker=self._spec.worker,
        )

    def request(self, i: int, record: Record) -> tuple[bytes, Sequence[Piece]]:
        index = self._indices[i]
        head = self._heads[self._payloads.plan.base[index]]
        return head + record.request_id.encode() + b"\r\n\r\n", self._payloads.pieces(index)

    def reader(self, record: Record) -> Reader:
        return self._api.reader(record)
