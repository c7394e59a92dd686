"""Requests before the clock starts: they warm the server and prove that this load works at all.

They are sent one at a time, through the classes in turn. How many: a number, or by a rule. The rule
(`--warmup auto`) looks at blocks of five requests, or of a round through all classes if there are
more of those: it goes on for as long as a block's mean TTFT is 5 % or more below that of the block
before, up to `scenario_types.AUTO_WARM_UP` requests.
"""

import dataclasses
from collections.abc import Sequence
from typing import Final

import numpy as np

from mmload.clock import MonotonicClock
from mmload.errors import UsageError
from mmload.load.generator import Generator
from mmload.load.http import HttpTransport
from mmload.load.job import LoadSpec, PlannedJob
from mmload.load.payloads import PayloadSet
from mmload.records import WARM_UP, Outcome, Record

BLOCK: Final = 5
STILL_FALLING: Final = 0.95  # of the block before


async def warm_up(
    spec: LoadSpec, payloads: PayloadSet, first: int, most: int, classes: int | None = None
) -> int:
    """Sends `most` of the requests behind the measured ones (from number `first` of the plan), or,
    with the number of `classes`, as many as the rule says; returns how many.

    Raises UsageError with the server's words for the first that failed.
    """
    indices = np.arange(first, first + most, dtype=np.int64)
    limits = dataclasses.replace(spec.limits, max_in_flight=None, concurrency=1, stop_after_ns=None)
    own = dataclasses.replace(
        spec,
        request_prefix=WARM_UP + spec.request_prefix,
        indices=indices,
        intended_ns=np.zeros(most, np.int64),
        limits=limits,
    )
    clock = MonotonicClock()
    transport = HttpTransport(spec.address, clock, keepalive=spec.target.keepalive)
    sent: list[Record] = []

    def emit(record: Record) -> None:
        if record.outcome is Outcome.unsent:
            return
        sent.append(record)
        failed = record.outcome is not Outcome.ok
        if failed or (classes is not None and has_settled([ttft_ns(r) for r in sent], classes)):
            generator.stop()

    generator = Generator(PlannedJob(own, payloads), transport, clock, clock.now_ns(), limits, emit)
    try:
        await generator.run()
    finally:
        await transport.close()
    for record in sent:
        if record.outcome is not Outcome.ok:
            raise UsageError(
                f"{spec.target.display}: a warm-up request ({record.media_class}) failed:"
                f" {record.outcome.value.replace('_', ' ')}: {record.message}",
                "make this request work first, or send the load all the same with --warmup 0",
            )
    return len(sent)


def ttft_ns(record: Record) -> int:
    """From the send to the first output; of an answer without any, to its end."""
    end_ns = record.first_output_ns if record.first_output_ns is not None else record.closed_ns
    return (end_ns or 0) - (record.sent_ns or 0)


def has_settled(latency_ns: Sequence[int], classes: int) -> bool:
    """Whether a block has just ended that is no longer faster than the one before."""
    block = classes * -(-BLOCK // classes)
    if len(latency_ns) % block or len(latency_ns) < 2 * block:
        return False
    before, last = latency_ns[-2 * block : -block], latency_ns[-block:]
    return sum(last) > STILL_FALLING * sum(before)
