"""What a span of CPU work should say of the thread and the process that it ran in.

`threads()` is read in the thread that works, while it works: servers set torch's threads for the
length of a call, and OpenMP keeps the number by thread. `note_process()` is what holds for the
whole process: the allocator behind malloc, OMP_NUM_THREADS, the cores it may use. Libraries are
asked only if the server has imported them. Stdlib only; never raises.
"""

import contextlib
import os
import re
import sys
from pathlib import Path
from typing import Any, Final

from mmload.hook import spans

_ALLOCATORS: Final = ("jemalloc", "tcmalloc", "mimalloc", "snmalloc", "hoard")
_GLIBC_KNOBS: Final = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_MAX_")
_MKL: Final = re.compile(r"mkl_get_max_threads\(\)\s*:\s*(\d+)")

_noted_in: int | None = None  # the process: a forked child says it for itself


def threads() -> dict[str, int]:
    """`threads`: torch's in one operation (OpenMP's, as it is built), here and now; and OpenCV's,
    where they are loaded."""
    found = {}
    with contextlib.suppress(Exception):
        found["threads"] = int(sys.modules["torch"].get_num_threads())
    with contextlib.suppress(Exception):
        found["cv2_threads"] = int(sys.modules["cv2"].getNumThreads())
    return found


def note_process() -> None:
    """Puts into the process's settings what threads and memory its work can count on. Once."""
    global _noted_in
    if _noted_in == os.getpid():
        return
    _noted_in = os.getpid()
    with contextlib.suppress(Exception):
        spans.describe(None, **process_facts())


def process_facts() -> dict[str, Any]:
    """`allocator`, `malloc_tuned` (glibc was told to keep large blocks), `omp_num_threads` (null:
    not set), `mkl_threads` (in this thread; where torch has MKL), `cores`."""
    facts: dict[str, Any] = {
        "allocator": allocator(),
        "malloc_tuned": any(knob in os.environ for knob in _GLIBC_KNOBS)
        or "glibc.malloc" in os.environ.get("GLIBC_TUNABLES", ""),
        "omp_num_threads": _number(os.environ.get("OMP_NUM_THREADS")),
        "cores": _cores(),
    }
    with contextlib.suppress(Exception):
        said = _MKL.search(sys.modules["torch"].__config__.parallel_info())
        if said:
            facts["mkl_threads"] = int(said[1])
    return facts


def allocator(maps: Path = Path("/proc/self/maps")) -> str:
    """The library behind malloc, by what is mapped; "glibc" where none of the known others is;
    "unknown" where the system does not say."""
    try:
        mapped = maps.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "unknown"
    libraries = {os.path.basename(line.split()[-1]) for line in mapped.splitlines() if line}
    for name in _ALLOCATORS:
        # what a package brings along for itself (libarrow's jemalloc) is no library of this name
        if any(library.startswith(f"lib{name}") for library in libraries):
            return name
    return "musl" if any(lib.startswith("ld-musl") for lib in libraries) else "glibc"


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.strip().isdigit() else None


def _cores() -> int | None:
    try:
        return len(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        return os.cpu_count()
