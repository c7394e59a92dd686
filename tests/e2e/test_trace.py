"""`mmload trace -- CMD`: servers that know nothing of mmload, and processes that are none."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mmload.rundir import SpanLines
from mmload.trace import environment_for
from tests.e2e.cli import finish, mmload, summary_of


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def listening(port: int, server: "subprocess.Popen[str]") -> None:
    """Waits until the server does."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and server.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise AssertionError(f"the server does not listen; it ended with {server.poll()}")


@contextmanager
def traced(kind: str, folder: Path) -> Iterator[str]:
    port = free_port()
    server = mmload(
        *("trace", "--out", "spans", "--", sys.executable),
        *("-W", "error", str(Path(__file__).with_name("traced_servers.py")), kind, str(port)),
        cwd=folder,
    )
    try:
        listening(port, server)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        finish(server, 20)


@pytest.mark.parametrize("kind", ["fastapi", "sync", "aiohttp"])
def test_a_server_that_knows_nothing_is_traced(kind: str, tmp_path: Path) -> None:
    with traced(kind, tmp_path) as url:
        load = mmload(
            *("run", url, "--qps", "10", "--requests", "20", "--size", "96x96", "--json"),
            *("--out", "run", "--quiet"),
            cwd=tmp_path,
        )
        code, out, err = finish(load)
    assert code in (0, 3), err
    summary = summary_of(out)
    assert summary["ok"] == summary["joined"] == 20 and summary["unjoined"] == 0
    stages = summary["stages"]
    assert stages["pool_wait"]["n"] == stages["pool_work"]["n"] == 20
    calls = 40 if kind == "sync" else 20  # what the endpoint depends on is a call of its own
    assert stages["pool_wait"]["configured_width"] is None  # a wait has none
    assert stages["pool_work"]["ms"]["p50"] >= 10  # the sleep
    assert stages["pool_wait"]["calls"] == stages["pool_work"]["calls"] == calls
    if kind != "aiohttp":  # read, then parsed and checked
        assert stages["http_receive"]["calls"] == 20 + calls and stages["stream_out"]["n"] == 20
        assert stages["http_receive"]["ms"]["p50"] < 30  # not what it depends on
    [process] = summary["server_processes"]
    assert process["role"] == "traced_servers.py"
    assert process["notes"]["versions"][{"aiohttp": "aiohttp"}.get(kind, "uvicorn")]
    assert "missing" not in process["notes"]


def test_what_holds_the_event_loop_up_is_named(tmp_path: Path) -> None:
    """A server without any span of its own that computes on its loop, at 1.2 times what it can."""
    with traced("blocking", tmp_path) as url:
        load = mmload(
            *("run", url, "--qps", "20", "--requests", "60", "--size", "96x96", "--json"),
            *("--out", "run", "--quiet"),
            cwd=tmp_path,
        )
        code, out, err = finish(load)
    assert code in (0, 3), err
    summary = summary_of(out)
    [said] = [w["message"] for w in summary["warnings"] if w["code"] == "loop_blocked"]
    assert "by __main__.encode" in said
    assert summary["phases"]["mean"]["stages"]["loop_wait"] > 60


@pytest.mark.parametrize("kind", ["fastapi", "aiohttp"])
def test_spans_inside_the_responses_are_those_of_the_folder(kind: str, tmp_path: Path) -> None:
    with traced(kind, tmp_path) as url:
        load = mmload(
            *("run", url, "--qps", "20", "--requests", "20", "--size", "96x96", "--json"),
            *("--out", "run", "--quiet", "--spans", "response", "--workers", "2"),
            cwd=tmp_path,
        )
        code, out, err = finish(load)
    assert code in (0, 3), err
    summary = summary_of(out)
    assert summary["ok"] == summary["joined"] == 20
    assert summary["run"]["span_source"] == "the server's hook, inside its responses"
    came = SpanLines(sorted((tmp_path / "run/spans").glob("responses.*.jsonl")))
    stayed = SpanLines(sorted((tmp_path / "spans").glob("*.jsonl")))
    ids = {span.request_id for span in came}
    assert len(ids) == 20
    assert not [s for s in came if not s.request_id]
    inside = sorted((s.request_id, s.stage, s.start_ns, s.end_ns) for s in came)
    at_home = [(s.request_id, s.stage, s.start_ns, s.end_ns) for s in stayed if s.request_id in ids]
    assert inside == sorted(at_home)
    assert {p.pid for p in came.processes} == {p.pid for p in stayed.processes}
    assert '"spans"' not in (tmp_path / "run/records.jsonl").read_text()


def test_nobody_gets_spans_who_did_not_ask(tmp_path: Path) -> None:
    with traced("fastapi", tmp_path) as url:
        request = urllib.request.Request(
            f"{url}/v1/chat/completions",
            json.dumps({"messages": ["x"]}).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=20) as answer:
            assert answer.read().endswith(b"data: [DONE]\n\n")
        request.add_header("X-Mmload-Spans", "response")
        with urllib.request.urlopen(request, timeout=20) as answer:
            _, _, after = answer.read().partition(b"data: [DONE]\n\n")
    lines = after.decode().split("\n")
    assert lines[0] == "" and lines[-2:] == ["", ""]
    assert all(line.startswith(": mmload-spans {") for line in lines[1:-2]) and len(lines) > 6


def test_the_hook_comes_into_an_environment_without_mmload(tmp_path: Path) -> None:
    """A server's own environment: nothing of mmload's gets in but the hook, children have it too,
    and a sitecustomize of its own still runs."""
    venv.create(tmp_path / "env", symlinks=True)
    python = tmp_path / "env/bin/python"
    purelib = next((tmp_path / "env").glob("lib/python*/site-packages"))
    (purelib / "sitecustomize.py").write_text("import sys\nsys.own_sitecustomize = True\n")
    program = (
        "import sys, subprocess, importlib.util as u\n"
        "from mmload import hook\n"
        "with hook.span('mine', request_id=sys.argv[1]): pass\n"
        "found = [n for n in ('numpy', 'aiohttp', 'cyclopts') if u.find_spec(n)]\n"
        "print(found, sys.own_sitecustomize)\n"
        "if sys.argv[1] == 'parent':\n"
        "    me = open(sys.argv[2]).read()\n"
        "    subprocess.run([sys.executable, '-c', me, 'child'], check=True)\n"
    )
    script = tmp_path / "server.py"
    script.write_text(program)
    clean = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    done = subprocess.run(
        [str(python), str(script), "parent", str(script)],
        env={**clean, **environment_for(tmp_path / "spans"), **_only_site()},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[] True\n" * 2 and done.stderr == ""
    lines = SpanLines(sorted((tmp_path / "spans").glob("*.jsonl")))
    assert sorted((s.request_id, s.stage) for s in lines) == [("child", "mine"), ("parent", "mine")]
    assert {p.role for p in lines.processes} == {"server.py", "python -c"}


def test_another_mmload_and_other_sitecustomizes_do_not_matter(tmp_path: Path) -> None:
    """A folder of that name and an older one; a hidden one that runs what it hides in turn; and the
    empty entry of PYTHONPATH, which is the current folder."""
    for folder, file in (("old/mmload", "__init__.py"), ("chain", "sitecustomize.py")):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / file).write_text("")
    (tmp_path / "checkout/mmload").mkdir(parents=True)
    (tmp_path / "chain/sitecustomize.py").write_text(
        "import sys, os\nfrom importlib.machinery import PathFinder\n"
        "import importlib.util as u\nsys.chained = getattr(sys, 'chained', 0) + 1\n"
        "others = [p for p in sys.path if p != os.path.dirname(__file__)]\n"
        "spec = PathFinder.find_spec('sitecustomize', others)\n"
        "spec.loader.exec_module(u.module_from_spec(spec))\n"
    )
    (tmp_path / "here.py").write_text("")
    program = (
        "import sys, here, sitecustomize\nfrom mmload.hook import spans\n"
        "print(spans.enabled(), sys.chained, 'chain' in sitecustomize.__file__)\n"
        "print(sorted({'asyncio', 'ssl', 'logging', 'socket'} & set(sys.modules)))\n"
    )
    given = ["", *(str(tmp_path / name) for name in ("checkout", "old", "chain"))]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(given))
        environment |= environment_for(tmp_path / "spans")
    done = subprocess.run(
        [sys.executable, "-P", "-c", program],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.stdout, done.stderr) == ("True 1 True\n[]\n", "")


def _only_site() -> dict[str, str]:
    from mmload.trace import SITE

    return {"PYTHONPATH": str(SITE)}


def test_pyinstrument_inside_where_asked(tmp_path: Path) -> None:
    """It sees the function that took the time; without it, a line says so."""
    program = (
        "import time\n"
        "def busy():\n"
        "    end = time.process_time() + 0.3\n"
        "    while time.process_time() < end: pass\n"
        "busy()\n"
    )
    script = tmp_path / "server.py"
    script.write_text(program)
    environment = environment_for(tmp_path / "spans", pyinstrument=True)
    done = subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    [page] = (tmp_path / "spans").glob("*.pyinstrument.html")
    [session] = (tmp_path / "spans").glob("*.pyinstrument.json")
    assert page.stat().st_size > 10_000 and "busy" in session.read_text()
    venv.create(tmp_path / "env", symlinks=True)
    clean = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    bare = subprocess.run(
        [str(tmp_path / "env/bin/python"), "-c", "print('served')"],
        env={**clean, **environment, **_only_site()},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert bare.stdout == "served\n" and "no pyinstrument in" in bare.stderr


def test_without_the_folder_nothing_happens(tmp_path: Path) -> None:
    environment = {**os.environ, **environment_for(tmp_path / "spans"), "MMLOAD_HOOK_DIR": ""}
    program = "from mmload.hook import spans; print(spans.enabled())"
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("False\n", "")
    assert not (tmp_path / "spans").exists()


def test_a_killed_server_leaves_its_spans(tmp_path: Path) -> None:
    """SGLang's children are killed with SIGKILL: what was recorded a moment ago is on disk."""
    program = (
        "import os, time\nfrom mmload import hook\n"
        "hook.record('encoder', 1, 2, request_id='r')\n"
        "time.sleep(1.0)\nos.kill(os.getpid(), 9)\n"
    )
    environment = {**os.environ, **environment_for(tmp_path / "spans")}
    assert subprocess.run([sys.executable, "-c", program], env=environment, timeout=60).returncode
    assert [s.request_id for s in SpanLines(list((tmp_path / "spans").glob("*")))] == ["r"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "there is no command to start"),
        (("--", "no-such-server-here"), "no-such-server-here: there is no such program"),
        (("--out", "/proc/nowhere", "--", "true"), "--out /proc/nowhere: cannot be made"),
    ],
)
def test_bad_input(arguments: tuple[str, ...], words: str, tmp_path: Path) -> None:
    code, out, err = finish(mmload("trace", *arguments, cwd=tmp_path))
    assert code == 2 and words in err and out == ""


def test_the_exit_code_is_the_commands(tmp_path: Path) -> None:
    command = (sys.executable, "-c", "import sys; sys.exit(7)")
    code, _, err = finish(mmload("trace", "--out", "spans", "--", *command, cwd=tmp_path))
    assert code == 7 and f"spans go to {tmp_path / 'spans'}" in err
