"""What a long run of unique videos holds in memory: bodies, plan, and what a worker adds.

    python bench/bodies_memory.py [--qps 50] [--hours 1] [--frames 15] [--size 854x480]

Prepares everything that `mmload run` would for such a run, sends nothing, and prints where the
memory is. Figures grow with the contents (fixed) and 40 bytes a request, not with bodies sent.
"""

import argparse
import pickle
import tempfile
import time
from pathlib import Path

import numpy as np
import psutil

from mmload.load import prepare
from mmload.load.body_file import pack, unpack
from mmload.load.payloads import PayloadSet
from mmload.scenario import Scenario

MIB = 2**20


def resident_mib() -> float:
    return float(psutil.Process().memory_info().rss) / MIB


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--qps", type=float, default=50.0)
    parser.add_argument("--hours", type=float, default=1.0)
    parser.add_argument("--frames", type=int, default=15)
    parser.add_argument("--size", default="854x480")
    asked = parser.parse_args()
    scenario = Scenario.model_validate(
        {
            "qps": asked.qps,
            "duration": asked.hours * 3600,
            "frames": [asked.frames],
            "size": [asked.size],
        }
    )
    start_mib, start_s = resident_mib(), time.perf_counter()
    plan = prepare.schedule(scenario)
    pool = prepare.media(scenario, plan)
    payloads = prepare.payloads(scenario, pool, "model", plan)
    seconds = time.perf_counter() - start_s
    bodies = payloads.plan
    plan_bytes = bodies.media_class.nbytes + bodies.base.nbytes + bodies.variant.nbytes
    plan_bytes += bodies.payload.nbytes + bodies.shown.nbytes
    lengths = np.array([base.length for base in payloads.bases])[bodies.base]
    about = prepare.describe(scenario, pool, plan, payloads)
    print(f"{len(plan):,} requests, {about['distinct']:,} distinct bodies")
    print(f"bodies sent in all     {float(lengths.sum()) / MIB:12,.1f} MiB")
    print(f"bodies held            {about['held_bytes'] / MIB:12,.1f} MiB in one mapped file")
    print(f"plan                   {plan_bytes / MIB:12,.1f} MiB a process")
    print(f"this process grew by   {resident_mib() - start_mib:12,.1f} MiB in {seconds:.1f} s")
    with tempfile.TemporaryDirectory(prefix="mmload-") as folder:
        file = Path(folder) / "bodies"
        packed = pack(payloads.bases, file)
        spec_bytes = len(pickle.dumps((packed, bodies, plan.intended_ns)))
        print(f"sent to each worker    {spec_bytes / MIB:12,.1f} MiB")
        again = PayloadSet(unpack(packed, file), bodies)
        before_s = time.perf_counter()
        count = min(len(plan), 20_000)
        pieces = sum(len(again.pieces(i)) for i in range(count))
        per_us = (time.perf_counter() - before_s) / count * 1e6
        print(f"a body when it is sent {pieces / count:12.1f} pieces, {per_us:.1f} us")


if __name__ == "__main__":
    main()
