"""`mmload sweep`: many runs over settings, variables and loads, and which of them matters."""

import json
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

from cyclopts import Parameter

from mmload.batch.runner import duration
from mmload.clock import NS_PER_S, wall_ns
from mmload.commands.run import ConnectionFlags, ServerCommand, load_workers, reach_for
from mmload.commands.signs import ended_by
from mmload.errors import Interrupted, InvalidRun, UsageError
from mmload.flags import flags_of, given, spread
from mmload.load.reach import Reach
from mmload.load.target import without_credentials
from mmload.report.live import Quiet, watcher
from mmload.report.sweep_files import write_sweep
from mmload.report.sweep_markdown import render_sweep_markdown
from mmload.report.sweep_terminal import render_sweep
from mmload.run import Options, new_folder
from mmload.rundir import machine_facts
from mmload.scenario import Scenario
from mmload.scenario_file import load_scenario, read_mapping, server_of_file
from mmload.serving import EmbeddedPlan
from mmload.serving.flags import Launch, launch_from, processors
from mmload.slo import parse_measure
from mmload.sweep import axes
from mmload.sweep.collect import summary_of
from mmload.sweep.execute import Execution
from mmload.sweep.figures import STATISTICS
from mmload.sweep.plan import Plan, Server, estimate
from mmload.sweep.servers import known_settings, server_plan
from mmload.sweep.state import Saved, State

MOST_REPEATS: Final = 100
FILE_KEYS: Final = (
    *("name", "scenario", "command", "url", "set", "env", "load", "points"),
    *("repeats", "order_seed", "objective", "no_effect_within"),
)

LoadFlags = flags_of(
    Scenario,
    "Load: commas make an axis, 1+6+15 one mix",
    leave_out=("url", "mix", "out", "name"),
)
LaunchFlags = flags_of(
    Launch, "Server that mmload starts (embedded, or after --)", place=3, leave_out=("server-env",)
)


def sweep(
    url: Annotated[str | None, Parameter(help="Base URL of a server that is up.")] = None,
    /,
    *,
    set_: Annotated[
        list[str] | None,
        Parameter(
            name="--set",
            help="NAME=A,B: a server flag and its values; repeats. on/off: --NAME/--no-NAME;"
            " nothing: without it.",
            negative=(),
        ),
    ] = None,
    env: Annotated[
        list[str] | None,
        Parameter(
            help="NAME=A,B: a variable of the server's environment; repeats. Nothing: unset.",
            negative=(),
        ),
    ] = None,
    file: Annotated[
        Path | None, Parameter(help="YAML file with set, env, load, points; see docs/sweep.md.")
    ] = None,
    scenario: Annotated[str | None, Parameter(help="YAML file, or a shipped name: mix.")] = None,
    repeats: Annotated[str | None, Parameter(help="Runs of each point (3).")] = None,
    order_seed: Annotated[str | None, Parameter(help="Seed of the order of runs (0).")] = None,
    objective: Annotated[
        str | None, Parameter(help="What is to be low, as ttft:p90 or e2e:p99 (ttft:p90).")
    ] = None,
    no_effect_within: Annotated[
        str | None, Parameter(help="Change that is as good as none (10%).")
    ] = None,
    out: Annotated[Path | None, Parameter(help="Folder to make (runs/<time>-<name>).")] = None,
    resume: Annotated[Path | None, Parameter(help="Folder of a sweep to go on with.")] = None,
    retry_failed: Annotated[
        bool, Parameter(help="With --resume: run failed and refused points again.", negative=())
    ] = False,
    dry_run: Annotated[
        bool, Parameter(help="Print the plan and its time, and start nothing.", negative=())
    ] = False,
    name: Annotated[str | None, Parameter(help="Name of the sweep (sweep).")] = None,
    load: Any = None,
    connection: Any = None,
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
    """Run every combination of server flags, environment variables and loads, several times, in a
    random order, and say which setting to use, by how much it wins, and what had no effect.

    `mmload sweep --set renderer-workers=1,2,4 --env OMP_NUM_THREADS=1,2,4 --qps 2,5 --frames 15`
    sweeps the embedded server; words after `--` are the command of another one, whose flags `--set`
    then adds or replaces. Ctrl-C keeps what is done; `--resume FOLDER` goes on.
    """
    reached, loaders = given(connection), load_workers(workers)
    if resume is not None:
        state = State.load(resume)
        if retry_failed and (again := state.forget_failed()):
            print(f"mmload: {again} failed runs are made again", file=sys.stderr)
    else:
        typed = {
            "url": url,
            "command": server_command,
            "scenario": scenario,
            "name": name,
            "repeats": repeats,
            "order_seed": order_seed,
            "objective": objective,
            "no_effect_within": no_effect_within,
        }
        plan = _plan(_from_file(file), typed, set_ or [], env or [], given(load), given(launch))
        if dry_run:
            _print_plan(plan)
            return 0
        now = datetime.fromtimestamp(wall_ns() / NS_PER_S, UTC)
        saved = Saved(started_at=now.isoformat("T", "seconds"), machine=machine_facts(), plan=plan)
        _reach(reached, plan)  # mistakes are told before a folder is made
        state = State.begin(out or new_folder(plan.name), saved)
    options = Options(reach=_reach(reached, state.plan), workers=loaders)
    return _execute(state, options, as_json=as_json, quiet=quiet)


def _execute(state: State, options: Options, *, as_json: bool, quiet: bool) -> int:
    tells = watcher(quiet=quiet)
    plain = Quiet() if quiet or not sys.stderr.isatty() else None
    left = state.left()
    if left:
        about = estimate(state.plan, left, None)
        tells.say(
            f"{len(state.plan.points)} points x {state.plan.repeats} repeats; {len(left)} runs to"
            f" do, about {duration(about.seconds)}{'' if about.known else ' or more'}; in"
            f" {state.path}"
        )
    execution = Execution(state, options, tells.say, lambda: plain or watcher(quiet=False))
    try:
        with ended_by(execution.stop):
            execution.run()
    except KeyboardInterrupt:
        execution.stop()
    summary = _report(state, as_json=as_json, markdown=False)
    if execution.stopped:
        raise Interrupted(
            f"interrupted after {len(state.saved.ended)} of {summary['planned_runs']} runs, which"
            " are kept",
            f"go on with `mmload sweep --resume {state.path}`",
        )
    return 0 if summary["runs"]["done"] else InvalidRun.exit_code


def report_again(path: Path, *, as_json: bool, markdown: bool) -> int:
    """`mmload report` of a sweep's folder."""
    _report(State.load(path), as_json=as_json, markdown=markdown)
    return 0


def _report(state: State, *, as_json: bool, markdown: bool) -> dict[str, Any]:
    """Writes the sweep's files, as far as the disk takes them, and prints its report."""
    summary = summary_of(state)
    try:
        write_sweep(state.path, summary)
    except OSError as error:
        print(f"mmload: {state.path}: not written: {error.strerror}", file=sys.stderr)
    if as_json:
        print(json.dumps(summary, allow_nan=False, indent=1))
    elif markdown:
        print(render_sweep_markdown(summary), end="")
    else:
        render_sweep(summary, color=sys.stdout.isatty(), folder=str(state.path))
    return summary


# -- the plan ----------------------------------------------------------------------------------


def _plan(
    from_file: dict[str, Any],
    typed: Mapping[str, Any],
    settings: list[str],
    variables: list[str],
    load: Mapping[str, Any],
    launch: Mapping[str, Any],
) -> Plan:
    where = str(from_file.pop("__file__", "the file"))
    chosen = {**from_file, **{k: v for k, v in typed.items() if v is not None}}
    if typed.get("url") is not None and typed.get("command") is None:
        chosen.pop("command", None)
    server = _server(chosen, launch)
    axes_of_flags = axes.from_flags(settings, variables, load)
    found = [*axes.from_file(from_file, where), *axes_of_flags]
    if server.kind == "embedded":
        found = [*axes.of_server(*server_of_file(chosen.get("scenario"))), *found]
    if from_file.get("points") is not None:
        design = axes.listed(axes.points_from_file(from_file["points"], where), found)
    else:
        design = axes.grid(found)
    if server.kind == "url":
        for axis in design.axes:
            if axis.kind != "load":
                raise UsageError(
                    f"{axis.name}: a setting of the server, which runs already at {server.url}",
                    "give its command after --, so that mmload can start it with each value",
                )
    keys = [info.alias or name for name, info in Scenario.model_fields.items()]
    settings_known = known_settings() if server.kind == "embedded" else None
    axes.check_names(design, load_keys=keys, settings=settings_known)
    objective = parse_measure(str(chosen.get("objective", "ttft:p90")), "--objective")
    if objective.statistic not in STATISTICS:
        raise UsageError(
            f"--objective {objective}: a run's summary has {', '.join(STATISTICS)}",
            f"write {objective.metric}:p90",
        )
    fixed = {"url": server.url} if server.kind == "url" else {}
    scenarios = tuple(
        load_scenario(chosen.get("scenario"), {**fixed, **_load(point)}).resolved()
        for point in design.points
    )
    plan = Plan(
        name=str(chosen.get("name", "sweep")),
        server=server,
        axes=design.axes,
        points=design.points,
        scenarios=scenarios,
        repeats=_number("--repeats", chosen.get("repeats", 3), 1, MOST_REPEATS),
        seed=_number("--order-seed", chosen.get("order_seed", 0), 0, 2**63 - 1),
        objective=str(objective),
        no_effect_within=_share("--no-effect-within", chosen.get("no_effect_within", "10%")),
    )
    if server.kind == "command":
        server_plan(plan, plan.points[0])  # a wrong command is told before anything is started
    return plan


def _load(point: axes.Point) -> dict[str, Any]:
    """A point's load as flags, which is what error messages should call it."""
    return {key: value for key, value in point.load.items() if value is not None}


def _reach(flags: dict[str, Any], plan: Plan) -> Reach:
    """What holds for one server that mmload starts holds for all of them."""
    return reach_for(flags, None if plan.server.kind == "url" else EmbeddedPlan())


def _server(chosen: Mapping[str, Any], launch: Mapping[str, Any]) -> Server:
    command = chosen.get("command") or ()
    if isinstance(command, str):
        import shlex

        command = shlex.split(command)
    how = launch_from(launch)
    if launch and not command and chosen.get("url") is not None:
        raise UsageError(
            f"--{next(iter(launch)).replace('_', '-')}: is for a server that mmload starts, and the"
            " load goes to a URL",
            "leave it out, or give the server's command after --",
        )
    url = chosen.get("url")
    if url is not None and without_credentials(url) != url:
        raise UsageError(
            "the URL holds a name or password, and a sweep writes its plan down",
            "leave them out of it, and give a --header or --api-key",
        )
    return Server(
        command=tuple(map(str, command)),
        url=url,
        cpus=processors(how.server_cpus),
        ready_timeout_s=how.server_ready_timeout if "server_ready_timeout" in launch else None,
        traced=not how.no_server_hook,
    )


def _from_file(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    values = read_mapping(path, "write `set:`, `env:` and `load:`")
    for key in values:
        axes.known([str(key)], FILE_KEYS, f"{path}:")
    return {**values, "__file__": path}


def _number(flag: str, value: Any, least: int, most: int) -> int:
    text = str(value)
    if not text.isdigit() or not least <= int(text) <= most:
        raise UsageError(f"{flag} {text!r} is not allowed: a number from {least} to {most}", "")
    return int(text)


def _share(flag: str, value: Any) -> float:
    """10%, or 0.1."""
    text = str(value).strip()
    try:
        number = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        number = -1.0
    if not 0 < number <= 0.5:
        raise UsageError(
            f"{flag} {text!r} is not allowed: a share from above 0 to 50%", "as in 10%"
        )
    return number


def _print_plan(plan: Plan) -> None:
    about = estimate(plan, list(plan.order()), None)
    print(
        f"{len(plan.points)} points x {plan.repeats} repeats ="
        f" {len(plan.points) * plan.repeats} runs, about {duration(about.seconds)}"
        f"{'' if about.known else ' or more'}"
    )
    for number, work in enumerate(plan.order(), 1):
        print(f"{number:4}  {plan.design.label(plan.points[work.point])}, repeat {work.repeat}")


spread(sweep, load=LoadFlags, connection=ConnectionFlags, launch=LaunchFlags)
