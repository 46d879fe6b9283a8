"""The learning rate follows what is trained, unless it is given."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from models import AGENTS, Softmax, language_model, network, sampled, softmax_team, tokenizer
from updates import SAMPLING

from llm_dec_pomdp.agents import Policy, Team
from llm_dec_pomdp.agents.io.load import load_team
from llm_dec_pomdp.agents.language_model.policy import LanguageModel
from llm_dec_pomdp.agents.table import Table
from llm_dec_pomdp.algorithms.options import UpdaterOptions
from llm_dec_pomdp.algorithms.registration import algorithms, build_algorithm, find_algorithm, learns
from llm_dec_pomdp.algorithms.samples import Sample
from llm_dec_pomdp.algorithms.staged import Stage, Staged
from llm_dec_pomdp.algorithms.updater import updaters_of

LARGE: dict[str, Any] = {
    "hidden_size": 384,
    "intermediate_size": 1536,
    "num_hidden_layers": 6,
    "num_attention_heads": 6,
}


class Rated(Softmax):
    """A policy of somebody's own that names its rate."""

    default_learning_rate = 0.07


def adapted() -> LanguageModel:
    """An adapter on a model that is large enough to be a pretrained one."""
    from peft import LoraConfig, get_peft_model

    base = network(**LARGE)
    model: Any = get_peft_model(base, LoraConfig(r=2, target_modules=["q_proj"], bias="none"), adapter_name="both")
    return LanguageModel(model, tokenizer(), adapters=dict.fromkeys(AGENTS, "both"))


KINDS: dict[str, tuple[Callable[[], Any], float]] = {
    "a table": (lambda: Table(["a", "b"]), 0.3),
    "a small model": (language_model, 5e-4),
    "the built-in model": (lambda: load_team(AGENTS, sharing="shared", device="cpu").policies[0], 5e-4),
    "all weights of a large model": (lambda: language_model(**LARGE), 1e-5),
    "an adapter on a large model": (adapted, 5e-4),
    "a policy that names none": (Softmax, 5e-4),
    "a policy that names one": (Rated, 0.07),
}


@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_the_rate_follows_what_is_trained(kind: str) -> None:
    build, rate = KINDS[kind]
    policy: Policy = build()
    team = Team(dict.fromkeys(AGENTS, policy))
    [updater] = updaters_of(team, 1.0, UpdaterOptions())
    assert updater.learning_rates() == dict.fromkeys(AGENTS, rate)
    assert {group["lr"] for group in updater.optimizer.param_groups} == {rate}


LEARNERS = [name for name in algorithms if learns(name) and not name.startswith("reward_model")]  # shows texts


@pytest.mark.parametrize("name", LEARNERS)
def test_every_learner_takes_it_and_its_critic_too(name: str) -> None:
    agents = AGENTS[:1] if find_algorithm(name).protocol == "centralized" else AGENTS
    learner = build_algorithm(name, {}, Team({agent: Table(["a", "b"]) for agent in agents}), SAMPLING)
    assert learner.learning_rates() == dict.fromkeys(agents, 0.3)
    assert {g["lr"] for updater in learner.updaters for g in updater.optimizer.param_groups} == {0.3}


@pytest.mark.parametrize("rate", [0.0, 0.01])
def test_a_rate_that_is_given_holds_for_all_but_agents_with_one_of_their_own(rate: float) -> None:
    team = Team({"agent_0": Table(["a", "b"]), "agent_1": Softmax()}, learning_rates={"agent_1": 0.2})
    updaters = updaters_of(team, 1.0, UpdaterOptions(learning_rate=rate))
    assert [updater.learning_rates() for updater in updaters] == [{"agent_0": rate}, {"agent_1": 0.2}]


def test_unlike_members_have_unlike_rates_and_a_critic_of_another_rate_is_not_theirs() -> None:
    mixed = build_algorithm("magrpo", {}, Team({"agent_0": Table(["a", "b"]), "agent_1": Softmax()}), SAMPLING)
    assert mixed.learning_rates() == {"agent_0": 0.3, "agent_1": 5e-4}
    tables = Team({agent: Table(["a", "b"]) for agent in AGENTS})
    critics = build_algorithm("iac", {"critic_learning_rate": 3.0}, tables, SAMPLING)
    assert critics.learning_rates() == dict.fromkeys(AGENTS, 0.3)


def test_a_run_goes_on_with_the_rate_that_it_was_saved_with(monkeypatch: pytest.MonkeyPatch) -> None:
    def make_updater() -> Any:
        [updater] = updaters_of(Team({"agent_0": Rated()}), 1.0, UpdaterOptions())
        return updater

    samples = [Sample("agent_0", sampled(0), 1.0), Sample("agent_0", sampled(1), -1.0)]
    whole = make_updater()
    whole.step(samples)
    state, logits = copy.deepcopy((whole.state_dict(), whole.policy.state_dict()))
    monkeypatch.setattr(Rated, "default_learning_rate", 0.5)
    resumed = make_updater()
    assert resumed.learning_rates() == {"agent_0": 0.5}
    resumed.policy.load_state_dict(logits)
    resumed.load_state_dict(state)
    assert resumed.learning_rates() == {"agent_0": 0.07}
    assert whole.step(samples) == resumed.step(samples)
    assert whole.policy.logits.tolist() == resumed.policy.logits.tolist()


def test_stages_have_their_own() -> None:
    team = softmax_team()
    first = build_algorithm("mareinforce", {"learning_rate": 0.1}, team, SAMPLING)
    both = Staged([Stage(first, 1), Stage(build_algorithm("magrpo", {}, team, SAMPLING), 0)])
    assert both.learning_rates() == dict.fromkeys(AGENTS, 0.1)
    both.updates = 1
    assert both.learning_rates() == dict.fromkeys(AGENTS, 5e-4)
