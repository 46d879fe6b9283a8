"""What tests of learners share: a table of three words, groups with given rewards, and updates of a copy of a team."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from models import Softmax, copy_of, gradients, group, sampled, weights

from llm_dec_pomdp.agents import Request, Sampling, Team
from llm_dec_pomdp.algorithms.magrpo import MAGRPO
from llm_dec_pomdp.types import Completion, Group, conversation

SAMPLING = Sampling(max_new_tokens=8)
REWARDS = [[1.0, 0.0, 2.0, 0.5], [0.0, 1.0, 1.0], [3.0, 0.0]]
THREE: dict[str, Any] = {"words": ("a", "b", "c"), "logits": (0.3, -1.0, 0.8)}
P = torch.tensor(THREE["logits"]).softmax(-1)


def make(team: Team, kind: type[MAGRPO] = MAGRPO, sampling: Sampling = SAMPLING, **options: Any) -> MAGRPO:
    """A learner whose gradients are left unscaled unless asked otherwise, so that they can be compared."""
    return kind(team, sampling, kind.Config(**{"max_grad_norm": 1e9, **options}))


def table_team() -> Team:
    """One agent that draws from the table of three words."""
    return Team({"agent_0": Softmax(**THREE)})


def texts(*ids: Sequence[int]) -> list[dict[str, Completion]]:
    """What agent_0 says in one-turn episodes."""
    return [{"agent_0": sampled(*i)} for i in ids]


def both(first: Completion, second: Completion | None = None) -> dict[str, Completion]:
    return {"agent_0": first, "agent_1": second or first}


TWO_WORDS = group([1.0, 0.0], texts([0], [1]))


def play(team: Team, rewards: Sequence[Sequence[float]] = REWARDS) -> list[Group]:
    """Groups of texts that the team draws itself, with given rewards."""
    groups: list[Group] = []
    for number, values in enumerate(rewards):
        seeds = tuple(range(10 * number, 10 * number + len(values)))
        history = conversation("say " + "red " * number + "please")
        answers = team.generate([Request(agent, history, seeds) for agent in team.members], SAMPLING)
        groups.append(group(values, [dict(zip(team.members, j, strict=True)) for j in zip(*answers, strict=True)]))
    return groups


def updated(team: Team, groups: Sequence[Group], **options: Any) -> tuple[dict[str, float], list[torch.Tensor]]:
    """Metrics and gradients of one update of a copy."""
    mine = copy_of(team)
    metrics = make(mine, **options).update(groups)
    return metrics, gradients(mine)


def gradient(*groups: Group, **options: Any) -> torch.Tensor:
    """Gradient of the table of three words."""
    return updated(table_team(), groups, **options)[1][0]


def score_function(*ids: int) -> torch.Tensor:
    """d log pi(ids) / d logits of the table of three words, by hand."""
    counts = torch.tensor([float(ids.count(k)) for k in range(3)])
    return counts - len(ids) * P


def agreement(team: Team) -> float:
    """How often the first two of a team say the same, and so what `match` pays two tables in the mean."""
    first, second = (policy.state_dict()["logits"].softmax(-1) for policy in team.trainable[:2])
    return float((first * second).sum())


def moved(before: Sequence[Mapping[str, torch.Tensor]], team: Team) -> list[set[str]]:
    """Names of the tensors that changed, per policy."""
    after = weights(team)
    return [{name for name in a if not torch.equal(a[name], b[name])} for a, b in zip(before, after, strict=True)]
