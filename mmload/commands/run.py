"""`mmload run`: one load, one report."""

import json
import signal
import sys
from types import FrameType
from typing import Annotated, Any

from cyclopts import Parameter

from mmload.errors import Interrupted, InvalidRun, UsageError
from mmload.flags import flags_of, given, spread
from mmload.report.live import watcher
from mmload.report.terminal import render
from mmload.run import Options, Run
from mmload.scenario import Scenario
from mmload.scenario_file import load_scenario
from mmload.server.settings import ServerSettings, server_flags, server_settings

MAX_WORKERS = 256

LoadFlags = flags_of(Scenario, "What to send, how fast", leave_out=("url", "mix"))
EmbeddedFlags = flags_of(
    ServerSettings, "Embedded server (without a URL)", leave_out=("host", "port", "model")
)


def run(
    url: Annotated[str | None, Parameter(help="Base URL; none: the embedded server.")] = None,
    /,
    *,
    scenario: Annotated[str | None, Parameter(help="YAML file, or a shipped name: mix.")] = None,
    load: Any = None,
    api_key: Annotated[
        str | None, Parameter(help="Key for the server (MMLOAD_API_KEY, OPENAI_API_KEY).")
    ] = None,
    workers: Annotated[
        str, Parameter(help="Processes that generate the load: a number, or auto.")
    ] = "auto",
    as_json: Annotated[
        bool,
        Parameter(name="--json", help="Print summary.json instead of the report.", negative=()),
    ] = False,
    quiet: Annotated[bool, Parameter(help="No progress.", negative=())] = False,
    embedded: Any = None,
) -> int:
    """Load a server at a fixed rate and report where the time went.

    Without a URL, the embedded server is started for the run: real HTTP, media decoding and
    preprocessing in front of a simulated accelerator.
    """
    flags = given(load)
    if url is not None:
        flags["url"] = url
    chosen = load_scenario(scenario, flags)
    server = given(embedded)
    if server and chosen.url is not None:
        name = next(iter(server)).replace("_", "-")
        raise UsageError(
            f"--{name}: is for the embedded server, and the load goes to {chosen.url}",
            "leave out the flag or the URL",
        )
    settings = server_settings(server)
    options = Options(
        api_key=api_key,
        server_flags=server_flags(settings),
        server_settings=settings.described(),
        simulated=settings.simulated(),
        workers=_workers(workers),
    )
    one = Run(chosen, options, watcher(quiet=quiet or as_json))
    before = signal.signal(signal.SIGINT, lambda _sign, _frame: one.stop())
    signal.signal(signal.SIGTERM, _as_interrupt)
    try:
        folder, analysis = one.execute()
    finally:
        signal.signal(signal.SIGINT, before)
    summary = analysis.summary
    if as_json:
        print(json.dumps(summary, allow_nan=False, indent=1))
    else:
        render(summary, color=sys.stdout.isatty(), folder=str(folder.path))
    if summary["interrupted"]:
        return Interrupted.exit_code
    return 0 if summary["valid"] else InvalidRun.exit_code


def _workers(text: str) -> int | None:
    if text == "auto":
        return None
    if not text.isdigit() or not 1 <= int(text) <= MAX_WORKERS:
        raise UsageError(
            f"--workers: {text!r} is not allowed: a number from 1 to {MAX_WORKERS}, or auto",
            "Processes that generate the load.",
        )
    return int(text)


def _as_interrupt(_sign: int, _frame: FrameType | None) -> None:
    signal.raise_signal(signal.SIGINT)


spread(run, load=LoadFlags, embedded=EmbeddedFlags)
