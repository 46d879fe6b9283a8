"""What an update tells of its texts, those that the token limit ended, and how it shares them out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from models import AGENTS, Softmax, group, sampled, weights
from updates import THREE, gradient, make, score_function, table_team, texts

from llm_dec_pomdp.agents import Team
from llm_dec_pomdp.types import Completion, Group


def test_the_numbers_by_hand() -> None:
    """Two groups of which one has signal, and a text that was cut off."""
    first = [sampled(0, 1, logprob=-1.0), replace(sampled(2, 2, 2, logprob=-2.0), truncated=True)]
    groups = [group([1.0, 0.0], [{"agent_0": c} for c in first]), group([1.0, 1.0], texts([0], [1]))]
    metrics = make(table_team()).update(groups)
    wanted = {
        "truncated": 1 / 4,
        "length": 7 / 4,
        "length_max": 3.0,
        "groups_without_signal": 1 / 2,
        "advantage_spread": 0.5**0.5,  # of 1, -1, 0, 0
        "surprisal": 8 / 7,  # two tokens of 1 nat, three of 2, two of 0
    }
    assert {name: metrics[name] for name in wanted} == pytest.approx(wanted)


def test_a_group_that_nobody_could_score_is_without_signal() -> None:
    nan = float("nan")
    metrics = make(table_team()).update([group([nan, nan], texts([0], [1])), group([1.0, 0.0], texts([0], [1]))])
    assert metrics["groups_without_signal"] == 0.5
    assert make(table_team()).update([])["groups_without_signal"] == 0


# --- texts that the token limit ended ---------------------------------------------------------------------------------


def cut_off() -> Group:
    """Three texts that earn 1, 0 and 5, of which the last was cut off: advantages -1, -2 and 3."""
    long = replace(sampled(2, 2, 2), truncated=True)
    return group([1.0, 0.0, 5.0], [{"agent_0": c} for c in (sampled(0), sampled(1), long)])


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, (-score_function(0) - 2 * score_function(1) + 3 * score_function(2, 2, 2)) / 5),
        ({"truncated": "mask"}, (-score_function(0) - 2 * score_function(1)) / 2),
    ],
    ids=["learn", "mask"],
)
def test_masked_texts_leave_the_loss_and_stay_in_the_baseline(options: dict[str, Any], wanted: torch.Tensor) -> None:
    torch.testing.assert_close(gradient(cut_off(), advantage="mean", **options), -wanted)


def test_where_all_texts_are_masked_nothing_is_learnt() -> None:
    team, groups = table_team(), [group([1.0, 0.0], [{"agent_0": replace(sampled(k), truncated=True)} for k in (0, 1)])]
    before = weights(team)[0]["logits"]
    metrics = make(team, truncated="mask", learning_rate=0.1).update(groups)
    assert torch.equal(before, weights(team)[0]["logits"])
    assert (metrics["skipped"], metrics["truncated"], metrics["tokens"]) == (1, 1, 0)


# --- minibatches ------------------------------------------------------------------------------------------------------


def minibatches(seed: int, updates: int = 1, counts: Sequence[int] = (4, 8)) -> list[list[tuple[str, int]]]:
    """Agent and prompt of the texts of every minibatch, of two agents that share a table and say different amounts."""

    class Watched(Softmax):
        def token_logprobs(self, samples: Any, temperature: float) -> Any:
            if torch.is_grad_enabled():
                seen.append([(agent, c.prompt_ids[0]) for agent, c in samples])
            return super().token_logprobs(samples, temperature)

    seen: list[list[tuple[str, int]]] = []
    groups: list[Group] = []
    for agent, count in zip(AGENTS, counts, strict=True):
        for prompt in range(count):
            pair = group([1.0, 0.0], [{agent: Completion("x", (prompt,), (k,), (-1.0,))} for k in (0, 1)])
            groups.append(replace(pair, episodes=tuple(replace(e, seed=seed) for e in pair.episodes)))
    learner = make(Team(dict.fromkeys(AGENTS, Watched(**THREE))), minibatches=4, micro_batch=99)
    for _ in range(updates):
        seen.clear()
        learner.update(groups)
    return seen


def test_every_minibatch_has_its_share_of_every_agent() -> None:
    for part in minibatches(0):
        speakers = [agent for agent, _ in part]
        assert [speakers.count(agent) for agent in AGENTS] == [2, 4]  # one and two prompts of two texts


def test_the_order_follows_the_seed_of_the_run_and_the_number_of_the_update() -> None:
    assert minibatches(1) == minibatches(1)
    assert minibatches(1) != minibatches(2)
    assert minibatches(1) != minibatches(1, updates=2)
