"""What the server said of itself, under the same time axis as the backlog.

In: the series of the chart ("watched" and "queue"). Out: a Plotly figure, or None without samples.
Rows: requests (in flight as the client knows, waiting and running as the server says), cores,
memory; a GPU's share of time busy stands with the cores.
"""

from typing import Any, Final

from mmload.report import palette
from mmload.report.fields import Summary, get
from mmload.report.figures import Figure, axis, figure, label, line

SERVER: Final = "server"
PROCESSES: Final = "processes"
_GAP: Final = 0.09


def watched(series: Summary) -> Figure | None:
    found: dict[str, Any] = get(series, "watched") or {}
    queue = get(series, "queue") or {}
    rows = [
        row for row in (_requests(found, queue), _cores(found), _memory(found)) if row is not None
    ]
    if not rows or not queue.get("time_s"):
        return None
    data: list[Figure] = []
    axes: dict[str, Any] = {}
    height = (1 - _GAP * (len(rows) - 1)) / len(rows)
    for number, (title, lines) in enumerate(rows):
        top = 1 - number * (height + _GAP)
        name = "" if not number else str(number + 1)
        axes[f"yaxis{name}"] = axis(title, domain=[max(0.0, top - height), top])
        for place, one in enumerate(lines):
            own = line(len(data)) | {"dash": palette.SERIES_DASHES[place]}
            one["line"] = own | one.get("line", {})
            data.append(one | {"type": "scatter", "mode": "lines", "yaxis": f"y{name}"})
    last = f"y{len(rows) if len(rows) > 1 else ''}"
    end_s = queue["time_s"][-1]
    return figure(
        "The server, as it says itself and as its processes show it",
        130 * len(rows),
        data,
        hovermode="x unified",
        xaxis=axis("seconds since the start", anchor=last, range=[0, end_s]),
        **axes,
    )


Row = tuple[str, list[Figure]]


def _requests(found: Summary, queue: Summary) -> Row | None:
    gauges = get(found, SERVER) or {}
    lines = [
        _line(f"{name}, says the server", gauges[name])
        for name in ("waiting", "running")
        if name in gauges
    ]
    if not lines or not queue.get("time_s"):
        return None
    ours = {"time_s": queue["time_s"], "values": queue["backlog"]}
    in_flight = _line("in flight, as the client knows", ours)
    in_flight["line"] = {"color": palette.INK, "width": 2.5, "shape": "hv", "dash": "solid"}
    return "requests at once", [in_flight, *lines]


def _cores(found: Summary) -> Row | None:
    lines = []
    cores = get(found, PROCESSES, "cores")
    if cores:
        lines.append(_line("cores that its processes use", cores))
    for source, values in found.items():
        if "utilisation" in values:
            lines.append(_line(f"{source}: share of time busy", values["utilisation"]))
    return ("cores", lines) if lines else None


def _memory(found: Summary) -> Row | None:
    lines = []
    rss = get(found, PROCESSES, "rss_bytes")
    if rss:
        lines.append(_line("resident memory of its processes", _gib(rss)))
    for source, values in found.items():
        if "memory_used_bytes" in values:
            lines.append(_line(f"{source}: memory", _gib(values["memory_used_bytes"])))
    return ("GiB", lines) if lines else None


def _gib(points: Summary) -> Summary:
    return points | {"values": [round(value / 2**30, 4) for value in points["values"]]}


def _line(name: str, points: Summary) -> Figure:
    return {"name": label(name), "x": points["time_s"], "y": points["values"]}
