"""Advantages of tokens: the gradient by hand, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from models import Softmax, gradients, said

from llm_dec_pomdp.agents import Team
from llm_dec_pomdp.algorithms.options import UpdaterOptions
from llm_dec_pomdp.algorithms.samples import Sample
from llm_dec_pomdp.algorithms.updater import Updater, updaters_of


def updater(**options: Any) -> tuple[Updater, Team]:
    team = Team({"agent_0": Softmax(words=["a", "b", "c"], logits=[0.3, -0.2, 0.5])})
    [own] = updaters_of(team, 1.0, UpdaterOptions(max_grad_norm=1e9, **options))
    return own, team


def test_every_token_has_its_own_advantage() -> None:
    own, team = updater()
    own.step([Sample("agent_0", said(0, 2), 2.0, tokens=(1.0, -0.5)), Sample("agent_0", said(1), 3.0)])
    p = torch.tensor([0.3, -0.2, 0.5]).softmax(-1)
    # minus the mean over three tokens of A (one-hot - p), A = 2, -1, 3 for the tokens a, c, b
    wanted = -(torch.tensor([2.0, 3.0, -1.0]) - 4.0 * p) / 3
    torch.testing.assert_close(gradients(team)[0], wanted)


@pytest.mark.parametrize("ratio", ["token", "sequence"])
def test_advantages_of_tokens_that_do_not_fit_are_refused(ratio: str) -> None:
    own, _ = updater(ratio=ratio)
    tokens = (1.0, 1.0) if ratio == "token" else (1.0,)
    message = "has 1 tokens, and its sample advantages of 2" if ratio == "token" else "ratio='sequence' is of texts"
    with pytest.raises(ValueError, match=message):
        own.step([Sample("agent_0", said(0), 1.0, tokens=tokens)])
