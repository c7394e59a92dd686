"""A server's command under the hook: what its environment needs.

In: the folder that the spans go to, and what else is wanted in the server: owned processor cores,
pyinstrument. Out: environment variables for the server's process, which its children inherit.
Nothing of the server's own environment is read but PYTHONPATH, which is kept.
"""

import os
from pathlib import Path

from mmload import hook
from mmload.hook.in_process import VARIABLE as IN_PROCESS_VARIABLE
from mmload.hook.owned import VARIABLE as OWNED_VARIABLE
from mmload.hook.spans import FOLDER_VARIABLE

SITE = Path(hook.__file__).parent / "site"  # holds the hook's sitecustomize.py, and nothing else


def environment_for(
    folder: Path, *, owned: bool = False, pyinstrument: bool = False
) -> dict[str, str]:
    """Variables that bring the hook into every Python process that gets them."""
    own = str(SITE)
    given = os.environ.get("PYTHONPATH")
    # an empty entry means the current folder, an empty variable nothing
    before = [p for p in given.split(os.pathsep) if p != own] if given else []
    return {
        FOLDER_VARIABLE: str(folder.resolve()),
        "PYTHONPATH": os.pathsep.join([own, *before]),
        **({OWNED_VARIABLE: "1"} if owned else {}),
        **({IN_PROCESS_VARIABLE: "1"} if pyinstrument else {}),
    }
