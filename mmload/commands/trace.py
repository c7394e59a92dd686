"""`mmload trace -- CMD`: a server under the hook."""

import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from mmload.errors import UsageError
from mmload.trace import environment_for


def trace(
    *command: Annotated[str, Parameter(help="The server's command, after --.")],
    out: Annotated[
        str | None, Parameter(help="Folder for the spans (a new one in the temporary folder).")
    ] = None,
    owned: Annotated[
        bool,
        Parameter(
            help="Put the owned processor cores beneath the server's (Qwen3-VL, Gemma 4): the same"
            " bits in a fraction of the time; docs/processors.md.",
            negative=(),
        ),
    ] = False,
    pyinstrument: Annotated[
        bool,
        Parameter(
            help="Profile each process from inside, if its environment has pyinstrument: beside"
            " the spans, when it ends. Slows the server.",
            negative=(),
        ),
    ] = False,
) -> None:
    """Start a server, and stamp what happens to each of its requests.

    `mmload trace -- vllm serve MODEL`, then `mmload run URL` on the same machine: it finds the
    spans by itself. Python servers need no change, and mmload need not be installed beside them.
    """
    if not command:
        raise UsageError(
            "trace: there is no command to start", "`mmload trace -- vllm serve MODEL`"
        )
    program = shutil.which(command[0])
    if program is None:
        raise UsageError(
            f"trace: {command[0]}: there is no such program",
            "give its path, or activate the environment that it is in",
        )
    folder = Path(out) if out is not None else Path(tempfile.mkdtemp(prefix="mmload-trace-"))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"--out {folder}: cannot be made: {error.strerror}", "name a folder that can"
        ) from None
    print(f"mmload: spans go to {folder.resolve()}", file=sys.stderr, flush=True)
    # The server takes this process's place: signals and its exit code are its own.
    added = environment_for(folder, owned=owned, pyinstrument=pyinstrument)
    try:
        os.execve(program, list(command), {**os.environ, **added})
    except OSError as error:
        raise UsageError(
            f"trace: {program}: cannot be started: {error.strerror}",
            "is it a program for this machine?",
        ) from None
