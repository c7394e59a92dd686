"""Axes and points from flags and files: what is a value, a grid, a mistake."""

from typing import Any

import pytest

from mmload.errors import UsageError
from mmload.sweep import axes
from mmload.sweep.axes import Axis, Design, Point

KNOWN = ["renderer-workers", "omp-threads", "media-workers"]
LOAD = ["qps", "frames", "size", "reuse", "duration", "url", "prompt"]


def test_a_grid_holds_every_combination_in_the_order_given() -> None:
    design = axes.grid(
        axes.from_flags(
            ["renderer-workers=1,2"], ["OMP_NUM_THREADS=4,"], {"qps": "2,5", "frames": ["15"]}
        )
    )
    assert len(design.points) == 8
    assert [(p.set, p.env, p.load) for p in design.points[:3]] == [
        ({"renderer-workers": "1"}, {"OMP_NUM_THREADS": "4"}, {"qps": "2", "frames": "15"}),
        ({"renderer-workers": "1"}, {"OMP_NUM_THREADS": "4"}, {"qps": "5", "frames": "15"}),
        ({"renderer-workers": "1"}, {"OMP_NUM_THREADS": None}, {"qps": "2", "frames": "15"}),
    ]
    assert [axis.name for axis in design.varying] == ["renderer-workers", "OMP_NUM_THREADS", "qps"]
    assert design.label(design.points[2]) == "renderer-workers=1, OMP_NUM_THREADS=unset, qps=2"
    assert design.folder(design.points[2]) == "p002-renderer-workers=1,OMP_NUM_THREADS=unset,qps=2"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("1,2,4", ["1", "2", "4"]),
        ("", [""]),
        ("a,", ["a", ""]),
        ('{"a": 1, "b": [2, 3]},{}', ['{"a": 1, "b": [2, 3]}', "{}"]),
        ("'a,b',c", ["'a,b'", "c"]),
        ("a]b,c", ["a]b", "c"]),
    ],
)
def test_commas_split_outside_of_brackets_and_quotes(text: str, parts: list[str]) -> None:
    assert axes.split(text) == parts


def test_commas_are_axes_a_plus_is_a_mix_and_text_stays_whole() -> None:
    typed = {"frames": ["1+6,15"], "size": "160x96", "prompt": "Well, what?", "sequential": True}
    found = {axis.name: axis.values for axis in axes.from_flags([], [], typed)}
    assert found == {
        "frames": (["1", "6"], "15"),
        "size": ("160x96",),
        "prompt": ("Well, what?",),
        "sequential": (True,),
    }


def test_a_file_gives_axes_constants_and_points() -> None:
    values: dict[str, Any] = {
        "set": {"renderer_workers": [1, 2], "no-request-log": True},
        "env": {"LD_PRELOAD": [None, "libjemalloc.so"], "OMP_NUM_THREADS": 4},
        "load": {"qps": [2.5, 5], "frames": 15},
    }
    assert axes.from_file(values, "f.yaml") == [
        Axis(kind="set", name="renderer-workers", values=("1", "2")),
        Axis(kind="set", name="no-request-log", values=("on",)),
        Axis(kind="env", name="LD_PRELOAD", values=(None, "libjemalloc.so")),
        Axis(kind="env", name="OMP_NUM_THREADS", values=("4",)),
        Axis(kind="load", name="qps", values=(2.5, 5)),
        Axis(kind="load", name="frames", values=(15,)),
    ]
    points = axes.points_from_file(
        [{"set": {"renderer-workers": 1}}, {"set": {"renderer-workers": 2}, "load": {"qps": 5}}],
        "f.yaml",
    )
    design = axes.listed(points, [Axis(kind="load", name="frames", values=(15,))])
    assert design.points[1] == Point(
        number=1, set={"renderer-workers": "2"}, load={"qps": 5, "frames": 15}
    )
    assert [a.name for a in design.varying] == ["renderer-workers", "qps"]
    assert design.label(design.points[0]) == "renderer-workers=1, qps=unset"


def _check(design: Design, settings: list[str] | None = KNOWN) -> None:
    axes.check_names(design, load_keys=LOAD, settings=settings)


@pytest.mark.parametrize(
    ("settings", "variables", "load", "words", "hint"),
    [
        (["rendrer-workers=1,2"], [], {}, "--set rendrer-workers", "did you mean renderer-workers"),
        (["zzz=1"], [], {}, "--set zzz", "known: media-workers, omp-threads, renderer-workers"),
        ([], [], {"qqs": "1,2"}, "load qqs", "did you mean qps?"),
        ([], ["OMP NUM=1"], {}, "not a name of an environment variable", "OMP_NUM_THREADS"),
        ([], ["HF_TOKEN=abc"], {}, "looks like a secret", "export HF_TOKEN"),
        ([], ["MY_API_KEY=abc"], {}, "looks like a secret", "export"),
    ],
)
def test_unknown_axes_are_named_with_their_neighbours(
    settings: list[str], variables: list[str], load: dict[str, Any], words: str, hint: str
) -> None:
    with pytest.raises(UsageError) as error:
        _check(axes.grid(axes.from_flags(settings, variables, load)))
    assert words in error.value.message
    assert hint in error.value.hint
    assert "abc" not in f"{error.value.message} {error.value.hint}"


def test_the_flags_of_a_command_are_known_to_nobody() -> None:
    _check(axes.grid(axes.from_flags(["max-num-seqs=16,32"], ["MALLOC_ARENA_MAX=2"], {})), None)
    _check(axes.grid(axes.from_flags([], ["TOKENIZERS_PARALLELISM=true,false"], {})))


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["renderer-workers"], "NAME=VALUE"),
        (["=1"], "NAME=VALUE"),
        (["renderer-workers=1,1"], "1 is there twice"),
    ],
)
def test_badly_written_axes(flags: list[str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        axes.from_flags(flags, [], {})


def test_too_many_points_and_equal_points() -> None:
    many = ",".join(map(str, range(40)))
    with pytest.raises(UsageError, match="1,600 points"):
        axes.grid(axes.from_flags([f"omp-threads={many}", f"media-workers={many}"], [], {}))
    same = [Point(number=0, set={"a": "1"}), Point(number=1, set={"a": "1"})]
    with pytest.raises(UsageError, match="points 0 and 1 are the same"):
        axes.listed(same, [])
    with pytest.raises(UsageError, match="give one kind"):
        axes.listed(same[:1], [Axis(kind="load", name="qps", values=(1, 2))])


def test_what_a_scenarios_file_says_of_the_server_is_a_constant_and_flags_win() -> None:
    of_file = axes.of_server({"renderer_workers": 1, "processor": "stock"}, ("A=1",))
    flags = axes.from_flags(["renderer-workers=1,2"], [], {})
    design = axes.grid([*of_file, *flags])
    assert [point.set for point in design.points] == [
        {"renderer-workers": value, "processor": "stock"} for value in ("1", "2")
    ]
    assert all(point.env == {"A": "1"} for point in design.points)
    points = [Point(number=0, set={"processor": "owned"}), Point(number=1)]
    last = Axis(kind="set", name="renderer-workers", values=(4,))
    listed = axes.listed(points, [*of_file, last])
    assert [point.set for point in listed.points] == [
        {"processor": "owned", "renderer-workers": 4},
        {"processor": "stock", "renderer-workers": 4},
    ]
