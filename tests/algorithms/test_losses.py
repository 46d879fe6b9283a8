from __future__ import annotations

import math

import pytest
import torch

from llm_dec_pomdp.algorithms.losses import RatioLevel, clipped_objective, kl_k3, log_ratio, value_loss

LEVELS: list[RatioLevel] = ["token", "sequence"]


def clipped(
    logprobs: torch.Tensor, old: torch.Tensor, mask: torch.Tensor, advantages: torch.Tensor, ratio: RatioLevel
) -> torch.Tensor:
    return clipped_objective(*log_ratio(logprobs, old, mask, ratio), advantages, (0.8, 1.3))


def policy(*logits: float) -> torch.Tensor:
    return torch.tensor(logits, dtype=torch.float64, requires_grad=True)


def objective(
    logits: torch.Tensor, old: torch.Tensor, texts: list[list[int]], advantages: list[float], ratio: RatioLevel
) -> torch.Tensor:
    """Of a policy that draws every token from the same softmax."""
    width = max(map(len, texts))
    ids = torch.tensor([text + [0] * (width - len(text)) for text in texts])
    mask = torch.tensor([[1.0] * len(text) + [0.0] * (width - len(text)) for text in texts])
    new, before = (x.log_softmax(-1)[ids] for x in (logits, old))
    return clipped(new, before.detach(), mask, torch.tensor(advantages), ratio)


def score_function(logits: torch.Tensor, text: list[int]) -> torch.Tensor:
    """d log pi(text) / d logits = counts - length * probabilities, derived by hand."""
    p = logits.detach().exp() / logits.detach().exp().sum()
    counts = torch.tensor([text.count(k) for k in range(3)], dtype=torch.float64)
    return counts - len(text) * p


@pytest.mark.parametrize("ratio", LEVELS)
@pytest.mark.parametrize("text", [[1], [0, 2], [2, 2, 1, 0]], ids=["one token", "two", "four"])
@pytest.mark.parametrize("advantage", [1.5, -0.5, 0.0])
def test_first_gradient_is_the_score_function_times_the_advantage(
    ratio: RatioLevel, text: list[int], advantage: float
) -> None:
    logits = policy(0.3, -1.0, 0.8)
    objective(logits, logits.detach(), [text], [advantage], ratio).sum().backward()
    torch.testing.assert_close(logits.grad, advantage * score_function(logits, text))


@pytest.mark.parametrize("ratio", LEVELS)
def test_gradient_away_from_the_sampling_policy_is_weighted_by_the_ratio(ratio: RatioLevel) -> None:
    logits, old, text = policy(0.1, 0.0, 0.0), torch.zeros(3, dtype=torch.float64), [0, 1]
    objective(logits, old, [text], [2.0], ratio).sum().backward()
    p = logits.detach().softmax(-1)
    rho = p * 3
    if ratio == "token":
        wanted = sum(rho[k] * score_function(logits, [k]) for k in text)
    else:
        wanted = rho[0] * rho[1] * score_function(logits, text)
    torch.testing.assert_close(logits.grad, 2.0 * wanted)


@pytest.mark.parametrize("ratio", LEVELS)
def test_a_batch_is_the_sum_of_its_texts(ratio: RatioLevel) -> None:
    logits, texts, advantages = policy(0.3, -1.0, 0.8), [[0], [1, 2, 2], [2, 0]], [1.0, -2.0, 0.5]
    objective(logits, logits.detach(), texts, advantages, ratio).sum().backward()
    wanted = sum(a * score_function(logits, text) for a, text in zip(advantages, texts, strict=True))
    torch.testing.assert_close(logits.grad, wanted)


# --- the clip, on a single token whose ratio is given -----------------------------------------------------------------


def one_token(rho: float, advantage: float, ratio: RatioLevel) -> tuple[float, float]:
    """The objective and its derivative by log pi."""
    logprob = torch.tensor([[math.log(rho)]], dtype=torch.float64, requires_grad=True)
    zero = torch.zeros(1, 1, dtype=torch.float64)
    advantages = torch.tensor([advantage], dtype=torch.float64)
    value = clipped(logprob, zero, torch.ones(1, 1), advantages, ratio)
    value.sum().backward()
    assert logprob.grad is not None
    return value.item(), logprob.grad.item()


@pytest.mark.parametrize("ratio", LEVELS)
@pytest.mark.parametrize(
    ("rho", "advantage", "value", "moves"),
    [
        (1.25, 2.0, 1.25 * 2, True),  # inside: the upper limit is 1.3
        (1.4, 2.0, 1.3 * 2, False),  # gone far enough up
        (0.5, 2.0, 0.5 * 2, True),  # gone down although it should go up: pulled back
        (0.85, -2.0, 0.85 * -2, True),  # inside: the lower limit is 0.8
        (0.75, -2.0, 0.8 * -2, False),  # gone far enough down
        (1.4, -2.0, 1.4 * -2, True),  # gone up although it should go down: pulled back
    ],
)
def test_the_clip(ratio: RatioLevel, rho: float, advantage: float, value: float, moves: bool) -> None:
    found, slope = one_token(rho, advantage, ratio)
    assert found == pytest.approx(value)
    assert slope == pytest.approx(rho * advantage if moves else 0.0)


@pytest.mark.parametrize(
    ("ratio", "rho", "value", "slopes"),
    [("token", [2.0, 1.1], 1.3 + 1.1, [0.0, 1.1]), ("sequence", [2.0, 0.55], 1.1, [1.1, 1.1])],
)
def test_tokens_are_clipped_one_by_one_and_sequences_as_a_whole(
    ratio: RatioLevel, rho: list[float], value: float, slopes: list[float]
) -> None:
    logprobs = torch.tensor([rho], dtype=torch.float64).log().requires_grad_()
    zero = torch.zeros(1, 2, dtype=torch.float64)
    found = clipped(logprobs, zero, torch.ones(1, 2), torch.ones(1), ratio)
    found.sum().backward()
    assert found.item() == pytest.approx(value)
    torch.testing.assert_close(logprobs.grad, torch.tensor([slopes], dtype=torch.float64))


# --- padding ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ratio", LEVELS)
@pytest.mark.parametrize("garbage", [-3.0, 40.0])
def test_padding_has_neither_value_nor_gradient(ratio: RatioLevel, garbage: float) -> None:
    logprobs = torch.tensor([[-0.5, garbage], [-0.4, -0.7]], requires_grad=True)
    mask = torch.tensor([[1.0, 0.0], [1.0, 1.0]])
    old = torch.tensor([[-0.5, 0.0], [-0.4, -0.7]])
    found = clipped(logprobs, old, mask, torch.ones(2), ratio)
    found.sum().backward()
    assert logprobs.grad is not None
    assert found[0].item() == pytest.approx(1.0)
    assert logprobs.grad[0, 1] == 0
    assert (logprobs.grad[mask == 1] == 1).all()


# --- the distance to a reference --------------------------------------------------------------------------------------


def test_k3_on_average_is_the_divergence_and_pulls_towards_the_reference() -> None:
    """Exact expectations over all tokens. The gradient at fixed samples is that of KL(q || p), which is p - q."""
    logits, other = policy(0.3, -1.0, 0.8), torch.tensor([0.0, 0.5, -0.2], dtype=torch.float64).log_softmax(-1)
    logp = logits.log_softmax(-1)
    k3 = torch.cat([kl_k3(logp[None, None, k], other[None, None, k], torch.ones(1, 1)) for k in range(3)])
    p, q = logp.detach().exp(), other.exp()
    divergence = (p * (p / q).log()).sum()
    torch.testing.assert_close((p * k3.detach()).sum(), divergence)
    (p * k3).sum().backward()
    torch.testing.assert_close(logits.grad, p - q)  # by hand: sum_k p_k (1 - r_k) (1[k=j] - p_j) = p_j - q_j


def test_k3_of_equal_policies_is_nothing_and_has_no_gradient() -> None:
    logprobs = torch.tensor([[-1.0, -2.0]], requires_grad=True)
    found = kl_k3(logprobs, logprobs.detach(), torch.ones(1, 2))
    found.sum().backward()
    assert found.tolist() == [0.0]
    assert logprobs.grad is not None
    assert logprobs.grad.tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize("difference", [-2.0, -0.1, 0.1, 2.0])
def test_k3_is_never_negative_and_leaves_padding_out(difference: float) -> None:
    logprobs = torch.tensor([[-1.0, 50.0]])
    found = kl_k3(logprobs, torch.tensor([[-1.0 + difference, -70.0]]), torch.tensor([[1.0, 0.0]]))
    assert found.item() == pytest.approx(math.exp(difference) - 1 - difference, rel=1e-5)


def test_k3_of_almost_equal_policies_is_not_lost_in_rounding() -> None:
    logprobs = torch.full((1, 1), -9.0)
    assert 0 <= kl_k3(logprobs, logprobs + 1e-4, torch.ones(1, 1)).item() < 1e-7


# --- the loss of a critic ---------------------------------------------------------------------------------------------


def test_values_are_held_near_the_old_ones() -> None:
    values = torch.tensor([1.5, 1.5, 0.9], requires_grad=True)
    losses = value_loss(values, torch.tensor([2.0, 0.0, 2.0]), torch.tensor([1.0, 1.0, 1.0]), clip=0.2)
    assert losses.tolist() == pytest.approx([0.64, 2.25, 1.21])  # max of .25 and .64, of 2.25 and 1.44; near enough
    losses.sum().backward()
    assert values.grad is not None
    assert values.grad.tolist() == pytest.approx([0.0, 3.0, -2.2])
