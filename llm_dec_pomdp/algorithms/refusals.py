# pyright: basic
"""What is refused before an updater learns from it: policies, engines, texts."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import torch

from ..agents.base import EntropyPolicy, Team, TrainablePolicy
from .options import UpdaterOptions
from .samples import Sample


def refuse_unlearnable(samples: Sequence[Sample], temperature: float) -> None:
    """Refuse texts of which nothing can be learnt.

    Raises:
        ValueError: The temperature is 0, or a token has no log-probability.
    """
    if temperature == 0:
        raise ValueError("the temperature is 0, at which nothing is drawn by chance; train with one above 0")
    for s in samples:
        tokens, recorded = len(s.completion.token_ids), len(s.completion.logprobs)
        if recorded != tokens:
            raise ValueError(
                f"a text of {s.agent!r} has {tokens} tokens and {recorded} log-probabilities; a policy that is "
                "trained records one for every token it samples (Completion.logprobs)"
            )


def refuse_uncorrected(team: Team, options: UpdaterOptions) -> None:
    """Refuse to learn from what another engine draws as if the trained model had.

    Raises:
        ValueError: importance is "none" and such an engine draws the texts of a member.
    """
    for policy in team.trainable if options.importance == "none" else ():
        if getattr(policy, "sampled_elsewhere", False):
            raise ValueError(
                "importance is 'none', but another engine draws the texts, with other probabilities than those that "
                "are trained; leave it at 'auto'"
            )


def refuse_untrainable(policy: TrainablePolicy, options: UpdaterOptions) -> None:
    """Refuse a policy that cannot be trained as it is, and warn of one that hardly can."""
    types = {parameter.dtype for parameter in policy.parameters()}
    if torch.float16 in types:
        raise ValueError(
            "the parameters to be trained are float16, whose gradients vanish or overflow; load the model with dtype "
            "'float32', or train adapters on it (sharing 'lora')"
        )
    if options.entropy and not isinstance(policy, EntropyPolicy):
        raise ValueError(
            f"entropy is {options.entropy}, but {type(policy).__name__} does not tell its entropy; set it to 0 or give "
            "the policy token_logprobs_and_entropies"
        )
    if torch.bfloat16 in types:
        warnings.warn(
            "the parameters to be trained are bfloat16, which rounds a change of less than about 1/256 of a weight "
            "away, so that small learning rates do next to nothing; load the model with dtype 'float32', or train "
            "adapters on it (sharing 'lora')",
            stacklevel=4,
        )
