"""What crosses between a driver and a worker, with a worker in this process."""

from __future__ import annotations

import multiprocessing
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
import torch
from models import AGENTS, ITEMS, Colourful, Softmax, copy_of, language_model, same, sampled, softmax_team, weights
from placing import Here, Nearby

from llm_dec_pomdp.agents.base import Request, Sampling, Team
from llm_dec_pomdp.agents.io.load import load_team
from llm_dec_pomdp.agents.io.models import ModelError
from llm_dec_pomdp.agents.table import Table
from llm_dec_pomdp.algorithms.magrpo import MAGRPO
from llm_dec_pomdp.storage.files import pack
from llm_dec_pomdp.training.workers.process import Processes
from llm_dec_pomdp.types import Completion, conversation
from llm_dec_pomdp.user_code import WorkerTraceback


def placed(team: Team) -> tuple[Team, list[Here]]:
    """A copy of a team whose members live in workers of their own."""
    executor, copied = Nearby(), copy_of(team)
    members = {a: executor.place([a], partial(Team, {a: policy})) for a, policy in copied.members.items()}
    return Team(members, learning_rates=team.learning_rates), executor.workers  # type: ignore[return-value]


def step(team: Team, **options: Any) -> tuple[MAGRPO, dict[str, float]]:
    """Play and learn once."""
    learner = MAGRPO(team, Sampling(), MAGRPO.Config(**options))
    groups = learner.rollout.play(Colourful(ITEMS), learner.policy, ["t0", "t1"], [1, 2], Sampling(), 4)
    return learner, learner.update(groups)


def test_a_worker_is_sent_the_texts_of_its_own_agents_alone() -> None:
    team, workers = placed(softmax_team())
    step(team)
    for agent, worker in zip(AGENTS, workers, strict=True):
        [(_, samples, _)] = [given for method, given in worker.asked if method == "step"]
        assert {sample.agent for sample in samples} == {agent}


def test_a_team_with_other_learning_rates_and_one_without_moves_alike() -> None:
    local = Team(softmax_team().members, learning_rates={"agent_1": 0.3})
    team, _ = placed(local)
    (first, metrics), (second, others) = (step(each, learning_rate=0.1) for each in (local, team))
    assert metrics == others
    assert same(weights(local), weights(team))
    found: list[dict[str, torch.Tensor]] = [{}, {}]
    assert pack(first.state_dict(), found[0]) == pack(second.state_dict(), found[1])
    assert same(found[:1], found[1:])


def test_a_placed_policy_has_the_rate_that_it_would_have_here() -> None:
    local = Team({"agent_0": Table(["a", "b"]), "agent_1": Softmax()})
    team, _ = placed(local)
    here, there = (MAGRPO(each, Sampling()).learning_rates() for each in (local, team))
    assert here == there == {"agent_0": 0.3, "agent_1": 5e-4}


def test_gradients_stay_where_the_weights_live() -> None:
    team, _ = placed(softmax_team())
    with pytest.raises(ValueError, match="agent_0"):
        team.trainable[0].token_logprobs([("agent_0", sampled(1))], 1.0)


def test_stand_ins_of_parameters_take_no_memory() -> None:
    team, _ = placed(Team({"agent_0": language_model()}))
    [policy] = team.trainable
    assert {parameter.device.type for parameter in policy.parameters()} == {"meta"}
    shapes = [p.shape for p in policy.parameters()]
    assert shapes == [p.shape for p in language_model().parameters()]


def test_two_policies_in_one_worker_are_refused() -> None:
    with pytest.raises(ValueError, match="team of 2"):
        Nearby().place(AGENTS, softmax_team)


# --- in processes -----------------------------------------------------------------------------------------------------


class Counting(Softmax):
    """Says how many threads it has to compute with."""

    processor_load = 1

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        return [[Completion(str(torch.get_num_threads()))] for _ in requests]


def counting_team(agent: str) -> Team:
    return Team({agent: Counting()})


@pytest.mark.slow
def test_a_worker_computes_with_the_threads_that_its_policy_would_have_here() -> None:
    """Models of like size share the cores when both are asked, and each has all of them when it is asked alone."""
    both = [Request(agent, conversation("how many")) for agent in AGENTS]
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with Processes() as executor:
            team = Team({agent: executor.place([agent], partial(counting_team, agent)) for agent in AGENTS})
            asked = [team.generate(requests, Sampling()) for requests in (both, both[:1])]
    finally:
        torch.set_num_threads(before)
    assert [[completion.text for [completion] in answers] for answers in asked] == [["1", "1"], ["2"]]


class Odd(Exception):  # noqa: N818
    """Cannot be built from its message, and so not sent."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} and {second}")


class Failing(Softmax):
    def generate(self, requests: Sequence[Request], sampling: Sampling) -> Any:
        raise Odd("one", "another")


def failing_team() -> Team:
    return Team({"agent_0": Failing()})


@pytest.mark.slow
def test_an_error_in_a_worker_is_raised_here_with_where_it_came_from() -> None:
    with Processes() as executor:
        team = executor.load_team(["agent_0"], "builtin:nonsense")
        for _ in range(2):  # the second time, too
            with pytest.raises(ModelError, match="'builtin:nonsense'") as caught:
                team.generate([Request("agent_0", conversation("hello"))], Sampling())
        assert isinstance(caught.value.__cause__, WorkerTraceback)
        assert 'agents/io/models.py", line' in str(caught.value.__cause__)
        odd = executor.place(["agent_0"], failing_team)
        for _ in range(2):  # it goes on after an error
            with pytest.raises(RuntimeError, match="Odd: one and another"):
                odd.generate([Request("agent_0", conversation("hello"))], Sampling())
        before = multiprocessing.active_children()
        with pytest.raises(TypeError, match=r"cannot be sent to it "):
            executor.place(["agent_0"], lambda: load_team(["agent_0"]))
        assert multiprocessing.active_children() == before
