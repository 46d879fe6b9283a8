"""The weights of policies as files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..storage.files import Draft
from .base import Policy, WeightFile

if TYPE_CHECKING:
    import torch


def write_weights(draft: Draft, folder: str, policy: Policy, weights: WeightFile) -> None:
    """Write one agent's weights and configurations."""
    state = policy.state_dict()
    tensors = {name: state[place] for name, place in weights.tensors.items()}
    draft.write_tensors(f"{folder}/{weights.name}", tensors)
    for name, config in weights.configs.items():
        draft.write_json(f"{folder}/{name}", config)


def check_shapes(shapes: Mapping[str, torch.Size], state: Mapping[str, torch.Tensor], owner: str = "model") -> None:
    """Raise ValueError if tensors of a model or critic are missing, unexpected or of another shape."""
    wrong = [f"{name} is missing" for name in shapes.keys() - state.keys()]
    wrong += [f"{name} is unexpected" for name in state.keys() - shapes.keys()]
    wrong += [
        f"{name} has shape {tuple(state[name].shape)}, not {tuple(shapes[name])}"
        for name in shapes.keys() & state.keys()
        if shapes[name] != state[name].shape
    ]
    if wrong:
        raise ValueError(
            f"the weights do not fit this {owner}, {len(wrong)} tensors differ: {'; '.join(sorted(wrong)[:5])}; give "
            "the options and the model that they were trained with"
        )
