"""`mmload ab`: before and after in turn, then the comparison."""

import shlex
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

from cyclopts import Group, Parameter

from mmload.ab.execute import Execution
from mmload.ab.sides import LABELS, Shared, Typed, side_of
from mmload.ab.state import Saved, State
from mmload.clock import NS_PER_S, wall_ns
from mmload.commands.compare import compare
from mmload.commands.run import (
    ConnectionFlags,
    EmbeddedFlags,
    LaunchFlags,
    ServerCommand,
    load_workers,
    reach_for,
)
from mmload.commands.signs import ended_by
from mmload.errors import Interrupted, InvalidRun, UsageError
from mmload.flags import flags_of, given, spread
from mmload.report.live import Quiet, watcher
from mmload.run import Options, new_folder
from mmload.rundir import machine_facts
from mmload.scenario import Scenario
from mmload.scenario_file import load_scenario

MOST_REPEATS: Final = 100

LoadFlags = flags_of(Scenario, "What to send, how fast", leave_out=("url", "mix", "out"))
SIDES: Final = Group("What differs", sort_key=0)


def _side(help_text: str) -> Parameter:
    return Parameter(help=help_text, group=SIDES, negative=())


_SETTINGS: Final = "NAME=VALUE of a setting of the server {}, several in quotes; repeats."
_ENV: Final = "NAME=VALUE in the environment of the server {}; repeats."
_CMD: Final = "The whole command of the server {}, in quotes."
_URL: Final = "URL of the server {}, if it runs already."


def ab(
    url: Annotated[
        str | None, Parameter(help="Where the server whose command follows -- listens.")
    ] = None,
    /,
    *,
    before: Annotated[list[str] | None, _side(_SETTINGS.format("before"))] = None,
    after: Annotated[list[str] | None, _side(_SETTINGS.format("after"))] = None,
    before_env: Annotated[list[str] | None, _side(_ENV.format("before"))] = None,
    after_env: Annotated[list[str] | None, _side(_ENV.format("after"))] = None,
    before_cmd: Annotated[str | None, _side(_CMD.format("before"))] = None,
    after_cmd: Annotated[str | None, _side(_CMD.format("after"))] = None,
    before_url: Annotated[str | None, _side(_URL.format("before"))] = None,
    after_url: Annotated[str | None, _side(_URL.format("after"))] = None,
    repeats: Annotated[
        str, Parameter(help="Runs a side; 5 can show a difference in the headline five.")
    ] = "5",
    order_seed: Annotated[str, Parameter(help="Seed of the order of the runs.")] = "0",
    out: Annotated[Path | None, Parameter(help="Folder to make (runs/<time>-ab).")] = None,
    scenario: Annotated[str | None, Parameter(help="YAML file, or a shipped name: mix.")] = None,
    fail_if: Annotated[
        list[str] | None,
        Parameter(help="As `mmload compare` has it: 'ttft:p99 > +5%'; repeats.", negative=()),
    ] = None,
    significant: Annotated[
        bool, Parameter(help="A change fails only when the test shows it, too.", negative=())
    ] = False,
    markdown: Annotated[
        bool, Parameter(help="Print a block for a pull request.", negative=())
    ] = False,
    as_json: Annotated[
        bool, Parameter(name="--json", help="Print the comparison as JSON.", negative=())
    ] = False,
    quiet: Annotated[bool, Parameter(help="No progress.", negative=())] = False,
    workers: Annotated[
        str, Parameter(help="Processes that generate the load: a number, or auto.")
    ] = "auto",
    load: Any = None,
    connection: Any = None,
    embedded: Any = None,
    launch: Any = None,
    server_command: ServerCommand = None,
) -> int:
    """Run one load against two servers in turn, a fresh server for each run, and compare them.

    `mmload ab --frames 15 --qps 5 --before renderer-workers=1 --after renderer-workers=2` compares
    settings of the embedded server; of the server whose command follows `--` they are flags, added
    or replaced. Sides may also differ by environment, by the whole command, or run at two URLs.
    Of each two pairs of runs the order within the first is drawn by the seed, and the second is its
    mirror image. The same command with --out FOLDER goes on after an interrupt.
    """
    chosen = load_scenario(scenario, {**given(load)})
    if chosen.url is not None:
        raise UsageError(
            f"--scenario {scenario}: names a URL, and an A/B has two sides",
            "leave it out there, and name the sides by --before-url and --after-url",
        )
    shared = Shared(
        server_command or (), url, given(launch), given(embedded), scenario, chosen.model_family
    )
    typed = {
        "before": Typed(before or (), before_env or (), _words("before", before_cmd), before_url),
        "after": Typed(after or (), after_env or (), _words("after", after_cmd), after_url),
    }
    sides = {label: side_of(label, shared, typed[label]) for label in LABELS}
    reach = reach_for(given(connection), *(side.plan for side in sides.values()))
    asked = Saved(
        started_at=datetime.fromtimestamp(wall_ns() / NS_PER_S, UTC).isoformat("T", "seconds"),
        machine=machine_facts(),
        order_seed=_number("--order-seed", order_seed, 0, 2**63 - 1),
        repeats=_number("--repeats", repeats, 1, MOST_REPEATS),
        scenario=chosen.resolved(),
        sides={label: side.described() for label, side in sides.items()},
    )
    tells = watcher(quiet=quiet or as_json)
    state = State.begin(out or new_folder("ab"), asked)
    plain = Quiet() if quiet or as_json or not sys.stderr.isatty() else None
    execution = Execution(
        state,
        chosen,
        sides,
        Options(reach=reach, workers=load_workers(workers)),
        tells.say,
        lambda: plain or watcher(quiet=False),
    )
    if asked.sides["before"] == asked.sides["after"]:
        tells.say("both sides are alike: an A/A test, which should show no difference")
    _execute(execution, state, tells.say)
    folders = [str(state.path / label) for label in LABELS]
    return compare(
        *folders,
        fail_if=fail_if,
        significant=significant,
        markdown=markdown,
        as_json=as_json,
        out=state.path,
    )


def _execute(execution: Execution, state: State, say: Any) -> None:
    """Does the runs. Raises when they were interrupted, or when a side has none that counts."""
    left = execution.left()
    total = len(state.order)
    if left:
        kept = f", {total - len(left)} are kept" if len(left) < total else ""
        say(f"{len(left)} runs to do{kept}: {execution.estimate()}, in {state.path}")
    try:
        with ended_by(execution.stop):
            execution.run()
    except KeyboardInterrupt:
        execution.stop()
    done = state.done()
    if execution.stopped:
        when = f"after {len(done)} of {total} runs, which are kept" if done else "in the first run"
        raise Interrupted(
            f"interrupted {when}", f"the same command goes on with --out {state.path}"
        )
    for label in LABELS:
        if not any(work.label == label for work in done):
            ended = [one for one in state.saved.ended if one.label == label]
            raise InvalidRun(
                f"{label}: none of {len(ended)} runs can be used: {ended[-1].reason}",
                f"their folders are in {state.path}; the same command makes them again",
            )
    if len(done) < total:
        say(f"{total - len(done)} of {total} runs do not count; the same command makes them again")


def _words(label: str, command: str | None) -> list[str]:
    try:
        return shlex.split(command) if command is not None else []
    except ValueError as error:
        raise UsageError(f"--{label}-cmd {command!r}: {error}", "close the quote") from None


def _number(flag: str, text: str, least: int, most: int) -> int:
    if not text.isdigit() or not least <= int(text) <= most:
        raise UsageError(f"{flag} {text!r} is not allowed: a number from {least} to {most}", "")
    return int(text)


spread(ab, load=LoadFlags, connection=ConnectionFlags, embedded=EmbeddedFlags, launch=LaunchFlags)
