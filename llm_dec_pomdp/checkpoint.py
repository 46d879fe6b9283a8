# pyright: basic
"""Trained teams on disk: one safetensors file per trainable policy, and what is needed to build the team again.

A team is written to a temporary folder beside its target, made durable, and then renamed, so that a reader never sees
half of one.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .agents.base import Team

DESCRIPTION = "team.json"


class CheckpointError(ValueError):
    """A saved team that cannot be used; the message names the place and what is wrong."""


def save_team(folder: Path, team: Team, description: Mapping[str, Any]) -> None:
    """Write the trainable weights of a team.

    Args:
        folder: Where; an older team there is replaced.
        team: Its trainable policies are numbered in agent order.
        description: Plain values from which the team can be built again.
    """
    from safetensors.torch import save_file

    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        for number, policy in enumerate(team.trainable):
            tensors = {name: tensor.contiguous().cpu().clone() for name, tensor in policy.state_dict().items()}
            save_file(tensors, temporary / f"policy-{number}.safetensors")
        (temporary / DESCRIPTION).write_text(json.dumps(dict(description), indent=1), encoding="utf-8")
        for path in temporary.iterdir():
            _make_durable(path)
        _swap(temporary, folder)
        _make_durable(folder.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _swap(new: Path, place: Path) -> None:
    """Put `new` in `place`; what was there stays there when that fails."""
    aside = new.with_name(f"{new.name}.old")
    if place.exists():
        place.rename(aside)
    try:
        new.rename(place)
    except OSError:
        if aside.exists():
            aside.rename(place)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def read_description(folder: Path) -> dict[str, Any]:
    """What was saved with a team.

    Raises:
        CheckpointError: There is no saved team.
    """
    path = folder / DESCRIPTION
    if not path.is_file():
        raise CheckpointError(f"{str(folder)!r} holds no saved team ({DESCRIPTION} is missing); give the folder of one")
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise CheckpointError(f"{str(path)!r} is damaged ({error}); take another saved team") from error
    return found


def load_weights(folder: Path, team: Team) -> None:
    """Restore the trainable weights of a team built as described.

    Raises:
        CheckpointError: The number of policies or their tensors do not fit.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    files = sorted(folder.glob("policy-*.safetensors"), key=lambda path: int(path.stem.split("-")[1]))
    if len(files) != len(team.trainable):
        raise CheckpointError(
            f"{str(folder)!r} holds {len(files)} policies, the team has {len(team.trainable)}; see {DESCRIPTION}"
        )
    for path, policy in zip(files, team.trainable, strict=True):
        try:
            policy.load_state_dict(load_file(path))
        except (ValueError, SafetensorError) as error:
            raise CheckpointError(f"{str(path)!r}: {error}") from error


def _make_durable(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
