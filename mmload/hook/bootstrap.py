"""The hook in a process that knows nothing of it: `mmload trace -- CMD` starts every Python process
of a server with this.

Arms the hook, watches thread pools, and waits for the imports of the servers and libraries that the
tables know. Until one of them is imported and a span is recorded, there is no thread and no file.
Stdlib only.
"""

import os
import sys
from typing import Final

from mmload.hook import pools, spans
from mmload.hook.doors import TABLES as DOORS
from mmload.hook.probes import Table, attach
from mmload.hook.sglang import TABLE as SGLANG
from mmload.hook.transformers import TABLE as TRANSFORMERS
from mmload.hook.vllm import TABLE as VLLM

TABLES: Final[tuple[Table, ...]] = (*DOORS, VLLM, SGLANG, TRANSFORMERS)


def start() -> None:
    """Does nothing unless MMLOAD_HOOK_DIR names a folder. Safe to repeat."""
    if not spans.arm(role()):
        return
    pools.watch()
    for table in TABLES:
        attach(table)


def role() -> str:
    """What runs in this process, in a word: the script's or module's name, never its arguments."""
    words = iter(sys.orig_argv[1:])
    for word in words:
        if word in ("-W", "-X", "--check-hash-based-pycs"):
            next(words, None)
        elif word == "-m":
            return next(words, "python")
        elif word == "-c":
            return "python -c"
        elif not word.startswith("-"):
            return os.path.basename(word)
    return "python"
