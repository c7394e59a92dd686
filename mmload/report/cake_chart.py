"""The cake as a chart: layers on layers, as wide as the time that passed through them.

In: the `profile` object of docs/summary.md. Out: a Plotly figure, or None without a profile.
"""

from typing import Any, Final

from mmload.profiler.layers import TITLES
from mmload.report import cake, numbers
from mmload.report.fields import Summary, get
from mmload.report.figures import Figure, figure, label

# Of Paul Tol's and Okabe and Ito's schemes: neighbours on a stack differ in lightness too.
COLOURS: Final = {
    "web": "#bbbbbb",
    "vllm": "#4477aa",
    "vllm_model": "#88ccee",
    "sglang": "#4477aa",
    "sglang_model": "#88ccee",
    "transformers": "#ddcc77",
    "torchvision": "#ee8866",
    "torch": "#cc3311",
    "numeric": "#aa3377",
    "mmload_server": "#77aadd",
    "mmload_processor": "#ddcc77",
    "mmload_hook": "#44bb99",
    "python": "#e3e7ec",
    "other": "#99997a",
}
_ROOT: Final = "#f3f5f7"
_ROW: Final = 28  # pixels a layer


def icicle(profile: Summary | None) -> Figure | None:
    """Threads at the top, the code that works at the bottom."""
    nodes: list[Summary] = get(profile, "tree") or []
    if not nodes:
        return None
    total = get(profile, "sampled_s") or sum(one["s"] for one in nodes if one["parent"] is None)
    data: Figure = {
        "type": "icicle",
        "ids": [str(i) for i in range(len(nodes))],
        "labels": [f"{label(one['title'])}  {numbers.percent(one['s'] / total)}" for one in nodes],
        "parents": ["" if one["parent"] is None else str(one["parent"]) for one in nodes],
        "values": [one["s"] for one in nodes],
        "branchvalues": "total",
        "sort": True,
        "tiling": {"orientation": "v"},
        "pathbar": {"visible": False},
        "textinfo": "label",
        "hovertext": [_hover(one, total) for one in nodes],
        "hoverinfo": "text",
        "marker": {
            "colors": [COLOURS.get(str(one["layer"]), _ROOT) for one in nodes],
            "line": {"color": "#ffffff", "width": 1},
        },
        "textfont": {"size": 11},
        "showlegend": False,
    }
    title = f"{cake.TITLE}: {_headline(profile or {})}"
    made = figure(
        title, _ROW * (max(_depths(nodes)) + 2), [data], uniformtext={"minsize": 11, "mode": "hide"}
    )
    made["layout"]["margin"] |= {"l": 4, "r": 4, "b": 8}
    made["layout"]["height"] -= 38
    return made


def _depths(nodes: list[Summary]) -> list[int]:
    """Parents come before their children."""
    depths: list[int] = []
    for one in nodes:
        depths.append(0 if one["parent"] is None else depths[one["parent"]] + 1)
    return depths


def _hover(node: Summary, total: float) -> str:
    entered = f"<br>entered by {label(node['entry'])}" if node["entry"] else ""
    part = numbers.percent(node["s"] / total)
    return f"{label(node['title'])}: {numbers.seconds(node['s'])}, {part}{entered}"


def _headline(profile: Summary) -> str:
    """`61% in torch`."""
    layers: dict[str, Any] = get(profile, "layers") or {}
    main = max(layers, key=lambda key: layers[key]["self_s"])
    return f"{numbers.percent(layers[main]['self_share'])} in {TITLES.get(main, main)}"
