"""The weights of policies as files."""

from __future__ import annotations

from collections.abc import Sequence

from ..storage.files import Draft
from .base import PortablePolicy, TrainablePolicy, WeightFile


def weight_files(policy: TrainablePolicy, agents: Sequence[str]) -> dict[str, WeightFile]:
    """How a policy's weights are kept, by agent: as other libraries expect them where it can tell, else as they are."""
    if isinstance(policy, PortablePolicy):
        return policy.weight_files(agents)
    return {agents[0]: WeightFile("weights.safetensors", {name: name for name in policy.state_dict()})}


def write_weights(draft: Draft, folder: str, policy: TrainablePolicy, weights: WeightFile) -> None:
    """Write one agent's weights, and the configurations beside them."""
    state = policy.state_dict()
    tensors = {name: state[own] for name, own in weights.tensors.items()}
    draft.write_tensors(f"{folder}/{weights.name}", tensors)
    for name, config in weights.configs.items():
        draft.write_json(f"{folder}/{name}", config)
