"""One run from a scenario to a finished run folder.

Order: media are made, the server is started or found, bodies are made, a few warm-up requests prove
that it answers, the load runs in processes of its own, the server's spans come home, and everything
is analysed. Whatever happens after the folder is made, what was recorded stays in it.
"""

import asyncio
import secrets
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
import yaml

from mmload.analysis.summary import Analysis
from mmload.clock import NS_PER_S, MonotonicClock, wall_ns
from mmload.errors import UsageError
from mmload.load import prepare
from mmload.load.control import Discovery, discover
from mmload.load.generator import Generator, Limits
from mmload.load.http import HttpTransport
from mmload.load.job import LoadSpec, PlannedJob, pack
from mmload.load.payloads import PayloadSet
from mmload.load.share import auto_workers, share
from mmload.load.target import Target, parse_target
from mmload.load.transport import Address
from mmload.load.workers import LoadProcess, LoadResult, Tick
from mmload.records import WARM_UP, Outcome, Record
from mmload.rundir import RunDir, RunEnd, RunManifest, machine_facts
from mmload.scenario import Scenario
from mmload.serving import ServerProcess, embedded_server
from mmload.spans_home import SpanSource
from mmload.wire import APIS

LAG_LIMIT_MS: Final = 25.0


class Watcher(Protocol):
    """Who is told how the run goes: a live view, plain lines, or nobody."""

    def say(self, text: str) -> None:
        """A step of the run, in words."""

    def started(self, planned: int, schedule_s: float) -> None:
        """The clock starts."""

    def tick(self, tick: Tick) -> None:
        """News from a load worker."""

    def refresh(self) -> None:
        """Called a few times a second."""


@dataclass(frozen=True)
class Options:
    """What a run needs besides its scenario. None of it is in the digest."""

    api_key: str | None = None
    server_flags: tuple[str, ...] = ()
    server_settings: dict[str, Any] = field(default_factory=dict)
    simulated: str = ""  # what the embedded server simulates, in words
    workers: int | None = 1  # None: as many as the schedule needs


class Run:
    """One run. `execute()` blocks until it has ended; `stop()` may come from a signal handler."""

    def __init__(self, scenario: Scenario, options: Options, watcher: Watcher) -> None:
        self.scenario = scenario
        self.options = options
        self.watcher = watcher
        self._load: LoadProcess | None = None
        self._stopped = False

    def stop(self) -> None:
        """Ends the load; the report is made of what there is. KeyboardInterrupt before it."""
        if self._load is None or self._stopped:
            raise KeyboardInterrupt
        self._stopped = True
        self._load.stop()

    def execute(self) -> tuple[RunDir, Analysis]:
        """Runs and analyses. Raises UsageError before anything was measured."""
        scenario = self.scenario
        plan = prepare.schedule(scenario)
        folder = RunDir.create(_folder(scenario))
        with ExitStack() as stack:
            stack.callback(folder.discard_if_empty)
            if scenario.url is not None:
                parse_target(scenario.url, self.options.api_key, "").resolve()
            self.watcher.say("preparing media")
            media = prepare.media(scenario)
            server = self._server(folder, stack)
            url = server.url if server is not None else str(scenario.url)
            api = APIS[scenario.api]
            target = parse_target(url, self.options.api_key, api.path)
            address = target.resolve()
            found = asyncio.run(discover(target, address, scenario.model))
            payloads = prepare.payloads(scenario, media, found.model, len(plan))
            spans = SpanSource.of(found.trace, folder, embedded=server is not None)
            scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mmload-")))
            specs = self._specs(folder, scratch, target, address, plan, payloads)
            if scenario.warmup:
                self.watcher.say(f"warming up ({scenario.warmup} requests)")
                asyncio.run(_warm_up(specs[0], payloads, len(plan), scenario))
            manifest = self._manifest(target, found, plan, media, payloads, spans)
            result = self._run_load(folder, manifest, payloads, specs, server)
            end = RunEnd(
                interrupted=result.interrupted,
                ended_ns=result.ended_ns,
                lost_records=result.lost_records,
                problems=result.problems,
            )
            if server is not None:
                server.stop()  # its hook writes the last spans
            spans.bring_home(result.origin_ns)
            folder.write_json("end.json", end)
        self.watcher.say("analysing")
        return folder, prepare_report(folder)

    def _server(self, folder: RunDir, stack: ExitStack) -> ServerProcess | None:
        if self.scenario.url is not None:
            return None
        self.watcher.say("starting the embedded server")
        log = folder.path / "server.log"
        server = embedded_server(self.options.server_flags, log, folder.spans_path)
        return stack.enter_context(server)

    def _specs(
        self,
        folder: RunDir,
        scratch: Path,
        target: Target,
        address: Address,
        plan: "prepare.Schedule",
        payloads: PayloadSet,
    ) -> list[LoadSpec]:
        """The schedule dealt out to the workers in turn."""
        scenario = self.scenario
        body_file = scratch / "bodies"
        packed = pack(payloads.bases, body_file)
        workers = self._workers(plan, payloads)
        prefix = secrets.token_hex(4)
        return [
            LoadSpec(
                worker=w,
                target=target,
                address=address,
                api=scenario.api,
                content_type=APIS[scenario.api].content_type,
                request_prefix=prefix,
                class_names=scenario.class_names(),
                indices=np.arange(w, len(plan), workers, dtype=np.int64),
                intended_ns=plan.intended_ns[w::workers],
                plan=payloads.plan,
                bases=packed,
                body_file=body_file,
                records_file=folder.path / ("records.jsonl" if not w else f"records.{w}.jsonl"),
                limits=Limits(
                    timeout_ns=round(scenario.timeout * NS_PER_S),
                    max_in_flight=share(scenario.max_in_flight, w, workers),
                    concurrency=share(plan.concurrency, w, workers),
                    stop_after_ns=plan.stop_after_ns,
                ),
            )
            for w in range(workers)
        ]

    def _workers(self, plan: "prepare.Schedule", payloads: PayloadSet) -> int:
        """As asked, or as the schedule needs; never more than a limit that they share."""
        workers = self.options.workers
        if workers is None:
            # The rate of a closed loop is the server's to say; one process carries most of them.
            lengths = np.array([base.length for base in payloads.bases])
            body_bytes = float(lengths[payloads.plan.base].mean())
            cores = machine_facts()["cores"]
            open_loop = plan.concurrency is None
            workers = auto_workers(plan.intended_ns, body_bytes, cores) if open_loop else 1
        limits = (len(plan), plan.concurrency, self.scenario.max_in_flight)
        return min(workers, *(limit for limit in limits if limit is not None))

    def _manifest(
        self,
        target: Target,
        found: Discovery,
        plan: "prepare.Schedule",
        media: "prepare.MediaPool",
        payloads: PayloadSet,
        spans: SpanSource,
    ) -> RunManifest:
        scenario, options = self.scenario, self.options
        return RunManifest(
            name=scenario.name,
            digest=scenario.digest(media.file_hashes),
            started_at=datetime.fromtimestamp(wall_ns() / NS_PER_S, UTC).isoformat("T", "seconds"),
            origin_ns=0,  # set when the clock starts
            target=target.display,
            model=found.model,
            load_mode=scenario.load_mode,
            planned=len(plan) if scenario.load_mode == "open" or scenario.requests else 0,
            asked_qps=scenario.rate,
            schedule_s=plan.schedule_s,
            scenario=scenario.resolved(),
            machine=machine_facts(),
            server=options.server_settings if scenario.url is None else None,
            simulated=options.simulated if scenario.url is None else "",
            media=media.describe(scenario, payloads, len(plan)),
            traced=spans.traced,
            span_source=spans.words,
            lag_limit_ms=LAG_LIMIT_MS,
            notes=media.notes,
        )

    def _run_load(
        self,
        folder: RunDir,
        manifest: RunManifest,
        payloads: PayloadSet,
        specs: list[LoadSpec],
        server: ServerProcess | None,
    ) -> LoadResult:
        folder.write_text(
            "scenario.yaml", yaml.safe_dump(manifest.scenario, sort_keys=False, allow_unicode=True)
        )
        folder.write_lines("payloads.jsonl", payloads.manifest())
        load = LoadProcess(specs)
        try:
            manifest.origin_ns = load.start()
            folder.write_json("manifest.json", manifest)
            self._load = load
            self.watcher.started(manifest.planned, manifest.schedule_s)
            death: list[str] = []

            def poll() -> None:
                if server is not None and not death and (why := server.died()) is not None:
                    death.append(why)
                    load.stop()
                self.watcher.refresh()

            result = load.finish(self.watcher.tick, poll)
        finally:
            load.close()
        result.problems.extend(death)
        result.interrupted = self._stopped
        return result


def prepare_report(folder: RunDir) -> Analysis:
    """Analyses a run folder and writes summary.json and report.html into it."""
    from mmload.report.files import write_report

    return write_report(folder)


def _folder(scenario: Scenario) -> Path:
    if scenario.out is not None:
        return Path(scenario.out)
    stamp = datetime.fromtimestamp(wall_ns() / NS_PER_S).strftime("%Y%m%d-%H%M%S")
    base = Path("runs") / f"{stamp}-{scenario.name}"
    folder, k = base, 1
    while folder.exists():
        k += 1
        folder = base.with_name(f"{base.name}-{k}")
    return folder


async def _warm_up(spec: LoadSpec, payloads: PayloadSet, first: int, scenario: Scenario) -> None:
    """Sends the requests after the measured ones, one at a time; the first failure ends the run."""
    indices = np.arange(first, first + scenario.warmup, dtype=np.int64)
    own = LoadSpec(
        **{
            **{name: getattr(spec, name) for name in spec.__dataclass_fields__},
            "request_prefix": WARM_UP + spec.request_prefix,
            "indices": indices,
            "intended_ns": np.zeros(len(indices), np.int64),
        }
    )
    clock = MonotonicClock()
    transport = HttpTransport(spec.address, clock)
    records: list[Record] = []
    limits = Limits(timeout_ns=spec.limits.timeout_ns, concurrency=1)
    job = PlannedJob(own, payloads)
    generator = Generator(job, transport, clock, clock.now_ns(), limits, records.append)
    try:
        await generator.run()
    finally:
        await transport.close()
    failed = [r for r in records if r.outcome is not Outcome.ok]
    if failed:
        worst = failed[0]
        message = worst.message
        for secret in spec.target.secrets:
            message = message.replace(secret, "[redacted]")
        raise UsageError(
            f"{spec.target.display}: a warm-up request ({worst.media_class}) failed:"
            f" {worst.outcome.value.replace('_', ' ')}: {message}",
            "make this request work first, or send the load all the same with --warmup 0",
        )
