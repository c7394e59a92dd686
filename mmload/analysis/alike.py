"""What differs between sides: scenarios, server settings, machines, versions; by key.

In: for each side, one mapping a run (a scenario, the settings that a server had). Out: the keys
whose values are not the same in all runs of all sides, with the values that each side has. Judges
nothing: whether a difference matters is for those who asked.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

Summary = dict[str, Any]
Difference = dict[str, Any]  # {"key", "values": {label: [values in order, null: not set]}}

_ADDRESS: Final = ("host", "port")  # where the server listened says nothing of how it worked


def differences(
    sides: Mapping[str, Sequence[Mapping[str, Any]]], leave_out: Sequence[str] = ()
) -> list[Difference]:
    """The keys that differ, nested ones with dots (`mix.0.frames`), in order of appearance."""
    plain = {label: [flattened(one) for one in runs] for label, runs in sides.items()}
    keys = dict.fromkeys(key for runs in plain.values() for run in runs for key in run)
    found = []
    for key in keys:
        if key.split(".")[0] in leave_out:
            continue
        values = {label: _distinct([run.get(key) for run in runs]) for label, runs in plain.items()}
        if len(_distinct([v for of_side in values.values() for v in of_side])) > 1:
            found.append({"key": key, "values": values})
    return found


def flattened(mapping: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings and lists of mappings as one, keys joined by dots; the rest as it is."""
    flat: dict[str, Any] = {}
    for key, value in mapping.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            flat |= flattened(value, f"{name}.")
        elif isinstance(value, list) and value and all(isinstance(v, dict) for v in value):
            flat |= flattened({str(i): v for i, v in enumerate(value)}, f"{name}.")
        else:
            flat[name] = value
    return flat


def settings(summary: Summary) -> dict[str, Any]:
    """A server's settings: as it was started, as the hook in its processes saw them, and what its
    stages were seen to use (torch threads, workers)."""
    found = dict((summary.get("run") or {}).get("server") or {})
    for process in summary.get("server_processes") or []:
        role = process.get("role") or "server"
        said = process.get("settings") or {}
        found |= said if role == "server" else {role: {**found.get(role, {}), **said}}
        notes = process.get("notes") or {}
        for package, version in (notes.get("versions") or {}).items():
            found[f"version of {package}"] = version
        for event in notes.get("missing") or {}:
            found[f"hook without {event}"] = True  # its time is in another stage
    for name, stage in (summary.get("stages") or {}).items():
        threads = (stage.get("facts") or {}).get("threads")
        if threads is not None:
            found[f"{name}: torch threads"] = round(float(threads), 1)
        if stage.get("configured_width") is not None:
            found[f"{name}: workers"] = stage["configured_width"]
    return {key: value for key, value in found.items() if key not in _ADDRESS}


def machine(summary: Summary) -> dict[str, Any]:
    """The machine, but for what changes when it is started again."""
    facts = (summary.get("run") or {}).get("machine") or {}
    return {key: value for key, value in facts.items() if key != "boot_id"}


def _distinct(values: Sequence[Any]) -> list[Any]:
    seen: dict[str, Any] = {}
    for value in values:
        seen.setdefault(json.dumps(value, sort_keys=True), value)
    return list(seen.values())
