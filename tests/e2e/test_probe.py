"""`mmload probe colours` against servers that see, that do not, and that fail."""

import asyncio
import base64
import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from mmload.cli import call
from mmload.probe import COLOURS, Reply, named, questions, verdict
from tests.e2e.cli import finish, mmload, summary_of
from tests.e2e.raw_server import RawServer, Request, raw_server

Answer = Callable[[str, "np.ndarray[Any, Any]"], str | None]


def seeing(prompt: str, picture: "np.ndarray[Any, Any]") -> str:
    """Looks at the pixels: the nearest colour of the half that is asked about, else the word."""
    half = picture.shape[1] // 2
    part = picture[:, half:] if "right half" in prompt else picture[:, :half]
    if "word is written" in prompt:
        assert (picture == 255).all(axis=2).mean() > 0.7  # black on white
        assert (picture == 0).all(axis=2).mean() > 0.01
        return "It says MAPLE."
    assert (part == part[0, 0]).all()  # solid
    name = min(COLOURS, key=lambda c: float(np.abs(part[0, 0] - np.array(COLOURS[c])).sum()))
    return f"{name.capitalize()}."


@contextmanager
def server(answer: Answer) -> Iterator[RawServer]:
    """A scripted chat server in a thread; an answer of None is an HTTP 500."""

    async def handler(
        request: Request, _reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        if request.head.startswith(b"GET"):
            send(writer, "application/json", b'{"data": [{"id": "scripted"}]}')
            return True
        asked = json.loads(request.body)
        image, text = asked["messages"][0]["content"]
        encoded = image["image_url"]["url"].partition(",")[2]
        pixels = cv2.imdecode(np.frombuffer(base64.b64decode(encoded), np.uint8), cv2.IMREAD_COLOR)
        assert pixels is not None
        said = answer(text["text"], pixels.astype(int))
        if said is None:
            send(writer, "application/json", b'{"error": {"message": "out of order"}}', b"500 No")
            return True
        words = "".join(
            f"data: {json.dumps({'choices': [{'index': 0, 'delta': {'content': part}}]})}\n\n"
            for part in re.findall(r"\S+ ?", said)
        )
        send(writer, "text/event-stream", f"{words}data: [DONE]\n\n".encode())
        return True

    ready, stop = threading.Event(), threading.Event()
    served: list[RawServer] = []

    async def serve() -> None:
        async with raw_server(handler) as raw:
            served.append(raw)
            ready.set()
            await asyncio.to_thread(stop.wait, 60)

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    try:
        assert ready.wait(10)
        yield served[0]
    finally:
        stop.set()
        thread.join(10)


def send(writer: asyncio.StreamWriter, kind: str, body: bytes, status: bytes = b"200 OK") -> None:
    head = b"HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n"
    writer.write(head % (status, kind.encode(), len(body)) + body)


Probe = Callable[..., tuple[int, str, str]]


@pytest.fixture
def probe(capsys: pytest.CaptureFixture[str]) -> Probe:
    """The command in this process: exit code, standard output, standard error."""

    def run(*args: str) -> tuple[int, str, str]:
        capsys.readouterr()
        return (call(["probe", *args]), *capsys.readouterr())

    return run


def at(port: int) -> str:
    return f"http://127.0.0.1:{port}"


def test_a_server_that_sees(probe: Probe) -> None:
    with server(seeing) as scripted:
        code, out, err = probe("colours", at(scripted.port))
        posts = [r for r in scripted.requests if r.head.startswith(b"POST")]
    assert code == 0, err
    lines = out.splitlines()
    assert lines[0] == "SEES  7 of 7 answers are right"
    assert lines[1] == f"  http://127.0.0.1:{scripted.port}/v1, scripted"
    assert out.count("  right   ") == 7 and "wrong" not in out
    assert "-> It says MAPLE." in out
    assert len(posts) == 7
    assert len({r.connection for r in posts}) == 1  # one at a time, on one connection
    assert len({re.search(rb"X-Request-Id: (\S+)", r.head)[1] for r in posts}) == 7  # type: ignore[index]


def test_a_server_that_mixes_left_and_right_sees_in_part(probe: Probe) -> None:
    def mirrored(prompt: str, picture: "np.ndarray[Any, Any]") -> str:
        return seeing(prompt, picture[:, ::-1])

    with server(mirrored) as scripted:
        code, out, _ = probe("colours", at(scripted.port), "--json")
    found = summary_of(out)
    assert code == 4
    assert (found["verdict"], found["sentence"]) == ("SEES IN PART", "5 of 7 answers are right")
    wrong = [(a["title"], a["expected"], a["answer"]) for a in found["answers"] if not a["right"]]
    assert wrong == [("left half", "red", "Blue."), ("right half", "blue", "Red.")]


def test_the_embedded_server_does_not_see_and_says_so(probe: Probe, tmp_path: Path) -> None:
    """Its answers are made up: the probe must not be fooled by them."""
    serving = mmload("serve", "--answer-tokens", "4", cwd=tmp_path)
    try:
        assert serving.stdout is not None
        ready = next(line for line in serving.stdout if "http://" in line)
        port = re.search(r"127\.0\.0\.1:(\d+)", ready)
        assert port is not None
        code, out, err = probe("colours", at(int(port[1])))
    finally:
        serving.terminate()
        finish(serving, 30)
    assert code == 4, err
    assert out.startswith("DOES NOT SEE  ")


def test_a_server_that_fails_is_not_called_blind(probe: Probe) -> None:
    with server(lambda prompt, _: None if "word is written" not in prompt else "MAPLE") as scripted:
        code, out, _ = probe("colours", at(scripted.port))
    assert code == 4
    assert out.startswith("CAN'T TELL  ")
    assert "http error: HTTP 500: out of order" in out


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("colours", "http://127.0.0.1:9"), "no server answers"),
        (("colours", "ftp://x"), "is not an address"),
        (("colours", "http://127.0.0.1:9", "--api", "telepathy"), "--api telepathy"),
        (("colours", "http://127.0.0.1:9", "--api", "completions"), "takes text alone"),
        (("sounds", "http://127.0.0.1:9"), "sounds"),
    ],
)
def test_bad_input(probe: Probe, args: tuple[str, ...], words: str) -> None:
    code, out, err = probe(*args)
    assert (code, out) == (2, "")
    assert words in err and len(err.splitlines()) == 1


def test_the_first_choice_that_is_named_counts() -> None:
    both = ("red", "blue")
    assert named("The left half is Red, the right one blue.", both) == "red"
    assert named("A coloured reddish thing", both) is None
    assert named("**BLUE**", both) == "blue"


def test_one_colour_throughout_is_guessing() -> None:
    asked = questions()
    for colour in COLOURS:
        found = verdict([Reply(question, colour, "") for question in asked])
        assert (found.word, found.passed) == ("DOES NOT SEE", False)
    assert verdict([Reply(q, q.expected, "") for q in asked]).passed
    assert len({q.picture.sha256 for q in asked}) == 6  # the halves are one picture
