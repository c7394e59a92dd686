"""The profile of real processes by py-spy, and a run that watches its server."""

import json
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from mmload.cli import call
from mmload.errors import UsageError
from mmload.profiler.collect import Profiler, Sampling
from tests.e2e.cli import finish, mmload, summary_of

pytestmark = pytest.mark.slow

BUSY = """\
    import sys
    sys.path.insert(0, {site!r})
    import torchvision, transformers
    print("ready", flush=True)
    def handle():
        torchvision.resize(0.007)
        transformers.preprocess(0.003)
    while True:
        handle()
"""
WORK = """\
    import time
    def {name}(cpu_s):
        end = time.thread_time() + cpu_s
        while time.thread_time() < end:
            pass
"""


@pytest.fixture
def busy(tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    """A program that spends 70 % of its CPU time in one package and 30 % in another, whatever else
    runs on the machine: it works by its own CPU clock."""
    site = tmp_path / "lib" / "python3.99" / "site-packages"
    for package, name in (("torchvision", "resize"), ("transformers", "preprocess")):
        (site / package).mkdir(parents=True)
        code = textwrap.dedent(WORK).format(name=name)
        (site / package / "__init__.py").write_text(code, encoding="utf-8")
    program = tmp_path / "busy.py"
    program.write_text(textwrap.dedent(BUSY).format(site=str(site)), encoding="utf-8")
    process = subprocess.Popen([sys.executable, program], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def needs_ptrace(pid: int) -> None:
    profiler = Profiler([pid], Sampling(), 10)
    try:
        profiler.start()
    except UsageError as error:
        if "ptrace" in error.message:
            pytest.skip(f"{error.message}: {error.hint}")
        raise
    profiler.abandon()


def test_time_is_attributed_to_its_packages(busy: "subprocess.Popen[str]", tmp_path: Path) -> None:
    """Of 600 samples a share of 0.7 has a standard deviation of 0.019. On a full machine samples
    come in lumps, as long as a thread waits for a core: then they count for fewer."""
    needs_ptrace(busy.pid)
    process = mmload(
        *("profile", "--pid", str(busy.pid), "--duration", "3", "--rate", "200"),
        *("--json", "--out", "profile"),
        cwd=tmp_path,
    )
    code, out, err = finish(process)
    assert code == 0, err
    made = summary_of(out)
    assert made["samples"] > 100
    lumps = max(1.0, made["sampled_s"] / made["cpu_s"])
    tolerance = min(0.06 * lumps, 0.2)
    shares = {key: one["self_share"] for key, one in made["layers"].items()}
    assert abs(shares["torchvision"] - 0.7) < tolerance
    assert abs(shares["transformers"] - 0.3) < tolerance
    assert made["layers"]["other"]["inclusive_share"] > 0.98  # the program itself
    whole = sum(one["self_s"] for one in made["layers"].values())
    assert abs(whole - made["samples"] / made["rate_hz"]) < 0.01
    assert 1.9 < made["depth"]["calls_to_work"] <= 2.0  # <module>, handle
    assert sorted(p.name for p in (tmp_path / "profile").iterdir()) == [
        "profile.json",
        "profile.speedscope.json",
    ]


def test_wrong_processes_are_refused_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    for args, words in (
        (("--pid", str(2**22 + 1)), "there is no such process"),
        ((), "name the server"),
        (("http://127.0.0.1:9",), "no process on this host is seen to listen there"),
        (("--pid", "1", "--rate", "0"), "from 1 to 1000"),
        (("--pid", "1", "--duration", "0"), "more than 0"),
    ):
        assert call(("profile", *args)) == 2
        out, err = capsys.readouterr()
        assert out == "" and words in err and err.count("\n") == 1
    sleeper = subprocess.Popen(["sleep", "60"])
    try:
        code = call(("profile", "--pid", str(sleeper.pid)))
    finally:
        sleeper.kill()
        sleeper.wait()
    err = capsys.readouterr().err
    assert code in (1, 2) and err.count("\n") == 1 and str(sleeper.pid) in err


def test_a_run_that_watches_and_profiles_its_server(tmp_path: Path) -> None:
    process = mmload(
        *("run", "--qps", "5", "--frames", "1", "--duration", "3", "--size", "160x96"),
        *("--profile-server", "--json", "--quiet", "--out", "run"),
        cwd=tmp_path,
    )
    code, out, err = finish(process)
    if "forbids ptrace" in err:
        pytest.skip(err.strip())
    assert code in (0, 3), err
    summary = summary_of(out)
    assert summary["ok"] == 15

    series, resources = summary["server_series"], summary["resources"]
    assert series["scrapes"] >= 2 and {"running", "waiting"} <= set(series["gauges"])
    # From the scrape before the first request to the one after the last.
    assert series["counters"]["requests"]["increase"] == 15
    assert resources["rss_max_bytes"] > 20e6 and resources["cores_max"] > 0
    assert resources["processes_max"] == 1

    profile = summary["profile"]
    assert profile["samples"] > 0
    whole = sum(one["self_s"] for one in profile["layers"].values())
    assert abs(whole - profile["sampled_s"]) < 0.01
    assert profile["layers"]["mmload_server"]["inclusive_share"] > 0.3

    folder = tmp_path / "run"
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert 'id="chart-watched"' in page and 'id="chart-cake"' in page

    files = ("--perfetto", str(tmp_path / "t.json"), "--speedscope", str(tmp_path / "s.json"))
    assert call(("report", str(folder), *files)) == 0
    events = json.loads((tmp_path / "t.json").read_text(encoding="utf-8"))["traceEvents"]
    assert sum(e["ph"] == "X" and e["cat"] == "request" for e in events) == 15
    assert sum(e["ph"] == "s" for e in events) == sum(e["ph"] == "f" for e in events) == 15
    assert any(e["name"] == "server: running" for e in events)
    scope = json.loads((tmp_path / "s.json").read_text(encoding="utf-8"))
    sampled = sum(sum(one["weights"]) for one in scope["profiles"])
    counted = profile["samples"] + profile["waiting_samples"]
    assert abs(sampled - counted / profile["rate_hz"]) < 1e-6
