"""The commands, and the only place where errors become exit codes.

Commands are named here and loaded when they are called, so that `mmload --help` is quick. An error
is one line on standard error: what is wrong, then the fix. Exit codes: 0 valid; 1 tool error;
2 usage; 3 INVALID measurement; 4 a threshold failed; 130 interrupted.
"""

import sys
from collections.abc import Sequence

from cyclopts import App, CycloptsError

from mmload import __version__
from mmload.errors import MmloadError, UsageError

app = App(
    name="mmload",
    help="How a multimodal model server behaves under load, and where each request's time goes.",
    version=__version__,
    suppress_keyboard_interrupt=False,  # `call` says what it means
)
app.command(
    "mmload.commands.run:run",
    name="run",
    help="Load a server at a fixed rate and report where the time went.",
)
app.command(
    "mmload.commands.report:report",
    name="report",
    help="Make the report of a run again, or export its records.",
)
app.command(
    "mmload.commands.compare:compare",
    name="compare",
    help="Put runs before and after a change side by side, and test the difference.",
)
app.command(
    "mmload.commands.history:list_runs",
    name="list",
    help="List the runs on this disk, with their tags and notes.",
)
app.command(
    "mmload.commands.history:tag",
    name="tag",
    help="Give a run tags and a note.",
)
app.command(
    "mmload.commands.trace:trace",
    name="trace",
    help="Start a server under the hook: `mmload trace -- vllm serve MODEL`.",
)
app.command(
    "mmload.commands.probe:probe",
    name="probe",
    help="Show a server a few simple pictures: does it still see?",
)
app.command(
    "mmload.commands.serve:serve",
    name="serve",
    help="Run the embedded server (real preprocessing, simulated accelerator).",
)
app.command(
    "mmload.commands.scenarios:scenarios",
    name="scenarios",
    help="List the scenarios that come with mmload.",
)


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point of the `mmload` command."""
    sys.exit(call(sys.argv[1:] if argv is None else argv))


def call(argv: Sequence[str]) -> int:
    """Runs a command and returns its exit code."""
    try:
        code = app(argv, exit_on_error=False, print_error=False, result_action="return_value")
    except CycloptsError as error:
        return _say(UsageError(" ".join(str(error).split()), "see `mmload --help`"))
    except MmloadError as error:
        return _say(error)
    except KeyboardInterrupt:
        return _say(MmloadError("interrupted before the run began")) and 130
    except BrokenPipeError:  # `mmload report | head`
        sys.stderr.close()
        return 1
    return code if isinstance(code, int) else 0


def _say(error: MmloadError) -> int:
    hint = f" -- {error.hint}" if error.hint else ""
    print(f"mmload: {error.message}{hint}", file=sys.stderr)
    return error.exit_code
