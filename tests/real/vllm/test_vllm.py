"""A real vLLM on CPUs under load: is every request's time split, and are its traps found?

    tests/real/vllm/install.sh && pytest -m vllm        # minutes; MMLOAD_VLLM_VENV names another

One server has its queue in front of the processor (`--no-mm-device-do-normalize` leaves more work
to it), is traced and has the plugin as well; the other is vLLM as it comes, with the plugin alone.
Asserted is what no machine's speed changes: that spans join and account for the time, that the
engine's stamps are those of vLLM's own counters, and what the report says.
"""

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mmload.records import Record, ServerProcess, Span
from mmload.rundir import RunDir, SpanLines
from tests.e2e.cli import finish, mmload, summary_of
from tests.real.vllm import server as real

pytestmark = pytest.mark.vllm

STAGES = (
    "http_receive",
    "media_wait",
    "media_decode",
    "renderer_wait",
    "tokenize",
    "processor_wait",
    "processor",
    "processor_hash",
    "processor_cache",
    "processor_hf",
    "processor_prompt",
    "handoff",
    "engine_inbox",
    "engine_receive",
    "engine_wait",
    "encoder",
    "prefill",
    "decode",
    "stream_out",
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return real.model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def bound(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[real.Running]:
    """The processor is what limits it, and it was given more renderer workers in vain."""
    folder = tmp_path_factory.mktemp("bound") / "server"
    flags = ("--no-mm-device-do-normalize", "--renderer-num-workers", "4")
    with real.vllm(folder, model, *flags, trace=True, plugin=True) as running:
        yield running


@pytest.fixture(scope="module")
def plain(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[real.Running]:
    folder = tmp_path_factory.mktemp("plain") / "server"
    with real.vllm(folder, model, trace=False, plugin=True) as running:
        yield running


class Ran(NamedTuple):
    summary: dict[str, Any]
    folder: RunDir

    def warning(self, code: str) -> str:
        """Message and hint of the one warning of this kind."""
        found = [one for one in self.summary["warnings"] if one["code"] == code]
        assert len(found) == 1, self.summary["warnings"]
        return f"{found[0]['message']} {found[0]['hint']}"


def run(running: real.Running, folder: Path, *flags: str) -> Ran:
    load = ("--frames=15", "--max-tokens=16", "--warmup=1", *flags)
    command = ("run", running.url, *load, "--json", "--quiet", "--out=out")
    code, out, err = finish(mmload(*command, cwd=folder), timeout_s=400)
    assert code in (0, 3), err  # a loaded machine may make the load late: the spans are whole
    return Ran(summary_of(out), RunDir(folder / "out"))


def read(folder: Path) -> tuple[list[Span], list[ServerProcess]]:
    lines = SpanLines(sorted(folder.glob("*.jsonl")))
    return list(lines), lines.processes


def check_split(ran: Ran, requests: int) -> None:
    """Joined, and hardly any time that no stage claims: also on a machine that others use."""
    check_joined(ran, requests)
    summary = ran.summary
    assert summary["unattributed_ms"]["p50"] < 0.05 * summary["e2e_ms"]["p50"]


def check_joined(ran: Ran, requests: int) -> None:
    summary = ran.summary
    assert summary["ok"] == requests, summary["failed"]
    assert summary["joined"] >= 0.99 * requests
    assert set(STAGES) <= set(summary["stages"])
    for name in ("processor", "handoff", "engine_wait", "prefill"):
        assert summary["stages"][name]["calls"] == requests, name
    for process in summary["server_processes"]:
        assert process["lost"] == 0 and "observer_errors" not in process["notes"], process


@pytest.fixture(scope="module")
def overload(bound: real.Running, tmp_path_factory: pytest.TempPathFactory) -> tuple[Ran, Any]:
    """5 requests/s of 15 frames for 8 s, and vLLM's gauges meanwhile."""
    folder = tmp_path_factory.mktemp("overload")
    gauges: list[tuple[int, float]] = []
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.5):
            before_ns = time.monotonic_ns()
            now = bound.metrics()
            inside = now["vllm:num_requests_running"] + now["vllm:num_requests_waiting"]
            gauges.append(((before_ns + time.monotonic_ns()) // 2, inside))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        return run(bound, folder, "--qps=5", "--duration=8"), gauges
    finally:
        over.set()
        watcher.join()


def test_every_request_is_split(overload: tuple[Ran, Any]) -> None:
    check_split(overload[0], 40)


def test_the_processor_is_blamed_and_its_traps_are_named(overload: tuple[Ran, Any]) -> None:
    ran, _ = overload
    found = ran.summary["bottleneck"]
    assert found["stage"] == "processor" and found["width"] == 1
    assert "--mm-device-do-normalize" in found["settings"]
    assert "--renderer-workers" not in found["settings"]  # the embedded server's
    wide = ran.warning("one_wide")
    assert wide.startswith(
        "The processor ran one at a time: --renderer-num-workers 4 did not widen"
    )
    assert "in this version (vLLM 0.32" in wide and "--api-server-count" in wide
    assert "OMP_NUM_THREADS is unset" in ran.warning("one_thread")
    stage = ran.summary["stages"]["processor"]
    assert (stage["facts"]["threads"], stage["configured_width"], stage["observed_width"]) == (
        1,
        1,
        1,
    )
    assert (stage["facts"]["frames_in"], stage["facts"]["frames"]) == (15, 15)
    assert stage["facts"]["patches"] == 8 * 30 * 54  # 16 frames in pairs of 480x864 in 16x16
    assert ran.summary["stages"]["renderer_wait"]["observed_width"] <= 4


def test_processes_say_what_they_are(overload: tuple[Ran, Any]) -> None:
    processes = {one["role"]: one for one in overload[0].summary["server_processes"]}
    assert set(processes) == {"api_server", "engine_core", "worker"}
    server = processes["api_server"]
    assert server["settings"]["renderer_num_workers"] == 4
    assert server["settings"]["mm_processor_cache"] == "LruKeyReplicatedSenderCache"
    assert server["settings"]["omp_num_threads"] is None
    assert server["notes"]["pools"] == {"renderer_wait": 4, "processor_wait": 1, "media_wait": 8}
    assert server["notes"]["versions"]["vllm"].startswith("0.32")
    for process in processes.values():
        attached = process["notes"]["attached"]
        lacking = process["notes"].get("missing", {}).keys() - attached.keys()
        assert not lacking, lacking


def test_the_engine_s_times_are_those_of_its_own_counters(
    overload: tuple[Ran, Any], bound: real.Running
) -> None:
    """All requests since the start, warm-ups too: sums of vLLM's histograms, to the microsecond."""
    counted = bound.metrics()
    found, _ = read(bound.spans)
    for stage, name in (
        ("engine_wait", "request_queue_time_seconds"),
        ("prefill", "request_prefill_time_seconds"),
        ("decode", "request_decode_time_seconds"),
    ):
        spans = [span for span in found if span.stage == stage]
        took_s = sum(span.end_ns - span.start_ns for span in spans) / 1e9
        assert len(spans) == counted[f"vllm:{name}_count"], stage
        assert took_s == pytest.approx(counted[f"vllm:{name}_sum"], abs=1e-6 * len(spans)), stage
    prompts = sum(span.facts["tokens"] for span in found if span.stage == "prefill")
    assert prompts == counted["vllm:prompt_tokens_total"]
    answers = sum(span.facts["tokens"] for span in found if span.stage == "decode")
    assert answers == counted["vllm:generation_tokens_total"]


def test_the_queue_that_vllm_s_gauges_do_not_show(overload: tuple[Ran, Any]) -> None:
    """At each scrape: its gauges count what the spans say is in the engine, not what is in flight.

    A gauge is as old as the engine's last step, and a step takes a while here: 3 either way."""
    ran, gauges = overload
    spans, _ = read(ran.folder.spans_path)
    queued = {s.request_id: s.start_ns for s in spans if s.stage == "engine_wait"}
    left = {s.request_id: s.end_ns for s in spans if s.stage in ("prefill", "decode")}
    origin_ns = ran.folder.manifest().origin_ns
    records: list[Record] = list(ran.folder.records())
    hidden = 0
    for at_ns, inside in gauges:
        in_engine = sum(queued[name] <= at_ns < left[name] for name in queued)
        assert abs(in_engine - inside) <= 3, (at_ns - origin_ns, in_engine, inside)
        in_flight = sum((r.sent_ns or 0) <= at_ns - origin_ns < (r.closed_ns or 0) for r in records)
        hidden = max(hidden, in_flight - int(inside))
    assert hidden > 10


def test_sampled_frames_are_named(bound: real.Running, tmp_path: Path) -> None:
    """A 30 fps file of 15 frames lasts half a second: at 2 fps, and no less than 4, 4 are left."""
    ran = run(bound, tmp_path, "--fps=30", "--qps=1", "--requests=4", "--seed=7")
    check_joined(ran, 4)
    assert "15 frames sent, the server used 4" in ran.warning("sampled")
    lost = ran.warning("frames_lost")
    assert "Of 15 frames a file the loader kept 4" in lost and "--media-io-kwargs" in lost


def test_several_answers_to_one_request(bound: real.Running, tmp_path: Path) -> None:
    body = json.dumps({"n": 2, "temperature": 1})
    flags = ("--qps=1", "--requests=4", "--seed=8", f"--extra-body={body}")
    ran = run(bound, tmp_path, *flags)
    summary = ran.summary
    assert summary["joined"] == summary["ok"] == 4
    assert summary["stages"]["handoff"]["calls"] == 4
    assert summary["stages"]["engine_wait"]["calls"] == 8


def test_media_of_an_earlier_run_are_a_trap(bound: real.Running, tmp_path: Path) -> None:
    """The same seed again: vLLM's processor does nothing, and the report says so."""
    flags = ("--qps=1", "--requests=4", "--seed=7", "--fps=30")
    ran = run(bound, tmp_path, *flags)
    assert "answered for 4 of 4 media" in ran.warning("processor_cache")


def test_vllm_as_it_comes_with_the_plugin_alone(plain: real.Running, tmp_path: Path) -> None:
    ran = run(plain, tmp_path, "--qps=1", "--requests=8")
    check_split(ran, 8)
    assert not [one for one in ran.summary["warnings"] if one["code"] == "one_wide"]
    processes = ran.summary["server_processes"]
    assert {one["role"] for one in processes} == {"api_server", "engine_core", "worker"}
