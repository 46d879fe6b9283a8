# pyright: basic
"""Teams on disk: a folder per agent, which transformers and peft can read, and `team.json` with the team's options.

`save_team` writes one, and `llm-dec-pomdp export` writes one with tokenizers. A checkpoint has the same folders, so
`load_weights` reads all three.
"""

from __future__ import annotations

import filecmp
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ...storage.files import Draft, remove_drafts
from ...storage.reading import FileError, conform, is_there, open_file, read_json
from ..base import Policy, Sampling, Team, WeightFile

if TYPE_CHECKING:
    import torch

DESCRIPTION = "team.json"
CHECKPOINT = "checkpoint.json"


class CheckpointError(ValueError):
    """A saved team or checkpoint cannot be used; the message names the place and the reason."""


def save_team(team: Team, folder: str | Path, description: Mapping[str, Any] | None = None) -> None:
    """Write the trainable weights of a team, for `load_team(env, model, weights=folder)` with the same options.

    Args:
        team: The team; its trainable policies are saved.
        folder: A new or empty folder, or the folder of a saved team, which is replaced.
        description: Plain values for rebuilding the team. Default: the sampling options of the team.

    Raises:
        ValueError: No policy of the team is trainable.
        FileExistsError: The folder has other content.
    """
    place = Path(folder).absolute()
    if not team.trainable:
        raise ValueError(f"{team!r} has no trainable weights to save; give a team with a trainable model")
    if place.exists() and not (place / DESCRIPTION).is_file() and (place.is_file() or any(place.iterdir())):
        raise FileExistsError(f"{str(folder)!r} is not empty and not a saved team; give a new folder")
    if description is None:
        samplings = {agent: change.model_dump(exclude_unset=True) for agent, change in team.samplings.items()}
        description = {"sampling": team.sampling.model_dump(), "samplings": samplings}
    remove_drafts(place.parent, place.name)
    with Draft(place) as draft:
        write_team(draft, team)
        draft.write_json(DESCRIPTION, dict(description))
        draft.publish()


def read_description(folder: Path) -> dict[str, Any]:
    """Return the description that was saved with a team.

    Raises:
        CheckpointError: There is no saved team, or its description is damaged.
    """
    path = folder / DESCRIPTION
    if not is_there(path):
        raise CheckpointError(f"{str(folder)!r} is not a saved team ({DESCRIPTION} is missing); give the folder of one")
    try:
        return read_json(path, dict[str, Any])
    except FileError as error:
        raise CheckpointError(f"{str(path)!r} is damaged ({error}); use another saved team") from error


def read_sampling(folder: Path) -> Sampling:
    """Return the sampling options of a saved team or checkpoint; the defaults if it has none."""
    return conform(read_saved(folder).get("sampling", {}), Sampling, f"{str(folder)!r}, field sampling")


def read_samplings(folder: Path) -> dict[str, Sampling]:
    """Return the sampling options of single members by agent or role; see `Team`."""
    saved = read_saved(folder)
    members = saved.get("model", {}).get("members", []) if "samplings" not in saved else []
    changes = {agent: member.get("sampling", {}) for member in members for agent in member["agents"]}
    where = f"{str(folder)!r}, field samplings"
    return conform(saved.get("samplings", changes), dict[str, Sampling], where)


def read_saved(folder: Path) -> dict[str, Any]:
    """Return the configuration that was saved with a team or a checkpoint; {} if there is none."""
    saved: dict[str, Any] = {}
    if is_there(folder / DESCRIPTION):
        saved = read_description(folder)
    elif is_there(folder / CHECKPOINT):
        where = f"{folder / CHECKPOINT}, field config"
        saved = conform(read_json(folder / CHECKPOINT, dict[str, Any]).get("config"), dict[str, Any], where)
    return saved


def load_weights(folder: Path, team: Team) -> None:
    """Load the weights of a saved or exported team, or of a checkpoint, into a team that was built in the same way.

    Raises:
        CheckpointError: The weights are incompatible with the team.
    """
    expected = {folder_of(agent) for policy, agents in players(team) for agent in policy.weight_files(agents)}
    there = {path.name for path in folder.glob("*/") if path.is_dir()}
    if there - _copies(folder, team) != expected:
        raise CheckpointError(
            f"{str(folder)!r} has weights of {sorted(there)}, but the team needs weights of {sorted(expected)}; build "
            "the team with the options with which it was saved"
        )
    for policy, agents in players(team):
        state: dict[str, Any] = {}
        for agent, weights in policy.weight_files(agents).items():
            names = weights.tensors
            place = folder / folder_of(agent) / weights.name
            if not is_there(place):
                raise CheckpointError(
                    f"{str(place)!r} is missing, so the weights belong to another kind of team; build the team with "
                    "the options with which it was saved"
                )
            state |= {names.get(name, name): tensor for name, tensor in read_tensors(place).items()}
        try:
            policy.load_state_dict(state)
        except ValueError as error:
            raise CheckpointError(f"{str(folder)!r}, {', '.join(agents)}: {error}") from error


def _copies(folder: Path, team: Team) -> set[str]:
    """Return the folders whose weights are copies of another folder's; an export has a folder for every agent."""
    copies: set[str] = set()
    for policy, agents in players(team):
        owners = {agent: folder / folder_of(agent) / file.name for agent, file in policy.weight_files(agents).items()}
        for agent in agents:
            place = folder / folder_of(agent)
            same = (path for path in owners.values() if path.is_file() and (place / path.name).is_file())
            if agent not in owners and any(filecmp.cmp(path, place / path.name, shallow=False) for path in same):
                copies.add(place.name)
    return copies


def write_team(draft: Draft, team: Team) -> None:
    """Write the weights of a team into a draft, with a folder for each agent that has its own weights."""
    for policy, agents in players(team):
        for agent, weights in policy.weight_files(agents).items():
            write_weights(draft, folder_of(agent), policy, weights)


def write_weights(draft: Draft, folder: str, policy: Policy, weights: WeightFile) -> None:
    """Write one agent's weights and configurations."""
    state = policy.state_dict()
    tensors = {name: state[place] for name, place in weights.tensors.items()}
    draft.write_tensors(f"{folder}/{weights.name}", tensors)
    for name, config in weights.configs.items():
        draft.write_json(f"{folder}/{name}", config)


def players(team: Team) -> list[tuple[Policy, list[str]]]:
    """Return every trainable policy with its agents."""
    return [(policy, [a for a, member in team.members.items() if member is policy]) for policy in team.trainable]


def folder_of(agent: str) -> str:
    """Return the name of an agent's folder: the agent's name, with special characters escaped."""
    name = quote(agent, " ", "utf-8", "surrogatepass")
    return name if name.strip(".") else name.replace(".", "%2E")


def read_tensors(path: Path) -> dict[str, Any]:
    """Return the tensors of a safetensors file.

    Raises:
        CheckpointError: It is not a safetensors file.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        open_file(path).close()  # refuses pipes and devices, whose reading may never end
        return load_file(path)
    except (SafetensorError, FileError) as error:  # also for pickles, which are never read
        raise CheckpointError(f"{str(path)!r} is not a safetensors file ({error}); use another checkpoint") from error


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
            f"the weights are incompatible with this {owner}, {len(wrong)} tensors differ: "
            f"{'; '.join(sorted(wrong)[:5])}; give the options and the model that they were trained with"
        )
