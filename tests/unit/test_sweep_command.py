"""A command line with a point's settings in it."""

from mmload.sweep.axes import Value
from mmload.sweep.command import server_command, with_settings

BASE = ("vllm", "serve", "model", "--port", "8000", "--renderer-num-workers=3", "--enforce-eager")


def test_a_flag_takes_the_place_of_its_like_or_is_appended() -> None:
    assert with_settings(BASE, {"renderer-num-workers": "2", "max-num-seqs": "16"}) == [
        *("vllm", "serve", "model", "--port", "8000", "--renderer-num-workers=2"),
        *("--enforce-eager", "--max-num-seqs=16"),
    ]
    assert with_settings(BASE, {"port": "9000"})[3] == "--port=9000"
    assert "8000" not in with_settings(BASE, {"port": "9000"})


def test_on_off_and_unset() -> None:
    def of(value: Value) -> list[str]:
        return with_settings(("serve", "--no-mm-do", "--x"), {"mm-do": value})

    assert of("on") == ["serve", "--mm-do", "--x"]
    assert of("off") == ["serve", "--no-mm-do", "--x"]
    assert of(None) == ["serve", "--x"]
    assert of("3") == ["serve", "--mm-do=3", "--x"]


def test_a_switch_does_not_swallow_the_flag_behind_it() -> None:
    assert with_settings(("serve", "--mm-do", "--x"), {"mm-do": "off"}) == [
        *("serve", "--no-mm-do", "--x")
    ]


def test_placeholders_are_filled_in() -> None:
    base = ("serve", "--config={file}", "{extra}", "--port", "{port}")
    assert with_settings(base, {"file": "a.json", "extra": None}) == [
        *("serve", "--config=a.json", "--port", "{port}")
    ]


def test_variables_are_set_and_unset_in_front() -> None:
    assert server_command(("serve",), {"w": "2"}, {"OMP_NUM_THREADS": "4", "LD_PRELOAD": None}) == [
        *("env", "-u", "LD_PRELOAD", "OMP_NUM_THREADS=4", "serve", "--w=2")
    ]
    assert server_command(("serve",), {}, {}) == ["serve"]
