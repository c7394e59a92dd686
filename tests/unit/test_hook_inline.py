"""Spans inside responses: kept for who asked, bounded, and nothing left behind."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from mmload.hook import inline, spans
from mmload.records import ServerProcess, Span


@pytest.fixture(autouse=True)
def hook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("MMLOAD_HOOK_DIR", str(tmp_path / "spans"))
    spans.install("server", {"workers": 2})
    yield
    spans.shutdown()
    assert not inline._asked


def test_lines_are_those_of_the_file() -> None:
    inline.ask("r1")
    spans.record("processor", 1, 5, request_id="r1", frames=3)
    spans.record("processor", 2, 6, request_id="r2")
    comments = spans.comments("r1").decode()
    assert comments.startswith("\n: mmload-spans ") and comments.endswith("\n\n")
    process, span = (line.removeprefix(inline.PREFIX) for line in comments.strip().split("\n"))
    said = msgspec.json.decode(process, type=dict[str, ServerProcess])["process"]
    assert (said.role, said.settings) == ("server", {"workers": 2})
    assert msgspec.json.decode(span, type=Span).facts == {"frames": 3}
    assert spans.comments("r1") == b"" == spans.comments("r2")


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inline, "REQUESTS_LIMIT", 2)
    monkeypatch.setattr(inline, "SPANS_LIMIT", 3)
    for name in ("a", "b", "c"):
        inline.ask(name)
        for i in range(5):
            spans.record("decode", i, i + 1, request_id=name)
    assert spans.comments("a").count(b"mmload-spans") == 4  # the process and three spans
    assert spans.comments("c") == b""
    inline.drop("b")
    assert spans.comments("b") == b""
