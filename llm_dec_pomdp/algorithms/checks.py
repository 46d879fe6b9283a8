# pyright: basic
"""Checks before an updater steps: of policies, engines and samples."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import torch

from ..agents.base import Policy, Team
from .options import UpdaterOptions
from .samples import Sample


def check_samples(samples: Sequence[Sample], temperature: float) -> None:
    """Raise ValueError if the temperature is 0, or a token has no log-probability."""
    if temperature == 0:
        raise ValueError("the temperature is 0, so completions are not sampled at random; train with one above 0")
    for s in samples:
        tokens, recorded = len(s.completion.token_ids), len(s.completion.logprobs)
        if recorded != tokens:
            raise ValueError(
                f"a completion of {s.agent!r} has {tokens} tokens and {recorded} log-probabilities; a policy that is "
                "trained must record one for every sampled token (Completion.logprobs)"
            )


def check_team(team: Team) -> None:
    """Raise ValueError if no policy of a team can be trained, or two of its policies share a network."""
    if not team.trainable:
        raise ValueError("no policy of the team can be trained; give at least one agent a language model")
    owners: dict[int, str] = {}
    for policy in team.trainable:
        agent = next(agent for agent, member in team.members.items() if member is policy)
        for parameter in policy.parameters():
            owner = owners.setdefault(id(parameter), agent)
            if owner != agent:
                raise ValueError(
                    f"{owner!r} and {agent!r} have two policies on the same network; give both the same policy"
                )


def check_importance(team: Team, options: UpdaterOptions) -> None:
    """Raise ValueError if importance is "none" and another engine samples the completions of an agent."""
    for policy in team.trainable if options.objective.importance == "none" else ():
        if policy.sampled_elsewhere:
            raise ValueError(
                "importance is 'none', but another engine samples the completions, with other probabilities than the "
                "trained model; set importance to 'auto'"
            )


def check_policy(policy: Policy, options: UpdaterOptions) -> None:
    """Raise ValueError if a policy cannot be trained; warn if its weights are bfloat16."""
    types = {parameter.dtype for parameter in policy.parameters()}
    if torch.float16 in types:
        raise ValueError(
            "the parameters to be trained are float16, whose gradients vanish or overflow; load the model with dtype "
            "'float32', or train adapters on it (sharing 'lora')"
        )
    if options.entropy and not policy.knows_entropy:
        raise ValueError(
            f"entropy is {options.entropy}, but {type(policy).__name__} cannot compute its entropy; set it to 0, or "
            "implement token_logprobs_and_entropies and set knows_entropy"
        )
    if torch.bfloat16 in types:
        warnings.warn(
            "the parameters to be trained are bfloat16, which loses changes below about 1/256 of a weight, so that "
            "small learning rates have almost no effect; load the model with dtype 'float32', or train adapters on it "
            "(sharing 'lora')",
            stacklevel=4,
        )
