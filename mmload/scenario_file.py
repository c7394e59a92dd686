"""Scenarios from YAML files and flags, with every problem as one clear line.

The keys of a file are the long flags with underscores. Flags win over the file; what is left is the
default. A `UsageError` names the flag or the file and key, the value, what is allowed, and the fix.

A file may also say which embedded server shows what it is for, under `server` (its settings) and
`server_env`. That is no part of the scenario or its digest: the same load can go anywhere.
"""

import difflib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any, Final

import yaml
from pydantic import ValidationError

from mmload.errors import UsageError
from mmload.scenario import Scenario
from mmload.scenario_types import MediaClass, ProfileSegment


def load_scenario(file: str | None, flags: Mapping[str, Any]) -> Scenario:
    """The scenario of a YAML file (or a shipped name such as "mix") under the given flags.

    `flags` maps field names (by alias) to what was typed. Raises UsageError.
    """
    from_file, where = _read(file) if file is not None else ({}, "")
    for key in _SERVER_KEYS:
        from_file.pop(key, None)
    values = {**from_file, **flags}
    # Flags replace a file's way of pacing instead of standing beside it.
    for group in _ALTERNATIVES:
        if any(key in flags for key in group):
            for key in group:
                if key not in flags:
                    values.pop(key, None)
    for key, owner in _DEPENDENT.items():
        if key not in flags and owner not in values:
            values.pop(key, None)
    try:
        return Scenario.model_validate(values)
    except ValidationError as error:
        raise _usage_error(error, set(flags), where) from None


def server_of_file(file: str | None) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The embedded server of a scenario file: its settings, and NAME=VALUE of its environment.

    Empty where the file names none. Raises UsageError; the settings are judged by who uses them.
    """
    values, where = _read(file) if file is not None else ({}, "")
    settings, env = (values.get(key, {}) for key in _SERVER_KEYS)
    for key, section in zip(_SERVER_KEYS, (settings, env), strict=True):
        if not isinstance(section, dict):
            raise UsageError(
                f"{where}: {key}: is not a mapping", "write `name: value` lines under it"
            )
    named = {str(name).replace("-", "_"): value for name, value in settings.items()}
    return named, tuple(f"{name}={value}" for name, value in env.items())


def over_file(
    file: str | None, launch: Mapping[str, Any], settings: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Flags of the embedded server's start and of its settings, over those of a scenario file."""
    of_file, env = server_of_file(file)
    started = dict(launch)
    if env:
        started["server_env"] = [*env, *started.get("server_env", ())]
    return started, {**of_file, **settings}


_SERVER_KEYS: Final = ("server", "server_env")
_ALTERNATIVES: Final = (
    ("qps", "profile", "trace", "cameras", "concurrency", "sequential"),
    ("duration", "requests"),
    ("mix", "frames"),
    ("mix", "dataset"),
    ("media", "dataset"),
    ("prompt", "prompts"),
)
_DEPENDENT: Final = {"every": "cameras", "phases": "cameras", "think_time": "turns"}


def scenario_folder() -> Path:
    """Where the shipped scenarios are: beside the package when installed, else in the checkout."""
    packaged = Path(str(resources.files("mmload"))) / "scenarios"
    return packaged if packaged.is_dir() else packaged.parents[1] / "scenarios"


def shipped() -> dict[str, Path]:
    return {path.stem: path for path in sorted(scenario_folder().glob("*.yaml"))}


def _read(file: str) -> tuple[dict[str, Any], str]:
    path = Path(file)
    if not path.exists() and path.suffix == "" and path.name == file:
        names = shipped()
        if file not in names:
            raise UsageError(
                f"--scenario {file}: no such file or shipped scenario",
                f"name a YAML file or one of: {', '.join(names)}",
            )
        path = names[file]
    values = read_mapping(path, "write `key: value` lines, such as `qps: 5`")
    values.setdefault("name", path.stem)
    return values, str(path)


def read_mapping(path: Path, what: str) -> dict[str, Any]:
    """The keys of a YAML file. `what` is the fix for one that holds none. Raises UsageError."""
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", "name a YAML file that can be read") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        problem = " ".join(str(error).split())
        raise UsageError(f"{path}: not YAML: {problem}", "correct the file") from None
    if not isinstance(values, dict):
        raise UsageError(f"{path}: holds no keys", what)
    return values


def _usage_error(error: ValidationError, flags: set[str], file: str) -> UsageError:
    first = error.errors()[0]
    loc = [str(part) for part in first["loc"]]
    key = loc[0] if loc else ""
    flag = key in flags or not file
    source = f"--{key.replace('_', '-')}" if flag else f"{file}: {'.'.join(loc)}"
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        known = [f.alias or n for n, f in Scenario.model_fields.items()]
        if len(loc) > 1:
            model = MediaClass if key == "mix" else ProfileSegment
            known = [f.alias or n for n, f in model.model_fields.items()]
        close = difflib.get_close_matches(loc[-1], known, n=1)
        hint = f"did you mean {close[0]}?" if close else f"allowed: {', '.join(sorted(known))}"
        return UsageError(f"{source}: no such key", hint)
    if not loc:
        return UsageError(f"{file}: {message}" if file else message, "see `mmload run --help`")
    shown = first["input"] if not isinstance(first["input"], dict) else "..."
    field = Scenario.model_fields.get("as_" if key == "as" else key)
    about = (field.description or "") if field is not None else ""
    return UsageError(f"{source}: {shown!r} is not allowed: {message}", about)
