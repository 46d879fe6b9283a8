from __future__ import annotations

import pytest
from models import Recorder, Softmax

from llm_dec_pomdp.agents import RandomText, Request, Sampling, Team
from llm_dec_pomdp.agents.partners import Fault, Late, Noisy, Silent, mixed_team, replace_members
from llm_dec_pomdp.types import Completion, Episode, Group, Turn, conversation

SAMPLING = Sampling()
SEEDS = tuple(range(200))
FIRST, LATER = Request("a", conversation("x"), SEEDS), Request("a", conversation("x", "said", "y"), SEEDS)


def recorded(*tasks: tuple[str, list[str]]) -> list[Group]:
    """One episode of agent "a" per task: its first observation and its texts."""
    groups: list[Group] = []
    for observed, texts in tasks:
        turns = tuple(Turn({"a": observed}, {"a": Completion(text)}, 0.0) for text in texts)
        groups.append(Group(observed, (Episode(observed, 0, turns, terminated=True),)))
    return groups


@pytest.mark.parametrize(
    "fault", [Fault(kind="silent", share=0.4), Fault(kind="noisy", share=0.4), Fault(kind="late", tokens=3)]
)
def test_a_fault_depends_only_on_the_request_so_that_a_resumed_evaluation_repeats_it(fault: Fault) -> None:
    policy = fault.of(Softmax(length=2), recorded(("z", ["other", "later"])))
    together = policy.generate([FIRST, LATER], SAMPLING)
    one_by_one = [
        [policy.generate([Request("a", r.history, (s,))], SAMPLING)[0][0] for s in SEEDS] for r in (FIRST, LATER)
    ]
    assert together == one_by_one


def test_silence_has_its_share_and_leaves_the_other_texts_as_they_were() -> None:
    intact = RandomText().generate([FIRST], SAMPLING)[0]
    texts = Silent(RandomText(), 0.25).generate([FIRST], SAMPLING)[0]
    assert 30 <= sum(c.text == "" for c in texts) <= 70
    assert all(now.text in ("", before.text) for now, before in zip(texts, intact, strict=True))


def test_silence_starts_at_its_turn_and_spares_the_model() -> None:
    model = Recorder()
    first, later = Silent(model, from_turn=1).generate([FIRST, LATER], SAMPLING)
    assert {c.text for c in first} == {"red"}
    assert {c.text for c in later} == {""}
    assert model.calls == [[FIRST]]


def test_noise_is_what_the_agent_wrote_at_this_turn_of_another_task() -> None:
    policy = Noisy(Recorder(), recorded(("x", ["mine", "mine too"]), ("y", ["one"]), ("z", ["two", "three"])))
    first, later = policy.generate([FIRST, LATER], SAMPLING)
    assert {c.text for c in first} == {"one", "two"}
    assert {c.text for c in later} == {"three"}
    unknown = Request("a", conversation("x", "said", "y", "said", "y"))
    assert policy.generate([unknown], SAMPLING)[0][0].text == "red", "no text is recorded at this turn"


def test_noise_in_a_single_task_comes_from_its_other_episodes() -> None:
    policy = Noisy(Recorder(), recorded(("x", ["one"]), ("x", ["two"])))
    assert {c.text for c in policy.generate([FIRST], SAMPLING)[0]} == {"one", "two"}


def test_noise_needs_recorded_episodes() -> None:
    with pytest.raises(ValueError, match="recorded"):
        Fault(kind="noisy").of(Recorder())


def test_a_late_member_has_the_lower_token_limit() -> None:
    model = Recorder()
    Late(model, 5).generate([FIRST], Sampling(max_new_tokens=9))
    Late(model, 5).generate([FIRST], Sampling(max_new_tokens=2))
    assert [sampling.max_new_tokens for sampling in model.samplings] == [5, 2]


def test_a_replaced_member_is_not_trained_and_the_given_team_keeps_its_own() -> None:
    team = Team({"a": Softmax(), "b": Softmax()}, learning_rates={"b": 0.1})
    other = replace_members(team, {"a": Silent(team.members["a"])})
    assert other.trainable == [team.members["b"]]
    assert other.learning_rates == team.learning_rates
    assert len(team.trainable) == 2
    with pytest.raises(KeyError, match="'c'"):
        replace_members(team, {"c": RandomText()})


def test_members_of_several_teams_keep_their_sampling_options() -> None:
    policies = [Recorder(), Recorder()]
    teams = [Team(dict.fromkeys("ab", policy)) for policy in policies]
    teams[0].sampling = Sampling(temperature=0.5)
    teams[1].samplings = {"b": Sampling(top_k=3)}
    mixed_team({"a": teams[0], "b": teams[1]}).generate([Request("a", ()), Request("b", ())], Sampling(temperature=2.0))
    assert [policy.samplings for policy in policies] == [[Sampling(temperature=0.5)], [Sampling(top_k=3)]]
