"""Suites as values."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from llm_dec_pomdp.agents.io.load import MemberConfig
from llm_dec_pomdp.algorithms.base import Algorithm, Options
from llm_dec_pomdp.algorithms.objectives import Clipped
from llm_dec_pomdp.algorithms.options import MAGRPOConfig
from llm_dec_pomdp.benchmarks.checks import check_methods, check_models
from llm_dec_pomdp.benchmarks.suite import Cell, MethodConfig, Suite, built_in_suites, conflicts, load_suite
from llm_dec_pomdp.config import ConfigError, build
from llm_dec_pomdp.options import Sampling

TWO = """
name = "two"
seeds = [0, 1]
methods = [{ name = "concat" }, { name = "magrpo", options = { learning_rate = 1e-3 } }]
environments = [{ id = "tldr-v0", sampling = { max_new_tokens = 7 } }, { id = "arxiv-v0" }]
sampling = { temperature = 0.5 }
"""


def write(tmp_path: Path, text: str) -> str:
    path = tmp_path / "suite.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_every_built_in_suite_loads_and_names_known_things() -> None:
    for name in built_in_suites():
        assert load_suite(name).cells()


def test_cells_are_the_product_of_the_axes(tmp_path: Path) -> None:
    cells = load_suite(write(tmp_path, TWO)).cells()
    assert len(cells) == 2 * 2 * 2
    assert len({cell.label for cell in cells}) == 8


def test_an_environment_overrides_the_defaults_of_the_suite(tmp_path: Path) -> None:
    tldr, *_, arxiv = load_suite(write(tmp_path, TWO)).cells()
    assert (tldr.sampling.max_new_tokens, arxiv.sampling.max_new_tokens) == (7, 128)
    assert tldr.sampling.temperature == arxiv.sampling.temperature == 0.5


def test_an_environment_may_say_under_which_protocol_everybody_acts(tmp_path: Path) -> None:
    cells = load_suite(write(tmp_path, TWO.replace('"arxiv-v0"', '"arxiv-v0", protocol = "discussion"'))).cells()
    assert [cell.protocol for cell in cells] == ["parallel"] * 4 + ["discussion"] * 4
    assert Cell.from_dict(cells[-1].to_dict()).protocol == "discussion"


def test_an_environment_may_say_what_learns_before_every_method(tmp_path: Path) -> None:
    staged = 'stages = [{ name = "imitation", steps = 2 }]'
    text = TWO.replace('"arxiv-v0"', f'"arxiv-v0", {staged}')
    cells = load_suite(write(tmp_path, text)).cells()
    assert [[stage.name for stage in cell.method.stages] for cell in cells] == [[]] * 4 + [["imitation"]] * 4


def test_what_is_assigned_holds_where_an_environment_or_a_method_in_it_overrides_the_suite(tmp_path: Path) -> None:
    assigned = ["training.steps=2", "sampling.max_new_tokens=5", "evaluation.samples=3", "training.prompts_per_step=1"]
    for name in ("quick", "classics", "learners"):
        for cell in load_suite(name, assigned).cells():
            assert (cell.training.steps, cell.training.prompts_per_step) == (2, 1)
            assert (cell.sampling.max_new_tokens, cell.evaluation.samples) == (5, 3)
    tldr, *_ = load_suite(write(tmp_path, TWO), ["sampling.temperature=2"]).cells()
    assert (tldr.sampling.max_new_tokens, tldr.sampling.temperature) == (7, 2)
    same = load_suite("paper").in_all_environments({"model": ["name"]})  # for --model
    assert {cell.model.name for cell in same.cells()} == {same.models[0].name}


def test_the_same_method_twice_has_labels(tmp_path: Path) -> None:
    labelled = TWO.replace('{ name = "concat" }', '{ name = "magrpo", label = "default" }')
    assert len(load_suite(write(tmp_path, labelled)).cells()) == 8


def test_a_cell_survives_a_file(tmp_path: Path) -> None:
    for cell in load_suite(write(tmp_path, TWO)).cells():
        assert Cell.from_dict(cell.to_dict()).loaded() == cell == Cell.from_dict(cell.without()).loaded()


def test_the_sampling_of_a_member_stands_in_the_cell_and_only_what_it_changes() -> None:
    member: dict[str, Any] = {"agents": ["summary"], "sampling": {"temperature": 1.0, "stop": ["END"]}}
    suite = {"name": "s", "environments": ["tldr-v0"], "methods": ["magrpo"], "models": [{"members": [member]}]}
    [cell] = build(Suite, {**suite, "sampling": {"temperature": 0.5}}, source="s").cells()
    again = Cell.from_dict(cell.without())
    assert again.without()["model"]["members"][0]["sampling"] == member["sampling"]
    assert again.sampling_of("agent_0", "summary") == Sampling(temperature=1.0, stop=("END",))
    assert again.sampling_of("agent_1", "elaboration") == Sampling(temperature=0.5)


PER_METHOD = """
name = "per-method"
methods = [{ name = "single" }, { name = "magrpo", options = { gamma = 0.9 } }]
models = [{ sharing = "lora" }]

[[environments]]
id = "tldr-v0"
model = { name = "small" }
methods.single.model = { name = "large" }
methods.magrpo.options = { learning_rate = 1e-6 }
evaluation = { samples = 15 }

[[environments]]
id = "tldr-v0"
label = "twice"
max_turns = 2
"""


def test_an_environment_overrides_model_and_options_of_a_method(tmp_path: Path) -> None:
    single, magrpo, *plain = load_suite(write(tmp_path, PER_METHOD)).cells()
    assert (single.model.name, magrpo.model.name) == ("large", "small")
    assert single.model.sharing == magrpo.model.sharing == "lora"
    assert magrpo.method.options == MAGRPOConfig(gamma=0.9, learning_rate=1e-6)
    assert single.evaluation.samples == 15
    assert [cell.method.options for cell in plain] == [Options(), MAGRPOConfig(gamma=0.9)]
    assert [cell.label.split("-")[0] for cell in plain] == ["twice", "twice"]


ALIASED = """
name = "aliased"
methods = [{ name = "magrpo", options = { epsilon = 0.1 } }]
training = { num_generations = 4 }
sampling = { max_completion_length = 9 }

[[environments]]
id = "tldr-v0"

[[environments]]
id = "arxiv-v0"
training = { num_generations = 6 }
sampling = { max_completion_length = 7 }
"""


def test_a_suite_may_use_names_of_trl(tmp_path: Path) -> None:
    path = write(tmp_path, ALIASED)
    plain, other = load_suite(path).cells()
    assert plain.method.options == MAGRPOConfig(objective=Clipped(clip_low=0.1, clip_high=0.1))
    assert [(c.training.group_size, c.sampling.max_new_tokens) for c in (plain, other)] == [(4, 9), (6, 7)]
    assert {cell.training.group_size for cell in load_suite(path, ["training.num_generations=2"]).cells()} == {2}


@pytest.mark.parametrize(
    ("text", "settings", "named"),
    [
        (TWO, ["training.stepps=3"], "stepps.*steps"),
        (TWO.replace("max_new_tokens", "max_tokens"), [], "(?s)tldr-v0.*max_tokens.*max_new_tokens"),
        (TWO.replace('{ name = "concat" }', '{ name = "magrpo" }'), [], "twice"),
        (PER_METHOD.replace("methods.single", "methods.singel"), [], "'singel'.*single"),
        (PER_METHOD.replace('{ name = "large" }', '{ nam = "large" }'), [], "nam.*name"),
        (PER_METHOD.replace("gamma = 0.9", "epoch = 2"), [], "epoch.*epochs"),
        (PER_METHOD.replace("gamma = 0.9", "epochs = 0"), [], "epochs = 0"),
        (PER_METHOD.replace("gamma = 0.9", "epsilon = 1, clip_low = 1"), [], "epsilon"),
        (TWO, ["training.steps=-1"], "steps = -1"),
        (TWO, ["training.group_size=0"], "group_size = 0"),
        (TWO, ["evaluation.items=0"], "items = 0"),
        (TWO, ["environments=[{ id = 'tldr-v0', max_turns = 0 }]"], "max_turns = 0"),
        (TWO, ["models=[{ lora_rank = 0 }]"], "lora_rank = 0"),
    ],
)
def test_what_is_wrong_in_a_suite_is_named(text: str, settings: list[str], named: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=named):
        load_suite(write(tmp_path, text), settings).cells()


def test_an_unknown_suite_is_answered_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"quik.*quick"):
        load_suite("quik")


LEARNER_OF_A_STRANGER = """
methods = ["not_installed:Learner"]
environments = ["tldr-v0"]
name = "strange"
"""


def test_the_cells_of_a_suite_can_be_looked_at_without_loading_what_they_name(tmp_path: Path) -> None:
    suite = load_suite(write(tmp_path, LEARNER_OF_A_STRANGER))
    assert [cell.outside for cell in suite.written_cells()] == [["not_installed:Learner"]]
    with pytest.raises(ImportError, match="not_installed"):
        suite.cells()


def changed(**changes: Any) -> Cell:
    cell = next(cell for cell in load_suite("quick").cells() if cell.method.name == "concat")
    method = MethodConfig.model_validate({"name": "magrpo", **changes.pop("method", {})})
    parts = {name: getattr(cell, name).model_copy(update=update) for name, update in changes.items()}
    return replace(cell, method=method, **parts).loaded()


FALLING = {"name": "magrpo", "options": {"schedule": "linear", "horizon": 24}}


@pytest.mark.parametrize(
    ("there", "here", "found"),
    [
        ({}, {}, []),
        ({}, {"training": {"save_every": 1, "keep": 9}, "evaluation": {"every": 3}}, []),
        ({"training": {"steps": 3}}, {"training": {"steps": 4}}, []),
        ({"training": {"steps": 4}}, {"training": {"steps": 3}}, ["training.steps: 4 -> 3"]),
        (
            {},
            {"training": {"group_size": 9}, "evaluation": {"items": 3}},
            ["training.group_size: ", "evaluation.items: "],
        ),
        ({"method": FALLING, "training": {"steps": 20}}, {"method": FALLING, "training": {"steps": 24}}, []),
        (
            {"method": FALLING, "training": {"steps": 24}},
            {"method": FALLING, "training": {"steps": 25}},
            ["training.steps: 24 -> 25, but the learning rate is 0 after update 24 (horizon)"],
        ),
    ],
)
def test_what_keeps_a_cell_from_going_on_in_the_folder_of_another(
    there: dict[str, Any], here: dict[str, Any], found: list[str]
) -> None:
    lines = conflicts(changed(**there), changed(**here))
    assert len(lines) == len(found)
    assert all(line.startswith(start) for line, start in zip(lines, found, strict=True))


@pytest.mark.parametrize(
    ("method", "after", "found"),
    [
        ({}, 7, []),
        ({}, 6, ["training.steps: 9 -> 6, but 7 are done"]),
        (FALLING, 7, []),
        ({**FALLING, "options": {"schedule": "linear"}}, 7, ["training.steps: 9 -> 7"]),
    ],
)
def test_a_stopped_training_may_end_early_where_its_updates_are_those_of_a_shorter_one(
    method: dict[str, Any], after: int, found: list[str]
) -> None:
    there, here = (changed(method=method, training={"steps": steps}) for steps in (9, after))
    assert conflicts(there, here, saved=7) == found


BATCH = {"name": "magrpo", "options": {"advantage": "batch"}}


def test_a_group_of_one_has_nothing_to_be_compared_with() -> None:
    alone = {"training": {"group_size": 1}}
    with pytest.raises(ConfigError, match="group_size is 1, but magrpo"):
        check_methods([changed(**alone)])
    check_methods([changed(**alone, method=method) for method in ({"name": "mareinforce"}, {"name": "concat"}, BATCH)])


class Bare:
    """A learner that forgot the contract."""


class Built(Algorithm):
    """Takes less than it is given."""

    def __init__(self, team: Any) -> None:
        pass


@pytest.mark.parametrize("kind", [Bare, Built])
def test_a_method_that_breaks_the_contract_is_named(kind: type[Any]) -> None:
    with pytest.raises(ConfigError, match=kind.__name__):
        check_methods([changed(method={"name": f"{__name__}:{kind.__name__}"})])


@pytest.mark.parametrize(
    ("devices", "count", "executor", "message"),
    [
        ("cpu", 0, "local", ""),
        ("gpu", 2, "local", "'gpu'"),
        ("cuda:0,cuda:1", 2, "local", ""),
        ("cuda:0, cuda:2", 2, "local", "'cuda:2'"),
        ("cuda", 0, "processes", "'cuda'"),
        ("cuda", 0, "ray", ""),  # other machines may have some
        ("cuda:1", 2, "ray", "cuda:1"),
    ],
)
def test_devices_are_compared_with_what_is_there(
    devices: str, count: int, executor: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: count > 0)
    monkeypatch.setattr("torch.cuda.device_count", lambda: count)
    cells = [
        changed(model={"device": devices}),
        changed(model={"members": [MemberConfig(agents=["a"], device=devices)]}),
    ]
    for cell in cells:
        with pytest.raises(ConfigError, match=message) if message else contextlib.nullcontext():
            check_models([cell], executor=executor)


def test_what_an_engine_cannot_be_given_is_refused_where_it_is_trained() -> None:
    engine = {"kind": "vllm", "url": "http://localhost:8000", "model": "base", "adapters": "x"}
    whole, adapters = changed(model={"engine": engine}), changed(model={"engine": engine, "sharing": "lora"})
    check_models([adapters])
    check_models([whole], learn=False)
    with pytest.raises(ConfigError, match="sharing"):
        check_models([whole])


def test_another_placement_is_no_other_configuration() -> None:
    first = [MemberConfig(agents=["a"]), MemberConfig(agents=["b"], ranks=4)]
    other = [MemberConfig(agents=["a"], gpus=0.5), MemberConfig(agents=["b"])]
    assert conflicts(changed(model={"members": first}), changed(model={"ranks": 2, "members": other})) == []


def test_the_published_setting_is_the_published_one() -> None:
    cells = {(c.environment.id, c.method.name): c for c in load_suite("paper").cells() if c.seed == 0}
    writing, code = cells["tldr-v0", "magrpo"], cells["humaneval-v0", "magrpo"]
    assert (writing.model.name, code.model.name) == ("Qwen/Qwen3-1.7B", "Qwen/Qwen2.5-Coder-3B")
    assert writing.method.options == MAGRPOConfig(learning_rate=5e-6)
    assert code.method.options == MAGRPOConfig(learning_rate=2e-5)
    assert {c.sampling.temperature for c in cells.values()} == {0.7}
    assert {c.sampling.max_new_tokens for c in cells.values()} == {256}
    assert {c.training.group_size for c in cells.values()} == {4}
    assert {c.environment.tasks for c in cells.values()} == {"hub"}
    assert (writing.environment.max_turns, code.environment.max_turns) == (None, 2)  # None: its own, one
    assert code.evaluation.samples == 15
    assert cells["tldr-v0", "single"].model.name == "Qwen/Qwen3-4B"
    assert cells["humaneval-v0", "single"].model.name == "Qwen/Qwen2.5-Coder-7B"
