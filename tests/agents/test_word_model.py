"""builtin:words: a small model of an environment's own words."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from models import same, weights

from llm_dec_pomdp.agents import Request, Sampling, Team
from llm_dec_pomdp.agents.io.load import MemberConfig, assemble_team, load_team
from llm_dec_pomdp.types import Message, conversation

WORDS = ("red", "green", "blue")


def team(seed: int = 0, **options: Any) -> Team:
    return load_team(("a", "b", "c"), "builtin:words", vocabulary=WORDS, seed=seed, device="cpu", **options)


def test_the_seed_decides_the_first_weights() -> None:
    assert same(weights(team(3)), weights(team(3)))
    assert not same(weights(team(3)), weights(team(4)))
    torch.manual_seed(0)
    before = torch.random.get_rng_state()
    team()
    assert torch.equal(before, torch.random.get_rng_state())


def test_agents_of_a_role_share_a_model() -> None:
    assembled = team(roles=("main", "sub", "sub"))
    assert assembled.members["b"] is assembled.members["c"] is not assembled.members["a"]


def test_every_word_is_a_token_and_a_history_is_its_words_in_order() -> None:
    model: Any = team().members["a"]
    history = (Message("observation", "red green"), Message("action", "blue"), Message("tool", "green", "file"))
    ids = model.encode(history)
    assert model.tokenizer.convert_ids_to_tokens(ids) == [
        *("red", "green", "<say>", "blue", "<eos>", "green", "<say>"),
    ]
    assert model.tokenizer.convert_ids_to_tokens(model.encode(conversation("purple"))) == ["<unk>", "<say>"]


@pytest.mark.parametrize("limit", [1, 4])
def test_a_later_prompt_goes_on_from_what_was_sampled_and_from_what_was_shown(limit: int) -> None:
    model: Any = team().members["a"]
    first = Request("a", conversation("red green"))
    written = model.to_completion(first, "blue", limit)
    assert written.token_ids == tuple(model.tokenizer.convert_tokens_to_ids(["blue", "<eos>"]))[:limit]
    assert written.truncated == (limit == 1)
    assert written.logprobs == (0.0,) * len(written.token_ids)
    later = conversation("red green", "blue", "red")
    assert model.encode(later, 0, written.prompt_ids + written.token_ids) == model.encode(later)
    [[sampled]] = model.generate([first], Sampling(max_new_tokens=1))
    assert written.prompt_ids == sampled.prompt_ids


def test_any_well_formed_text_is_as_likely_as_any_other() -> None:
    def choices(agent: str, history: Any) -> list[str]:
        return [f"{agent} {history[-1].text} {k}" for k in range(3)]

    assembled = assemble_team(("a",), ("r",), [MemberConfig(agents=["a"], model="script:uniform")], choices=choices)
    [completions] = assembled.generate([Request("a", conversation("x"), tuple(range(300)))], Sampling())
    counts = [sum(c.text == f"a x {k}" for c in completions) for k in range(3)]
    assert sum(counts) == 300
    assert min(counts) > 70
    [again] = assembled.generate([Request("a", conversation("x"), (7,))], Sampling())
    assert again[0].text == completions[7].text


def test_script_uniform_wants_an_environment_that_lists_texts() -> None:
    assembled = assemble_team(("a",), ("r",), [MemberConfig(agents=["a"], model="script:uniform")])
    with pytest.raises(ValueError, match="script:uniform"):
        assembled.generate([Request("a", conversation("x"))], Sampling())
