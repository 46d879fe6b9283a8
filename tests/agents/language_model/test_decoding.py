from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from models import network

from llm_dec_pomdp.agents.base import Sampling
from llm_dec_pomdp.agents.engines import Prompt, Sampled
from llm_dec_pomdp.agents.language_model.decoding import draw, sample

EOS, PAD = 2, 1
GRID = 20_000  # a row per uniform: frequencies are then within 1 / GRID of the probabilities that are drawn from


def frequencies(logits: Sequence[float] | torch.Tensor, sampling: Sampling, rows: int = GRID) -> torch.Tensor:
    """How often each token is drawn over an even grid of uniforms."""
    row = torch.as_tensor(logits)
    u = (torch.arange(rows, dtype=torch.float64) + 0.5) / rows
    tokens, _ = draw(row.expand(rows, -1), u, sampling)
    return torch.bincount(tokens, minlength=len(row)) / rows


def random_logits(size: int, seed: int = 0, spread: float = 1.0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(scale=spread, size=size)).float()


def truncated(logits: torch.Tensor, *, top_k: int = 0, top_p: float = 1.0) -> torch.Tensor:
    """The documented distribution, the slow way: keep the k likeliest, of those the smallest prefix that reaches p."""
    probabilities = logits.double().softmax(-1)
    if top_k:
        probabilities[probabilities.argsort(descending=True)[top_k:]] = 0
        probabilities /= probabilities.sum()
    result = torch.zeros_like(probabilities)
    mass = 0.0
    for rank, token in enumerate(probabilities.argsort(descending=True).tolist()):
        if rank == (top_k or len(logits)) or mass >= top_p:
            break
        result[token] = probabilities[token]
        mass += float(probabilities[token])
    return result / result.sum()


# --- draw: the distribution -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        *({"temperature": temperature} for temperature in (0.3, 1.0, 2.5)),
        *({"top_k": top_k} for top_k in (1, 2, 11, 12, 40)),
        *({"top_p": top_p} for top_p in (0.01, 0.3, 0.7, 0.999)),
        {"top_k": 6, "top_p": 0.4},
        {"temperature": 10.0, "top_p": 0.9},  # of the probabilities at the temperature
    ],
    ids=str,
)
@pytest.mark.parametrize("seed", [0, 3])
def test_frequencies_are_those_of_the_documented_distribution(options: dict[str, Any], seed: int) -> None:
    logits = random_logits(12, seed)
    wanted = truncated(
        logits / options.get("temperature", 1.0), top_k=options.get("top_k", 0), top_p=options.get("top_p", 1.0)
    )
    torch.testing.assert_close(frequencies(logits, Sampling(**options)).double(), wanted, rtol=0, atol=2e-4)


def test_wide_top_k_is_not_cut_off_at_what_is_looked_at_first() -> None:
    shares = frequencies(torch.zeros(1000), Sampling(top_k=800), rows=8000)
    assert int((shares > 0).sum()) == 800


@pytest.mark.every(3)
@pytest.mark.parametrize("top_p", [0.5, 0.9, 0.97])
@pytest.mark.parametrize("spread", [0.05, 3.0], ids=["wide", "narrow"])
def test_top_p_is_exact_where_the_nucleus_is_wider_than_what_is_looked_at_first(top_p: float, spread: float) -> None:
    logits = random_logits(1200, seed=5, spread=spread)
    wanted = truncated(logits, top_p=top_p)
    assert (int((wanted > 0).sum()) > 512) == (spread == 0.05)
    shares = frequencies(logits, Sampling(top_p=top_p), rows=5000).double()
    torch.testing.assert_close(shares, wanted, rtol=0, atol=3e-4)
    edge = wanted[wanted > 0].min()  # rounding may move the border by a token that is as likely as its neighbour
    assert float(shares[wanted == 0].sum()) <= 1.5 * float(edge)


def test_wide_and_narrow_rows_of_one_batch_are_drawn_as_alone() -> None:
    rows = torch.stack([random_logits(2000, 1, 0.05), random_logits(2000, 2, 4.0), random_logits(2000, 3, 0.05)])
    u = torch.tensor([0.1, 0.6, 0.97], dtype=torch.float64)
    sampling = Sampling(top_p=0.9)
    together = draw(rows, u, sampling)[0].tolist()
    assert together == [int(draw(rows[i : i + 1], u[i : i + 1], sampling)[0]) for i in range(3)]


@pytest.mark.parametrize("u", [0.0, 0.37, 0.999])
def test_temperature_zero_takes_the_likeliest(u: float) -> None:
    logits = random_logits(50)
    tokens, logprobs = draw(logits[None], torch.tensor([u]), Sampling(temperature=0.0, top_p=0.5))
    assert tokens.tolist() == [int(logits.argmax())]
    torch.testing.assert_close(logprobs, logits.log_softmax(-1).max()[None])


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(top_p=0.9), Sampling(top_k=4)], ids=["all", "p", "k"])
@pytest.mark.parametrize("u", [0.0, 1e-300, 0.5, 1 - 2**-24, 1 - 2**-53])
@pytest.mark.parametrize("impossible", [[0, 1], [2], [4, 5], [0, 1, 2, 4, 5]])
def test_an_impossible_token_is_never_drawn(sampling: Sampling, u: float, impossible: list[int]) -> None:
    logits = random_logits(6)
    logits[impossible] = -math.inf
    tokens, logprobs = draw(logits[None], torch.tensor([u], dtype=torch.float64), sampling)
    assert int(tokens) not in impossible
    assert math.isfinite(float(logprobs))


@pytest.mark.parametrize("u", [0.0, 1 - 2**-53])
def test_a_token_too_unlikely_for_the_format_is_never_drawn(u: float) -> None:
    logits = torch.tensor([[-200.0, 0.0, -200.0]])
    assert int(draw(logits, torch.tensor([u], dtype=torch.float64), Sampling())[0]) == 1


# --- draw: what is recorded -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kept", [{}, {"top_p": 0.4}, {"top_k": 2}])
def test_recorded_logprobs_are_at_the_temperature_and_before_truncation(kept: dict[str, Any]) -> None:
    sampling = Sampling(temperature=0.7, **kept)
    logits = torch.stack([random_logits(12, seed) for seed in range(40)])
    tokens, logprobs = draw(logits, torch.linspace(0, 0.999, 40), sampling)
    wanted = (logits / 0.7).log_softmax(-1).gather(1, tokens[:, None])[:, 0]
    torch.testing.assert_close(logprobs, wanted)


def test_half_precision_logits_are_normalised_in_single_precision() -> None:
    logits = random_logits(300).bfloat16()[None]
    tokens, logprobs = draw(logits, torch.tensor([0.4]), Sampling())
    assert logprobs.dtype == torch.float32
    torch.testing.assert_close(logprobs[0], logits.float().log_softmax(-1)[0, tokens[0]])


# --- sample -----------------------------------------------------------------------------------------------------------

LONG = [3, 5, 6, 7, 8, 9, 10, 2, 4]
PROMPTS = [[5, 6, 4], LONG, [7], [8, 9, 10, 11, 12], [13, 4]]


@pytest.fixture(scope="module")
def model() -> Any:
    return network(seed=1, double=True)  # so that batching moves no borderline draw


def run(model: Any, prompts: Sequence[Prompt], **sampling: Any) -> list[list[Sampled]]:
    options = {"max_new_tokens": 24, **sampling}
    return sample(model, prompts, Sampling(**options), frozenset({EOS}), PAD)


def ids(answers: Sequence[Sequence[Sampled]]) -> list[list[list[int]]]:
    return [[s.ids for s in copies] for copies in answers]


@pytest.mark.parametrize("seed", [9, 10, 11])  # with these some texts end early and some do not
def test_greedy_text_is_that_of_transformers(seed: int) -> None:
    model = network(seed=seed, double=True)
    width = max(map(len, PROMPTS))
    rows = torch.tensor([[PAD] * (width - len(p)) + p for p in PROMPTS])
    mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in PROMPTS])
    reference = model.generate(rows, attention_mask=mask, max_new_tokens=24, do_sample=False)[:, width:].tolist()
    wanted = [row[: row.index(EOS) + 1] if EOS in row else row for row in reference]
    answers = run(model, [Prompt(p, (0,)) for p in PROMPTS], temperature=0.0)
    assert [copies[0].ids for copies in answers] == wanted
    assert min(map(len, wanted)) < max(map(len, wanted)) == 24


@pytest.fixture(scope="module")
def forty(model: Any) -> list[Sampled]:
    """Forty texts of one prompt; some end early, others are cut off."""
    copies = run(model, [Prompt(LONG, tuple(range(40)))])[0]
    assert len({len(c.ids) for c in copies}) > 8
    assert any(c.truncated for c in copies)
    assert any(len(c.ids) < 4 for c in copies)
    return copies


def test_a_text_follows_from_its_seed_whatever_else_is_in_the_batch(model: Any) -> None:
    questions = [Prompt(p, tuple(range(10 * i, 10 * i + 1 + i % 3))) for i, p in enumerate(PROMPTS)]
    together = ids(run(model, questions))
    assert [len(copies) for copies in together] == [1, 2, 3, 1, 2]
    assert ids(run(model, questions[::-1])) == together[::-1]
    for question, copies in zip(questions, together, strict=True):
        for seed, text in zip(question.seeds, copies, strict=True):
            assert ids(run(model, [Prompt(question.ids, (seed,))])) == [[text]]


def test_rows_that_end_early_do_not_disturb_the_others(model: Any, forty: list[Sampled]) -> None:
    for seed in (0, 7, 19, 39):
        assert ids(run(model, [Prompt(LONG, (seed,))])) == [[forty[seed].ids]]


def test_seeds_differ_and_equal_seeds_agree(model: Any) -> None:
    [copies] = ids(run(model, [Prompt(LONG, (1, 2, 3, 1))]))
    assert copies[0] == copies[3]
    assert len({tuple(c) for c in copies[:3]}) == 3


def test_the_stop_token_is_part_of_the_text_and_nothing_follows_it(forty: list[Sampled]) -> None:
    for c in forty:
        assert (EOS in c.ids) == (not c.truncated)
        assert EOS not in c.ids[:-1]
        assert len(c.logprobs) == len(c.ids) > 0


def test_a_stop_token_in_the_last_place_is_not_truncation(model: Any, forty: list[Sampled]) -> None:
    seed, whole = next((seed, c) for seed, c in enumerate(forty) if not c.truncated and len(c.ids) > 1)
    [[again]] = run(model, [Prompt(LONG, (seed,))], max_new_tokens=len(whole.ids))
    assert again.ids == whole.ids
    assert not again.truncated


@pytest.mark.parametrize("limit", [1, 2, 7])
def test_a_limit_gives_the_beginning_of_the_same_text(model: Any, forty: list[Sampled], limit: int) -> None:
    copies = run(model, [Prompt(LONG, tuple(range(40)))], max_new_tokens=limit)[0]
    assert [c.ids for c in copies] == [c.ids[:limit] for c in forty]
    assert [c.truncated for c in copies] == [EOS not in c.ids[:limit] for c in forty]


@pytest.mark.parametrize("temperature", [0.5, 1.0, 1.7])
def test_logprobs_are_those_of_a_plain_forward_pass(model: Any, temperature: float) -> None:
    [[c]] = run(model, [Prompt(LONG, (5,))], temperature=temperature)
    with torch.no_grad():
        logits = model(torch.tensor([LONG + c.ids])).logits[0, len(LONG) - 1 : -1]
    wanted = (logits / temperature).log_softmax(-1).gather(1, torch.tensor(c.ids)[:, None])[:, 0]
    torch.testing.assert_close(torch.tensor(c.logprobs).double(), wanted, rtol=0, atol=1e-5)


def test_several_stop_tokens_all_stop(model: Any) -> None:
    stops = frozenset({EOS, 5, 9, 14})
    copies = sample(model, [Prompt(LONG, tuple(range(30)))], Sampling(max_new_tokens=24), stops, PAD)[0]
    assert {c.ids[-1] for c in copies if not c.truncated} > {EOS}
    assert all(not stops & set(c.ids[:-1]) for c in copies)


def test_later_tokens_take_longer(forty: list[Sampled]) -> None:
    copies = sorted(forty, key=lambda c: len(c.ids))
    assert 0 < copies[0].seconds < copies[-1].seconds


def test_sampling_leaves_global_randomness_alone(model: Any) -> None:
    before = torch.get_rng_state()
    run(model, [Prompt(LONG, (1, 2))])
    assert torch.equal(torch.get_rng_state(), before)
