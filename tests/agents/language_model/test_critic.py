"""Critics on language models: what they read, whose weights they have, and what they leave alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from models import AGENTS, ITEMS, Colourful, language_model, network, same, tokenizer, weights
from requests_of_agents import adapted, pairs

from llm_dec_pomdp.agents.base import Reading, Sampling
from llm_dec_pomdp.agents.base import Request as Asked
from llm_dec_pomdp.agents.io.load import load_team
from llm_dec_pomdp.agents.language_model.critic import HeadCritic
from llm_dec_pomdp.agents.language_model.policy import LanguageModel
from llm_dec_pomdp.algorithms.actor_critic import IAC
from llm_dec_pomdp.algorithms.critics import CriticOptions
from llm_dec_pomdp.types import conversation

READINGS: list[Reading] = [("agent_0", (5, 6, 7, 8)), ("agent_1", (9,)), ("agent_1", (7, 6))]
GROUPS = [[agent] for agent in AGENTS]


def stirred(critic: HeadCritic) -> HeadCritic:
    """With a head that is not zero any more."""
    with torch.no_grad(), torch.random.fork_rng():
        torch.manual_seed(5)
        critic.weight.normal_()
        critic.bias.normal_()
    return critic


def test_a_value_is_the_head_on_the_hidden_state_of_the_last_token() -> None:
    policy = LanguageModel(network(1), tokenizer())
    critic = stirred(policy.critic(GROUPS, separate=False))
    with torch.no_grad():
        for row, (agent, ids) in enumerate(READINGS):
            state = policy.model.base_model(input_ids=torch.tensor([ids])).last_hidden_state[0, -1]
            head = AGENTS.index(agent)
            expected = state @ critic.weight[head] + critic.bias[head]
            torch.testing.assert_close(critic.values(READINGS)[row], expected, rtol=1e-4, atol=1e-5)  # among others


def test_values_of_tokens_are_those_of_what_ends_there_whatever_follows_or_is_in_the_batch() -> None:
    critic = stirred(language_model(1).critic(GROUPS, separate=True))
    with torch.no_grad():
        together = critic.token_values(READINGS, 4)
        for row, (agent, ids) in zip(together, READINGS, strict=True):
            alone = [critic.values([(agent, ids[: 1 + last])]) for last in range(len(ids))]
            torch.testing.assert_close(row[-len(ids) :], torch.cat(alone), rtol=1e-4, atol=1e-5)


def test_a_critic_that_has_learnt_nothing_expects_nothing() -> None:
    assert language_model().critic(GROUPS, separate=True).values(READINGS).tolist() == [0.0] * 3


@pytest.mark.parametrize("separate", [False, True])
def test_the_gradient_of_a_value_goes_to_the_body_that_it_is_of(separate: bool) -> None:
    policy = language_model()
    critic = stirred(policy.critic(GROUPS, separate=separate))
    critic.values(READINGS).sum().backward()
    assert {p.grad is not None for p in policy.model.base_model.parameters()} == {not separate}
    assert all(p.grad is not None for p in critic.parameters())
    assert {id(p) for p in critic.parameters()}.isdisjoint(id(p) for p in policy.parameters())


def test_a_critic_on_a_base_with_adapters_leaves_the_policy_as_it_is(folder: str) -> None:
    policy = adapted(folder)
    requests = [Asked(agent, conversation("say red please"), (1, 2)) for agent in AGENTS]
    texts = pairs(policy)

    def shown() -> Any:
        drawn = [
            [(c.text, c.logprobs) for c in completions]
            for completions in policy.generate(requests, Sampling(max_new_tokens=6))
        ]
        names = {agent: weights.tensors for agent, weights in policy.weight_files(AGENTS).items()}
        return drawn, names, policy.token_logprobs(texts, 1.0)[0].detach()

    before, weights = shown(), {name: tensor.clone() for name, tensor in policy.state_dict().items()}
    critic = stirred(policy.critic(GROUPS, separate=True))
    optimizer = torch.optim.AdamW(critic.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        critic.values(READINGS).pow(2).sum().backward()
        optimizer.step()
    after = shown()
    assert after[:2] == before[:2]
    assert torch.equal(after[2], before[2])
    assert same([weights], [policy.state_dict()])
    assert all(p.grad is None or not p.grad.any() for p in policy.parameters())
    shares = [p.numel() for p in critic.parameters()]
    assert sum(shares) < 2 * sum(p.numel() for p in policy.parameters())  # no copy of the base


def test_with_gradient_checkpointing_the_gradient_is_the_same(folder: str) -> None:
    """Although log-probabilities of a policy came in between, with other adapters."""
    gradients: list[list[torch.Tensor]] = []
    for on in (False, True):
        policy = adapted(folder, gradient_checkpointing=on)
        critic = stirred(policy.critic(GROUPS, separate=True))
        for parameter in list(critic.parameters())[2:]:
            with torch.no_grad():
                parameter.copy_(torch.linspace(-0.3, 0.3, parameter.numel()).view(parameter.shape))
        values = critic.values(READINGS)
        policy.token_logprobs(pairs(policy), 1.0)
        gradients.append(list(torch.autograd.grad(values.sum(), list(critic.parameters()))))
    for plain, kept in zip(*gradients, strict=True):
        torch.testing.assert_close(plain, kept, rtol=1e-4, atol=1e-6)
    assert max(float(g.abs().max()) for g in gradients[0][2:]) > 1e-3


def test_a_critic_is_restored_bit_for_bit_and_another_one_refused() -> None:
    saved = stirred(language_model(1).critic(GROUPS, separate=True)).state_dict()
    critic = language_model(2).critic(GROUPS, separate=True)
    critic.load_state_dict(saved)
    assert same([saved], [critic.state_dict()])
    with pytest.raises(ValueError, match=r"\d+ tensors"):
        language_model(2).critic(GROUPS, separate=False).load_state_dict(saved)


def test_critics_on_adapters_go_on_after_a_restart_bit_for_bit(folder: str) -> None:

    def learner() -> Any:
        team = load_team(AGENTS, folder, sharing="lora")
        return IAC(team, Sampling(max_new_tokens=4), CriticOptions(body="own", learning_rate=0.01, epochs=2))

    def step(algorithm: Any, number: int) -> None:
        algorithm.update(
            algorithm.rollout.play(
                Colourful(ITEMS), algorithm.policy, ["t0", "t1"], [number, number + 10], algorithm.sampling, 2
            )
        )

    whole, first, second = learner(), learner(), learner()
    for algorithm in (whole, first):
        step(algorithm, 0)
    state = first.state_dict()
    second.team.trainable[0].load_state_dict(weights(first.team)[0])
    second.load_state_dict(state)
    for algorithm in (whole, second):
        step(algorithm, 1)
    assert same(weights(whole.team), weights(second.team))
    ends = [algorithm.state_dict()["updaters"][0] for algorithm in (whole, second)]
    assert same(*([end["critic"]] for end in ends))
    assert ends[0]["critic"]["head.weight"].abs().max() > 0
    assert ends[0]["return_stats"] == ends[1]["return_stats"]
    assert ends[0]["return_stats"]["updates"] == 2
