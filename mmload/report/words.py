"""The summary in words: verdict, facts, failures and warnings, the same for all formats.

In: the summary object of docs/summary.md, in which anything may be null. Out: plain strings and
(label, text) pairs, unescaped and without layout.
"""

from dataclasses import dataclass
from typing import Any, Final

from mmload.analysis.metrics import open_loop
from mmload.report import numbers
from mmload.report.fields import Fact, Summary, flat, get
from mmload.report.tables import ordered, stage_title

_QUEUE_WORDS: Final = {"stable": "stable", "growing": "growing", "cant_tell": "can't tell"}


@dataclass(frozen=True, slots=True)
class Verdict:
    """`word` is VALID or INVALID, `sentence` follows it, `more` are further lines."""

    valid: bool
    word: str
    sentence: str
    more: tuple[str, ...]


# -- verdict -----------------------------------------------------------------------------------


def verdict(summary: Summary) -> Verdict:
    """The first line of every report."""
    load = load_sentence(summary)
    reasons = [str(reason) for reason in get(summary, "invalid_reasons") or []]
    if get(summary, "valid"):
        return Verdict(True, "VALID", load, ())
    first, *more = reasons or ["no reason was recorded"]
    return Verdict(False, "INVALID", first, (*more, load))


def load_sentence(summary: Summary) -> str:
    """What was asked, what was sent, what came back, and what the queue did."""
    sent, ok = get(summary, "sent") or 0, get(summary, "ok") or 0
    parts = []
    asked, achieved = get(summary, "asked_qps"), get(summary, "achieved_qps")
    if asked is not None:
        parts.append(f"{numbers.rate(asked)} requests/s asked")
        if achieved is not None:
            parts.append(f"{numbers.rate(achieved)} sent")
    elif achieved is not None:
        parts.append(f"{numbers.rate(achieved)} requests/s sent, {load_mode(summary)}")
    parts.append(f"{numbers.count(ok)} of {numbers.count(sent)} ok" if sent else "nothing was sent")
    for key, word in (("dropped", "dropped"), ("unsent", "never sent")):
        if get(summary, key):
            parts.append(f"{numbers.count(summary[key])} {word}")
    if get(summary, "interrupted"):
        parts.append("interrupted")
    # A closed loop cannot grow a queue, so there is nothing to say of one.
    queue = queue_sentence(get(summary, "queue")) if open_loop(summary) else ""
    return ", ".join(parts) + (f"; {queue}" if queue else "")


def load_mode(summary: Summary) -> str:
    mode = get(summary, "run", "load_mode") or "open"
    return {"closed": "closed loop", "sequential": "one at a time"}.get(mode, f"{mode} loop")


def queue_sentence(queue: Summary | None) -> str:
    """`the queue is growing by 1.67 requests/s`, or empty without a verdict."""
    word = get(queue, "verdict")
    if word == "cant_tell":
        return "can't tell whether the queue grows"
    if word is None:
        return ""
    return f"the queue is {growth(queue)}"


def growth(queue: Summary | None) -> str:
    """`growing by 1.67 requests/s`, `stable`, `can't tell`; also for the queue of a stage."""
    word = get(queue, "verdict")
    by = get(queue, "growth_per_s")
    text = _QUEUE_WORDS.get(word, str(word)) if word else ""
    return f"{text} by {numbers.rate(by)} requests/s" if word == "growing" and by else text


def queue_facts(summary: Summary) -> list[Fact]:
    """Reason, sizes, and the backlog of each stage that has a verdict worth a line."""
    queue = get(summary, "queue")
    if not queue:
        return []
    facts = [("verdict", growth(queue)), ("reason", get(queue, "reason") or numbers.NONE)]
    in_flight, seen = get(queue, "in_flight_max"), get(queue, "smallest_overload_seen")
    if in_flight is not None:
        facts.append(("most in flight", numbers.plural(in_flight, "request")))
    if isinstance(seen, int | float):
        facts.append(
            ("visible from", f"overloads from {numbers.percent(seen)} of the arrival rate on")
        )
    for name, stage in ordered(get(queue, "stages")):
        if get(stage, "verdict") == "growing":
            facts.append((stage_title(summary, name), growth(stage)))
    return [(label, str(text)) for label, text in facts]


def curve_class(name: str) -> str:
    """The class of a percentile curve, `e2e: 1 image` -> `1 image`; empty for all requests."""
    return name.partition(":")[2].strip()


def key_numbers(summary: Summary) -> list[tuple[str, str, str]]:
    """(label, value, note) of the six numbers to read first."""

    def latency(key: str, title: str) -> tuple[str, str, str]:
        found = get(summary, key)
        rest = f"p50 {numbers.ms(get(found, 'p50'))}, p90 {numbers.ms(get(found, 'p90'))}"
        return f"{title}, p99", numbers.ms(get(found, "p99")), rest

    asked, achieved = get(summary, "asked_qps"), get(summary, "achieved_qps")
    failed = sum(n for _, n, _ in failures(summary))
    busiest = get(summary, "bottleneck")
    load = get(busiest, "utilisation")
    return [
        latency("ttft_ms", "TTFT"),
        latency("e2e_ms", "E2E"),
        (
            "Requests/s sent",
            numbers.rate(achieved),
            load_mode(summary) if asked is None else f"{numbers.rate(asked)} asked",
        ),
        (
            "Requests ok",
            f"{numbers.count(get(summary, 'ok'))} of {numbers.count(get(summary, 'sent'))}",
            f"{numbers.count(failed)} failed",
        ),
        ("Queue", *_queue_key(summary)),
        (
            "Capacity of the bottleneck",
            f"{carries(busiest)}/s" if busiest else numbers.NONE,
            f"{busiest.get('title') or stage_title(summary, busiest['stage'])},"
            f" utilisation {numbers.rate(load)}"
            if get(busiest, "stage")
            else "no spans from the server",
        ),
    ]


def carries(found: Summary | None) -> str:
    """The requests/s that a bottleneck can carry: `16.9`; of an engine `11.1 to 14.3`."""
    least, most = get(found, "capacity_least_qps"), get(found, "capacity_qps")
    low = f"{numbers.rate(least)} to " if least is not None and least < most else ""
    return f"{low}{numbers.rate(most)}"


def _queue_key(summary: Summary) -> tuple[str, str]:
    if not open_loop(summary):
        return numbers.NONE, f"{load_mode(summary)}: cannot grow one"
    queue = get(summary, "queue")
    word, by = get(queue, "verdict"), get(queue, "growth_per_s")
    most = get(queue, "in_flight_max")
    notes = [
        f"by {numbers.rate(by)} requests/s" if word == "growing" and by else "",
        f"at most {numbers.count(most)} in flight" if most is not None else "",
    ]
    return _QUEUE_WORDS.get(word or "", numbers.NONE), ", ".join(note for note in notes if note)


# -- run facts ---------------------------------------------------------------------------------


def run_facts(summary: Summary, full: bool = False) -> list[Fact]:
    """What ran against what, on which machine; `full` spells the digest and the length out."""
    run, elapsed = get(summary, "run") or {}, get(summary, "elapsed_s")
    classes = [
        f"{name} ({numbers.plural(get(one, 'planned') or 0, 'request')})"
        for name, one in (get(summary, "classes") or {}).items()
    ]
    facts = [
        ("scenario", run.get("name")),
        ("digest", run.get("digest") if full else short(run.get("digest"))),
        ("target", run.get("target")),
        ("model", run.get("model")),
        ("server", launched(run.get("launched"))),
        ("load", load_fact(summary)),
        ("warm-up cut", warm_up(get(summary, "warmup_cut"))),
        ("class" if len(classes) == 1 else "classes", ", ".join(classes)),
        ("simulated", run.get("simulated")),
        ("spans", run.get("span_source")),
        ("machine", machine(run.get("machine"))),
        ("started", run.get("started_at")),
        ("took", numbers.seconds(elapsed) if full and elapsed else None),
        ("mmload", get(summary, "mmload") if full else None),
    ]
    return [(label, str(text)) for label, text in facts if text]


def launched(server: Summary | None) -> str:
    """`OMP_NUM_THREADS=4 vllm serve MODEL, on processors 0,1, ready after 31.2 s`, or empty."""
    if not server:
        return ""
    env = [f"{name}={value}" for name, value in (get(server, "env") or {}).items()]
    cpus = ",".join(map(str, get(server, "cpus") or ()))
    parts = [" ".join((*env, get(server, "command") or ""))]
    parts += [f"on processors {cpus}"] if cpus else []
    ready_s = get(server, "ready_s")
    parts += [f"ready after {numbers.seconds(ready_s)}"] if ready_s else []
    return ", ".join(parts)


def warm_up(cut: int | None) -> str:
    """`60 requests at the start left out of latencies, by MSER-5`, or empty."""
    return f"{numbers.plural(cut, 'request')} at the start left out, by MSER-5" if cut else ""


def machine(facts: Any) -> str:
    """`AMD EPYC 7B13, 2 cores, 24.0 GiB, Linux 6.1.0, Python 3.11.2`, and whatever else is said."""
    facts = dict(facts or {})
    facts.pop("boot_id", None)  # tells clocks apart, says nothing to people
    known = (
        ("cpu", "{}"),
        ("cores", "{} cores"),
        ("memory_gib", "{} GiB"),
        ("host_os", "{}"),
        ("python", "Python {}"),
    )
    parts = [form.format(facts.pop(key)) for key, form in known if facts.get(key)]
    return ", ".join([*parts, *(f"{label} {text}" for label, text in flat(facts))])


def load_fact(summary: Summary) -> str:
    """How the requests were let go: mode, rate, arrival process, length."""
    asked, length = get(summary, "asked_qps"), get(summary, "schedule_s")
    arrival = get(summary, "run", "scenario", "arrival")
    parts = [load_mode(summary)]
    if asked is not None and isinstance(arrival, str):
        parts.append(f"{arrival} arrivals")
    if asked is not None:
        parts.append(f"{numbers.rate(asked)} requests/s")
    if length:
        parts.append(f"for {numbers.seconds(length)}")
    return ", ".join(parts)


def short(digest: Any) -> str:
    """The first 12 characters of a hexadecimal digest, as git does."""
    return str(digest).removeprefix("sha256:")[:12] if digest else ""


# -- failures, media, warnings, joining --------------------------------------------------------


def failures(summary: Summary) -> list[tuple[str, int, list[str]]]:
    """(kind, count, up to three messages), the most frequent kind first."""
    counts = {kind: n for kind, n in (get(summary, "failed") or {}).items() if n}
    messages = get(summary, "failure_messages") or {}
    return [
        (kind.replace("_", " "), n, [str(message) for message in messages.get(kind) or []])
        for kind, n in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    ]


def joined_sentence(summary: Summary) -> str:
    """How many requests have spans; the split covers only those."""
    joined, unjoined = get(summary, "joined") or 0, get(summary, "unjoined") or 0
    total = joined + unjoined
    if not total:
        return ""
    text = f"spans joined to {numbers.count(joined)} of {numbers.plural(total, 'request')}"
    partly, stray = get(summary, "joined_partly"), get(summary, "stray_spans")
    if partly:
        text += f", {numbers.count(partly)} of them partly"
    if stray:
        text += f"; {numbers.plural(stray, 'stray span id')}"
    return text


def media_facts(summary: Summary) -> list[Fact]:
    """What was sent, how much of it repeated, and the tokens that the server counted."""
    media = dict(get(summary, "media") or {})
    asked, actual = media.pop("reuse_asked", None), media.pop("reuse_actual", None)
    facts = []
    if asked is not None or actual is not None:
        wanted = "not declared" if asked is None else f"asked: {numbers.percent(asked)}"
        said = f"{numbers.percent(actual)} of requests; {wanted}"
        facts.append(("repeated media", said))
    media.pop("classes", None)  # said class by class, below
    facts.extend(flat(media))
    for name, one in (get(summary, "classes") or {}).items():
        facts.append((str(name), class_sentence(one)))
    tokens = token_sentence(get(summary, "tokens"))
    return [*facts, ("tokens", tokens)] if tokens else facts


def class_sentence(one: Summary | None) -> str:
    """Means of one class: `200 requests of 2.00 MB, 3,330 prompt and 16 output tokens each`, and
    what of it came from the server's cache."""
    body = get(one, "body_bytes")
    tokens = [(get(one, f"{kind}_tokens"), kind) for kind in ("prompt", "output")]
    text = numbers.plural(get(one, "sent") or 0, "request")
    text += f" of {numbers.size(body)}" if body else ""
    counts = [f"{numbers.count(n)} {kind}" for n, kind in tokens if n]
    text += f", {' and '.join(counts)} tokens each" if counts else ""
    cached = get(one, "cached_tokens")
    return f"{text}, {numbers.count(cached)} of the prompt from cache" if cached else text


def token_sentence(tokens: Summary | None) -> str:
    """`499,500 prompt, 2,400 output, 52.9 output tokens/s, counted from usage`."""
    parts = [
        f"{numbers.count(get(tokens, key))} {key}"
        for key in ("prompt", "output", "cached", "media")
        if get(tokens, key) is not None
    ]
    if get(tokens, "output_per_s") is not None:
        parts.append(f"{numbers.rate(get(tokens, 'output_per_s'))} output tokens/s")
    source = get(tokens, "source")
    return ", ".join([*parts, f"counted from {source}"]) if parts and source else ", ".join(parts)


def warnings(summary: Summary) -> list[tuple[str, str, str]]:
    """(code, message, hint) of each warning."""
    return [
        tuple(str(get(warning, key) or "") for key in ("code", "message", "hint"))  # type: ignore[misc]
        for warning in get(summary, "warnings") or []
    ]
