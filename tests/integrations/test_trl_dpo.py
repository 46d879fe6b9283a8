"""MADPO of one agent is the DPO of trl: the same loss and gradient on the same tokens, where trl is installed."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from models import episode, network, tokenizer

from llm_dec_pomdp.agents import Sampling, Team
from llm_dec_pomdp.agents.language_model.policy import LanguageModel
from llm_dec_pomdp.algorithms.madpo import MADPO, MADPOConfig
from llm_dec_pomdp.types import Completion, Group

BETA = 0.3
# prompt, preferred and rejected token ids: of different lengths, and one text of a single token
PAIRS = [((3, 9, 5), (7, 8, 2), (6, 2)), ((3, 10), (2,), (11, 7, 5, 2)), ((3, 4, 5, 6), (12, 2), (9, 9, 2))]


def as_group(prompt: tuple[int, ...], chosen: tuple[int, ...], rejected: tuple[int, ...]) -> Group:
    played = [
        episode([reward], [{"agent_0": Completion("x", prompt, ids, (0.0,) * len(ids))}])
        for reward, ids in ((1.0, chosen), (0.0, rejected))
    ]
    return Group("t", tuple(played))


def moved(model: Any) -> Any:
    """Other weights than those of the reference."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype))
    return model


def padded() -> dict[str, torch.Tensor]:
    """A batch as trl collates it: preferred texts, then rejected ones, padded on the right."""
    rows = [(prompt, chosen) for prompt, chosen, _ in PAIRS] + [(prompt, rejected) for prompt, _, rejected in PAIRS]
    width = max(len(prompt) + len(text) for prompt, text in rows)
    lines = [[*prompt, *text] + [1] * (width - len(prompt) - len(text)) for prompt, text in rows]
    attention_mask = [[1] * (len(p) + len(t)) + [0] * (width - len(p) - len(t)) for p, t in rows]
    completion_mask = [[0] * len(p) + [1] * len(t) + [0] * (width - len(p) - len(t)) for p, t in rows]
    names = ("input_ids", "attention_mask", "completion_mask")
    return {
        name: torch.tensor(values) for name, values in zip(names, (lines, attention_mask, completion_mask), strict=True)
    }


def loss_of_trl(model: Any, reference: Any, folder: Path) -> torch.Tensor:
    trl = pytest.importorskip("trl")
    datasets = pytest.importorskip("datasets")
    rows = datasets.Dataset.from_list([{"prompt": "say", "chosen": "red", "rejected": "blue"}])
    config = trl.DPOConfig(
        output_dir=str(folder), beta=BETA, report_to=[], use_cpu=True, bf16=False, disable_dropout=False
    )
    trainer = trl.DPOTrainer(model, reference, args=config, train_dataset=rows, processing_class=tokenizer(chat=False))
    return trainer.compute_loss(model, padded())


@pytest.mark.filterwarnings("ignore")  # of trl and what it imports
def test_the_loss_and_the_gradient_are_those_of_trl(tmp_path: Path) -> None:
    pytest.importorskip("trl")
    start = network(seed=0, double=True)
    policy = LanguageModel(copy.deepcopy(start), tokenizer())
    learner = MADPO(Team({"agent_0": policy}), Sampling(), MADPOConfig(beta=BETA, max_grad_norm=1e9, learning_rate=0.0))
    moved(policy.model)
    twin = moved(copy.deepcopy(start))
    expected = loss_of_trl(twin, start, tmp_path)
    expected.backward()
    metrics = learner.update([as_group(*pair) for pair in PAIRS])
    assert metrics["preference_loss"] == pytest.approx(expected.item(), abs=1e-6)
    for (name, parameter), exact in zip(policy.model.named_parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(parameter.grad, exact.grad, rtol=1e-5, atol=1e-6, msg=name)
