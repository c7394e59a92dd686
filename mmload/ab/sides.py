"""The two sides of an A/B: what is shared, what each changes, and in which order they run.

In: what was typed. Out: a server plan or a URL a side, and the order of all runs. Of each two
pairs the order within the first is drawn by the seed, and the second is its mirror image (ABBA or
BAAB): neither side always goes first, and a steady drift of the machine falls on both alike.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from mmload.errors import UsageError
from mmload.load.target import without_credentials
from mmload.scenario_file import over_file
from mmload.serving import ServerPlan
from mmload.serving.flags import plan_from
from mmload.sweep.axes import known
from mmload.sweep.command import with_settings
from mmload.sweep.servers import known_settings

LABELS: Final = ("before", "after")
_NAME: Final = re.compile(r"[A-Za-z][\w.-]*")
_NEXT: Final = re.compile(r"\s+(?=-{0,2}[A-Za-z][\w.-]*(?:=|\s|$))")
UNSET: Final = "unset"  # a setting without its value: the server's own default


class Work(NamedTuple):
    """One run: a side, and which of its repeats (from 1)."""

    label: str
    repeat: int

    @property
    def folder(self) -> str:
        return f"{self.label}/{self.repeat:02d}"


@dataclass(frozen=True)
class Typed:
    """The flags of one side (`--before...` or `--after...`), or what both share."""

    settings: Sequence[str] = ()
    env: Sequence[str] = ()
    command: Sequence[str] = ()
    url: str | None = None


@dataclass(frozen=True)
class Shared:
    """What both sides have: the words after `--`, the URL, flags of the server's start, and what
    the load says of the embedded server: its file's settings, and the model's family."""

    command: Sequence[str] = ()
    url: str | None = None
    launch: Mapping[str, Any] = field(default_factory=dict)
    embedded: Mapping[str, Any] = field(default_factory=dict)
    scenario: str | None = None
    model_family: str | None = None


@dataclass(frozen=True)
class Side:
    """Where a side's load goes: to a server that is started for each run, or to a URL."""

    label: str
    plan: ServerPlan | None
    url: str | None = None

    def described(self) -> dict[str, Any]:
        """For ab.json: no secrets."""
        if self.plan is not None:
            return self.plan.launched()
        return {"url": without_credentials(self.url or "")}


def side_of(label: str, shared: Shared, own: Typed) -> Side:
    """Raises UsageError that names the flag at fault."""
    url = own.url if own.url is not None else shared.url
    command = list(own.command or (() if own.url is not None else shared.command))
    if own.url is not None and own.command:
        raise UsageError(
            f"--{label}-url and --{label}-cmd: a side is one or the other", "leave one out"
        )
    settings = _settings(label, own.settings)
    if url is not None and not command and (settings or own.env):
        flag = f"--{label}" if settings else f"--{label}-env"
        raise UsageError(
            f"{flag}: is for a server that mmload starts, and this one runs at a URL",
            f"give its command after --, or start two servers and name them by --{label}-url",
        )
    launch, embedded = dict(shared.launch), dict(shared.embedded)
    if not command and url is None:
        launch, embedded = over_file(shared.scenario, launch, embedded)
    if own.env:
        launch["server_env"] = [*launch.get("server_env", ()), *own.env]
    if command:
        values = {name: None if v == UNSET else v for name, v in settings.items()}
        command = with_settings(command, values)
    else:
        for name, value in settings.items():
            known([name], known_settings(), f"--{label}")
            embedded.pop(name.replace("-", "_"), None)
            if value != UNSET:
                embedded[name.replace("-", "_")] = value
    plan = plan_from(command, launch, embedded, url, shared.model_family)
    return Side(label, plan, url if plan is None else None)


def _settings(label: str, given: Sequence[str]) -> dict[str, str]:
    """`renderer-workers=2 enforce-eager` as names and values; a bare name is switched on. Values
    may be JSON: only a blank before a name begins the next setting, and quotes stay."""
    found = {}
    for text in given:
        for setting in _NEXT.split(text.strip()):
            name, equals, value = setting.partition("=")
            name = name.removeprefix("--").replace("_", "-")
            if not _NAME.fullmatch(name):
                raise UsageError(
                    f"--{label} {text!r}: is not of the form NAME=VALUE", "as in renderer-workers=2"
                )
            found[name] = value if equals else "on"
    return found


def order(repeats: int, seed: int) -> list[Work]:
    """All runs in the order to do them; more repeats only add to the end."""
    works = []
    for pair in range(repeats):
        drawn = hashlib.sha256(f"{seed}/{pair // 2}".encode()).digest()[0] & 1
        labels = LABELS if drawn ^ (pair & 1) else LABELS[::-1]
        works += [Work(label, pair + 1) for label in labels]
    return works
