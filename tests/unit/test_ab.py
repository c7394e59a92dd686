"""The sides of an A/B, their order, and its folder."""

import sys
from collections import Counter
from pathlib import Path

import pytest

from mmload.ab.sides import LABELS, Shared, Side, Typed, Work, order, side_of
from mmload.ab.state import Ended, Saved, State
from mmload.errors import UsageError
from mmload.serving import CommandPlan, EmbeddedPlan

HERE = sys.executable


def embedded(label: str, shared: Shared, own: Typed) -> EmbeddedPlan:
    plan = side_of(label, shared, own).plan
    assert isinstance(plan, EmbeddedPlan)
    return plan


def command(label: str, shared: Shared, own: Typed) -> CommandPlan:
    plan = side_of(label, shared, own).plan
    assert isinstance(plan, CommandPlan)
    return plan


def test_each_two_pairs_mirror_each_other_and_the_seed_draws() -> None:
    first_of_pair = Counter[str]()
    for seed in range(200):
        works = order(4, seed)
        labels = "".join(work.label[0] for work in works)
        assert [work.repeat for work in works] == [1, 1, 2, 2, 3, 3, 4, 4]
        assert labels[:4] in ("abba", "baab") and labels[4:] in ("abba", "baab")
        # A drift of one unit a run adds the same to both sides.
        places = {x: sum(i for i, c in enumerate(labels) if c == x) for x in "ab"}
        assert places["a"] == places["b"] == 14
        first_of_pair[labels[0]] += 1
    assert 70 <= first_of_pair["a"] <= 130  # 100, within 4 standard deviations
    assert order(3, 7) == order(5, 7)[:6]  # more repeats only add
    assert order(2, 0) == [Work("before", 1), Work("after", 1), Work("after", 2), Work("before", 2)]


def test_settings_of_the_embedded_server() -> None:
    shared = Shared(embedded={"max_batch": "8", "renderer_workers": "4"})
    own = Typed(("--renderer-workers=2 media_workers=3", "no-request-log"), env=("A=1",))
    plan = embedded("after", shared, own)
    assert plan.settings.renderer_workers == 2 and plan.settings.media_workers == 3
    assert plan.settings.max_batch == 8 and plan.settings.no_request_log is True
    assert plan.env == {"A": "1"}
    plain = embedded("before", shared, Typed(("renderer-workers=unset",)))
    assert plain.settings.renderer_workers == 1 and plain.env == {}


def test_settings_and_environment_of_a_command() -> None:
    shared = Shared((HERE, "--port", "1", "--n", "2"), launch={"server_env": ["A=1", "B=1"]})
    plan = command("after", shared, Typed(("n=3", "fast", "slow=off"), ("B=2",)))
    assert plan.argv == (HERE, "--port", "1", "--n=3", "--fast", "--no-slow")
    assert plan.env == {"A": "1", "B": "2"}
    limits = """--limit-mm={"image": 4, "video": true} n=5"""
    assert command("after", shared, Typed((limits,))).argv[3:] == (
        *("--n=5", """--limit-mm={"image": 4, "video": true}"""),
    )
    own = command("after", shared, Typed(command=(HERE, "--port", "2")))
    assert own.argv == (HERE, "--port", "2")


@pytest.mark.parametrize(
    ("shared", "own", "words"),
    [
        (Shared(), Typed(("renderer-wrkers=2",)), "--after renderer-wrkers: there is no such name"),
        (Shared(), Typed(("renderer-workers=many",)), "--renderer-workers 'many'"),
        (Shared(), Typed(("=2",)), "--after '=2': is not of the form"),
        (Shared(), Typed(("--renderer-workers 2",)), "--after '--renderer-workers 2': is not of"),
        (Shared(), Typed(env=("A",)), "--server-env: is not of the form"),
        (Shared(), Typed(("n=1",), url="http://h"), "--after: is for a server that mmload starts"),
        (Shared(url="http://h"), Typed(env=("A=1",)), "--after-env: is for a server"),
        (Shared(), Typed(command=("x",), url="http://h"), "--after-url and --after-cmd"),
        (Shared(), Typed(command=("/no/such", "--port", "1")), "/no/such: no such command"),
    ],
)
def test_bad_sides(shared: Shared, own: Typed, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        side_of("after", shared, own)


def test_two_urls() -> None:
    side = side_of("before", Shared(), Typed(url="http://me:secret@h:1"))
    assert side == Side("before", None, "http://me:secret@h:1")
    assert side.described() == {"url": "http://h:1"}


def saved(**changes: object) -> Saved:
    sides = {label: {"command": f"x {label}"} for label in LABELS}
    scenario = {"qps": 5.0}
    values = {"started_at": "now", "order_seed": 0, "repeats": 2, "sides": sides}
    return Saved(**{**values, "scenario": scenario, **changes})  # type: ignore[arg-type]


def finish(state: State, work: Work, status: str = "done") -> None:
    folder = state.free_folder(work)
    folder.mkdir(parents=True)
    (folder / "summary.json").write_text(status)
    state.finish(Ended(label=work.label, repeat=work.repeat, status=status))  # type: ignore[arg-type]


def test_a_folder_knows_what_is_done_and_goes_on_with_more_repeats(tmp_path: Path) -> None:
    state = State.begin(tmp_path / "ab", saved())
    first, second, *_ = state.order
    finish(state, first)
    finish(state, second, "invalid")
    again = State.begin(tmp_path / "ab", saved(repeats=3))
    assert again.done() == [first] and len(again.order) == 6
    finish(again, second)  # what was there is moved aside
    assert (tmp_path / "ab/aside/after-01-1/summary.json").read_text() == "invalid"
    assert (tmp_path / "ab/after/01/summary.json").read_text() == "done"
    again = State.begin(tmp_path / "ab", saved(repeats=2))
    assert again.done() == [first, second] and again.saved.repeats == 3  # never fewer
    (tmp_path / "ab/before/01/summary.json").unlink()
    assert again.done() == [second]


def test_another_ab_is_refused_in_its_folder(tmp_path: Path) -> None:
    State.begin(tmp_path / "ab", saved())
    for changes, words in (
        ({"order_seed": 1}, "order seed 0, now 1"),
        ({"scenario": {"qps": 6.0}}, "of the load: qps"),
        ({"sides": {"before": {"command": "x before"}, "after": {}}}, "the server after"),
    ):
        with pytest.raises(UsageError, match=f"holds another A/B: {words}"):
            State.begin(tmp_path / "ab", saved(**changes))
    (tmp_path / "other").mkdir()
    (tmp_path / "other/file").write_text("")
    with pytest.raises(UsageError, match="holds no A/B"):
        State.begin(tmp_path / "other", saved())
    (tmp_path / "ab/ab.json").write_text("{")
    with pytest.raises(UsageError, match="ab.json: damaged"):
        State.begin(tmp_path / "ab", saved())


def test_a_scenario_files_server_is_both_sides_and_flags_win(tmp_path: Path) -> None:
    file = tmp_path / "before.yaml"
    file.write_text(
        "server: {renderer_workers: 3, max-batch: 4, media_workers: 5}\nserver_env: {A: 1}\n"
    )
    shared = Shared(embedded={"max_batch": "8"}, scenario=str(file))
    plan = embedded("after", shared, Typed(("renderer-workers=2",), env=("A=2",)))
    assert plan.settings.renderer_workers == 2 and plan.settings.media_workers == 5
    assert plan.settings.max_batch == 8
    assert plan.env == {"A": "2"}
    of_command = Shared((HERE, "--port", "1"), scenario=str(file))
    assert command("before", of_command, Typed()).env == {}
    with pytest.raises(UsageError, match="--model-family gemma-4: the numpy processor"):
        embedded("after", Shared(model_family="gemma-4"), Typed())  # it has come through
