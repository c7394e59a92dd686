"""A capacity search's summary in words, the same for all formats.

In: the object of docs/capacity.md. Out: plain strings and facts, unescaped and without layout.
"""

from typing import Any, Final

from mmload.report import numbers
from mmload.report.fields import Fact

Section = dict[str, Any]

VERDICTS: Final = {
    "pass": "passes",
    "unsure": "unsure",
    "fail": "fails",
    "invalid": "INVALID",
}
QUEUES: Final = {"stable": "stable", "growing": "growing", "cant_tell": "can't tell"}


def facts(made: Section) -> list[Fact]:
    rule = made["rule"]
    found = [
        ("objectives", ", ".join(made["slos"])),
        ("server", made["server"]),
        ("load", load(made["scenario"])),
        (
            "search",
            f"{numbers.plural(len(made['runs']), 'run')},"
            f" {numbers.count(sum(run['requests'] for run in made['runs']))} requests, from"
            f" {rule['start_qps']:g}/s, to {rule['precision']:.0%}; {made['ended_words']}",
        ),
    ]
    machine = made.get("machine") or {}
    if machine:
        found.append(
            (
                "machine",
                f"{machine.get('cpu')}, {machine.get('cores')} cores,"
                f" {machine.get('memory_gib')} GiB, {machine.get('host_os')}",
            )
        )
    found.append(("started", made["started_at"]))
    if made["simulated"]:
        found.append(("simulated", made["simulated"]))
    return found


def load(scenario: Section) -> str:
    parts = []
    if "frames" in scenario:
        parts.append(f"frames {'+'.join(map(str, scenario['frames']))}")
    if "size" in scenario:
        parts.append("+".join(scenario["size"]))
    parts.append(f"{scenario.get('arrival', 'constant')} arrivals")
    return ", ".join(parts)


def knee(made: Section) -> str:
    found = made["knee"]
    title = made["metric"].upper()
    if found is None:
        return f"No knee: p90 {title} never passed twice its value at the lowest rate."
    return (
        f"Knee between {found['above']:g} and {found['up_to']:g} requests/s: there p90 {title}"
        f" passes {numbers.ms(found['p90_ms'])}, twice its value at the lowest rate."
    )


def why(runs: list[Section], rate: float) -> str:
    """Why a rate fails: what the first of its failing runs says."""
    against = ("fail", "unsure")
    failed = (run for run in runs if run["rate"] == rate and run["verdict"] in against)
    return "; ".join(reason.rstrip(".") for reason in next(failed, {"reasons": []})["reasons"])
