"""The processors' interface, where none of them is installed."""

import sys

import pytest

from mmload.errors import UsageError
from mmload.processors.base import Counts, Processed, load


def test_without_the_extra_the_fix_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("torch", "transformers"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "mmload.processors.stock", raising=False)
    with pytest.raises(UsageError) as caught:
        load("owned", "qwen3-vl")
    assert caught.value.message.startswith("the owned processors need transformers: ")
    assert caught.value.hint == "pip install 'mmload[hf]'"


def test_an_unknown_family_names_the_known_ones() -> None:
    with pytest.raises(UsageError) as caught:
        load("stock", "qwen2-vl")
    assert caught.value.message == "processor family 'qwen2-vl'"
    assert caught.value.hint == "one of qwen3-vl, gemma-4"


def test_counts_by_core_and_reason() -> None:
    counts = Counts()
    for core, reason in (("owned (torch)", ""), ("stock", "grey"), ("stock", "grey")):
        counts.add(Processed({}, [], [], core, reason))
    assert counts.cores == {"owned (torch)": 1, "stock": 2}
    assert counts.fallbacks == {"grey": 2}
