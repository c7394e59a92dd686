"""`mmload capacity`: the highest rate that a server carries within its objectives."""

import json
import sys
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

from cyclopts import Parameter

from mmload.capacity.execute import Budget, Search, read
from mmload.capacity.judge import Rate
from mmload.capacity.search import PILOT, Rule
from mmload.capacity.state import Asked, begin, free_folder, load
from mmload.capacity.summary import summarise
from mmload.clock import NS_PER_S, wall_ns
from mmload.commands.run import (
    ConnectionFlags,
    EmbeddedFlags,
    LaunchFlags,
    ServerCommand,
    load_workers,
    reach_for,
)
from mmload.commands.signs import ended_by
from mmload.errors import Interrupted, InvalidRun, MmloadError, ThresholdFailed, UsageError
from mmload.flags import flags_of, given, spread
from mmload.load.target import without_credentials
from mmload.report.capacity_files import write_capacity
from mmload.report.capacity_markdown import render_capacity_markdown
from mmload.report.capacity_terminal import render_capacity
from mmload.report.live import Quiet, watcher
from mmload.run import Options, new_folder
from mmload.rundir import machine_facts
from mmload.scenario import Scenario
from mmload.scenario_file import load_scenario, over_file
from mmload.serving import server_of
from mmload.serving.flags import plan_from
from mmload.slo import Slo, parse_slo

LEAST_REQUESTS: Final = 132  # fewer cannot show a queue to be stable (analysis.growth)
SERVER: Final = "server"  # folder of the server that stays up
_SEARCHED: Final = ("qps", "duration", "requests")
_OF_PACES: Final = ("every", "phases", "turns", "think-time")
_PACED: Final = ("profile", "trace", "cameras", "concurrency", "sequential")

LoadFlags = flags_of(
    Scenario,
    "What to send",
    leave_out=("url", "mix", "out", "name", *_SEARCHED, *_PACED, *_OF_PACES),
)


def capacity(
    url: Annotated[str | None, Parameter(help="Base URL; none: the embedded server.")] = None,
    /,
    *,
    slo: Annotated[
        list[str] | None,
        Parameter(
            help="Objective, as 'ttft:p99<500ms'; repeats, and all have to hold.", negative=()
        ),
    ] = None,
    start: Annotated[
        float | None, Parameter(help="Requests/s to start from (half of what a pilot predicts).")
    ] = None,
    precision: Annotated[
        float,
        Parameter(
            help="How far apart the ends of the interval may be (0.05: 5%).", show_default=False
        ),
    ] = 0.05,
    repeats: Annotated[
        int, Parameter(help="Runs of which most must agree at both ends (3).", show_default=False)
    ] = 3,
    requests: Annotated[
        int,
        Parameter(
            help=f"Requests at each rate, {LEAST_REQUESTS} or more (160).", show_default=False
        ),
    ] = 160,
    least_seconds: Annotated[
        float, Parameter(help="Seconds at each rate, at least (10).", show_default=False)
    ] = 10.0,
    max_requests: Annotated[int | None, Parameter(help="Requests in all, at most.")] = None,
    time_budget: Annotated[float | None, Parameter(help="Seconds in all, about.")] = None,
    at_least: Annotated[
        float | None, Parameter(help="Exit with 4 if this rate does not pass.")
    ] = None,
    out: Annotated[Path | None, Parameter(help="Folder to make (runs/<time>-capacity).")] = None,
    scenario: Annotated[str | None, Parameter(help="YAML file, or a shipped name: mix.")] = None,
    load: Any = None,
    connection: Any = None,
    embedded: Any = None,
    launch: Any = None,
    workers: Annotated[
        str, Parameter(help="Processes that generate the load: a number, or auto.")
    ] = "auto",
    as_json: Annotated[
        bool, Parameter(name="--json", help="Print summary.json.", negative=())
    ] = False,
    quiet: Annotated[bool, Parameter(help="No progress.", negative=())] = False,
    server_command: ServerCommand = None,
) -> int:
    """Find the highest rate at which every objective holds and the queue is stable.

    One server stays up; rates are tried by brackets and bisection until an interval of 5% is
    confirmed by repeats: [highest rate that passes, lowest that fails]. What the spans predict is
    put beside it. `mmload capacity --slo 'ttft:p99<500ms' --frames 15` searches on the embedded
    server; words after `--` are the command of another one.
    """
    slos = tuple(parse_slo(text) for text in slo or ())
    if not slos:
        raise UsageError("--slo: no objective", "give one, as in --slo 'ttft:p99<500ms'")
    for flag, value, least in (
        ("--requests", requests, LEAST_REQUESTS),
        ("--repeats", repeats, 1),
        ("--precision", precision, 0.005),
        ("--least-seconds", least_seconds, 0),
        ("--start", 1 if start is None else start, 0.001),
        ("--at-least", 1 if at_least is None else at_least, 0.001),
        ("--max-requests", 1 if max_requests is None else max_requests, 1),
        ("--time-budget", 1 if time_budget is None else time_budget, 1),
    ):
        if not value >= least:
            raise UsageError(f"{flag} {value}: is not allowed", f"{least:g} is the least")
    base = _base(scenario, {**given(load), **({"url": url} if url is not None else {})})
    family = base.get("model_family")
    launching, settings = given(launch), given(embedded)
    if base.get("url") is None and server_command is None:
        launching, settings = over_file(scenario, launching, settings)
    plan = plan_from(server_command, launching, settings, base.get("url"), family)
    reach = reach_for(given(connection), plan)
    options = Options(reach=reach, workers=load_workers(workers))
    rule = Rule(start=PILOT if start is None else start, precision=precision, repeats=repeats)
    path = out or new_folder("capacity")
    shown = without_credentials(base["url"]) if base.get("url") is not None else ""
    asked = Asked(
        started_at=datetime.fromtimestamp(wall_ns() / NS_PER_S, UTC).isoformat("T", "seconds"),
        machine=machine_facts(),
        server=plan.words() if plan is not None else shown,
        launched=plan.launched() if plan is not None else {},
        slos=[str(one) for one in slos],
        scenario={k: v for k, v in base.items() if k != "url"},
        start=rule.start,
        precision=precision,
        factor=rule.factor,
        repeats=repeats,
        requests_a_rate=requests,
        least_s=least_seconds,
        at_least=at_least,
    )
    asked = begin(path, asked)
    rates = read(path, asked, slos)
    rule = replace(rule, start=asked.start)
    tells = watcher(quiet=quiet)
    if rates:
        tells.say(f"going on: {len(rates)} runs of {path} are kept")
    plain = Quiet() if quiet or not sys.stderr.isatty() else None
    with ExitStack() as stack:
        if plan is not None:
            tells.say(f"starting {plan.words()}")
            server = stack.enter_context(server_of(plan, free_folder(path, SERVER), reach))
            options = replace(options, server=server)
        search = Search(
            path,
            asked,
            rates,
            slos,
            rule,
            Budget(max_requests, time_budget),
            options,
            base.get("url"),
            tells.say,
            lambda: plain or watcher(quiet=False),
        )
        _with_signals(search)
    summary = _report(path, asked, slos, search.rates, as_json=as_json, markdown=False)
    if search.stopped:
        print(f"mmload: interrupted; the same command goes on with --out {path}", file=sys.stderr)
    return _exit_code(summary, search)


def _with_signals(search: Search) -> None:
    try:
        with ended_by(search.stop):
            search.run()
    except KeyboardInterrupt:
        search.stop()
    except MmloadError as error:
        if not search.rates:
            raise
        print(f"mmload: the search ends here: {error.message}", file=sys.stderr)


def _exit_code(summary: dict[str, Any], search: Search) -> int:
    if search.stopped:
        return Interrupted.exit_code
    interval = summary["interval"]
    if interval["passing_qps"] is None and interval["failing_qps"] is None:
        return InvalidRun.exit_code
    return ThresholdFailed.exit_code if summary["reached"] is False else 0


def report_again(path: Path, *, as_json: bool, markdown: bool) -> int:
    """`mmload report` of a search's folder."""
    asked = load(path)
    slos = tuple(parse_slo(text) for text in asked.slos)
    _report(path, asked, slos, read(path, asked, slos), as_json=as_json, markdown=markdown)
    return 0


def _report(
    path: Path,
    asked: Asked,
    slos: tuple[Slo, ...],
    rates: list[Rate],
    *,
    as_json: bool,
    markdown: bool,
) -> dict[str, Any]:
    """Writes the search's files, as far as the disk takes them, and prints its report."""
    summary = summarise(asked, slos, rates)
    try:
        write_capacity(path, summary)
    except OSError as error:
        print(f"mmload: {path}: not written: {error.strerror}", file=sys.stderr)
    if as_json:
        print(json.dumps(summary, allow_nan=False, indent=1))
    elif markdown:
        print(render_capacity_markdown(summary), end="")
    else:
        render_capacity(summary, color=sys.stdout.isatty(), folder=str(path))
    return summary


def _base(scenario: str | None, flags: dict[str, Any]) -> dict[str, Any]:
    """The scenario without its pace, which is what is searched for."""
    resolved = load_scenario(scenario, flags).resolved()
    paced = [name for name in _PACED if resolved.get(name)]
    paced += ["turns"] if resolved.get("turns", 1) > 1 else []
    if paced:
        raise UsageError(
            f"{paced[0]}: a capacity search sets the rate itself", "leave it out of the scenario"
        )
    return {k: v for k, v in resolved.items() if k not in (*_SEARCHED, *_PACED, "out", "name")}


spread(
    capacity,
    load=LoadFlags,
    connection=ConnectionFlags,
    embedded=EmbeddedFlags,
    launch=LaunchFlags,
)
