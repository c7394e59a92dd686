"""pyinstrument inside the server, where asked: `mmload trace --pyinstrument -- CMD`.

Profiles the main thread of each Python process, which in an asyncio server is the event loop's,
from its start to its end, and writes `PID.pyinstrument.html` and `PID.pyinstrument.json` (for
`pyinstrument --load`) beside the spans. Slows the server: such latencies are not for quoting.
pyinstrument has to be installed in the server's environment; without it a line on standard error
says so, and the server runs on. Never raises into the server. Stdlib only.
"""

import atexit
import contextlib
import os
import sys
from typing import Any, Final

from mmload.hook.spans import FOLDER_VARIABLE

VARIABLE: Final = "MMLOAD_PYINSTRUMENT"


def start() -> None:
    """Does nothing unless the variable is 1. To be called once, on the main thread."""
    if os.environ.get(VARIABLE) != "1":
        return
    try:
        from pyinstrument import Profiler  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        print(f"mmload: no pyinstrument in {sys.executable}: not profiled", file=sys.stderr)
        return
    with contextlib.suppress(Exception):
        profiler = Profiler(async_mode="disabled")  # the thread, whatever task it works on
        profiler.start()
        atexit.register(_finish, profiler, os.getpid())


def _finish(profiler: Any, pid: int) -> None:
    if os.getpid() != pid:  # a forked child's time is not the parent's
        return
    with contextlib.suppress(Exception):
        session = profiler.stop()
        base = os.path.join(os.environ[FOLDER_VARIABLE], f"{pid}.pyinstrument")
        os.makedirs(os.path.dirname(base), exist_ok=True)
        with open(f"{base}.html", "w", encoding="utf-8") as file:
            file.write(profiler.output_html())
        session.save(f"{base}.json")
