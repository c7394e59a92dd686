"""Scenarios from YAML under flags: what replaces what, and the shipped ones."""

from pathlib import Path

import pytest

from mmload.errors import UsageError
from mmload.scenario_file import load_scenario, shipped


@pytest.mark.parametrize("name", sorted(shipped()))
def test_shipped_scenarios_load_and_say_what_they_show(name: str) -> None:
    first = shipped()[name].read_text(encoding="utf-8").splitlines()[0]
    assert first.startswith("# ") and len(first) > 30
    assert load_scenario(name, {}).name == name


def test_a_flag_replaces_the_files_way_of_pacing_with_all_that_belongs_to_it() -> None:
    one = load_scenario("cameras", {"qps": "3"})
    assert (one.qps, one.cameras, one.every) == (3.0, None, None)
    assert load_scenario("cameras", {"every": "4"}).every_s == 4.0
    assert load_scenario("mix", {"frames": "2"}).mix is None
    assert load_scenario("chat", {"turns": "2"}).think_time_s == 5.0


def test_a_dataset_replaces_a_mix(tmp_path: Path) -> None:
    one = load_scenario("mix", {"dataset": "x.jsonl"})
    assert one.mix is None and one.dataset == "x.jsonl"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("mix: [{frames: 1, wieght: 2}]", "mix.0.wieght: no such key"),
        ("mix: [{frames: 1, as: mp5}]", "mix.0.as: 'mp5' is not allowed"),
        ("mix: [{frames: many}]", "mix.0.frames: 'many' is not allowed"),
        ("extra_body: 3", "extra_body: 3 is not allowed"),
        ("think_time: 3\nturns: 1", "think_time is for conversations"),
    ],
)
def test_errors_name_the_file_and_the_key(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(text + "\n")
    with pytest.raises(UsageError) as caught:
        load_scenario(str(file), {})
    assert caught.value.message.startswith(f"{file}: ") and words in caught.value.message
