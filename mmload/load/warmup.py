"""Requests before the clock starts: they warm the server and prove that this load works at all."""

import dataclasses

import numpy as np

from mmload.clock import MonotonicClock
from mmload.errors import UsageError
from mmload.load.generator import Generator
from mmload.load.http import HttpTransport
from mmload.load.job import LoadSpec, PlannedJob
from mmload.load.payloads import PayloadSet
from mmload.records import WARM_UP, Outcome, Record


async def warm_up(spec: LoadSpec, payloads: PayloadSet, first: int, count: int) -> None:
    """Sends the `count` requests behind the measured ones (from number `first` of the plan), one at
    a time. Raises UsageError with the server's words for the first that failed."""
    indices = np.arange(first, first + count, dtype=np.int64)
    limits = dataclasses.replace(spec.limits, max_in_flight=None, concurrency=1, stop_after_ns=None)
    own = dataclasses.replace(
        spec,
        request_prefix=WARM_UP + spec.request_prefix,
        indices=indices,
        intended_ns=np.zeros(count, np.int64),
        limits=limits,
    )
    clock = MonotonicClock()
    transport = HttpTransport(spec.address, clock, keepalive=spec.target.keepalive)
    records: list[Record] = []
    job = PlannedJob(own, payloads)
    generator = Generator(job, transport, clock, clock.now_ns(), limits, records.append)
    try:
        await generator.run()
    finally:
        await transport.close()
    for record in records:
        if record.outcome is not Outcome.ok:
            raise UsageError(
                f"{spec.target.display}: a warm-up request ({record.media_class}) failed:"
                f" {record.outcome.value.replace('_', ' ')}: {record.message}",
                "make this request work first, or send the load all the same with --warmup 0",
            )
