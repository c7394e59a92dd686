"""From a point to the server to start for it. Raises UsageError for a value that it refuses."""

from dataclasses import replace
from typing import Any

from mmload.server.settings import ServerSettings
from mmload.serving import CommandPlan, ServerPlan
from mmload.serving.flags import plan_from
from mmload.sweep.axes import Point, show
from mmload.sweep.command import with_settings
from mmload.sweep.plan import Plan

NOT_SETTINGS = ("host", "port", "model")  # of the embedded server: no axes


def server_plan(plan: Plan, point: Point) -> ServerPlan | None:
    """None for a URL: that server is up already."""
    server = plan.server
    how: dict[str, Any] = {
        "env": {name: show(value) for name, value in point.env.items() if value is not None},
        "unset": tuple(name for name, value in point.env.items() if value is None),
        "cpus": server.cpus,
        "traced": server.traced,
    }
    if server.ready_timeout_s is not None:
        how["ready_timeout_s"] = server.ready_timeout_s
    if server.kind == "command":
        argv = tuple(with_settings(server.command, point.set))
        return CommandPlan(argv=argv, url=server.url, **how)
    if server.kind == "url":
        return None
    given = {n.replace("-", "_"): show(v) for n, v in point.set.items() if v is not None}
    family = plan.scenarios[point.number].get("model_family")
    embedded = plan_from(None, {}, given, None, family)
    assert embedded is not None  # no URL
    return replace(embedded, **how)


def known_settings() -> list[str]:
    """Axes that the embedded server has."""
    return [n.replace("_", "-") for n in ServerSettings.model_fields if n not in NOT_SETTINGS]


def defaults(plan: Plan) -> dict[str, str]:
    """The embedded server's own values, as text; nothing is known of a command's."""
    if plan.server.command or plan.server.url is not None:
        return {}
    return {
        name.replace("_", "-"): show(value)
        for name, value in ServerSettings().model_dump().items()
        if value is not None
    }
