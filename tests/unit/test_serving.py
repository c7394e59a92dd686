"""From a command to a plan: where it listens, what is hidden, which processors."""

import os
import sys

import pytest

from mmload.cli import _with_server_command, call
from mmload.errors import UsageError
from mmload.serving.flags import environment_of, plan_from, processors
from mmload.serving.hidden import hide_environment, hide_words, is_secret, secrets_of
from mmload.serving.plan import CommandPlan, EmbeddedPlan
from mmload.serving.where import place_of


@pytest.mark.parametrize(
    ("command", "url", "expected"),
    [
        ("vllm serve M --port 8123", None, "http://127.0.0.1:8123"),
        ("vllm serve M --port=8123 --host=0.0.0.0", None, "http://127.0.0.1:8123"),
        ("vllm serve M --port 1 --port 2", None, "http://127.0.0.1:2"),
        ("vllm serve M --port 8123 --host ::", None, "http://[::1]:8123"),
        ("vllm serve M --port 8123 --host 10.0.0.7", None, "http://10.0.0.7:8123"),
        ("vllm serve M --port 8443 --ssl-certfile c.pem", None, "https://127.0.0.1:8443"),
        ("/opt/v/bin/vllm serve M", None, "http://127.0.0.1:8000"),
        ("env A=1 taskset -c 0 vllm serve M", None, "http://127.0.0.1:8000"),
        ("python -m sglang.launch_server --model M", None, "http://127.0.0.1:30000"),
        ("llama-server -m M", None, "http://127.0.0.1:8080"),
        ("mine", "http://localhost:9000/v1", "http://localhost:9000/v1"),
        ("mine", "localhost:9000", "http://localhost:9000"),
        ("mine --port 9000", "localhost:9000", "http://localhost:9000"),
    ],
)
def test_where_a_command_listens(command: str, url: str | None, expected: str) -> None:
    place = place_of(command.split(), url)
    assert place.url == expected and place.argv == tuple(command.split())


def test_a_free_port_goes_everywhere_the_command_says() -> None:
    place = place_of(["mine", "--bind", "127.0.0.1:{port}", "--metrics={port}"])
    assert place.argv == ("mine", "--bind", f"127.0.0.1:{place.port}", f"--metrics={place.port}")
    assert place.url == f"http://127.0.0.1:{place.port}" and place.port > 1023
    assert place_of(["mine", "{port}"], "http://h:77/x").argv == ("mine", "77")


@pytest.mark.parametrize(
    ("command", "url", "words"),
    [
        ("mine serve", None, "where does this server listen"),
        ("mine --port 9000", "localhost:9001", "the URL says port 9001"),
        ("mine --port zero", None, "--port zero"),
        ("mine --port 0", None, "--port 0"),
        ("mine --port 70000", None, "--port 70000"),
    ],
)
def test_a_command_that_does_not_say_where(command: str, url: str | None, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        place_of(command.split(), url)


def test_names_of_secrets() -> None:
    secret = ["--api-key", "HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "DB_PASSWORD", "password", "apikey"]
    plain = ["--max-num-batched-tokens", "--tokenizer", "--ssl-keyfile", "OMP_NUM_THREADS", "PWD"]
    assert [is_secret(name) for name in secret] == [True] * len(secret)
    assert [is_secret(name) for name in plain] == [False] * len(plain)


def test_secrets_are_hidden_and_known() -> None:
    argv = [
        *("env", "HF_TOKEN=hf_abcdef", "vllm", "serve", "M", "--api-key", "sk-first", "sk-second"),
        *("--port", "8000", "--max-tokens", "4096", "--secret=s3cr3t!", "--proxy"),
        *("http://me:hunter22@proxy/", "--config", '{"token": "json-tok", "n": 1}'),
    ]
    assert hide_words(argv) == (
        "env HF_TOKEN=*** vllm serve M --api-key *** *** --port 8000 --max-tokens 4096"
        """ --secret=*** --proxy http://***@proxy/ --config '{"token": "***", "n": 1}'"""
    )
    env = {"OMP_NUM_THREADS": "4", "MY_KEY": "environment", "SHORT_KEY": "abc"}
    assert hide_environment(env) == {"OMP_NUM_THREADS": "4", "MY_KEY": "***", "SHORT_KEY": "***"}
    inherited = {"PATH": "/usr/bin/long/enough", "GITHUB_TOKEN": "inherited", "A_KEY": "short"}
    assert set(secrets_of(argv, env, inherited)) == {
        *("hf_abcdef", "sk-first", "sk-second", "s3cr3t!", "me:hunter22", "hunter22", "json-tok"),
        *("environment", "inherited"),
    }


def test_words_after_two_dashes_are_the_servers() -> None:
    given = ["run", "--qps", "3", "--", "vllm", "serve", "--port", "1", "--", "x"]
    assert list(_with_server_command(given)) == [
        *("run", "--qps", "3", "--server-command=vllm", "--server-command=serve"),
        *("--server-command=--port", "--server-command=1", "--server-command=--"),
        "--server-command=x",
    ]
    assert list(_with_server_command(["trace", "--", "x"])) == ["trace", "--", "x"]
    with pytest.raises(UsageError, match="no command after --"):
        _with_server_command(["run", "--"])


def test_which_server_the_flags_mean() -> None:
    here = sys.executable
    assert plan_from(None, {}, {}, "http://there") is None
    embedded = plan_from(None, {}, {"renderer_workers": "2"}, None)
    assert isinstance(embedded, EmbeddedPlan) and embedded.settings.renderer_workers == 2
    assert embedded.ready_timeout_s == 60
    flags = {"server_env": ["A=1", "B=x=y"], "server_ready_timeout": "9"}
    command = plan_from([here, "--port", "1"], flags, {}, None)
    assert isinstance(command, CommandPlan)
    assert (command.env, command.ready_timeout_s) == ({"A": "1", "B": "x=y"}, 9.0)
    for wrong, words in (
        ((None, {"server_env": ["A=1"]}, {}, "http://there"), "--server-env: is for a server that"),
        ((None, {}, {"max_batch": "2"}, "http://there"), "--max-batch: is for the embedded"),
        (([here, "--port", "1"], {}, {"max_batch": "2"}, None), "--max-batch: is for the embedded"),
        (([here, "--port", "1"], {"server_ready_timeout": "-1"}, {}, None), "--server-ready-time"),
        ((["/no/such", "--port", "1"], {}, {}, None), "/no/such: no such command"),
    ):
        with pytest.raises(UsageError, match=words):
            plan_from(*wrong)


def test_an_environment_never_shows_its_values() -> None:
    with pytest.raises(UsageError) as raised:
        environment_of(["secret-by-mistake"])
    assert "secret-by-mistake" not in raised.value.message + raised.value.hint


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="no pinning here")
def test_processors_by_number_and_range(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3, 8})
    assert processors("0-2, 8") == (0, 1, 2, 8) and processors("1") == (1,)
    assert processors(None) == ()
    for wrong in ("4", "0-99999999999", "-1", "a", "", "2-1", "1,"):
        with pytest.raises(UsageError, match="--server-cpus"):
            processors(wrong)


def test_the_help_of_a_command_says_how_a_server_is_started(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert call(["run", "--help"]) == 0
    said = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "-- vllm serve MODEL" in said and "{port}" in said and "runs/<time>-<name>" in said
