from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from models import Recorder, Softmax

from llm_dec_pomdp.agents import Policy, Request, Sampling, Scripted, Team
from llm_dec_pomdp.types import Completion, conversation

SAMPLING = Sampling(max_new_tokens=3)
ECHO = Scripted(lambda agent, history: f"{agent} heard {history[-1].text}")


def request(agent: str, text: str = "x", *seeds: int) -> Request:
    return Request(agent, conversation(text), seeds or (0,))


def test_each_policy_is_asked_once_and_only_for_its_agents() -> None:
    first, second, idle = Recorder(ECHO), Recorder(ECHO), Recorder()
    team = Team({"a": first, "b": second, "c": first, "d": idle})
    team.generate([request(agent) for agent in "cbacb"], SAMPLING)
    assert first.calls == [[request("c"), request("a"), request("c")]]
    assert second.calls == [[request("b"), request("b")]]
    assert first.samplings == second.samplings == [SAMPLING]
    assert idle.calls == []


def test_answers_come_back_in_the_order_of_the_requests() -> None:
    team = Team({"a": Recorder(ECHO), "b": Recorder(ECHO)})
    requests = [request(agent, str(i)) for i, agent in enumerate("babba")]
    answers = team.generate(requests, SAMPLING)
    assert [[c.text for c in answer] for answer in answers] == [
        [f"{agent} heard {i}"] for i, agent in enumerate("babba")
    ]


def test_an_unknown_agent_names_the_nearest_and_nobody_is_asked() -> None:
    policy = Recorder()
    with pytest.raises(KeyError, match=r"'agent_9'.*agent_0"):
        Team({"agent_0": policy}).generate([request("agent_0"), request("agent_9")], SAMPLING)
    assert policy.calls == []


class TooFew(Policy):
    def generate(self, requests: Any, sampling: Sampling) -> list[list[Completion]]:
        return []


def test_a_policy_that_leaves_a_request_unanswered_is_an_error() -> None:
    with pytest.raises(ValueError, match="shorter"):
        Team({"a": TooFew()}).generate([request("a")], SAMPLING)


def test_policies_are_listed_once_in_agent_order_and_those_with_parameters_are_trainable() -> None:
    learner, recorder = Softmax(), Recorder()
    team = Team({"a": ECHO, "b": learner, "c": recorder, "d": learner})
    assert team.policies == [ECHO, learner, recorder]
    assert team.trainable == [learner]


def test_a_team_keeps_its_own_list_of_members() -> None:
    members: dict[str, Any] = {"a": ECHO}
    team = Team(members)
    members["b"] = ECHO
    assert list(team.members) == ["a"]


@pytest.mark.parametrize("edge", [{"temperature": 0.0}, {"top_p": 1.0}, {"top_k": 0}, {"max_new_tokens": 1}])
def test_sampling_at_the_edge_is_allowed(edge: dict[str, Any]) -> None:
    assert getattr(Sampling(**edge), next(iter(edge))) == next(iter(edge.values()))


def test_agents_may_draw_with_a_sampling_of_their_own() -> None:
    shared = Recorder(ECHO)
    change = Sampling(temperature=1.0, stop=("END",))  # 1 is the default, and is asked for all the same
    team = Team(dict.fromkeys("abc", shared), samplings={"b": change})
    run = Sampling(temperature=0.5, max_new_tokens=3)
    answers = team.generate([request(agent) for agent in "abca"], run)
    assert [c.text for [c] in answers] == [f"{agent} heard x" for agent in "abca"]
    assert dict(zip(shared.samplings, shared.calls, strict=True)) == {
        run: [request("a"), request("c"), request("a")],
        Sampling(temperature=1.0, max_new_tokens=3, stop=("END",)): [request("b")],
    }


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: Team({}), "members is empty"),
        (lambda: Team({"agent_0": ECHO}, samplings={"agnt_0": SAMPLING}), "'agnt_0'"),
        *(
            (lambda rates=rates: Team({"agent_0": Softmax(), "agent_1": Softmax()}, learning_rates=rates), named)
            for rates, named in (
                ({"agnt_1": 1.0}, "'agnt_1'.*agent_1"),
                ({"agent_1": -0.1}, "'agent_1' is -0.1"),
                ({"agent_1": math.nan}, "'agent_1' is nan"),
                ({"agent_1": math.inf}, "'agent_1' is inf"),
            )
        ),
        (lambda: Sampling(stop=("END", "")), r"stop\.1"),
        *(
            (lambda name=name, value=value: Sampling(**{name: value}), f"(?s){name}.*input_value={value}")
            for name, value in (
                *(("temperature", -0.1), ("temperature", math.nan), ("top_p", 0.0), ("top_p", 1.1)),
                *(("top_k", -1), ("max_new_tokens", 0), ("top_q", 1)),
            )
        ),
    ],
)
def test_wrong_values_are_named(make: Callable[[], object], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        make()
