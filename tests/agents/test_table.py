"""A table of logits as a policy: uniform at first, trained as any other, saved whole."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch

import llm_dec_pomdp
from llm_dec_pomdp.agents import Request, Sampling, Team
from llm_dec_pomdp.agents.io.load import load_team
from llm_dec_pomdp.agents.io.models import ModelError, locate
from llm_dec_pomdp.agents.table import Table
from llm_dec_pomdp.algorithms.credit import JointCredit
from llm_dec_pomdp.algorithms.magrpo import MAGRPO, MAGRPOConfig
from llm_dec_pomdp.envs.base import TextDecPOMDP
from llm_dec_pomdp.envs.wrappers import with_protocol
from llm_dec_pomdp.training import TrainerConfig, restore, train
from llm_dec_pomdp.training.checkpoint import Checkpoints
from llm_dec_pomdp.types import Completion, conversation

ASKED = Request("agent_0", conversation("left or right?"), tuple(range(2000)))
ONE_WORD = Sampling(max_new_tokens=1)


def menus(env: TextDecPOMDP) -> dict[str, Any]:
    return {agent: env.choices(agent) for agent in env.possible_agents}


def learner(env: TextDecPOMDP, rate: float = 0.3) -> MAGRPO:
    team = load_team(env.possible_agents, "builtin:table", menus=menus(env))
    credit = JointCredit(advantage="leave_one_out")
    return MAGRPO(team, ONE_WORD, MAGRPOConfig(learning_rate=rate, credit=credit))


def test_it_begins_uniform_and_records_what_it_drew() -> None:
    table = Table(["left", "stay", "right"])
    [completions] = table.generate([ASKED], ONE_WORD)
    assert table.knows_entropy
    for text in table.menu:
        assert sum(completion.text == text for completion in completions) == pytest.approx(2000 / 3, abs=80)
    assert all(completion.logprobs == (pytest.approx(-math.log(3)),) for completion in completions)
    assert [c.text for c in completions] == [c.text for c in table.generate([ASKED], ONE_WORD)[0]]


def test_what_is_learnt_of_a_history_is_what_it_draws_there_and_nowhere_else() -> None:
    table = Table(["left", "right"])
    drawn = table.generate([ASKED], ONE_WORD)[0]
    logprobs, mask = table.token_logprobs([("agent_0", drawn[0])], 1.0)
    assert logprobs.tolist() == [list(drawn[0].logprobs)]
    assert mask.tolist() == [[1.0]]
    with torch.no_grad():
        table.table[0] = torch.tensor([0.0, 2.0])
    [again, elsewhere] = table.generate([ASKED, Request("agent_0", conversation("or?"), ASKED.seeds)], ONE_WORD)
    share = sum(completion.text == "right" for completion in again) / 2000
    assert share == pytest.approx(1 / (1 + math.exp(-2)), abs=0.03)
    assert sum(completion.text == "right" for completion in elsewhere) == pytest.approx(1000, abs=100)
    [greedy] = table.generate([ASKED], Sampling(temperature=0))
    assert {completion.text for completion in greedy} == {"right"}


def test_a_table_survives_a_file_and_refuses_that_of_another() -> None:
    table, twin = Table(["left", "right"]), Table(["left", "right"])
    table.token_logprobs([("agent_0", Completion("left", (7,), (0,), (0.0,)))], 1.0)
    with torch.no_grad():
        table.table[0] = torch.tensor([0.5, -0.5])
    twin.load_state_dict(table.state_dict())
    assert all(torch.equal(a, b) for a, b in zip(table.state_dict().values(), twin.state_dict().values(), strict=True))
    with pytest.raises(ValueError, match=r"\(1, 2\).*\(16384, 3\)"):
        Table(["left", "right", "stay"]).load_state_dict(table.state_dict())
    with pytest.raises(ValueError, match=r"'weight.*logits"):
        twin.load_state_dict({"weight": torch.zeros(1)})


def test_a_full_table_says_so() -> None:
    table = Table(["left", "right"], rows=1)
    samples = [("agent_0", Completion("left", (number,), (0,), (0.0,))) for number in (1, 2)]
    with pytest.raises(ValueError, match="1 rows"):
        table.token_logprobs(samples, 1.0)


def test_it_learns_to_listen_where_opening_is_dear() -> None:
    env = llm_dec_pomdp.make("dectiger-v0", max_turns=1)
    steps: list[float] = []
    config = TrainerConfig(steps=20, prompts_per_step=2, group_size=8)
    train(learner(env), env, ONE_WORD, config, 0, lambda step: steps.append(step.mean_return))
    assert max(steps[:3]) < -20
    assert min(steps[-3:]) > -25
    assert max(steps[-3:]) > -10


@pytest.mark.parametrize("env_id", ["dectiger-v0", "tldr-v0"])  # tables, and policies that copy sentences
def test_a_training_resumes_bit_for_bit(env_id: str, tmp_path: Path) -> None:
    env = llm_dec_pomdp.make(env_id, max_turns=2)

    def trained(steps: int, folder: Path) -> tuple[MAGRPO, list[str]]:
        mine, texts = MAGRPO(llm_dec_pomdp.load_team(env), Sampling(max_new_tokens=6)), list[str]()
        places = Checkpoints(folder, {})
        done = restore(mine, env, places)
        config = TrainerConfig(steps=steps, prompts_per_step=2, group_size=4)
        short = mine.sampling
        train(mine, env, short, config, 0, lambda step: texts.append(step.texts), checkpoints=places, done=done)
        return mine, texts

    whole, expected = trained(6, tmp_path / "whole")
    _, first = trained(3, tmp_path / "halves")
    halves, second = trained(6, tmp_path / "halves")
    assert first + second == expected
    for ours, theirs in zip(whole.team.trainable, halves.team.trainable, strict=True):
        assert all(torch.equal(ours.state_dict()[name], theirs.state_dict()[name]) for name in ours.state_dict())


@pytest.mark.parametrize(
    ("env_id", "protocol", "options", "message"),
    [
        ("tldr-v0", "parallel", {}, "'agent_0'"),
        ("dectiger-v0", "centralized", {}, "'agent_0'"),
        ("dectiger-v0", "parallel", {"sharing": "lora"}, "'lora'"),
        ("dectiger-v0", "parallel", {"dtype": "bfloat16"}, "'bfloat16'"),
        ("dectiger-v0", "parallel", {"truncate_prompts": True}, "truncate_prompts"),
    ],
)
def test_what_a_table_cannot_do_is_refused(env_id: str, protocol: str, options: dict[str, Any], message: str) -> None:
    env = with_protocol(llm_dec_pomdp.make(env_id), protocol)
    with pytest.raises(ModelError, match=message):
        load_team(env.possible_agents, "builtin:table", menus=menus(env), **options)


def test_agents_may_share_a_table() -> None:
    env = llm_dec_pomdp.make("dectiger-v0")
    team = load_team(env.possible_agents, "builtin:table", sharing="shared", menus=menus(env))
    assert len(team.policies) == 1
    with pytest.raises(ModelError, match="builtin:table"):
        locate("builtin:table")
    with pytest.raises(ValueError, match="menu is empty"):
        Team({"agent_0": Table([])})
