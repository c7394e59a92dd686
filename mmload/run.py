"""One run from a scenario to a finished run folder.

Order: media are made, the server is started or found, bodies are made, a few warm-up requests prove
that it answers, the load runs in processes of its own, the server's spans come home, and everything
is analysed. Whatever happens after the folder is made, what was recorded stays in it.
"""

import asyncio
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Protocol

import yaml

from mmload.analysis.summary import Analysis
from mmload.clock import NS_PER_S, wall_ns
from mmload.errors import MmloadError
from mmload.load import open_files, prepare
from mmload.load.control import Discovery, discover
from mmload.load.deal import Dealer, connections_needed
from mmload.load.job import LoadSpec
from mmload.load.payloads import PayloadSet
from mmload.load.reach import Reach
from mmload.load.redact import Redactor
from mmload.load.target import Target, parse_target, without_credentials
from mmload.load.warmup import warm_up
from mmload.load.workers import LoadProcess, LoadResult, Tick
from mmload.run_failures import blamed, on_disk
from mmload.rundir import RunDir, RunEnd, RunManifest, machine_facts
from mmload.scenario import Scenario
from mmload.scenario_types import AUTO
from mmload.serving import About, EmbeddedPlan, Server, ServerPlan, server_of
from mmload.spans_home import SpanSource
from mmload.watching import Watching, watched
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

    reach: Reach = field(default_factory=Reach)
    server: ServerPlan | Server | None = None  # to start for this run; or one that stays up after
    workers: int | None = 1  # None: as many as the schedule needs
    watching: Watching = field(default_factory=Watching)
    html: bool = True  # write report.html; without, `mmload report` makes it


class Run:
    """One run. `execute()` blocks until it has ended; `stop()` may come from a signal handler."""

    def __init__(self, scenario: Scenario, options: Options, watcher: Watcher) -> None:
        self.scenario = scenario
        self.options = options
        self.watcher = watcher
        self.folder: RunDir | None = None  # once the load has begun
        self.server: Server | None = None  # that mmload started, once it is ready
        self.unwritten = ""  # why the report's files are not there, in words
        self._load: LoadProcess | None = None
        self._stops = 0
        self._redactor = Redactor(())

    def stop(self) -> None:
        """Ends the load; the report is made of what there is. A second call changes nothing, as
        impatience must not cost the report. KeyboardInterrupt before the load, and at the third."""
        self._stops += 1
        if self._load is None or self._stops > 2:
            raise KeyboardInterrupt
        self._load.stop()

    def execute(self) -> tuple[RunDir, Analysis]:
        """Runs and analyses. Raises UsageError before anything was measured."""
        try:
            return self._execute()
        except MmloadError as error:  # it may hold a server's words
            error.message = self._redactor.text(error.message)
            raise

    def _execute(self) -> tuple[RunDir, Analysis]:
        scenario = self.scenario
        plan = prepare.schedule(scenario)
        connections = connections_needed(scenario, plan)
        open_files.allow(connections)
        folder = RunDir.create(Path(scenario.out or new_folder(scenario.name)))
        with ExitStack() as stack:
            stack.callback(folder.discard_if_empty)
            if scenario.url is not None and self.options.server is None:
                # Wrong addresses are told before work is done.
                target = self._target(scenario.url, self.options.reach)
                address = target.resolve()
            self.watcher.say("preparing media")
            media = prepare.media(scenario, plan)
            server = self.server = self._server(folder, stack)
            if server is not None:
                target = self._target(server.url, self.options.reach.directly())
                address = target.resolve()
                stack.enter_context(blamed(server))
            api = APIS[scenario.api]
            model = scenario.model if api.names_model else scenario.model or ""
            found = asyncio.run(discover(target, address, model))
            links = stack.enter_context(prepare.links(scenario, media, target.host))
            payloads = prepare.payloads(scenario, media, found.model, plan, links)
            self.watcher.say(f"holding {payloads.held_bytes() / 2**20:.1f} MiB of bodies")
            ours = server is not None and server is not self.options.server
            own = server.about.hook if server is not None and ours else ""
            spans = SpanSource.of(found.trace, folder, own, in_response=target.spans_in_response)
            scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mmload-")))
            dealer = Dealer(scenario, self.options.reach, target, address, plan, payloads)
            with on_disk(scratch):
                specs = dealer.deal(
                    self.options.workers, media.class_names, folder.path, scratch / "bodies"
                )
            warmed_up = self._warm_up(specs[0], payloads, len(plan), len(media.class_names))
            manifest = self._manifest(target, found, plan, media, payloads, spans, server)
            manifest.warmup = warmed_up
            manifest.notes += self._notes(target, -(-connections // len(specs)))
            pids = server.pids() if server is not None else None
            watching, say, schedule_s = self.options.watching, self.watcher.say, plan.schedule_s
            with watched(watching, folder, target, address, pids, schedule_s, say):
                result = self._run_load(folder, manifest, payloads, specs, server)
            notes = []
            if server is not None and ours:
                self.watcher.say("ending the server")
                server.stop()  # its hook writes the last spans
                notes += [server.problem] if server.problem else []
            end = RunEnd(
                interrupted=result.interrupted,
                ended_ns=result.ended_ns,
                lost_records=result.lost_records,
                problems=result.problems,
                notes=notes,
            )
            try:
                spans.bring_home(result.origin_ns)
                folder.write_json("end.json", end)
            except OSError as error:
                self.unwritten = f"{folder.path}: {error.strerror}"
        self.watcher.say("analysing")
        return folder, self._report(folder, end)

    def _target(self, url: str, reach: Reach) -> Target:
        api = APIS[self.scenario.api]
        target = parse_target(url, reach, api.path, versioned=api.versioned)
        self._redactor = Redactor(target.secrets)
        return target

    def _notes(self, target: Target, connections: int) -> list[str]:
        """What a reader has to know of how the load reaches the server."""
        notes = []
        if (shortage := open_files.shortage(connections)) is not None:
            notes.append(shortage)
        if target.proxy is not None:
            notes.append(
                f"Requests went through the proxy {target.proxy.display}: its time is in every"
                " latency."
            )
        if not target.keepalive:
            notes.append("Each request opened a connection of its own (--no-keepalive).")
        return notes

    def _report(self, folder: RunDir, end: RunEnd) -> Analysis:
        """Analyses the run and writes its report, as far as the disk takes it."""
        from mmload.report.files import analyse, write_files

        analysis = analyse(folder, end)
        try:
            write_files(folder, analysis, html=self.options.html)
        except OSError as error:
            self.unwritten = f"{folder.path}: {error.strerror}"
        return analysis

    def _server(self, folder: RunDir, stack: ExitStack) -> Server | None:
        """The server that the load goes to, if it is mmload's to start, or was."""
        chosen = self.options.server
        if isinstance(chosen, Server):
            return chosen
        if chosen is None:
            if self.scenario.url is not None:
                return None
            chosen = EmbeddedPlan()
        self.watcher.say(f"starting {chosen.words()}")
        server = stack.enter_context(server_of(chosen, folder.path, self.options.reach))
        self.watcher.say(f"the server was ready after {server.ready_s:.1f} s")
        return server

    def _warm_up(self, spec: LoadSpec, payloads: PayloadSet, first: int, classes: int) -> int:
        """How many requests it took."""
        most, auto = self.scenario.warmup_most, self.scenario.warmup == AUTO
        if not most:
            return 0
        said = f"at most {most}" if auto else str(most)
        self.watcher.say(f"warming up ({said} requests)")
        sent = asyncio.run(warm_up(spec, payloads, first, most, classes if auto else None))
        if auto:
            self.watcher.say(f"warmed up by {sent} requests")
        return sent

    def _manifest(
        self,
        target: Target,
        found: Discovery,
        plan: "prepare.Schedule",
        media: "prepare.MediaPool",
        payloads: PayloadSet,
        spans: SpanSource,
        server: Server | None,
    ) -> RunManifest:
        scenario = self.scenario
        about = server.about if server is not None else About()
        asked = scenario.resolved()
        if scenario.url is not None:
            asked["url"] = without_credentials(scenario.url)
        return RunManifest(
            name=scenario.name,
            digest=scenario.digest(media.file_hashes),
            started_at=datetime.fromtimestamp(wall_ns() / NS_PER_S, UTC).isoformat("T", "seconds"),
            origin_ns=0,  # set when the clock starts
            target=target.display,
            model=found.model,
            load_mode=scenario.load_mode,
            planned=len(plan) if plan.stop_after_ns is None or scenario.requests else 0,
            asked_qps=scenario.rate,
            schedule_s=plan.schedule_s,
            scenario=asked,
            machine=machine_facts(),
            server=about.settings,
            launched={**about.launched, "ready_s": server.ready_s} if server is not None else None,
            simulated=about.simulated,
            media=prepare.describe(scenario, media, plan, payloads),
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
        server: Server | None,
    ) -> LoadResult:
        with on_disk(folder.path):
            asked = yaml.safe_dump(manifest.scenario, sort_keys=False, allow_unicode=True)
            folder.write_text("scenario.yaml", asked)
            folder.write_lines("payloads.jsonl", payloads.manifest())
            if payloads.expects:
                folder.write_lines("expected.jsonl", payloads.expected())
        load = LoadProcess(specs)
        try:
            manifest.origin_ns = load.start()
            specs[0].body_file.unlink()  # mapped by now; a killed run leaves nothing behind
            with on_disk(folder.path):
                folder.write_json("manifest.json", manifest)
            self.folder, self._load = folder, load
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
        result.interrupted = self._stops > 0
        return result


def new_folder(name: str) -> Path:
    """A folder that is not there yet, in `runs/`: the time, and the name."""
    stamp = datetime.fromtimestamp(wall_ns() / NS_PER_S).strftime("%Y%m%d-%H%M%S")
    base = Path("runs") / f"{stamp}-{name}"
    folder, k = base, 1
    while folder.exists():
        k += 1
        folder = base.with_name(f"{base.name}-{k}")
    return folder
