"""One processor in a process of its own, for `bench.processors`: it makes calls when told to.

    python -m bench.processor_child stock|torch|numba

Reads one request a line on standard input and answers each with one line of JSON: `call`, a call
timed and then some more, `callers`, calls a second of some threads at once, `parts`, where an owned
core's time goes, `digest`, of the output, to hold against the others'. A call ends when its output
is released.
"""

import hashlib
import json
import resource
import statistics
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
import torch

from mmload.processors.base import Core, MediaProcessor, Processed, load
from mmload.processors.owned import OwnedProcessor
from mmload.processors.owned.patchify import STREAM_FROM_BYTES

THREADS: Final = (1, 2)
CALLERS_S: Final = 0.6
MORE_CALLS: Final = 2  # behind the first
PARTS_ROUNDS: Final = 15


class Case(NamedTuple):
    """A medium: `frames` 0 is an image."""

    frames: int
    height: int
    width: int


CASES: Final = {
    "image 480p": Case(0, 480, 854),
    "image 1080p": Case(0, 1080, 1920),
    "6 frames 480p": Case(6, 480, 854),
    "15 frames 480p": Case(15, 480, 854),
}
Name = tuple[str, int]  # family, threads


def media(case: Case) -> Any:
    """Smooth noise, the same in every child: decoded frames, (frames, height, width, 3)."""
    generator = np.random.default_rng(case.frames)
    coarse = generator.random((max(case.frames, 1), 3, case.height // 8, case.width // 8))
    floats = torch.nn.functional.interpolate(
        torch.from_numpy(coarse).float(), (case.height, case.width), mode="bilinear"
    )
    frames = (floats * 255).round().to(torch.uint8).permute(0, 2, 3, 1).contiguous().numpy()
    return frames if case.frames else frames[0]


class Child:
    def __init__(self, row: str) -> None:
        self._media = {name: media(case) for name, case in CASES.items()}
        self._processors: dict[Name, MediaProcessor] = {}
        for family in ("qwen3-vl", "gemma-4"):
            for threads in THREADS:
                self._processors[family, threads] = build(row, family, threads)

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        family, threads, case = request["family"], request["threads"], request["case"]
        processor = self._processors[family, threads]
        torch.set_num_threads(threads)

        def call() -> Processed:
            given = [self._media[case]]
            return processor.videos(given) if CASES[case].frames else processor.images(given)

        if request["do"] == "call":
            return {"first": timed(call, 1), "next": timed(call, MORE_CALLS)}
        if request["do"] == "callers":
            return {"a_second": calls_a_second(call, request["callers"], threads)}
        if request["do"] == "parts":
            return parts(processor, self._media[case])
        made = call()
        return {"digest": digest(made), "core": made.core, "describe": processor.describe()}


def build(row: str, family: str, threads: int) -> MediaProcessor:
    if row == "stock":
        return load("stock", family)
    core: Core = "numba" if row == "numba" else "torch"
    return load("owned", family, core=core, threads=threads)


def timed(call: Callable[[], Processed], times: int) -> dict[str, Any]:
    """A call's wall and processor time, and minor faults of the whole process, which does nothing
    else: means of so many calls."""
    faults, cpu_ns = faults_now(), time.process_time_ns()
    start_ns = time.perf_counter_ns()
    for _ in range(times):
        call()  # released at once
    wall_ns = time.perf_counter_ns() - start_ns
    return {
        "wall_ns": wall_ns // times,
        "cpu_ns": (time.process_time_ns() - cpu_ns) // times,
        "faults": (faults_now() - faults) / times,
    }


def faults_now() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def calls_a_second(call: Callable[[], Processed], callers: int, threads: int) -> float:
    ends: list[int] = []
    gate = threading.Barrier(callers + 1)
    stop = threading.Event()

    def work() -> None:
        torch.set_num_threads(threads)
        gate.wait()
        while not stop.is_set():
            call()
            ends.append(time.perf_counter_ns())

    workers = [threading.Thread(target=work) for _ in range(callers)]
    for worker in workers:
        worker.start()
    gate.wait()
    start_ns = time.perf_counter_ns()
    stop.wait(CALLERS_S)
    stop.set()
    for worker in workers:
        worker.join()
    return len(ends) * 1e9 / (max(ends) - start_ns)


def parts(processor: MediaProcessor, given: Any) -> dict[str, Any]:
    """Processor time of the resize alone, the patches alone, and one pass into a warm output."""
    assert isinstance(processor, OwnedProcessor)
    video = given.ndim == 4
    made = processor.videos([given]) if video else processor.images([given])
    values = next(iter(made.tensors.values()))
    core = processor.video_core if video else processor.image_core
    assert core is not None
    tools = core.tools
    _, rows, columns = made.grids[0]
    size = (rows * 16, columns * 16)
    frames = list(given) if video else [given]
    resized = [tools.resized(frame, size) for frame in frames]
    out = values.numpy()
    large = out.nbytes >= STREAM_FROM_BYTES

    def patches() -> None:
        if processor.family == "gemma-4":
            for number, frame in enumerate(resized):
                tools.patcher.gemma(frame, 16, out[number, : rows * columns], large)
            return
        for step in range(len(out) // (rows * columns)):
            pair = [resized[min(2 * step + i, len(resized) - 1)] for i in range(2)]
            top = step * rows * columns
            tools.patcher.qwen(pair, 16, 2, out[top : top + rows * columns], large)

    def resize() -> None:
        for frame in frames:
            tools.resized(frame, size)

    return {
        "resize_ms": median_ms(resize),
        "patches_ms": median_ms(patches),
        "one_pass_ms": median_ms(lambda: out.fill(0.5)),
        "output_bytes": out.nbytes,
    }


def median_ms(work: Callable[[], None]) -> float:
    taken = []
    for _ in range(PARTS_ROUNDS):
        start_ns = time.process_time_ns()
        work()
        taken.append((time.process_time_ns() - start_ns) / 1e6)
    return round(statistics.median(taken), 3)


def digest(made: Processed) -> str:
    found = hashlib.sha256()
    for name, tensor in made.tensors.items():
        found.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        found.update(tensor.numpy().tobytes())
    return found.hexdigest()[:16]


def main() -> None:
    child = Child(sys.argv[1])
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        print(json.dumps(child.answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
