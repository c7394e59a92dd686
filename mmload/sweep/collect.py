"""From a sweep's folder to its summary: reads what the runs wrote, needs no server."""

import json
from typing import Any

from mmload.slo import parse_measure
from mmload.sweep.figures import Outcome, figures
from mmload.sweep.servers import defaults
from mmload.sweep.state import Ended, State
from mmload.sweep.summary import summarise


def summary_of(state: State) -> dict[str, Any]:
    """The object of docs/sweep.md, of the runs that have ended."""
    outcomes, simulated = [], ""
    for ended in state.saved.ended:
        outcome, run = _outcome(state, ended)
        outcomes.append(outcome)
        simulated = simulated or str(run.get("simulated") or "")
    facts = {
        "mmload": state.saved.mmload,
        "started_at": state.saved.started_at,
        "machine": state.saved.machine,
        "simulated": simulated,
    }
    return summarise(state.plan, outcomes, defaults=defaults(state.plan), facts=facts)


def _outcome(state: State, ended: Ended) -> tuple[Outcome, dict[str, Any]]:
    path = state.folder(ended.work)
    folder = str(path.relative_to(state.path))
    if ended.status not in ("done", "invalid"):
        return Outcome(ended.work, folder, ended.status, ended.reason), {}
    try:
        summary = json.loads((path / "summary.json").read_text(encoding="utf-8"))
        if not summary["valid"]:
            return Outcome(ended.work, folder, "invalid", ended.reason), summary["run"]
        objective = parse_measure(state.plan.objective, "--objective")
        found = figures(summary, objective)
        return Outcome(ended.work, folder, "done", "", found), summary["run"]
    except (OSError, ValueError, KeyError) as error:
        reason = f"{path / 'summary.json'} cannot be read: {error}"
        return Outcome(ended.work, folder, "failed", reason), {}
