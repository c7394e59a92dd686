"""Servers that mmload starts: found ready, ended with all their children, and what goes wrong."""

import dataclasses
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from mmload.errors import MmloadError, UsageError
from mmload.serving import CommandPlan, EmbeddedPlan, server_of
from mmload.serving.where import free_port
from tests.e2e.cli import alive, children_of, finish, mmload, summary_of

SERVERS = str(Path(__file__).with_name("servers.py"))
QUICK = ("--frames", "0", "--qps", "20", "--warmup", "1", "--json", "--quiet", "--out", "run")


def command(kind: str, *words: str) -> tuple[str, ...]:
    return (sys.executable, SERVERS, kind, "{port}", *words)


def plan(kind: str, folder: Path, *words: str) -> CommandPlan:
    return CommandPlan(
        argv=command(kind, *words),
        env={"PIDS": str(folder / "pids")},
        traced=False,
        patience_s=0.4,
        ready_timeout_s=20,
    )


def pids(folder: Path) -> list[int]:
    return [int(line) for line in (folder / "pids").read_text().split()]


@pytest.fixture
def nothing_left(tmp_path: Path) -> Iterator[None]:
    """Every process that a server of this test noted is gone in the end."""
    yield
    for pid in pids(tmp_path):
        assert not alive(pid), pid


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("kind", ["stubborn", "orphans", "late", "bare"])
def test_it_is_ready_inside_and_gone_with_all_its_children_after(kind: str, tmp_path: Path) -> None:
    with server_of(plan(kind, tmp_path), tmp_path) as server:
        family = pids(tmp_path)
        assert len(family) == (2 if kind in ("stubborn", "orphans") else 1)
        assert all(alive(pid) for pid in family)
        assert set(family) <= set(server.pids()) and server.died() is None
        assert server.ready_s >= (1.0 if kind == "late" else 0.0)
    assert server.problem == ""
    server.stop()  # once more does nothing


@pytest.mark.usefixtures("nothing_left")
def test_a_crash_is_seen_at_once_though_its_children_live_on(tmp_path: Path) -> None:
    patient = dataclasses.replace(plan("stubborn", tmp_path), patience_s=1.0)
    with server_of(patient, tmp_path) as server:
        child, root = pids(tmp_path)
        os.kill(root, signal.SIGKILL)
        before_s = time.monotonic()
        while (why := server.died()) is None:
            assert time.monotonic() < before_s + 10
        assert alive(child)  # it gets its patience
        assert why == "the server ended (ended by SIGKILL) during the run; it said nothing"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of a parent's end")
def test_it_ends_when_its_keeper_is_killed(tmp_path: Path) -> None:
    with server_of(plan("good", tmp_path), tmp_path) as server:
        (root,) = pids(tmp_path)
        os.kill(psutil.Process(root).ppid(), signal.SIGKILL)
        before_s = time.monotonic()
        while (why := server.died()) is None or alive(root):
            assert time.monotonic() < before_s + 10
        assert why.startswith("the server ended (ended by SIGKILL) during the run")


@pytest.mark.usefixtures("nothing_left")
def test_it_ends_when_mmload_is_killed(tmp_path: Path) -> None:
    process = mmload(
        *("run", *QUICK, "--duration", "60", "--", *command("good")),
        cwd=tmp_path,
        env={"PIDS": str(tmp_path / "pids")},
    )
    wait_for(tmp_path / "run" / "manifest.json")
    family = children_of(process.pid)
    assert set(pids(tmp_path)) <= set(family)
    process.kill()
    finish(process)
    deadline_s = time.monotonic() + 30
    while any(alive(pid) for pid in family):
        assert time.monotonic() < deadline_s
        time.sleep(0.05)


@pytest.mark.usefixtures("nothing_left")
def test_it_ends_on_an_interrupt_while_it_starts(tmp_path: Path) -> None:
    process = mmload(
        *("run", *QUICK, "--", *command("deaf")), cwd=tmp_path, env={"PIDS": str(tmp_path / "pids")}
    )
    wait_for(tmp_path / "pids")
    family = children_of(process.pid)
    process.send_signal(signal.SIGINT)
    code, _, err = finish(process, 30)
    assert code == 130 and "interrupted" in err
    assert family and not any(alive(pid) for pid in family)


def wait_for(file: Path) -> None:
    deadline_s = time.monotonic() + 30
    while not file.exists():
        assert time.monotonic() < deadline_s, file
        time.sleep(0.02)


def test_one_that_dies_in_mid_run_makes_the_run_invalid(tmp_path: Path) -> None:
    code, out, err = finish(
        mmload(
            *("run", *QUICK, "--requests", "200", "--", *command("mortal")),
            cwd=tmp_path,
            env={"PIDS": str(tmp_path / "pids")},
        )
    )
    summary = summary_of(out)
    assert code == 3 and not summary["valid"], err
    (reason,) = [r for r in summary["invalid_reasons"] if "the server ended" in r]
    assert "(exit code 9) during the run" in reason and "the engine is on fire" in reason
    assert (tmp_path / "run" / "server.log").read_text() == "RuntimeError: the engine is on fire\n"


@pytest.mark.parametrize(
    ("kind", "error", "words"),
    [
        ("dead", MmloadError, ["exit code 3", "ValueError: no such model", "server.log"]),
        ("deaf", MmloadError, ["not ready within 1 s", "loading weights", "nothing listened"]),
    ],
)
def test_one_that_never_becomes_ready(
    kind: str, error: type[Exception], words: list[str], tmp_path: Path
) -> None:
    short = dataclasses.replace(plan(kind, tmp_path), ready_timeout_s=1 if kind == "deaf" else 20)
    with pytest.raises(error) as raised, server_of(short, tmp_path):
        pass
    assert isinstance(raised.value, MmloadError)
    said = f"{raised.value.message} {raised.value.hint}"
    assert all(word in said for word in words), said


def test_a_port_that_is_taken_is_named_with_who_has_it(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        busy = CommandPlan(
            argv=(sys.executable, SERVERS, "good", str(port)), url=f"localhost:{port}"
        )
        with pytest.raises(UsageError) as raised:
            server_of(busy, tmp_path)
    assert f"port {port} of localhost is taken by pid {os.getpid()}" in raised.value.message


def test_a_port_that_stays_open_after_the_end_is_said(tmp_path: Path) -> None:
    """Somebody else's socket, as a container's would be."""
    port = free_port()
    chosen = dataclasses.replace(plan("good", tmp_path), url=f"http://127.0.0.1:{port}")
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with server_of(chosen, tmp_path) as server:
            os.kill(pids(tmp_path)[0], signal.SIGKILL)
            while server.died() is None:
                time.sleep(0.01)
            other.bind(("127.0.0.1", port))
            other.listen()
        assert f"port {port} is still open" in server.problem
        assert f"pid {os.getpid()}" in server.problem


def test_what_a_server_tells_of_its_secrets_is_struck_out(tmp_path: Path) -> None:
    secrets = ("sk-in-the-command", "in-the-environment", "inherited-by-all", "user:pass-in-url")
    code, out, err = finish(
        mmload(
            *("run", *QUICK, "--requests", "2", "--server-env", f"MY_API_KEY={secrets[1]}"),
            *(
                "--server-env",
                "OMP_NUM_THREADS=3",
                "--server-env",
                f"PIDS={tmp_path / 'pids'}",
                "--",
            ),
            *command("tells", "--api-key", secrets[0], "--db", f"http://{secrets[3]}@host/"),
            cwd=tmp_path,
            env={"HF_TOKEN": secrets[2]},
        )
    )
    assert code in (0, 3), err
    argv, env = json.loads((tmp_path / "run" / "server.log").read_text())
    assert env["OMP_NUM_THREADS"] == "3" and env["MY_API_KEY"] == "[redacted]"
    assert argv[-3] == "[redacted]"
    for file in (tmp_path / "run").rglob("*"):
        for secret in secrets:
            assert not file.is_file() or secret.encode() not in file.read_bytes(), file
    assert not any(secret in out + err for secret in secrets)
    launched = summary_of(out)["run"]["launched"]
    assert launched["env"]["MY_API_KEY"] == "***" and launched["env"]["OMP_NUM_THREADS"] == "3"
    assert "HF_TOKEN" not in launched["env"]  # nobody gave it to this server
    assert launched["command"].endswith(" {port} --api-key *** --db http://***@host/")


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="no pinning here")
def test_processors_are_for_the_server_and_its_children(tmp_path: Path) -> None:
    one = min(os.sched_getaffinity(0))
    pinned = dataclasses.replace(plan("stubborn", tmp_path), cpus=(one,))
    with server_of(pinned, tmp_path):
        assert [os.sched_getaffinity(pid) for pid in pids(tmp_path)] == [{one}, {one}]


def test_the_embedded_server_by_command_is_traced_and_joined(tmp_path: Path) -> None:
    port = free_port()
    code, out, err = finish(
        mmload(
            *("run", "--size", "160x96", "--max-tokens", "4", "--requests", "6", *QUICK[2:], "--"),
            *(sys.executable, "-m", "mmload", "serve", "--port", str(port)),
            cwd=tmp_path,
        )
    )
    summary = summary_of(out)
    assert code in (0, 3), err
    assert (summary["ok"], summary["joined"], summary["unjoined"]) == (6, 6, 0)
    assert summary["stages"]["processor"]["n"] == 6 and summary["repeated_spans"] == 0
    assert summary["run"]["target"] == f"http://127.0.0.1:{port}/v1"
    assert summary["run"]["launched"]["traced"] is True
    assert summary["run"]["launched"]["ready_s"] > 0
    assert [w["message"] for w in summary["warnings"] if w["code"] in ("no_spans", "note")] == []


def test_one_server_for_several_runs(tmp_path: Path) -> None:
    """As a capacity search does it: the runs find its spans by the header, and do not end it."""
    from mmload.report.live import watcher
    from mmload.run import Options, Run
    from mmload.scenario import Scenario

    with server_of(EmbeddedPlan(), tmp_path) as server:
        for name in ("a", "b"):
            scenario = Scenario.model_validate(
                {"size": "64x64", "requests": 3, "qps": 20, "out": str(tmp_path / name)}
                | {"max_tokens": 2, "warmup": 1}
            )
            _, analysis = Run(
                scenario, Options(server=server, html=False), watcher(quiet=True)
            ).execute()
            assert analysis.summary["joined"] == analysis.summary["ok"] == 3
            assert analysis.summary["run"]["server"]["renderer_workers"] == 1
            assert server.died() is None


def test_warming_up_by_the_rule_is_counted(tmp_path: Path) -> None:
    from mmload.report.live import watcher
    from mmload.run import Options, Run
    from mmload.scenario import Scenario

    scenario = Scenario.model_validate(
        {"frames": 0, "requests": 3, "qps": 20, "out": str(tmp_path / "run"), "warmup": "auto"}
    )
    options = Options(server=plan("good", tmp_path), html=False)
    _, analysis = Run(scenario, options, watcher(quiet=True)).execute()
    warm_up = analysis.summary["run"]["warmup_requests"]
    assert 10 <= warm_up <= 50 and warm_up % 5 == 0
    assert analysis.summary["sent"] == 3
