"""Everything that a capacity report says, as one plain object: docs/capacity.md. Pure."""

from collections.abc import Sequence
from typing import Any, Final

from mmload.capacity.curve import KNEE_AT, curve, knee
from mmload.capacity.judge import Rate
from mmload.capacity.predict import predicted
from mmload.capacity.search import Bracket, bracket, verdict_of
from mmload.capacity.state import Asked
from mmload.slo import Slo

SCHEMA: Final = 1
ENDS: Final = {
    "confirmed": "both ends of the interval were confirmed",
    "least": "even the lowest rate failed",
    "most": "the highest rate that a search tries passed",
    "generator": "the generator could not hold a higher rate",
    "max_requests": "--max-requests was used up",
    "time_budget": "--time-budget was used up",
    "interrupted": "it was interrupted",
    "": "it did not end by itself",
}


def summarise(asked: Asked, slos: Sequence[Slo], rates: Sequence[Rate]) -> dict[str, Any]:
    trials = [one.trial for one in rates]
    known = bracket(trials)
    metric = next((slo.measure.metric for slo in slos if slo.measure.metric != "tpot"), "ttft")
    rows = curve(rates, metric)
    for row in rows:
        row["verdict"] = verdict_of(trials, row["rate"]) or "unsure"
    found = predicted(rates, known)
    return {
        "schema": SCHEMA,
        "kind": "capacity",
        "mmload": asked.mmload,
        "started_at": asked.started_at,
        "machine": asked.machine,
        "server": asked.server,
        "simulated": next((str(o.summary["run"].get("simulated") or "") for o in rates), ""),
        "slos": [str(slo) for slo in slos],
        "scenario": asked.scenario,
        "sentence": sentence(asked, slos, known, rates),
        "interval": {"passing_qps": known.passing, "failing_qps": known.failing},
        "generator_limit_qps": known.ceiling,
        "not_monotone": list(known.above),
        "ended": asked.ended,
        "ended_words": ENDS[asked.ended],
        "at_least": asked.at_least,
        "reached": None if asked.at_least is None else (known.passing or 0) >= asked.at_least,
        "metric": metric,
        "rates": rows,
        "knee": knee(rows),
        "predicted": found,
        "runs": [_run(one) for one in rates],
        "rule": {
            "start_qps": asked.start,
            "precision": asked.precision,
            "factor": asked.factor,
            "repeats": asked.repeats,
            "requests_a_rate": asked.requests_a_rate,
            "least_s": asked.least_s,
        },
        "definitions": _definitions(asked),
    }


def sentence(asked: Asked, slos: Sequence[Slo], known: Bracket, rates: Sequence[Rate]) -> str:
    """The first line of the report."""
    wanted = " and ".join(map(str, slos))
    low, high = known.passing, known.failing
    if not rates:
        return "Nothing was measured."
    if low is None and high is None:
        said = "The generator could not hold even the lowest rate, so nothing can be said."
    elif low is None:
        said = f"No rate tried meets {wanted}: {high:g} requests/s fails, and nothing lower passed."
    elif high is None:
        limit = (
            f"; the generator could not hold {known.ceiling:g}, which is no failure of the server"
            if known.ceiling is not None
            else ""
        )
        said = f"At least {low:g} requests/s with {wanted}; no rate tried fails{limit}."
    else:
        sure = "" if asked.ended == "confirmed" else ", not confirmed"
        said = f"Capacity is {low:g} to {high:g} requests/s with {wanted} and a stable queue{sure}."
    if known.above:
        rates_above = ", ".join(f"{rate:g}" for rate in known.above)
        said += f" Not monotone: {rates_above} passed although {high:g} failed."
    if asked.at_least is not None:
        reached = (low or 0) >= asked.at_least
        said += f" Asked for {asked.at_least:g}/s: {'reached' if reached else 'NOT reached'}."
    return said


def _run(one: Rate) -> dict[str, Any]:
    queue = one.summary["queue"]
    return {
        "rate": one.rate,
        "why": one.why,
        "folder": one.folder,
        "verdict": one.verdict,
        "reasons": list(one.reasons),
        "objectives": [{"slo": str(h.slo), "value_ms": h.value_ms, "met": h.met} for h in one.held],
        "requests": one.summary["sent"],
        "ok": one.summary["ok"],
        "goodput_qps": one.goodput_qps,
        "good_share": one.good_share,
        "ttft_ms": _percentiles(one, "ttft"),
        "e2e_ms": _percentiles(one, "e2e"),
        "queue": queue["verdict"],
        "growth_per_s": queue["growth_per_s"],
        "utilisation": (one.summary.get("bottleneck") or {}).get("utilisation"),
    }


def _percentiles(one: Rate, metric: str) -> dict[str, float | None]:
    return {q: one.ms(metric, q) for q in ("p50", "p90", "p99")}


def _definitions(asked: Asked) -> dict[str, str]:
    return {
        "a run passes": "VALID, every objective met, queue stable; unsure: met, but the queue can't"
        " tell; a failed request is later than any limit",
        "a rate passes": "most of its valid runs do; unsure ones count against, but one alone, or a"
        " tie with one, is run again; as many for as against is against",
        "search": f"from {asked.start:g}/s by factors of {asked.factor:g}, or to .9 and 1.1 of what"
        " the spans predict in steps of at most 8, until a rate passes and a higher one fails; then"
        f" geometric bisection to {asked.precision:.0%}; then both ends again until more than half"
        f" of {asked.repeats} runs agree",
        "a rate's length": f"{asked.requests_a_rate} requests or {asked.least_s:g} s, whichever is"
        " longer",
        "goodput": "requests that succeeded with every objective's metric under its limit, over the"
        " time in which requests arrived",
        "knee": f"between the last rate whose p90 is at most {KNEE_AT:g} times the lowest rate's,"
        " and the next rate measured",
        "INVALID": "the generator fell behind: not a failure of the server; the rate is tried once"
        " more, and then the search goes on below it",
        "prediction": "width of the busiest stage whose width is known, over its mean service time",
    }
