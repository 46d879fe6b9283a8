"""Estimates against counting by hand and against a run."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from llm_dec_pomdp.agents.base import Sampling
from llm_dec_pomdp.agents.io.load import MemberConfig
from llm_dec_pomdp.benchmarks.cell import run_cell
from llm_dec_pomdp.benchmarks.estimate import estimate, estimate_table, estimates, model_parameters
from llm_dec_pomdp.benchmarks.kept import header_of
from llm_dec_pomdp.benchmarks.setup import build_env
from llm_dec_pomdp.benchmarks.suite import load_suite

SIZE = ["sampling.max_new_tokens=20", "training.steps=5", "evaluation.items=3", "evaluation.every=2"]


def test_episodes_and_tokens_are_counted() -> None:
    cells = {(c.environment.id, c.method.name): c for c in load_suite("quick", SIZE).cells() if c.seed == 0}
    concat = estimate(cells["tldr-v0", "concat"])
    assert (concat.episodes, concat.generated_tokens) == (3, 3 * 2 * 20)
    discussion = estimate(cells["tldr-v0", "discussion"])
    assert discussion.generated_tokens == 2 * concat.generated_tokens
    assert discussion.prompt_tokens > 1.5 * concat.prompt_tokens
    steps = cells["tldr-v0", "magrpo"].training.steps
    magrpo = estimate(cells["tldr-v0", "magrpo"])
    evaluations = 2 + (steps - 1) // 2
    assert magrpo.episodes == steps * 8 * 4 + evaluations * 3
    assert magrpo.gigabytes == pytest.approx(4 * 2 * concat.gigabytes / 2)  # type: ignore[operator]


def test_a_member_with_a_limit_of_its_own_is_counted_and_noted_by_it() -> None:
    cell = next(c for c in load_suite("quick", SIZE).cells() if c.method.name == "concat")
    short = Sampling(max_new_tokens=5)
    members = [
        MemberConfig(agents=["agent_0"], model="builtin:tiny", sampling=short),
        MemberConfig(agents=["agent_1"], model="builtin:tiny"),
    ]
    cell = dataclasses.replace(cell, model=cell.model.model_copy(update={"members": members}))
    assert estimate(cell).generated_tokens == 3 * (5 + 20)
    header = header_of(cell, build_env(cell, cell.protocol, evaluation=True), 0).shared
    assert header["players"]["agent_0"]["sampling"]["max_new_tokens"] == 5
    assert "sampling" not in header["players"]["agent_1"]


def test_a_limit_of_a_member_that_writes_all_parts_is_that_of_the_whole_text() -> None:
    cell = next(c for c in load_suite("quick", SIZE).cells() if c.method.name == "single")
    members = [MemberConfig(agents=["agent_0"], model="builtin:tiny", sampling=Sampling(max_new_tokens=5))]
    own = dataclasses.replace(cell, model=cell.model.model_copy(update={"members": members}))
    assert (estimate(cell).generated_tokens, estimate(own).generated_tokens) == (3 * 2 * 20, 3 * 5)


def test_the_sum_says_which_cells_it_leaves_out() -> None:
    suite = load_suite("quick", SIZE)
    cell = next(c for c in suite.cells() if c.method.name == "concat")
    mixed = dataclasses.replace(
        cell, model=cell.model.model_copy(update={"members": [MemberConfig(agents=["agent_0", "agent_1"], model="a")]})
    )
    for cells, words in (((cell, mixed), "without 1 runs"), ((mixed,), "time and memory are unknown")):
        caption = estimate_table(suite, cells, [estimate(c) for c in cells]).caption
        assert words in caption


def test_the_texts_of_a_hierarchy_are_those_of_its_script() -> None:
    cells = load_suite("hierarchy", ["seeds=[0]", "evaluation.items=3", "training.steps=0"]).cells()
    by_title = {cell.method.title: cell for cell in cells}
    assert estimate(by_title["joint"]).generated_tokens == 2 * 3 * 5  # main asks, sub, main asks, sub, main answers
    assert estimate(by_title["single"]).generated_tokens == 2 * 3 * 3  # it asks, asks, and answers


def test_the_bound_holds_in_a_run(tmp_path: Path) -> None:
    cell = next(c for c in load_suite("quick", SIZE).cells() if c.method.name == "sequential")
    cell = dataclasses.replace(cell, model=cell.model.model_copy(update={"name": "builtin:tiny"}))
    summary = run_cell(cell, tmp_path / "cell").summary
    guess = estimate(cell)
    assert summary.generated_tokens * summary.episodes <= guess.generated_tokens
    assert guess.prompt_tokens == pytest.approx(summary.prompt_tokens * summary.episodes, rel=0.6)


def test_the_published_suite_is_estimated_without_a_network() -> None:
    found = estimates(load_suite("paper").cells())
    assert len(found) == 4 * 5 * 3
    assert all(e.minutes and e.gigabytes and e.prompt_tokens for e in found)
    # Two models of 3 B: weights, gradients and two moments of 4 bytes each. What is not trained has 2 bytes a weight.
    assert max(e.gigabytes for e in found if e.gigabytes) == pytest.approx(2 * 3 * 4 * 4)
    assert max(e.gigabytes for e in found if e.gigabytes and "magrpo" not in e.label) < 20
    (humaneval,) = {e.episodes for e in found if e.label.startswith("humaneval_v0-concat")}
    assert humaneval == 32 * 15 + 16


def test_the_device_that_a_suite_names_is_the_one_estimated() -> None:
    minutes: dict[str, float] = {}
    for device in ("cpu", "cuda"):
        cell = next(c for c in load_suite("quick").cells() if c.method.name == "magrpo")
        model = cell.model.model_copy(update={"name": "some-1B", "device": device, "dtype": "bfloat16"})
        minutes[device] = estimate(dataclasses.replace(cell, model=model)).minutes or 0.0
    assert minutes["cpu"] > 2 * minutes["cuda"]


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("Qwen/Qwen3-1.7B", 1.7e9),
        ("Qwen/Qwen2.5-Coder-3B", 3e9),
        ("/x/SmolLM2-135M-Instruct.Q4_1.gguf", 135e6),
        ("someone/model", None),
    ],
)
def test_parameters_are_read_from_names(name: str, parameters: float | None) -> None:
    assert model_parameters(name) == parameters
