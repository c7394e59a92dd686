"""What the server and its host said of themselves during the run: facts for all formats.

In: `server_series` and `resources` of docs/summary.md. Out: (label, text) pairs.
"""

from mmload.report import numbers
from mmload.report.fields import Fact, Summary, get

_SHARES = ("kv_cache_used", "cache_hit_rate")


def facts(summary: Summary) -> list[Fact]:
    """Gauges, caches, processor time and memory, GPUs; nothing when nobody asked."""
    return [*_gauges(summary), *_caches(summary), *_resources(summary), *_scrapes(summary)]


def _gauges(summary: Summary) -> list[Fact]:
    found = get(summary, "server_series", "gauges") or {}
    made = []
    for key, one in found.items():
        if key.startswith("in_stage"):  # the spans say it better
            continue
        if key in _SHARES:
            most, mean = numbers.percent(one["max"]), numbers.percent(one["mean"])
        else:
            most, mean = numbers.count(one["max"]), numbers.digits(one["mean"])
        made.append((str(one["title"]), f"at most {most}, {mean} on average"))
    return made


def _caches(summary: Summary) -> list[Fact]:
    found = get(summary, "server_series", "counters") or {}
    made = []
    for kind, title in (("mm_cache", "media cache"), ("prefix_cache", "prefix cache")):
        queries, hits = (get(found, f"{kind}_{part}", "increase") for part in ("queries", "hits"))
        if queries and hits is not None:
            made.append(
                (title, f"{numbers.percent(hits / queries)} of {queries:,.0f} look-ups hit")
            )
    if get(found, "preemptions", "increase"):
        made.append(("preemptions", f"{found['preemptions']['increase']:,.0f}"))
    return made


def _resources(summary: Summary) -> list[Fact]:
    found = get(summary, "resources")
    made = []
    if get(found, "cores_max") is not None:
        machine = get(summary, "run", "machine", "cores")
        of = f" of {machine}" if machine else ""
        made.append(
            (
                "processor",
                f"{numbers.digits(found['cores_mean'])}{of} cores on average,"
                f" at most {numbers.digits(found['cores_max'])}",
            )
        )
    if get(found, "rss_max_bytes") is not None:
        many = get(found, "processes_max") or 1
        text = f"at most {numbers.size(found['rss_max_bytes'])} resident"
        made.append(("memory", text + (f", {many} processes together" if many > 1 else "")))
    for gpu in get(found, "gpus") or []:
        made.append(
            (
                str(gpu["name"]),
                f"busy {numbers.percent(get(gpu, 'utilisation_mean'))} of the time, at most"
                f" {numbers.size(get(gpu, 'memory_used_max_bytes') or 0)} of"
                f" {numbers.size(get(gpu, 'memory_total_bytes') or 0)}",
            )
        )
    return made


def _scrapes(summary: Summary) -> list[Fact]:
    """Only where asking failed."""
    found = get(summary, "server_series")
    failed, answered = get(found, "failed"), get(found, "scrapes")
    if not failed:
        return []
    said = f"{failed} of {failed + answered} times not answered" if answered else "not read"
    return [("its /metrics", f"{said}: {get(found, 'error')}")]
