"""A schedule and its bodies dealt out to load workers: one `LoadSpec` each.

Request `i` goes to worker `i % workers`, with the limits' shares of all.
"""

import secrets
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mmload.clock import NS_PER_S
from mmload.load import open_files, prepare
from mmload.load.body_file import pack
from mmload.load.job import LoadSpec
from mmload.load.limits import Limits
from mmload.load.payloads import PayloadSet
from mmload.load.reach import Reach
from mmload.load.share import auto_workers, share
from mmload.load.target import Target
from mmload.load.transport import Address
from mmload.rundir import machine_facts
from mmload.scenario import Scenario
from mmload.wire import APIS


def connections_needed(scenario: Scenario, plan: prepare.Schedule) -> int:
    """How many connections the load may need at once, over all workers."""
    if plan.concurrency is not None:
        return plan.concurrency
    timeout_ns = round(scenario.timeout * NS_PER_S)
    return open_files.most_in_flight(plan.intended_ns, timeout_ns, scenario.max_in_flight)


@dataclass(frozen=True)
class Dealer:
    """What all workers have in common."""

    scenario: Scenario
    reach: Reach
    target: Target
    address: Address
    plan: prepare.Schedule
    payloads: PayloadSet

    def deal(
        self, workers: int | None, class_names: tuple[str, ...], folder: Path, body_file: Path
    ) -> list[LoadSpec]:
        """Writes the bodies into `body_file`; records will go into `folder`.

        `workers`: as asked, never more than a limit that they share; None: as the schedule needs.
        Raises OSError when the disk does not take the bodies.
        """
        scenario, plan = self.scenario, self.plan
        api = APIS[scenario.api]
        packed = pack(self.payloads.bases, body_file)
        workers = self._count(workers)
        prefix = secrets.token_hex(4)
        return [
            LoadSpec(
                worker=w,
                target=self.target,
                address=self.address,
                api=scenario.api,
                content_type=api.content_type,
                request_prefix=prefix,
                class_names=class_names,
                indices=np.arange(w, len(plan), workers, dtype=np.int64),
                intended_ns=plan.intended_ns[w::workers],
                plan=self.payloads.plan,
                bases=packed,
                body_file=body_file,
                records_file=folder / ("records.jsonl" if not w else f"records.{w}.jsonl"),
                spans_file=folder / "spans" / f"responses.{w}.jsonl",
                limits=self._limits(w, workers),
            )
            for w in range(workers)
        ]

    def _limits(self, worker: int, workers: int) -> Limits:
        scenario, plan, reach = self.scenario, self.plan, self.reach
        return Limits(
            timeout_ns=round(scenario.timeout * NS_PER_S),
            max_in_flight=share(scenario.max_in_flight, worker, workers),
            concurrency=share(plan.concurrency, worker, workers),
            stop_after_ns=plan.stop_after_ns,
            connect_timeout_ns=reach.connect_timeout_ns,
            first_token_timeout_ns=reach.first_token_timeout_ns,
            retries=scenario.retries,
        )

    def _count(self, workers: int | None) -> int:
        plan, payloads = self.plan, self.payloads
        if workers is None:
            # The rate of a closed loop is the server's to say; one process carries most of them.
            lengths = np.array([base.length for base in payloads.bases])
            body_bytes = float(lengths[payloads.plan.base].mean())
            cores = machine_facts()["cores"]
            open_loop = plan.concurrency is None
            workers = auto_workers(plan.intended_ns, body_bytes, cores) if open_loop else 1
        limits = (len(plan), plan.concurrency, self.scenario.max_in_flight)
        return min(workers, *(limit for limit in limits if limit is not None))
