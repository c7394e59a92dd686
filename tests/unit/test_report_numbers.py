"""Numbers as text: units, digits, and rounding before the unit is chosen."""

import pytest

from mmload.report import numbers
from mmload.report.fields import flat, get, visible
from mmload.report.words import machine


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0, "0 ms"),
        (0.0004, "<0.001 ms"),
        (0.0123, "0.012 ms"),
        (0.0996, "0.10 ms"),
        (0.184, "0.18 ms"),
        (0.996, "1.00 ms"),
        (9.994, "9.99 ms"),
        (9.996, "10.0 ms"),
        (99.94, "99.9 ms"),
        (99.96, "100 ms"),
        (301.4, "301 ms"),
        (1234.5, "1,234 ms"),
        (9999.4, "9,999 ms"),
        (9999.6, "10.0 s"),
        (17_100, "17.1 s"),
        (123_456, "123 s"),
        (3_600_000, "3,600 s"),
        (-0.2, "-0.20 ms"),
        (-12_000, "-12.0 s"),
    ],
)
def test_ms(value: float | None, text: str) -> None:
    assert numbers.ms(value) == text


@pytest.mark.parametrize(
    ("fraction", "text"),
    [(None, "-"), (0, "0%"), (0.0001, "<0.1%"), (0.004, "0.4%"), (0.0996, "10%"), (1.5, "150%")],
)
def test_percent(fraction: float | None, text: str) -> None:
    assert numbers.percent(fraction) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0, "0 bytes"), (999, "999 bytes"), (1_241_318, "1.24 MB"), (2e9, "2.00 GB")],
)
def test_size(value: float | None, text: str) -> None:
    assert numbers.size(value) == text


def test_plural_and_count() -> None:
    assert numbers.plural(1, "request") == "1 request"
    assert numbers.plural(1500, "request") == "1,500 requests"
    assert numbers.count(None) == "-"


def test_facts_take_their_unit_from_the_key() -> None:
    facts = {
        "cpu_ns": 291_000_000,
        "wait_ms": 12_345,
        "took_s": 30.0,
        "body_bytes": 1500,
        "tokens_per_s": 52.9,
        "threads": 1.0,
        "frames": 7.32,
        "on": True,
        "nothing": None,
        "names": ["a", "b"],
        "inner": {"x_ms": 2},
    }
    assert flat(facts) == [
        ("cpu", "291 ms"),
        ("wait", "12.3 s"),
        ("took", "30.0 s"),
        ("body", "1.50 kB"),
        ("tokens", "52.9/s"),
        ("threads", "1"),
        ("frames", "7.32"),
        ("on", "yes"),
        ("names", "a, b"),
        ("inner", "x 2.00 ms"),
    ]
    assert flat(None) == []


def test_get_stops_at_the_first_null() -> None:
    assert get({"a": {"b": 1}}, "a", "b") == 1
    assert get({"a": None}, "a", "b") is None
    assert get(None, "a") is None
    assert get({"a": 3}, "a", "b") is None


def test_visible_shows_control_characters_and_keeps_text() -> None:
    assert visible("a\x1b[31m\u202eb\x00") == "a\\x1b[31m\\u202eb\\x00"
    assert visible("line\n\tnext é モ") == "line\n\tnext é モ"


def test_machine() -> None:
    facts = {"host_os": "Linux 6.1", "cpu": "EPYC", "cores": 2, "memory_gib": 24.0, "gpu": "none"}
    assert machine(facts) == "EPYC, 2 cores, 24.0 GiB, Linux 6.1, gpu none"
    assert machine(None) == ""
