"""The commands, and the only place where errors become exit codes.

Commands are named here and loaded when they are called, so that `mmload --help` is quick. An error
is one line on standard error: what is wrong, then the fix. Exit codes: 0 valid; 1 tool error;
2 usage; 3 INVALID measurement; 4 a threshold failed; 130 interrupted.
"""

import errno
import inspect
import sys
from collections.abc import Sequence

from cyclopts import App, CycloptsError

from mmload import __version__
from mmload.commands import SERVER_COMMAND, WITH_SERVER
from mmload.errors import MmloadError, UsageError

app = App(
    name="mmload",
    help="How a multimodal model server behaves under load, and where each request's time goes.",
    version=__version__,
    help_format="plaintext",
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
    "mmload.commands.compare:compare",
    name="compare",
    help="Put runs before and after a change side by side, and test the difference.",
)
app.command(
    "mmload.commands.ab:ab",
    name="ab",
    help="Run one load before and after a change, in turn, and compare.",
)
app.command(
    "mmload.commands.sweep:sweep",
    name="sweep",
    help="Try settings, variables and loads, and say which of them matter.",
)
app.command(
    "mmload.commands.capacity:capacity",
    name="capacity",
    help="Find the highest rate that a server carries within its objectives.",
)
app.command(
    "mmload.commands.probe:probe",
    name="probe",
    help="Show a server a few simple pictures: does it still see?",
)
app.command(
    "mmload.commands.parity:parity",
    name="parity",
    help="Are the owned processors the stock ones, bit for bit? Are two files of tensors?",
)
app.command(
    "mmload.commands.profile:profile",
    name="profile",
    help="Profile a running server: whose code takes the time, how deep the calls go.",
)
app.command(
    "mmload.commands.serve:serve",
    name="serve",
    help="Run the embedded server (real preprocessing; a simulated accelerator or a real model).",
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
        argv = _with_server_command(argv)
        _explain(argv)
        code = app(argv, exit_on_error=False, print_error=False, result_action="return_value")
    except CycloptsError as error:
        return _say(UsageError(" ".join(str(error).split()), "see `mmload --help`"))
    except MmloadError as error:
        return _say(error)
    except KeyboardInterrupt:
        return _say(MmloadError("interrupted before the run began")) and 130
    except OSError as error:
        if error.errno not in (errno.EPIPE, errno.EIO):
            raise
        sys.stderr.close()  # `mmload report | head`, or the terminal was closed
        return 1
    return code if isinstance(code, int) else 0


def _with_server_command(argv: Sequence[str]) -> Sequence[str]:
    """Of commands that start a server, the words after `--` are that server's, every one of them.

    They become flags of their own, so that no parser takes the first of them for a URL.
    """
    if not argv or argv[0] not in WITH_SERVER or "--" not in argv:
        return argv
    end = argv.index("--")
    words = argv[end + 1 :]
    if not words:
        raise UsageError("there is no command after --", f"`mmload {argv[0]} -- vllm serve MODEL`")
    return [*argv[:end], *(f"{SERVER_COMMAND}={word}" for word in words)]


def _explain(argv: Sequence[str]) -> None:
    """Help on one command is the whole docstring of its function; the list above has a line."""
    if len(argv) > 1 and argv[0] in app and {"--help", "-h"} & set(argv):
        command = app[argv[0]]
        said = inspect.getdoc(command.default_command) or ""
        # Paragraphs as one line each: the terminal's width breaks them.
        command.help = "\n\n".join(" ".join(part.split()) for part in said.split("\n\n"))


def _say(error: MmloadError) -> int:
    hint = f" -- {error.hint}" if error.hint else ""
    print(f"mmload: {error.message}{hint}", file=sys.stderr)
    return error.exit_code
