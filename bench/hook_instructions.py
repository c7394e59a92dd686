"""What the hook costs the embedded server, in instructions: a figure that repeats to 0.1 %.

    python -m bench.hook_instructions [--requests 60]        # needs valgrind; about 2 minutes

Clocks on a machine that others use cannot show 1 %. So the server runs in callgrind, with the hook
off and on, and answers two numbers of requests of one image, one at a time; the difference, divided
by the requests between, is what one costs, without the server's start. Counted is what runs in user
mode: no kernel, no caches, no waiting. Under valgrind a request takes 15 times as long, so what the
hook does by the clock (its writer, its watch on the loop) weighs 15 times too much here.
"""

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.embedded_overhead import NO_ACCELERATOR

WARM_UP = 10


def instructions(requests: int, folder: Path, *, hook: bool) -> int:
    """Of a server's whole life, in which it answers so many requests."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    environment.pop("MMLOAD_HOOK_DIR", None)
    if hook:
        environment["MMLOAD_HOOK_DIR"] = str(folder / "spans")
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in NO_ACCELERATOR.items()]
    tool = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/callgrind.out"]
    serve = [sys.executable, "-m", "mmload", "serve", "--port=0", "--no-request-log", *flags]
    server = subprocess.Popen(
        [*tool, "--fair-sched=yes", *serve],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    found = re.search(r'"url": "([^"]+)"', server.stdout.readline())
    if found is None:
        raise SystemExit(f"the server did not start: {server.communicate()[1]}")
    load = [f"--requests={requests}", "--max-tokens=8", "--workers=1", "--warmup=2", "--no-scrape"]
    subprocess.run(
        [sys.executable, "-m", "mmload", "run", found[1], "--sequential", *load, "--quiet"]
        + ["--out", str(folder / "run")],
        stdout=subprocess.DEVNULL,
        check=True,
    )
    server.send_signal(signal.SIGTERM)
    counted = re.search(r"Collected : (\d+)", server.communicate(timeout=300)[1])
    assert counted is not None
    return int(counted[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=60)
    asked = parser.parse_args()
    a_request = {}
    for hook in (False, True):
        counts = []
        for requests in (WARM_UP, asked.requests):
            with tempfile.TemporaryDirectory() as work:
                counts.append(instructions(requests, Path(work), hook=hook))
        a_request[hook] = (counts[1] - counts[0]) / (asked.requests - WARM_UP) / 1e6
        print(
            f"hook {'on' if hook else 'off'}: {a_request[hook]:.2f} million a request", flush=True
        )
    print(f"on/off {a_request[True] / a_request[False]:.4f}")


if __name__ == "__main__":
    main()
