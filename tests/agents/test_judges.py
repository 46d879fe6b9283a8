"""Language models as judges: likelihoods by hand, cuts, names, and servers."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from typing import Any

import pytest
import torch
from models import language_model
from servers import Reply, Server

from llm_dec_pomdp.agents.io.load import load_team
from llm_dec_pomdp.agents.io.models import ModelError
from llm_dec_pomdp.agents.judges import ModelJudge, load_judge
from llm_dec_pomdp.agents.remote import RemoteError, RemoteJudge
from llm_dec_pomdp.types import Likelihood, conversation

TEXTS = ["red blue", "left", "red blue red", ""]


def by_hand(judge: ModelJudge, prompt: list[int], text: str) -> Likelihood:
    """One forward pass over prefix, text and end."""
    ids = judge.policy.prompts.text_ids(text)
    whole = torch.tensor([[*prompt, *ids, judge._end]])
    with torch.no_grad():
        nats = judge.policy.model(whole).logits[0].float().log_softmax(-1)
    *logprobs, end = (nats[len(prompt) + i - 1, token].item() for i, token in enumerate([*ids, judge._end]))
    return Likelihood(tuple(logprobs), end)


def numbers(likelihood: Likelihood) -> list[float]:
    return [*likelihood.nats, likelihood.end]


@pytest.mark.parametrize("prefix", ["red left", "", conversation("say red")])
def test_likelihoods_are_those_of_one_forward_pass(prefix: Any) -> None:
    judge = ModelJudge(language_model(), "small")
    prompts = judge.policy.prompts
    prompt = prompts.plain_ids(prefix) if isinstance(prefix, str) else prompts.encode(prefix)
    other = "blue blue blue blue"  # a longer prefix in the same batch
    found = judge.log_likelihoods([*[prefix] * len(TEXTS), other], [*TEXTS, "left"])
    for text, likelihood in zip(TEXTS, found, strict=False):
        assert numbers(likelihood) == pytest.approx(numbers(by_hand(judge, prompt, text)), abs=1e-4)
    assert numbers(found[-1]) == pytest.approx(numbers(by_hand(judge, prompts.plain_ids(other), "left")), abs=1e-4)
    assert found[0].mean == pytest.approx(sum(found[0].nats) / 2)
    assert found[3].mean == -math.inf


def test_what_exceeds_the_context_is_cut_and_noted() -> None:
    judge = ModelJudge(language_model(), "small")
    context = judge.policy.model.config.max_position_embeddings
    long, short = "red " * (2 * context), "red blue"
    cut, much, fits = judge.log_likelihoods(["left", long, "left"], [long, short, short])
    assert (cut.cut, much.cut, fits.cut) == (True, True, False)
    assert len(cut.nats) == len(cut.starts) == context // 2 - 1
    assert len(much.nats) == len(fits.nats) == 2


def test_tokens_start_at_their_first_characters() -> None:
    text = "naïve \U0001f600 blue"
    [found] = load_judge("builtin:tiny").log_likelihoods(["red"], [text])
    pieces = [text[start:end] for start, end in pairwise((*found.starts, len(text)))]
    assert len(pieces) == len(found.nats)
    assert list(filter(None, pieces)) == ["n", "a", "ï", "ve", " ", "\U0001f600", " bl", "ue"]


def test_the_name_holds_a_hash_of_the_weights() -> None:
    first, same, other = (ModelJudge(language_model(seed), "folder/model.gguf") for seed in (0, 0, 1))
    assert first.name == same.name != other.name
    assert first.name.startswith("model@")


def test_adapters_are_no_part_of_the_base_below_them() -> None:
    team = load_team(["agent_0", "agent_1"], "builtin:tiny", sharing="lora", device="cpu")
    base = ModelJudge(team.members["agent_0"].base(), "builtin:tiny")  # type: ignore[attr-defined]
    plain = load_judge("builtin:tiny")
    assert base.name == plain.name
    [its], [found] = base.log_likelihoods(["a"], ["text"]), plain.log_likelihoods(["a"], ["text"])
    assert numbers(its) == pytest.approx(numbers(found), abs=1e-4)


def test_a_judge_that_cannot_be_loaded_is_named() -> None:
    with pytest.raises(ModelError, match="nowhere"):
        load_judge("nowhere.gguf")


# --- servers ----------------------------------------------------------------------------------------------------------


def echoed(body: dict[str, Any], number: int) -> Reply:
    """A token for every character, as likely as its place is far; and one more, which was asked for."""
    text = body["prompt"] + "!"
    found = {"text_offset": list(range(len(text))), "token_logprobs": [None, *(-float(i) for i in range(1, len(text)))]}
    return 200, json.dumps({"choices": [{"text": text, "logprobs": found}]}).encode()


def test_a_server_that_echoes_log_probabilities_judges(server: Server) -> None:
    server.answer = echoed
    judge = load_judge(f"{server.url}#small")
    assert judge.name == f"{server.url}#small"
    found = judge.log_likelihoods(["abc", "ab"], ["de", "cde"])
    assert [likelihood.nats for likelihood in found] == [(-3.0, -4.0), (-2.0, -3.0, -4.0)]
    assert [likelihood.starts for likelihood in found] == [(0, 1), (0, 1, 2)]
    assert math.isnan(found[0].end)
    assert {path.rpartition("/")[2] for path in server.paths} == {"completions"}


@pytest.mark.parametrize(
    "choice",
    [
        {"text": "ab!"},
        {"text": "ab!", "logprobs": None},
        {"text": "!", "logprobs": {"text_offset": [2], "token_logprobs": [-1.0]}},
        {"text": "ab!", "logprobs": {"text_offset": [0, 1], "token_logprobs": [None, None]}},
    ],
)
def test_a_server_without_log_probabilities_of_the_prompt_is_refused_at_once(
    server: Server, choice: dict[str, Any]
) -> None:
    server.answer = lambda body, number: (200, json.dumps({"choices": [choice]}).encode())
    with pytest.raises(RemoteError, match="echo"):
        RemoteJudge(server.url, "small").log_likelihoods(["a"], ["b"])
    assert len(server.asked) == 1


def test_a_server_is_not_shown_a_conversation(server: Server) -> None:
    with pytest.raises(TypeError, match="small"):
        RemoteJudge(server.url, "small").log_likelihoods([conversation("say red")], ["red"])
