"""What the gate or a comparison of two files found, as one JSON object of docs/parity.md.

In: results. Out: plain objects for `json`, without NaN or Infinity. Their shape is a promise: keys
are only added within a schema number. `passed` is what the exit code says.
"""

import platform
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from typing import Any, Final, NamedTuple

import msgspec

from mmload import __version__
from mmload.parity.gate import STOCK, CaseResult, Outcome
from mmload.parity.tensors import Compared

SCHEMA: Final = 1
PACKAGES: Final = ("torch", "torchvision", "transformers", "numpy", "pillow", "numba")


class Bounds(NamedTuple):
    """What two files may differ by. None: nothing is asked of it."""

    min_cosine: float | None = None
    max_rel_l2: float | None = None

    @property
    def asked(self) -> bool:
        return self.min_cosine is not None or self.max_rel_l2 is not None


NO_BOUNDS: Final = Bounds()


# -- two files -----------------------------------------------------------------------------------


def of_files(
    a: str, b: str, compared: Sequence[Compared], bounds: Bounds = NO_BOUNDS
) -> dict[str, Any]:
    """`a` and `b` name the files."""
    passes = [allowed(one, bounds) for one in compared]
    counts: Counter[str] = Counter(one.verdict for one in compared)
    identical = set(counts) == {"identical"}
    passed = bool(compared) and all(passes)
    return {
        "schema": SCHEMA,
        "mmload": __version__,
        "kind": "files",
        "verdict": _files_verdict(identical, passed),
        "passed": passed,
        "identical": identical,
        "sentence": _files_sentence(counts, passes, bounds),
        "a": a,
        "b": b,
        "bounds": bounds._asdict() if bounds.asked else None,
        "tensors": [
            {**msgspec.to_builtins(one), "passed": fine}
            for one, fine in zip(compared, passes, strict=True)
        ],
    }


def allowed(one: Compared, bounds: Bounds) -> bool:
    """Whole numbers have to be the same; without bounds, type and bits have to be.

    With bounds the worst row counts, and a row that has no measure is one too many.
    """
    if one.verdict == "identical":
        return True
    if not bounds.asked or one.verdict not in ("values", "differs"):
        return False
    if one.verdict == "values":
        return True
    if one.exact or one.unmeasured_rows or one.cosine is None or one.rel_l2 is None:
        return False
    assert one.cosine.worst is not None and one.rel_l2.worst is not None  # rows were measured
    return (bounds.min_cosine is None or one.cosine.worst >= bounds.min_cosine) and (
        bounds.max_rel_l2 is None or one.rel_l2.worst <= bounds.max_rel_l2
    )


def _files_verdict(identical: bool, passed: bool) -> str:
    if identical:
        return "IDENTICAL"
    return "WITHIN BOUNDS" if passed else "DIFFERS"


def _files_sentence(counts: Mapping[str, int], passes: Sequence[bool], bounds: Bounds) -> str:
    if not counts:
        return "There is no tensor in either file."
    words = {
        "identical": "identical",
        "values": "with the same values in another type",
        "differs": "with other values",
        "shape": "of another shape",
        "only_a": "in the first file only",
        "only_b": "in the second file only",
    }
    parts = [f"{counts[verdict]} {word}" for verdict, word in words.items() if counts.get(verdict)]
    total = len(passes)
    sentence = f"{total} tensor{'' if total == 1 else 's'}: {', '.join(parts)}."
    if bounds.asked and not all(passes):
        sentence += f" Beyond the bounds: {passes.count(False)}."
    return sentence


# -- the processor gate --------------------------------------------------------------------------


def of_gate(
    results: Iterable[CaseResult],
    *,
    matrix: str,
    machine: Mapping[str, Any],
    processors: Mapping[str, Any],
) -> dict[str, Any]:
    """`matrix`: "full" or "quick". `processors`: what owned ones say of themselves, by name."""
    results = list(results)
    counts = Counter(one.outcome for one in results)
    at_work = any(one.core not in ("", STOCK) for one in results)
    verdict = _gate_verdict(counts, at_work)
    return {
        "schema": SCHEMA,
        "mmload": __version__,
        "kind": "processors",
        "verdict": verdict,
        "passed": verdict == "IDENTICAL",
        "identical": not counts[Outcome.differs],
        "sentence": _gate_sentence(counts, at_work),
        "matrix": matrix,
        "checks": len(results),
        "counts": {outcome.value: counts[outcome] for outcome in Outcome},
        "table": _table(results),
        "served": dict(Counter(one.core for one in results if one.core).most_common()),
        "fallbacks": _reasons(results, Outcome.fell_back),
        "refusals": _reasons(results, Outcome.refused),
        "differences": [
            msgspec.to_builtins(one) for one in results if one.outcome is Outcome.differs
        ],
        "versions": versions(),
        "machine": dict(machine),
        "processors": dict(processors),
        "cases": [
            {"name": one.name, "core": one.asked_core, "outcome": one.outcome.value}
            for one in results
        ],
    }


def versions() -> dict[str, str | None]:
    """Of Python and the packages that decide the bits; None: not installed."""
    found: dict[str, str | None] = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = None
    return found


def _gate_verdict(counts: Mapping[Outcome, int], at_work: bool) -> str:
    if counts[Outcome.differs]:
        return "DIFFERS"
    return "IDENTICAL" if at_work else "NOT TESTED"


def _gate_sentence(counts: Mapping[Outcome, int], at_work: bool) -> str:
    words = {
        Outcome.differs: "different",
        Outcome.identical: "made by an owned core, every bit as stock",
        Outcome.fell_back: "left to stock",
        Outcome.refused: "refused by both",
    }
    parts = [f"{counts[outcome]:,} {word}" for outcome, word in words.items() if counts[outcome]]
    total = sum(counts.values())
    sentence = f"{total:,} check{'' if total == 1 else 's'}: {', '.join(parts)}."
    return sentence if at_work else f"{sentence} No owned core was at work."


def _table(results: Sequence[CaseResult]) -> list[dict[str, Any]]:
    """A row a family, kind and core, in the order of the results."""
    rows: dict[tuple[str, str, str], Counter[Outcome]] = {}
    for one in results:
        row = rows.setdefault((one.family, one.kind, one.asked_core), Counter())
        row[one.outcome] += 1
    return [
        {
            "family": family,
            "kind": kind,
            "core": core,
            "checks": row.total(),
            **{outcome.value: row[outcome] for outcome in Outcome},
        }
        for (family, kind, core), row in rows.items()
    ]


def _reasons(results: Sequence[CaseResult], outcome: Outcome) -> dict[str, int]:
    found = Counter(one.reason for one in results if one.outcome is outcome)
    return dict(found.most_common())
