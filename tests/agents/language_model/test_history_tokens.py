"""The prompt of a later turn begins with exactly the ids that were shown and sampled before."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from models import AGENTS, ITEMS, Match, Recorder, language_model, network, tokenizer

from llm_dec_pomdp.agents import Request, Sampling, Scripted, Team
from llm_dec_pomdp.agents.io.load import load_team
from llm_dec_pomdp.agents.language_model.policy import LanguageModel
from llm_dec_pomdp.envs.wrappers import with_protocol
from llm_dec_pomdp.rollout import Counterfactual, Trajectories, Tree
from llm_dec_pomdp.types import Completion, Episode, Group, Message, TaskItem, Tool, conversation

SAMPLING = Sampling(max_new_tokens=4)
ROLLOUTS = {
    "side by side": Trajectories(),
    "tree": Tree(),
    "crossed": Tree("cross"),
    "alternatives": Counterfactual("resampled"),
}
EOS, UNKNOWN, RED, BLUE = 2, 0, 5, 7  # what text shows of UNKNOWN is nothing


class Telling(Match):
    """Tells every agent at the next turn what all said."""

    declared = replace(Match.declared, best=2.0)

    def respond(self, item: TaskItem, actions: Any, score: Any) -> dict[str, str]:
        return dict.fromkeys(self.possible_agents, f"{' left '.join(actions.values())} again please")


class Noting(Recorder):
    """Keeps the answers too."""

    def __init__(self, inner: LanguageModel) -> None:
        super().__init__(inner)
        self.answers: list[list[list[Completion]]] = []

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        self.answers.append(super().generate(requests, sampling))
        return self.answers[-1]


def played(protocol: str = "parallel", rollout: str = "side by side") -> tuple[list[Group], Noting]:
    """Groups of two tasks, and who played them."""
    env = with_protocol(Telling(ITEMS, max_turns=3 if rollout == "alternatives" else 2), protocol)
    policy = Noting(language_model(3, max_position_embeddings=512))
    team = Team(dict.fromkeys(env.possible_agents, policy))
    return ROLLOUTS[rollout].play(env, team, ["t0", "t1"], [1, 2], SAMPLING, 2), policy


def completions_of(agent: str, episode: Episode) -> list[Completion]:
    return [turn.actions[agent] for turn in episode.turns if agent in turn.actions]


def words(history: Sequence[Message]) -> list[str]:
    """Those of a history that the tokenizer knows, with who said it."""
    shown = [f"{'assistant' if m.role == 'action' else 'user'} {m.text}" for m in history]
    known = tokenizer().get_vocab()
    return [word for word in " ".join(shown).split() if word in known]


@pytest.mark.every(2)
@pytest.mark.parametrize("rollout", ROLLOUTS)
@pytest.mark.parametrize("protocol", ["parallel", "centralized", "sequential", "discussion"])
def test_a_prompt_begins_with_what_was_shown_and_sampled(protocol: str, rollout: str) -> None:
    groups, policy = played(protocol, rollout)
    for episode in (e for group in groups for e in group.episodes):
        for agent in {agent for turn in episode.turns for agent in turn.actions}:
            for before, after in itertools.pairwise(completions_of(agent, episode)):
                begun = before.prompt_ids + before.token_ids
                assert after.prompt_ids[: len(begun)] == begun
    for requests, answered in zip(policy.calls, policy.answers, strict=True):
        for request, completions in zip(requests, answered, strict=True):
            assert bool(request.ids) == (len(request.history) > 1)
            assert all(c.prompt_ids[: len(request.ids)] == request.ids for c in completions)
            if request.ids:  # they are of this history, also where a text was borrowed from another episode
                assert policy.inner.decode(request.ids).split() == words(request.history[:-1])
    assert len(policy.calls) > 1


def test_some_of_these_texts_do_not_survive_the_tokenizer() -> None:
    groups, _ = played()
    first = [c for g in groups for e in g.episodes for c in e.turns[0].actions.values()]
    assert any(ids_of(c.text) != [i for i in c.token_ids if i != EOS] for c in first)


@pytest.mark.parametrize("sharing", ["separate", "lora"])
@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")
def test_a_model_with_a_real_tokenizer(sharing: Any) -> None:
    """Of the texts of `builtin:tiny` about every other is cut differently by its tokenizer."""
    team = load_team(AGENTS, "builtin:tiny", sharing=sharing, device="cpu")
    env = Telling(ITEMS, max_turns=3)
    [group] = Trajectories().play(env, team, ["t0"], [1], Sampling(max_new_tokens=12), 3)
    alike = []
    for agent, episode in itertools.product(AGENTS, group.episodes):
        policy: Any = team.members[agent]
        first, second, third = completions_of(agent, episode)
        for before, after in ((first, second), (second, third)):
            begun = before.prompt_ids + before.token_ids
            assert after.prompt_ids[: len(begun)] == begun
        whole = policy.encode(
            conversation(episode.turns[0].observations[agent], first.text, episode.turns[1].observations[agent])
        )
        texts = [policy.tokenizer.decode(ids).split() for ids in (whole, second.prompt_ids)]
        assert texts[0] == texts[1]
        alike.append(tuple(whole) == second.prompt_ids)
    assert set(alike) == {True, False}


def test_what_is_learnt_from_is_what_was_sampled_at_later_turns_too() -> None:
    groups, policy = played()
    later = [(a, c) for g in groups for e in g.episodes for a, c in e.turns[1].actions.items()]
    logprobs, mask = policy.inner.token_logprobs(later, 1.0)
    wanted = torch.tensor([[*c.logprobs, *[0.0] * (mask.shape[1] - len(c.logprobs))] for _, c in later])
    torch.testing.assert_close(logprobs * mask, wanted, rtol=0, atol=1e-4)


# --- what follows the last text ---------------------------------------------------------------------------------------


def ids_of(text: str) -> list[int]:
    return tokenizer()(text)["input_ids"]


HISTORY = conversation("say one", "red", "again please")
SHOWN = ids_of("user say one <eos> assistant")


@pytest.mark.parametrize(
    ("sampled", "following"),
    [
        ([RED, EOS], "user again please <eos> assistant"),  # it ended as the template ends a text
        ([RED], "<eos> user again please <eos> assistant"),  # it was cut off
        ([UNKNOWN, RED, UNKNOWN, EOS], "user again please <eos> assistant"),
        ([RED, BLUE], "<eos> user again please <eos> assistant"),  # it ended otherwise, see below
    ],
)
def test_the_template_closes_what_is_not_closed(sampled: list[int], following: str) -> None:
    model = network()
    model.generation_config.eos_token_id = [EOS, BLUE]
    prompt = LanguageModel(model, tokenizer()).encode(HISTORY, ids=[*SHOWN, *sampled])
    assert prompt == [*SHOWN, *sampled, *ids_of(following)]


def test_without_a_template_texts_stand_apart() -> None:
    policy = language_model(chat=False)
    sampled = [*ids_of("say one"), UNKNOWN, RED, EOS]
    assert policy.encode(HISTORY, ids=sampled) == [*sampled[:-1], *ids_of("again please")]  # no end within the text
    assert policy.encode(HISTORY, ids=sampled[:-1]) == [*sampled[:-1], *ids_of("again please")]


def test_the_end_of_a_long_history_is_kept_on_request() -> None:
    policy = LanguageModel(network(max_position_embeddings=12), tokenizer(), truncate_prompts=True)
    ids = [*SHOWN, UNKNOWN, RED, EOS]
    assert policy.encode(HISTORY, 4, ids=ids) == [*ids, *ids_of("user again please <eos> assistant")][-8:]


def test_what_is_remembered_is_the_same_again_and_has_a_bound() -> None:
    policy = language_model()
    known = ((), (Tool("search", "Finds.", (("query", "Words."),)),))
    first = [policy.encode(HISTORY, ids=[*SHOWN, word, EOS], tools=tools) for word in (RED, BLUE) for tools in known]
    assert [ids[len(SHOWN)] for ids in first] == [RED, RED, BLUE, BLUE]
    first[0].append(BLUE)
    assert policy.encode(HISTORY, ids=[*SHOWN, RED, EOS]) == first[1] == first[0][:-1]
    for number in range(5000):
        assert len(policy.prompts.text_ids(f"red {number}")) == 2
    assert len(vars(policy.prompts)["_known"]) <= 4096
    assert policy.encode(HISTORY, ids=[*SHOWN, BLUE, EOS]) == first[2]
    policy.prompts.text_ids("red " * 100)
    assert "red " * 100 not in vars(policy.prompts)["_known"]


# --- requests ---------------------------------------------------------------------------------------------------------


def test_texts_that_look_alike_and_are_not_have_requests_of_their_own() -> None:
    class Spelling(Recorder):
        """Says "red" in another way for every seed."""

        def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
            self.calls.append(list(requests))
            return [[Completion("red", (1,), (seed % 2, RED), (0.0,) * 2) for seed in r.seeds] for r in requests]

    policy = Spelling()
    Trajectories().play(Telling(ITEMS, max_turns=2), Team(dict.fromkeys(AGENTS, policy)), ["t0"], [1], SAMPLING, 8)
    first, second = policy.calls
    assert [len(r.seeds) for r in first] == [8, 8]
    assert [r.agent for r in second] == ["agent_0", "agent_1"] * 2
    assert {r.ids for r in second} == {(1, 0, RED), (1, 1, RED)}
    assert sum(len(r.seeds) for r in second) == 16


def test_a_policy_without_tokens_has_none() -> None:
    recorder = Recorder(Scripted(lambda agent, history: "red"))
    Trajectories().play(Telling(ITEMS, max_turns=3), Team(dict.fromkeys(AGENTS, recorder)), ["t0"], [1], SAMPLING, 2)
    assert {r.ids for call in recorder.calls for r in call} == {()}
