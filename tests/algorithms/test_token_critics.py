"""IAC and MAAC with a value at each token: against plain autograd that reads one text at a time, and against turns."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import pytest
import torch
from models import AGENTS, WORDS, Softmax, gradients, language_model, network, tokenizer, weights

from llm_dec_pomdp.agents import Request, Sampling, Team
from llm_dec_pomdp.agents.io.load import load_team
from llm_dec_pomdp.agents.language_model.policy import LanguageModel
from llm_dec_pomdp.agents.table import Table
from llm_dec_pomdp.algorithms.actor_critic import IAC, MAAC, ActorCritic
from llm_dec_pomdp.config import ConfigError, build
from llm_dec_pomdp.types import Episode, Group, Turn, conversation

KINDS = [IAC, MAAC]
ROLES: dict[str, str] = dict(zip(AGENTS, ("left", "right"), strict=True))
REWARDS = ((0.0, 1.0), (1.0, 0.0), (0.5, 2.0))
GAMMA, LAMBDA, COEF = 0.5, 0.75, 0.6


def learner(kind: type[ActorCritic], team: Team, **options: Any) -> Any:
    given: dict[str, Any] = {"max_grad_norm": 1e9, "critic_epochs": 1, "learning_rate": 0.01, "gamma": GAMMA}
    return kind(team, Sampling(), kind.Config(**{**given, "gae_lambda": LAMBDA, "critic_level": "token", **options}))


def group_of(team: Team) -> Group:
    """Three episodes of two turns, with texts of 1 to 7 tokens."""
    episodes: list[Episode] = []
    for number, earned in enumerate(REWARDS):
        turns: list[Turn] = []
        for t, reward in enumerate(earned):
            observations = {agent: f"say {'red ' * t}{role}" for agent, role in ROLES.items()}
            texts = {
                agent: team.generate(
                    [Request(agent, conversation(text), (10 * number + t,))],
                    Sampling(max_new_tokens=1 + (2 * number + 3 * t + 4 * place) % 7),
                )[0][0]
                for place, (agent, text) in enumerate(observations.items())
            }
            turns.append(Turn(observations, texts, reward))
        episodes.append(Episode("t", number, tuple(turns), True))
    return Group("t", tuple(episodes), roles=ROLES)


# --- text by text -----------------------------------------------------------------------------------------------------


def joint_history(episode: Episode, t: int, agent: str) -> str:
    """What the critic of the team reads before a text of an agent."""
    lines: list[str] = []
    for number, turn in enumerate(episode.turns[: t + 1]):
        lines += [f"{ROLES[a]} is told:\n{text}" for a, text in turn.observations.items()]
        if number < t:
            lines += [f"{ROLES[a]} says:\n{completion.text}" for a, completion in turn.actions.items()]
    return "\n\n".join([*lines, f"{ROLES[agent]} says:\n"])


def chain(kind: type[ActorCritic], team: Team, critic: Any, episode: Episode, agent: str) -> tuple[Any, Any, Any]:
    """log pi, u and A of every token of an agent in an episode, the first two with gradient."""
    policy: Any = team.members[agent]
    logprobs: list[torch.Tensor] = []
    values: list[torch.Tensor] = []
    earned: list[float] = []
    discounts: list[float] = []
    for t, turn in enumerate(episode.turns):
        completion = turn.actions[agent]
        predicted = policy.model(torch.tensor([completion.prompt_ids + completion.token_ids])).logits[0].log_softmax(-1)
        at = enumerate(completion.token_ids, len(completion.prompt_ids) - 1)
        logprobs += [predicted[place, token] for place, token in at]
        joint = conversation(joint_history(episode, t, agent))
        read = list(completion.prompt_ids) if kind is IAC else critic["reads"].encode(joint)
        states = critic["body"](torch.tensor([[*read, *completion.token_ids[:-1]]])).last_hidden_state[
            0, len(read) - 1 :
        ]
        values += states.float() @ critic["weight"] + critic["bias"]
        earned += [0.0] * (len(completion.token_ids) - 1) + [turn.reward]
        discounts += [1.0] * (len(completion.token_ids) - 1) + [GAMMA]
    v = [*(value.item() for value in values), 0.0]
    deltas = [r + g * after - before for r, g, before, after in zip(earned, discounts, v[:-1], v[1:], strict=True)]
    rates = [LAMBDA * g for g in discounts]
    steps = range(len(deltas))
    advantages = [sum(deltas[k] * math.prod(rates[j:k]) for k in steps if k >= j) for j in steps]
    return logprobs, values, advantages


@pytest.mark.slow
@pytest.mark.every(4)
@pytest.mark.parametrize("body", ["own", "shared"])
@pytest.mark.parametrize("kind", KINDS)
def test_losses_and_gradients_are_those_of_plain_autograd_text_by_text(kind: type[ActorCritic], body: str) -> None:
    team: Any = load_team(AGENTS, "builtin:tiny", sharing="separate", device="cpu")
    for policy in team.trainable:
        policy.model.double()
    group = group_of(team)
    algorithm = learner(kind, team, body=body, normalise=False, learning_rate=0.0)
    critics: dict[str, Any] = {}
    for updater in algorithm.critics:
        torch.nn.init.constant_(updater.critic.weight, 0.05)
        model = updater.policy.model if body == "shared" else copy.deepcopy(updater.policy.model)
        heads = {name: getattr(updater.critic, name).detach().clone()[0] for name in ("weight", "bias")}
        critic = {name: head.requires_grad_() for name, head in heads.items()}
        [agent] = updater.agents
        critics[agent] = {**critic, "reads": updater.policy, "body": model.base_model}
    metrics = algorithm.update([group])
    found = [*gradients(team), *(p.grad for u in algorithm.critics for p in u.critic.parameters())]

    for policy in team.trainable:
        policy.model.zero_grad()
    total, means, targets = torch.zeros(()), list[float](), dict[str, list[Any]]()
    for agent in AGENTS:
        reader = agent if kind is IAC else AGENTS[0]
        chains = [chain(kind, team, critics[reader], episode, agent) for episode in group.episodes]
        terms = [pair for logprobs, _, by in chains for pair in zip(logprobs, by, strict=True)]
        total = total - torch.stack([logprob * advantage for logprob, advantage in terms]).mean()
        means.append(float(np.mean([advantage for _, advantage in terms])))
        targets.setdefault(reader, []).extend(pair for _, us, by in chains for pair in zip(us, by, strict=True))
    after = [value for r, s in REWARDS for value in (r + GAMMA * s, s)]
    losses: list[torch.Tensor] = [
        torch.stack([(u - (a + u.item() - np.mean(after)) / np.std(after)) ** 2 for u, a in taught]).mean()
        for taught in targets.values()
    ]
    torch.autograd.backward([total, *(COEF * loss for loss in losses)])
    assert metrics["loss"] == pytest.approx(-sum(means) / len(means), rel=1e-4)
    assert metrics["value_loss"] == pytest.approx(np.mean([loss.item() for loss in losses]), rel=1e-4)
    expected = gradients(team)
    for reader in targets:
        critic = critics[reader]
        expected += [critic["weight"].grad[None], critic["bias"].grad[None]]
        expected += [p.grad for p in critic["body"].parameters()] if body == "own" else []
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6, check_dtype=False)


def test_advantages_are_normalised_over_all_tokens_of_an_agent() -> None:
    team = Team({agent: language_model(place) for place, agent in enumerate(AGENTS)})
    algorithm = learner(IAC, team)
    sequences = algorithm.sequences(group_of(team), 0)
    algorithm._value(sequences)
    algorithm._credit(sequences)
    samples = algorithm.samples(sequences)
    for agent in AGENTS:
        advantages = [s.advantage * a for s in samples if s.agent == agent for a in s.tokens or (1.0,)]
        assert len(advantages) > len(REWARDS) * 2
        assert (np.mean(advantages), np.std(advantages)) == pytest.approx((0.0, 1.0), abs=1e-9)


# --- against turns ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_with_texts_of_one_token_tokens_are_turns(kind: type[ActorCritic]) -> None:
    """Bit for bit with a critic each; that of the team has a situation for each agent, which learns the same."""
    learnt: list[Any] = []
    for level in ("turn", "token"):
        team = Team({agent: Table(("a", "b", "c"), rows=64) for agent in AGENTS})
        algorithm = learner(kind, team, critic_level=level, learning_rate=0.1)
        for _ in range(3):
            algorithm.update([group_of(team)])
        learnt.append([tensors["logits"] for tensors in weights(team)])
    exact = 0.0 if kind is IAC else 1e-5
    for a, b in zip(*learnt, strict=True):
        assert a.abs().max() > 0.1
        torch.testing.assert_close(a, b, rtol=exact, atol=exact)


# --- what cannot be done ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", [{"estimates": "q"}, {"ratio": "sequence"}])
@pytest.mark.parametrize("kind", KINDS)
def test_options_of_whole_texts_are_refused(kind: type[ActorCritic], option: dict[str, str]) -> None:
    [(name, value)] = option.items()
    with pytest.raises(ConfigError, match=f"{name}='{value}'"):
        build(kind.Config, {"critic_level": "token", **option}, source="options")


class Plain(Table):
    """A policy whose critic values what it reads as a whole."""

    def critic(self, groups: Any, *, separate: bool) -> Any:
        return PlainCritic()


class PlainCritic:
    """A critic without values of tokens."""


def test_policies_that_have_no_values_of_tokens_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"PlainCritic.*Plain"):
        learner(IAC, Team({"agent_0": Plain(("a",))}))
    with pytest.raises(ValueError, match="Softmax has no critic"):
        learner(IAC, Team({"agent_0": Softmax()}))


def test_a_critic_of_the_team_refuses_an_agent_with_other_tokens() -> None:
    other = LanguageModel(network(), tokenizer(words=("wrote", *WORDS[:-1])))
    team = Team({"agent_0": language_model(), "agent_1": other})
    learner(IAC, team)
    with pytest.raises(ValueError, match="'agent_1' and 'agent_0'"):
        learner(MAAC, team)
