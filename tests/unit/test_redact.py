"""Secrets in what servers say."""

import pytest

from mmload.load.redact import Redactor
from mmload.records import Attempt, Outcome, Record

KEY = "sk-0123456789abcdef"


@pytest.mark.parametrize(
    ("said", "written"),
    [
        (f"invalid key {KEY}", "invalid key [redacted]"),
        (f"{KEY}{KEY}", "[redacted][redacted]"),
        ("nothing here", "nothing here"),
        (f"cut short: {KEY[:9]}", "cut short: [redacted]"),
        (f"cut short: {KEY[:9]}...", "cut short: [redacted]..."),
        (f"cut short: {KEY[:-1]}...", "cut short: [redacted]..."),
        (f"{KEY[:4]} in the middle", "sk-0 in the middle"),  # what a cut leaves is at the end
        ("sk-", "sk-"),  # too short to say anything
        ("", ""),
    ],
)
def test_texts(said: str, written: str) -> None:
    assert Redactor([KEY]).text(said) == written


def test_a_part_of_a_dotted_token_is_secret_too() -> None:
    token = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N"
    for part in token.split("."):
        assert Redactor([token]).text(f"... {part} ...") == "... [redacted] ..."


def test_short_values_are_left_alone() -> None:
    assert Redactor(["1", "on"]).text("1 on 100") == "1 on 100"


def test_every_field_of_a_record_that_a_server_writes() -> None:
    record = Record(
        index=0,
        request_id="r-0",
        media_class="image",
        payload=0,
        intended_ns=0,
        outcome=Outcome.http_error,
        message=f"no {KEY}",
        answer=f"the key is {KEY}",
        finish_reason=KEY,
        usage={"prompt_tokens": 3, KEY: [KEY, {"note": f"<{KEY}>"}]},
        attempts=[Attempt(sent_ns=0, closed_ns=1, outcome=Outcome.http_error, message=KEY)],
    )
    Redactor([KEY]).record(record)
    assert KEY not in repr(record)
    assert record.usage == {
        "prompt_tokens": 3,
        "[redacted]": ["[redacted]", {"note": "<[redacted]>"}],
    }
    assert record.media_class == "image"
