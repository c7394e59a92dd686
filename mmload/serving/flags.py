"""From what was typed to the plan of a server: the flags of a server that mmload starts.

`plan_from` is what commands call. Everything wrong is a UsageError that names the flag; the values
of variables are never shown, as they may be secret.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mmload.errors import UsageError
from mmload.server.settings import EMBEDDED_FAMILIES, server_settings
from mmload.serving.plan import CommandPlan, EmbeddedPlan, ServerPlan

MOST_PROCESSORS: Final = 4096


class Launch(BaseModel):
    """Flags for a server that mmload starts; descriptions are their help."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    server_env: tuple[str, ...] = Field(
        default=(), repr=False, description="NAME=VALUE in the server's environment; repeats."
    )
    server_cpus: str | None = Field(
        default=None, description="Processors for the server and its children: 0,1 or 0-3 (all)."
    )
    server_ready_timeout: Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)] = Field(
        default=600.0, description="Seconds that the server may take to become ready (600)."
    )
    no_server_hook: bool = Field(
        default=False, description="Do not trace the server that the command starts."
    )


def plan_from(
    command: Sequence[str] | None,
    launch: Mapping[str, Any],
    embedded: Mapping[str, Any],
    url: str | None,
    family: str | None = None,
) -> ServerPlan | None:
    """The server to start: by a command, or the embedded one; None where the load goes to a URL.

    `launch` and `embedded` are the flags given, of `Launch` and of `ServerSettings`; `family` is
    the load's --model-family, which the embedded server takes on where it can.
    """
    if embedded and (command or url is not None):
        where = "a command of its own" if command else "a URL"
        raise UsageError(
            f"--{_flag(next(iter(embedded)))}: is for the embedded server, and the load goes to"
            f" {'the server of ' if command else ''}{where}",
            f"leave out the flag or the {'command' if command else 'URL'}",
        )
    if launch and not command and url is not None:
        raise UsageError(
            f"--{_flag(next(iter(launch)))}: is for a server that mmload starts, and the load goes"
            " to a URL",
            "leave it out, or give the server's command after --",
        )
    how = _how(launch_from(launch))
    if command:
        return CommandPlan(argv=tuple(command), url=url, **how)
    if url is not None:
        return None
    shared = {"model_family": family} if family in EMBEDDED_FAMILIES else {}
    settings = server_settings({**shared, **embedded})
    if settings.model_path is not None:
        how.setdefault("ready_timeout_s", CommandPlan.ready_timeout_s)  # it reads a checkpoint
    return EmbeddedPlan(settings=settings, **how)


def launch_from(values: Mapping[str, Any]) -> Launch:
    """From flags. Raises UsageError that names the flag."""
    try:
        launch = Launch.model_validate(dict(values))
    except ValidationError as error:
        first = error.errors()[0]
        raise UsageError(
            f"--{_flag(str(first['loc'][0]))} {first['input']!r}: {first['msg']}",
            "`mmload run --help` says how",
        ) from None
    environment_of(launch.server_env)
    return launch


def _how(launch: Launch) -> dict[str, Any]:
    """The fields of either plan that the flags set."""
    made: dict[str, Any] = {
        "env": environment_of(launch.server_env),
        "cpus": processors(launch.server_cpus),
        "traced": not launch.no_server_hook,
    }
    if "server_ready_timeout" in launch.model_fields_set:
        made["ready_timeout_s"] = launch.server_ready_timeout
    return made


def environment_of(given: Sequence[str]) -> dict[str, str]:
    """NAME=VALUE texts as a mapping. A UsageError shows no value: it may be a secret."""
    env = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name or "\0" in text:
            raise UsageError(
                "--server-env: is not of the form NAME=VALUE", "as in OMP_NUM_THREADS=4"
            )
        env[name] = value
    return env


def processors(text: str | None) -> tuple[int, ...]:
    """Numbers out of `0,2-3`. Raises UsageError for others than this machine lets us use."""
    if text is None:
        return ()
    if not hasattr(os, "sched_getaffinity"):
        raise UsageError("--server-cpus: this system cannot pin a process", "leave it out")
    chosen: set[int] = set()
    for part in text.split(","):
        low, dash, high = part.strip().partition("-")
        if not (low.isdigit() and (high.isdigit() or not dash)):
            raise UsageError(
                f"--server-cpus: {text!r} is not allowed: numbers and ranges",
                "as in 0,1 or 0-3",
            )
        chosen |= set(range(int(low), min(int(high or low), MOST_PROCESSORS) + 1))
    allowed = os.sched_getaffinity(0)
    if not chosen or not chosen <= allowed:
        raise UsageError(
            f"--server-cpus {text}: this process may use {sorted(allowed)}",
            "name some of those",
        )
    return tuple(sorted(chosen))


def _flag(name: str) -> str:
    return name.replace("_", "-")
