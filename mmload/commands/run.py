"""`mmload run`: one load, one report."""

import json
import sys
from typing import Annotated, Any

from cyclopts import Group, Parameter

from mmload.commands import SERVER_COMMAND
from mmload.commands.signs import ended_by
from mmload.errors import Interrupted, InvalidRun, MmloadError, UsageError
from mmload.flags import flags_of, given, spread
from mmload.load.reach import Reach, reach_from
from mmload.profiler.collect import Sampling
from mmload.report.live import watcher
from mmload.report.terminal import render
from mmload.run import Options, Run
from mmload.scenario import Scenario
from mmload.scenario_file import load_scenario, over_file
from mmload.server.settings import ServerSettings
from mmload.serving import ServerPlan
from mmload.serving.flags import Launch, plan_from
from mmload.watching import Watching

MAX_WORKERS = 256
WATCHING = Group("Watching the server", sort_key=3)

# What stands after `--` on the command line: `mmload.cli` makes it into flags.
ServerCommand = Annotated[list[str] | None, Parameter(name=SERVER_COMMAND, show=False)]

LoadFlags = flags_of(Scenario, "What to send, how fast", leave_out=("url", "mix"))
ConnectionFlags = flags_of(Reach, "How to reach the server", place=2)
EmbeddedFlags = flags_of(
    ServerSettings,
    "Embedded server (without a URL)",
    place=4,
    leave_out=("host", "port", "model", "model-family"),  # the load's --model-family is for both
)
LaunchFlags = flags_of(Launch, "Server that mmload starts (embedded, or after --)", place=4)


def run(
    url: Annotated[str | None, Parameter(help="Base URL; none: the embedded server.")] = None,
    /,
    *,
    scenario: Annotated[str | None, Parameter(help="YAML file, or a shipped name: mix.")] = None,
    load: Any = None,
    connection: Any = None,
    workers: Annotated[
        str, Parameter(help="Processes that generate the load: a number, or auto.")
    ] = "auto",
    as_json: Annotated[
        bool,
        Parameter(name="--json", help="Print summary.json instead of the report.", negative=()),
    ] = False,
    quiet: Annotated[bool, Parameter(help="No progress.", negative=())] = False,
    scrape: Annotated[
        str | None, Parameter(help="Its gauges are at this URL, not at /metrics.", group=WATCHING)
    ] = None,
    no_scrape: Annotated[
        bool, Parameter(help="Do not ask the server for its gauges.", group=WATCHING, negative=())
    ] = False,
    profile_server: Annotated[
        bool,
        Parameter(
            help="Profile its processes with py-spy during the load: whose code takes the time,"
            " how deep the calls go.",
            group=WATCHING,
            negative=(),
        ),
    ] = False,
    profile_native: Annotated[
        bool,
        Parameter(
            help="The same with native functions, for which it is stopped for every sample: such"
            " latencies are not for quoting.",
            group=WATCHING,
            negative=(),
        ),
    ] = False,
    embedded: Any = None,
    launch: Any = None,
    server_command: ServerCommand = None,
) -> int:
    """Load a server at a fixed rate and report where the time went.

    `mmload run URL` loads a server that runs. `mmload run [flags] -- vllm serve MODEL` starts that
    server, waits until /health or /v1/models is fine, traces it, and ends it with all that it
    started; its output is the run's server.log. It listens where its --port and --host say, or at
    the URL given; `{port}` in the command is a free port. `mmload run` alone starts the embedded
    server: real HTTP, media decoding and preprocessing in front of a simulated accelerator, or of
    a real model (--engine torch).
    """
    flags = given(load)
    if url is not None:
        flags["url"] = url
    chosen = load_scenario(scenario, flags)
    family = chosen.model_family
    launching, settings = given(launch), given(embedded)
    if chosen.url is None and server_command is None:
        launching, settings = over_file(scenario, launching, settings)
    plan = plan_from(server_command, launching, settings, chosen.url, family)
    reach = reach_for(given(connection), plan)
    options = Options(
        reach=reach,
        server=plan,
        workers=load_workers(workers),
        watching=Watching(scrape, no_scrape, _sampling(profile_server, profile_native)),
    )
    one = Run(chosen, options, watcher(quiet=quiet or as_json))
    try:
        with ended_by(one.stop):
            folder, analysis = one.execute()
    except KeyboardInterrupt:
        if one.folder is None:
            raise
        raise Interrupted(
            "interrupted before the report was made",
            f"`mmload report {one.folder.path}` makes it of what was recorded",
        ) from None
    summary = analysis.summary
    if as_json:
        print(json.dumps(summary, allow_nan=False, indent=1))
    else:
        render(summary, color=sys.stdout.isatty(), folder=str(folder.path))
    if one.unwritten:
        print(f"mmload: not all could be written: {one.unwritten}", file=sys.stderr)
    if summary["interrupted"]:
        return Interrupted.exit_code
    if not summary["valid"]:
        return InvalidRun.exit_code
    return MmloadError.exit_code if one.unwritten else 0


def _sampling(profile: bool, native: bool) -> Sampling | None:
    return Sampling(native) if profile or native else None


def reach_for(values: dict[str, Any], *plans: ServerPlan | None) -> Reach:
    """How to reach servers of these plans (None: at a URL). Raises UsageError."""
    reach = reach_from(values)
    if not any(plan is not None for plan in plans):
        return reach
    if reach.proxy is not None:
        raise UsageError(
            "--proxy: leads to a server at a URL, and this one is started here",
            "leave out the flag, or start the server yourself and give its URL",
        )
    if reach.spans == "response":
        raise UsageError(
            "--spans response: is for a server at a URL; one that mmload starts writes them into"
            " the run",
            "leave out the flag, or give the URL",
        )
    return reach


def load_workers(text: str) -> int | None:
    """What --workers says; None: as many as the schedule needs. Raises UsageError."""
    if text == "auto":
        return None
    if not text.isdigit() or not 1 <= int(text) <= MAX_WORKERS:
        raise UsageError(
            f"--workers: {text!r} is not allowed: a number from 1 to {MAX_WORKERS}, or auto",
            "Processes that generate the load.",
        )
    return int(text)


spread(run, load=LoadFlags, connection=ConnectionFlags, embedded=EmbeddedFlags, launch=LaunchFlags)
