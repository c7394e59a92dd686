"""`mmload run` as people run it, on the embedded server: counts, books and files, not durations."""

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mmload.records import Outcome
from mmload.rundir import RunDir
from tests.e2e.cli import alive, children_of, finish, mmload, summary_of

Truth = dict[int, dict[str, Any]]  # summaries by number of workers

SMALL = ("--size", "160x96", "--max-tokens", "4", "--quiet")


@pytest.fixture(scope="module", autouse=True)
def truth_runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[int, Any]]:
    """5/s against a processor that takes exactly 300 ms, one and two workers. They take their time
    and hardly any of the processor's, so they run beside this module's tests; the last ones read
    them."""
    folder = tmp_path_factory.mktemp("truth")
    runs = {
        workers: mmload(
            *("run", "--qps", "5", "--duration", str(seconds), "--renderer-workers", str(workers)),
            *("--processor-fixed-ms", "300", "--json", "--out", f"w{workers}", *SMALL),
            cwd=folder,
        )
        for workers, seconds in ((1, 20), (2, 28))
    }
    yield runs
    for process in runs.values():
        if process.poll() is None:
            process.terminate()
            finish(process)


def test_the_main_job_in_short(tmp_path: Path) -> None:
    """Everything is there, the books balance, and the server's own log agrees with the records."""
    process = mmload(
        *("run", "--qps", "10", "--frames", "1,6", "--as", "frames", "--requests", "20"),
        *("--workers", "2", "--json", "--out", "run", *SMALL),
        cwd=tmp_path,
    )
    code, out, err = finish(process)
    summary = summary_of(out)
    assert code in (0, 3), err  # 3 only if this machine was too busy to send on time
    assert (summary["planned"], summary["sent"], summary["ok"]) == (20, 20, 20)
    assert summary["dropped"] == summary["unsent"] == 0 and summary["failed"] == {}
    assert summary["joined"] == 20 and summary["unjoined"] == 0
    assert {c: v["ok"] for c, v in summary["classes"].items()} == {
        "image 160x96": 10,
        "6 images 160x96": 10,
    }
    run = RunDir(tmp_path / "run")
    assert json.loads((run.path / "summary.json").read_text()) == summary
    assert "<html" in (run.path / "report.html").read_text()[:200]

    records = {r.request_id: r for r in run.records()}
    assert sorted(r.index for r in records.values()) == list(range(20))
    assert {r.worker for r in records.values()} == {0, 1}
    log = {}
    for line in (run.path / "server.log").read_text().splitlines():
        entry = json.loads(line)
        log[entry["request_id"]] = entry
    assert set(records) <= set(log) and len(log) == 22  # and two warm-up requests
    for request_id, record in records.items():
        entry = log[request_id]
        assert record.status == entry["status"] == 200
        assert record.prompt_tokens == entry["prompt_tokens"]
        assert record.output_tokens == 4
        # What the server took by its own clock is within what the client saw.
        assert record.first_output_ns is not None and record.sent_ns is not None
        seen_ms = (record.first_output_ns - record.sent_ns) / 1e6
        assert entry["first_token_ms"] <= seen_ms + 0.001

    # Another command reads the folder later, without the server.
    code, again, err = finish(mmload("report", "run", "--json", cwd=tmp_path))
    assert code == 0 and summary_of(again) == summary
    code, csv, err = finish(mmload("report", "run", "--csv", "-", cwd=tmp_path))
    assert code == 0 and len(csv.splitlines()) == 21


def test_a_saved_scenario_runs_again_the_same_whatever_the_workers(tmp_path: Path) -> None:
    first = mmload(
        *("run", "--requests", "8", "--qps", "40", "--arrival", "poisson", "--seed", "5"),
        *("--frames", "0,1", "--workers", "1"),
        *("--json", "--out", "a", *SMALL),
        cwd=tmp_path,
    )
    code, out, err = finish(first)
    assert code in (0, 3), err
    again = mmload(
        *("run", "--scenario", "a/scenario.yaml", "--workers", "3", "--json", "--quiet"),
        *("--out", "b"),
        cwd=tmp_path,
    )
    code, out_again, err = finish(again)
    assert code in (0, 3), err
    digests = [summary_of(text)["run"]["digest"] for text in (out, out_again)]
    assert digests[0] == digests[1]
    sent = [
        sorted(
            (r.index, r.intended_ns, r.media_class, r.payload, r.bytes_sent)
            for r in RunDir(tmp_path / d).records()
        )
        for d in "ab"
    ]
    assert sent[0] == sent[1] and len(sent[0]) == 8
    bodies = [
        [(p["body_sha256"], p["variants"]) for p in RunDir(tmp_path / d).payloads()] for d in "ab"
    ]
    assert bodies[0] == bodies[1]


def test_an_interrupt_keeps_what_was_recorded(tmp_path: Path) -> None:
    process = mmload(
        *("run", "--qps", "10", "--duration", "60", "--processor-fixed-ms", "300"),
        *("--json", "--out", "run", *SMALL),
        cwd=tmp_path,
    )
    records = tmp_path / "run" / "records.jsonl"
    _wait_for(lambda: records.exists() and records.read_bytes().count(b"\n") >= 3)
    family = children_of(process.pid)
    process.send_signal(signal.SIGINT)
    code, out, err = finish(process, 30)
    summary = summary_of(out)
    assert code == 130 and summary["interrupted"], err
    outcomes = Counter(r.outcome for r in RunDir(tmp_path / "run").records())
    assert outcomes[Outcome.ok] == summary["ok"] >= 3
    assert outcomes[Outcome.cut_off] == summary["failed"]["cut_off"] > 0
    assert outcomes[Outcome.unsent] == summary["unsent"] > 500
    assert sum(outcomes.values()) == summary["planned"] == 600
    assert family
    _wait_for(lambda: not any(alive(pid) for pid in family))


def test_a_killed_run_can_be_read_and_leaves_nothing_running(tmp_path: Path) -> None:
    process = mmload(
        *("run", "--qps", "20", "--duration", "60", "--out", "run", *SMALL), cwd=tmp_path
    )
    records = tmp_path / "run" / "records.jsonl"
    _wait_for(lambda: records.exists() and records.read_bytes().count(b"\n") >= 10)
    family = children_of(process.pid)
    process.kill()
    finish(process)
    code, out, err = finish(mmload("report", "run", "--json", cwd=tmp_path))
    summary = summary_of(out)
    assert code == 0 and not summary["valid"] and summary["ok"] >= 10, err
    assert any("killed" in reason for reason in summary["invalid_reasons"])
    _wait_for(lambda: not any(alive(pid) for pid in family))


def test_a_worker_that_dies_makes_the_run_invalid(tmp_path: Path) -> None:
    import psutil

    process = mmload(
        *("run", "--qps", "20", "--duration", "4", "--workers", "2", "--json", "--out", "run"),
        *SMALL,
        cwd=tmp_path,
    )
    second = tmp_path / "run" / "records.1.jsonl"
    _wait_for(lambda: second.exists() and second.read_bytes().count(b"\n") >= 3)
    spawned = [
        p
        for p in psutil.Process(process.pid).children()
        if "spawn_main" in " ".join(p.cmdline()) and p.open_files()
    ]
    (victim,) = [p for p in spawned if any(f.path == str(second) for f in p.open_files())]
    victim.kill()
    code, out, err = finish(process)
    summary = summary_of(out)
    assert code == 3 and not summary["valid"], err
    (reason,) = [r for r in summary["invalid_reasons"] if "worker 1 died" in r]
    lost = 40 - second.read_bytes().count(b"\n")
    assert f"{lost} of its 40 requests are lost" in reason
    assert summary["ok"] + lost == 80


def test_a_key_is_nowhere_in_the_run(tmp_path: Path) -> None:
    secret = "sk-very-secret-0123456789"
    code, out, err = finish(
        mmload(
            *("run", "--requests", "3", "--qps", "20", "--api-key", secret, "--out", "run"),
            *SMALL,
            cwd=tmp_path,
        )
    )
    assert code in (0, 3), err
    assert secret not in out + err
    for file in (tmp_path / "run").rglob("*"):
        assert not file.is_file() or secret.encode() not in file.read_bytes(), file


def _wait_for(condition: object, timeout_s: float = 60) -> None:
    assert callable(condition)
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, "did not happen in time"
        time.sleep(0.02)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    (folder / "empty").mkdir()
    (folder / "notes").mkdir()
    (folder / "notes" / "a.md").write_text("no media here")
    import cv2

    _, jpeg = cv2.imencode(".jpg", np.zeros((40, 40, 3), np.uint8))
    (folder / "cut.jpg").write_bytes(jpeg.tobytes()[:-40])
    (folder / "text.png").write_text("I am no picture")
    (folder / "key.yaml").write_text("qps: 5\nframs: 3\n")
    (folder / "value.yaml").write_text("qps: fast\n")
    (folder / "broken.yaml").write_text("qps: [5\n")
    (folder / "full").mkdir()
    (folder / "full" / "old").write_text("x")
    return folder


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["http://127.0.0.1:9"], ["127.0.0.1:9", "no server answers", "start the server"]),
        (["nonsense://x"], ["nonsense://x", "http://localhost:8000"]),
        (["--qps", "0"], ["--qps", "'0'", "greater than 0"]),
        (["--qps", "-3"], ["--qps", "'-3'", "greater than 0"]),
        (["--qps", "inf"], ["--qps", "'inf'", "finite"]),
        (["--scenario", "key.yaml"], ["key.yaml: frams", "did you mean frames"]),
        (["--scenario", "value.yaml"], ["value.yaml: qps", "'fast'", "number"]),
        (["--scenario", "broken.yaml"], ["broken.yaml", "not YAML"]),
        (["--scenario", "nosuch"], ["nosuch", "mix"]),
        (["--media", "empty"], ["empty", "no images or videos"]),
        (["--media", "notes"], ["notes"]),
        (["--media", "nowhere"], ["nowhere"]),
        (["--media", "cut.jpg"], ["cut.jpg"]),
        (["--media", "text.png"], ["text.png"]),
        (["--out", "full"], ["--out full", "not empty"]),
        (["--out", "key.yaml/run"], ["--out key.yaml/run", "cannot be written"]),
        (["--frames", "x"], ["--frames", "'x'", "integer"]),
        (["--nonsense"], ["--nonsense"]),
        (["--qps", "5", "--concurrency", "2"], ["qps", "concurrency"]),
        (["http://127.0.0.1:9", "--renderer-workers", "2"], ["--renderer-workers", "embedded"]),
        (["--renderer-workers", "0"], ["--renderer-workers", "0"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_is_one_line_and_exit_2(files: Path, args: list[str], words: list[str]) -> None:
    code, out, err = finish(mmload("run", "--quiet", "--duration", "1", *args, cwd=files), 30)
    lines = err.strip().splitlines()
    assert code == 2 and out == "" and len(lines) == 1, err
    assert lines[0].startswith("mmload: ")
    for word in words:
        assert word in lines[0], lines[0]


def test_a_busy_port_is_named(tmp_path: Path) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, out, err = finish(mmload("serve", "--port", str(port), cwd=tmp_path), 30)
    assert code == 2 and f"--port {port}" in err and "Traceback" not in err


def test_help_is_quick_because_it_loads_nothing(tmp_path: Path) -> None:
    """No numpy, pydantic or OpenCV behind `mmload --help`."""
    import subprocess
    import sys

    code = (
        "import sys; from mmload.cli import call; call(['--help']);"
        "print([m for m in ('numpy', 'pydantic', 'cv2', 'aiohttp', 'plotly') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip().splitlines()[-1] == "[]"


def test_nothing_of_the_run_is_left_in_the_temporary_folder(tmp_path: Path) -> None:
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    code, _, err = finish(
        mmload(
            *("run", "--requests", "2", "--qps", "20", "--frames", "2", "--out", "run", *SMALL),
            cwd=tmp_path,
            env={"TMPDIR": str(scratch)},
        )
    )
    assert code in (0, 3), err
    assert os.listdir(scratch) == []


def test_a_traced_server_that_already_runs_is_found_by_itself(tmp_path: Path) -> None:
    """`mmload serve` with the hook on, `mmload run URL`: the spans come home unasked."""
    spans = tmp_path / "spans of the server"
    spans.mkdir()
    server = mmload("serve", cwd=tmp_path, env={"MMLOAD_HOOK_DIR": str(spans)})
    try:
        assert server.stdout is not None
        url = json.loads(server.stdout.readline())["url"]
        summaries = []
        for name in ("first", "second"):
            load = mmload(
                *("run", url, "--requests", "4", "--qps", "20", "--json", "--out", name, *SMALL),
                cwd=tmp_path,
            )
            code, out, err = finish(load)
            assert code in (0, 3), err
            summaries.append(summary_of(out))
    finally:
        server.terminate()
        finish(server, 20)
    for summary in summaries:
        assert (summary["ok"], summary["joined"], summary["unjoined"]) == (4, 4, 0)
        assert summary["stages"]["processor"]["n"] == 4
        assert summary["run"]["span_source"].startswith("the server's hook, from ")


@pytest.fixture(scope="module")
def known_truth(truth_runs: dict[int, Any]) -> Truth:
    summaries = {}
    for workers, process in truth_runs.items():
        code, out, err = finish(process)
        assert code in (0, 3), err
        summaries[workers] = summary_of(out)
    return summaries


def test_one_worker_is_overrun_as_the_arithmetic_says(
    known_truth: dict[int, dict[str, Any]],
) -> None:
    """5/s offered, 3.33/s served: the backlog grows by 1.67/s, utilisation is 1.5."""
    summary = known_truth[1]
    assert summary["queue"]["verdict"] == "growing"
    assert summary["queue"]["growth_per_s"] == pytest.approx(5 / 3, rel=0.05)
    processor = summary["stages"]["processor"]
    assert processor["utilisation"] == pytest.approx(1.5, rel=0.02)
    assert processor["capacity_qps"] == pytest.approx(10 / 3, rel=0.02)
    assert processor["configured_width"] == processor["observed_width"] == 1
    assert summary["bottleneck"]["stage"] == "processor"
    # Request i waits i * 100 ms: the nearest ranks of 0 ... 9.9 s.
    wait = summary["stages"]["renderer_wait"]["ms"]
    assert (wait["p50"], wait["p90"]) == pytest.approx((4_900, 8_900), rel=0.04)
    assert "simulated" in summary["run"]["simulated"] or "timer" in summary["run"]["simulated"]


def test_two_workers_are_enough(known_truth: Truth) -> None:
    summary = known_truth[2]
    assert summary["queue"]["verdict"] == "stable"
    assert summary["stages"]["processor"]["utilisation"] == pytest.approx(0.75, rel=0.02)
    assert summary["stages"]["processor"]["observed_width"] == 2
    assert summary["ttft_ms"]["p50"] < 500


def test_a_scenario_may_bring_its_server_and_the_current_folder_is_no_library(
    tmp_path: Path,
) -> None:
    """`server` and `server_env` of a file are the embedded server's, flags win, and neither is in
    the digest; a module of the user's that is called like a library's stays out of the way."""
    (tmp_path / "timeit.py").write_text("raise SystemExit('not the library')\n")
    (tmp_path / "aiohttp.py").write_text("raise SystemExit('not the library')\n")
    text = "qps: 10\nrequests: 4\nsize: 96x96\nmax_tokens: 2\n"
    server = "server:\n  renderer_workers: 3\n  media_workers: 2\nserver_env:\n  MY_FLAG: 1\n"
    (tmp_path / "own.yaml").write_text(text + server)
    (tmp_path / "bare.yaml").write_text(text + "name: own\n")
    made = []
    for file, *flags in (("own.yaml", "--media-workers", "4"), ("bare.yaml",)):
        process = mmload("run", "--scenario", file, "--json", "--quiet", *flags, cwd=tmp_path)
        code, out, err = finish(process)
        assert code in (0, 3), err
        made.append(summary_of(out)["run"])
    assert made[0]["digest"] == made[1]["digest"]
    assert made[0]["server"]["renderer_workers"] == 3 and made[0]["server"]["media_workers"] == 4
    assert made[1]["server"]["renderer_workers"] == 1
    assert made[0]["launched"]["env"] == {"MY_FLAG": "1"}
    (tmp_path / "bad.yaml").write_text("qps: 10\nserver: 3\n")
    code, _, err = finish(mmload("run", "--scenario", "bad.yaml", cwd=tmp_path))
    assert code == 2 and "bad.yaml: server: is not a mapping" in err
