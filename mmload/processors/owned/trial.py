"""Whether the compiled loop compiles here and gives the right bits: found out in another process.

Where LLVM meets a bug of its own while it makes code for a processor, it raises nothing: it ends
the process. A server must not be ended, so before the loop is used in one it is compiled in a
child, in all its versions, each held against NumPy's arithmetic for every value of a pixel. What
the child has compiled is kept on disk, as Numba does, and the server loads it.
"""

import importlib.util
import os
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from typing import Final

import numpy as np

import mmload
from mmload.processors.owned.pixels import BYTES, VALUES, Pixels, Three

LIMIT_S: Final = 120  # two seconds on an idle machine, ten where nothing is kept yet
_CODE: Final = (
    "import sys; sys.path.append({!r}); from mmload.processors.owned.trial import main; main()"
)


@lru_cache(maxsize=1)
def compiles() -> bool:
    """True where it does. Never raises; once a process."""
    if importlib.util.find_spec("numba") is None:
        return False
    keep = {k: v for k, v in os.environ.items() if not k.startswith("MMLOAD_")}  # no hook, no cores
    code = _CODE.format(str(Path(mmload.__file__).parents[1]))
    try:
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=keep,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0


def main() -> None:
    """In the child."""
    from mmload.processors.owned.fused_numba import FusedPatcher

    ramp = np.arange(VALUES, dtype=np.float32)
    mean, scale = _three(127.5), _three(1 / 255)
    normalised = Pixels(np.tile((ramp - mean[0]) / mean[0], (3, 1)), "normalise", mean, mean)
    rescaled = Pixels(np.tile(ramp * scale[0], (3, 1)), "rescale", _three(0.0), scale)
    for pixels, table in (
        (normalised, normalised.table),
        (rescaled, rescaled.table),
        (None, BYTES),
    ):
        if not FusedPatcher(pixels).reproduces(table):
            raise SystemExit(1)


def _three(value: float) -> Three:
    return np.float32(value), np.float32(value), np.float32(value)
