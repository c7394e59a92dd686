"""Seconds and peak memory to read and analyse a run of a million requests.

    python bench/analyse_million.py [REQUESTS] [CHUNKS]

Writes a synthetic records.jsonl (a Poisson schedule of 1,000 requests/s, log-normal latencies, some
failures) into a temporary folder, then reads and analyses it in a fresh process, so that the peak
is that of the analysis alone. Prints one line a step. A bench, not a test: nothing is asserted.
"""

import multiprocessing
import resource
import sys
import tempfile
import time
from pathlib import Path

import msgspec
import numpy as np

from mmload.analysis.summary import summarise
from mmload.records import Outcome, Record, RecordTable
from mmload.rundir import RunDir, RunEnd, RunManifest

RATE_QPS = 1000.0
CLASSES = ("1 image 854x480", "6 frames 854x480", "15 frames 854x480")


def write(folder: Path, requests: int, chunks: int) -> None:
    rng = np.random.default_rng(1)
    encoder = msgspec.json.Encoder()
    intended = np.cumsum(rng.exponential(1e9 / RATE_QPS, requests)).astype(np.int64)
    lag = rng.exponential(2e5, requests).astype(np.int64)
    ttft = rng.lognormal(19.0, 0.5, requests).astype(np.int64)
    gaps = rng.exponential(1e7, (1024, chunks)).astype(np.int64).cumsum(axis=1)
    with (folder / "records.jsonl").open("wb") as file:
        for i in range(requests):
            sent = int(intended[i] + lag[i])
            chunk_ns = [sent + int(ttft[i]) + int(gap) for gap in gaps[i % 1024]]
            record = Record(
                index=i,
                request_id=f"mmload-{i:08d}-{int(lag[i]):08x}",
                media_class=CLASSES[i % 3],
                payload=i % 64,
                intended_ns=int(intended[i]),
                sent_ns=sent,
                send_end_ns=sent + 50_000,
                headers_ns=chunk_ns[0] - 1000,
                first_byte_ns=chunk_ns[0] - 900,
                first_output_ns=chunk_ns[0],
                first_answer_ns=chunk_ns[0],
                last_output_ns=chunk_ns[-1],
                closed_ns=chunk_ns[-1] + 2000,
                chunk_ns=chunk_ns,
                outcome=Outcome.ok if i % 997 else Outcome.timeout,
                status=200,
                message="" if i % 997 else "no answer within 60 s",
                prompt_tokens=3330,
                output_tokens=chunks,
                answer="a short answer",
                bytes_sent=1_500_000,
                bytes_received=4000,
            )
            file.write(encoder.encode(record) + b"\n")


def analyse(folder: Path, requests: int) -> None:
    manifest = RunManifest(
        name="bench",
        digest="",
        started_at="",
        origin_ns=0,
        target="",
        planned=requests,
        asked_qps=RATE_QPS,
        schedule_s=requests / RATE_QPS,
    )
    began = time.perf_counter()
    _say("imports", 0.0)
    table = RecordTable.of(RunDir(folder).records())
    read = time.perf_counter()
    _say("read into columns", read - began)
    analysis = summarise(manifest, RunEnd(ended_ns=10**15), table, (), [])
    _say("analyse", time.perf_counter() - read)
    _say("both", time.perf_counter() - began)
    print(f"ok {analysis.summary['ok']}, TTFT {analysis.summary['ttft_ms']}")


def _say(step: str, seconds: float) -> None:
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{step:20} {seconds:6.2f} s   peak {peak_mib:6.0f} MiB", flush=True)


def main() -> None:
    requests = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    chunks = int(sys.argv[2]) if len(sys.argv) > 2 else 8
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        spawn = multiprocessing.get_context("spawn")
        for step, arguments in ((write, (folder, requests, chunks)), (analyse, (folder, requests))):
            process = spawn.Process(target=step, args=arguments)
            process.start()
            process.join()
            if process.exitcode:
                sys.exit(process.exitcode)


if __name__ == "__main__":
    main()
