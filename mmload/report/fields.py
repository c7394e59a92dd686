"""Reading a summary without trusting it to be complete: nested look-up, and mappings as facts.

In: any part of the summary object, in which anything may be null or absent. Out: values, or
(label, text) pairs. Never raises for a missing key. What servers say is made safe to show.
"""

import re
from typing import Any, Final

from mmload.report import numbers

Summary = dict[str, Any]
Fact = tuple[str, str]  # label, text


def get(mapping: Any, *path: str) -> Any:
    """The value under nested keys; None as soon as one of them is missing or null."""
    for key in path:
        if not isinstance(mapping, dict):
            return None
        mapping = mapping.get(key)
    return mapping


def visible(text: str) -> str:
    """Text with escapes for control characters (not tabs or line ends) and direction marks."""
    return _CONTROL.sub(lambda found: _escape(ord(found[0])), text)


def _escape(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


_CONTROL: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def flat(mapping: Any) -> list[Fact]:
    """Any mapping as facts: keys in words, values by the unit in the key's name."""
    facts = []
    for key, value in (mapping or {}).items():
        if value is None or value in ("", [], {}):
            continue
        words, text = str(key), _value(value)
        for suffix, form in _UNITS:
            if f"_{words}".endswith(suffix) and isinstance(value, int | float):
                words, text = words.removesuffix(suffix), form(value)
                break
        facts.append((words.replace("_", " "), text))
    return facts


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{label} {text}" for label, text in flat(value))
    if isinstance(value, list | tuple):
        return ", ".join(_value(item) for item in value)
    if isinstance(value, int | float):
        return numbers.count(value) if value == int(value) else numbers.digits(value)
    return str(value)


_UNITS: Final = (
    ("_per_s", lambda rate: f"{numbers.rate(rate)}/s"),
    ("_bytes", numbers.size),
    ("_ms", numbers.ms),
    ("_s", numbers.seconds),
    ("_ns", lambda ns: numbers.ms(ns / 1e6)),
    ("_gib", lambda gib: f"{numbers.digits(gib)} GiB"),
    ("_qps", lambda qps: f"{numbers.rate(qps)} requests/s"),
)
