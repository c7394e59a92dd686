"""The plan of a server to start: how, with what environment, on which processors.

    with server_of(plan, folder) as server:    # started, ready, its output in folder/server.log
        Run(scenario, Options(server=server), watcher).execute()

A plan is plain data: a sweep makes another one by `dataclasses.replace`. `EmbeddedPlan` is mmload's
own server by its settings, `CommandPlan` any command. What is written of a plan (`launched`) holds
no secrets.
"""

import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from mmload.errors import UsageError
from mmload.hook.spans import FOLDER_VARIABLE
from mmload.load.reach import Reach
from mmload.server.settings import ServerSettings, server_flags
from mmload.serving.hidden import hide_environment, hide_words, secrets_of
from mmload.serving.process import About, AnnouncedServer, PolledServer, Server
from mmload.serving.where import place_of
from mmload.trace import SITE, environment_for

LOG: Final = "server.log"
SPANS: Final = "spans"
HOOK: Final = "the hook in the server that mmload started"


@dataclass(frozen=True, kw_only=True)
class ServerPlan:
    """What both kinds have. `env` is added to mmload's own environment."""

    env: Mapping[str, str] = field(default_factory=dict)
    unset: tuple[str, ...] = ()  # variables of mmload's own environment that the server lacks
    cpus: tuple[int, ...] = ()  # none: all
    ready_timeout_s: float = 600.0
    patience_s: float = 15.0  # for the server to end by itself, and then for its children
    traced: bool = True

    def words(self) -> str:
        """What is started, fit to be shown."""
        raise NotImplementedError

    def start(self, folder: Path, reach: Reach) -> Server:
        """A process; entering it waits until it is ready."""
        raise NotImplementedError

    def launched(self) -> dict[str, Any]:
        """For the manifest: what was given to the server, without secrets."""
        return {
            "command": self.words(),
            "env": hide_environment(self.env),
            **({"unset": list(self.unset)} if self.unset else {}),
            "cpus": list(self.cpus),
            "traced": self.traced,
        }


@dataclass(frozen=True, kw_only=True)
class EmbeddedPlan(ServerPlan):
    """mmload's own server: real HTTP, decoding and preprocessing, a simulated accelerator."""

    settings: ServerSettings = field(default_factory=ServerSettings)
    ready_timeout_s: float = 60.0

    def words(self) -> str:
        return shlex.join(("mmload", "serve", *server_flags(self.settings)))

    def start(self, folder: Path, reach: Reach) -> Server:
        spans = str((folder / SPANS).resolve()) if self.traced else ""
        return AnnouncedServer(
            # -P: a user's timeit.py in the current folder is not the library's
            [sys.executable, "-P", "-m", "mmload.server", *server_flags(self.settings)],
            folder / LOG,
            env={**self.env, FOLDER_VARIABLE: spans},
            unset=self.unset,
            cpus=self.cpus,
            ready_timeout_s=self.ready_timeout_s,
            patience_s=self.patience_s,
            secrets=secrets_of((), self.env, {}),
            about=About(
                self.launched(),
                self.settings.described(),
                self.settings.simulated(),
                "the embedded server's hook" if self.traced else "",
            ),
        )


@dataclass(frozen=True, kw_only=True)
class CommandPlan(ServerPlan):
    """Any command that serves HTTP. `argv` may say `{port}`; `url` is where the user says it is."""

    argv: tuple[str, ...]
    url: str | None = None

    def __post_init__(self) -> None:
        """Wrong commands are told before work is done. Raises UsageError."""
        place_of(self.argv, self.url)
        path = self.env.get("PATH", os.environ.get("PATH"))
        if shutil.which(self.argv[0], path=path) is None:
            raise UsageError(
                f"{self.argv[0]}: no such command that can be run",
                "check its name and PATH, or give its whole path",
            )

    def words(self) -> str:
        return hide_words(self.argv)

    def start(self, folder: Path, reach: Reach) -> Server:
        return PolledServer(
            place_of(self.argv, self.url),
            folder / LOG,
            reach,
            env=self._environment(folder / SPANS),
            unset=self.unset,
            cpus=self.cpus,
            ready_timeout_s=self.ready_timeout_s,
            patience_s=self.patience_s,
            secrets=secrets_of(self.argv, self.env, os.environ),
            about=About(self.launched(), hook=HOOK if self.traced else ""),
        )

    def _environment(self, spans: Path) -> dict[str, str]:
        """What was asked for, and the hook's part, which stands first on a PYTHONPATH."""
        if not self.traced:
            return dict(self.env)
        hook = environment_for(spans)
        if "PYTHONPATH" in self.env:
            hook["PYTHONPATH"] = os.pathsep.join((str(SITE), self.env["PYTHONPATH"]))
        return {**self.env, **hook}


def server_of(plan: ServerPlan, folder: Path, reach: Reach | None = None) -> Server:
    """The plan's server, for `with`: its output and spans go to `folder`, which is made.

    Raises UsageError when its port is taken; entering it raises when it does not become ready.
    """
    (folder / SPANS).mkdir(parents=True, exist_ok=True)
    return plan.start(folder, (reach or Reach()).directly())
