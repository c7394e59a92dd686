"""The hook in a process that knows nothing of it: `mmload trace -- CMD` starts every Python process
of a server with this.

Arms the hook, watches thread pools, and waits for the imports of the servers and libraries that the
tables know. Until one of them is imported and a span is recorded, there is no thread and no file.
Stdlib only.
"""

import os
import sys
from typing import Final

from mmload.hook import in_process, owned, pools, spans, worker_threads
from mmload.hook.doors import TABLES as DOORS
from mmload.hook.probes import Table, attach
from mmload.hook.sglang import TABLE as SGLANG
from mmload.hook.transformers import TABLE as TRANSFORMERS
from mmload.hook.vllm import TABLE as VLLM

TABLES: Final[tuple[Table, ...]] = (*DOORS, worker_threads.TABLE, VLLM, SGLANG, TRANSFORMERS)


def start() -> None:
    """Does nothing unless MMLOAD_HOOK_DIR names a folder. Safe to repeat."""
    if not spans.arm(role()):
        return
    pools.watch()
    for table in TABLES:
        attach(table)
    owned.start()
    in_process.start()


def role() -> str:
    """What runs in this process, in a word: the script's or module's name, never its arguments."""
    words = iter(sys.orig_argv[1:])
    for word in words:
        if not word.startswith("-"):
            return os.path.basename(word)
        if word == "--check-hash-based-pycs":
            next(words, None)
        if word.startswith("--"):
            continue
        for at, letter in enumerate(word[1:], 2):  # `-uc CODE` is `-u -c CODE`
            if letter == "c":
                return "python -c"
            if letter == "m":
                return word[at:] or next(words, "python")
            if letter in "WX":  # with a value of its own, here or in the next word
                if not word[at:]:
                    next(words, None)
                break
    return "python"
