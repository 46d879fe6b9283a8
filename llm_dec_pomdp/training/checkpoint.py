# pyright: basic
"""Checkpoints of runs on disk.

`Checkpoints` save the state that a run needs to continue with the same numbers:

    step-000120/
      agent_0/model.safetensors, config.json                   all weights of a policy, under its first agent's name;
      agent_0/adapter_model.safetensors, adapter_config.json   with LoRA only the adapter, one folder per agent
      state.safetensors, state.json                            optimizers and other state of the algorithm
      checkpoint.json                                          counters, data cursor, configuration, versions
      manifest.json                                            size and SHA-256 of every file, written last

A checkpoint appears only when it is complete (`storage.files.Draft`). The folders of the agents are those of a saved
team (`agents.io.save`), which transformers and peft can load.
"""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from platform import python_version
from typing import Any

from ..__about__ import __version__
from ..agents.base import Team
from ..agents.io.save import CHECKPOINT, DESCRIPTION, CheckpointError, load_weights, read_tensors, write_team
from ..storage.files import DamagedError, Draft, pack, remove_drafts, unpack, verify
from ..storage.reading import FileError, conform, find_json, read_json
from ..storage.runfolder import read_status

FORMAT = 1  # of a checkpoint folder
_PACKAGES = ("torch", "transformers", "peft", "numpy")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A verified checkpoint: its folder, the number of updates, and the values that `Checkpoints` saved with it."""

    folder: Path
    step: int
    counters: Mapping[str, Any]
    config: Mapping[str, Any]
    versions: Mapping[str, str]


class Checkpoints:
    """The checkpoints of one run.

    Args:
        folder: Parent of their folders; created with the first checkpoint.
        config: Configuration of the run as plain values; only a run with an equal configuration can continue.
        keep: Number of newest checkpoints to keep; at least 2, since the newest may be damaged.
        other_versions: Allow other versions of packages, which may change the results.
    """

    def __init__(self, folder: Path, config: Mapping[str, Any], *, keep: int = 2, other_versions: bool = False) -> None:
        if keep < 2:
            raise ValueError(f"keep is {keep}; at least 2 checkpoints are needed, since the newest may be damaged")
        self.folder = folder
        self.config = json.loads(json.dumps(config))  # as read back from a file
        self.keep = keep
        self.other_versions = other_versions

    def save(self, step: int, team: Team, state: Mapping[str, Any], counters: Mapping[str, Any]) -> Path:
        """Save a step, then remove all but the newest `keep` checkpoints; return the folder of the step.

        Args:
            step: Updates done.
            team: Its trainable policies are saved.
            state: The algorithm's `state_dict()`.
            counters: Plain values of the trainer.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        remove_drafts(self.folder, "step")
        tensors: dict[str, Any] = {}
        packed = pack(dict(state), tensors)
        with Draft(self.folder / f"step-{step:06d}") as draft:
            write_team(draft, team)
            draft.write_tensors("state.safetensors", tensors)
            draft.write_json("state.json", packed)
            about = {"format": FORMAT, "step": step, "counters": dict(counters)}
            draft.write_json(CHECKPOINT, {**about, "config": self.config, "versions": versions()})
            draft.publish()
        self._prune(step)
        return draft.place

    def newest(self, before: int | None = None) -> Checkpoint | None:
        """Return the newest undamaged checkpoint, with a warning for each damaged one; None if nothing was saved.

        Args:
            before: Only checkpoints of steps before this one; None: all.

        Raises:
            CheckpointError: There are checkpoints, and all of them are damaged.
        """
        damaged: list[str] = []
        folders = [folder for folder in self._folders() if before is None or _step(folder) < before]
        for folder in reversed(folders):
            try:
                return read_checkpoint(folder)
            except DamagedError as error:
                damaged.append(f"{folder.name}: {error}")
                _log.warning("checkpoint %s is skipped: %s", folder, error)
        if damaged:
            raise CheckpointError(
                f"all checkpoints in {str(self.folder)!r} are damaged ({'; '.join(damaged)}); put an undamaged copy of "
                "one there, or start a new run in another folder"
            )
        return None

    def restore(self, checkpoint: Checkpoint, team: Team) -> dict[str, Any]:
        """Load a checkpoint's weights into a team.

        Returns:
            The `state` that `save` received, for the algorithm's `load_state_dict`.

        Raises:
            CheckpointError: It belongs to another configuration or other versions, or is incompatible with the team.
        """
        self._refuse_other_run(checkpoint)
        load_weights(checkpoint.folder, team)
        tensors = read_tensors(checkpoint.folder / "state.safetensors")
        tensors = {name: tensor.clone() for name, tensor in tensors.items()}  # do not keep the file mapped
        try:
            return unpack(read_json(checkpoint.folder / "state.json", dict[str, Any]), tensors)
        except (FileError, KeyError, TypeError, ValueError) as error:
            raise CheckpointError(
                f"the state in {str(checkpoint.folder)!r} cannot be read ({type(error).__name__}: {error}); "
                "use another checkpoint"
            ) from error

    def _refuse_other_run(self, checkpoint: Checkpoint) -> None:
        differing = differences(checkpoint.config, self.config)
        if differing:
            raise CheckpointError(
                f"{str(checkpoint.folder)!r} belongs to another configuration (there -> here): {'; '.join(differing)}; "
                "resume with the configuration of the run, or start a new run in another folder"
            )
        differing = [] if self.other_versions else differences(checkpoint.versions, versions())
        if differing:
            raise CheckpointError(
                f"{str(checkpoint.folder)!r} was saved by other versions (there -> here): {'; '.join(differing)}; "
                "install those versions, or continue with --other-versions, which may change the results"
            )

    def _folders(self) -> list[Path]:
        """Return the folders of checkpoints, oldest first."""
        numbered = [path for path in self.folder.glob("step-*") if path.name.removeprefix("step-").isdecimal()]
        return sorted(numbered, key=_step)

    def _prune(self, step: int) -> None:
        """Remove old checkpoints, and those of later steps than `step`, which the run has not continued from."""
        folders = self._folders()
        newer = [folder for folder in folders if _step(folder) > step]
        older = folders[: len(folders) - len(newer)]
        for folder in (*newer, *older[: -self.keep]):
            shutil.rmtree(folder, ignore_errors=True)


def _step(folder: Path) -> int:
    return int(folder.name.removeprefix("step-"))


def read_checkpoint(folder: Path) -> Checkpoint:
    """Verify and read a checkpoint.

    Raises:
        DamagedError: A file is missing or was changed.
        CheckpointError: This version cannot read its format.
    """
    verify(folder)
    try:
        about = read_json(folder / CHECKPOINT, dict[str, Any])
        if about.get("format") != FORMAT:
            raise CheckpointError(
                f"{str(folder)!r} has format {about.get('format')}, this version reads {FORMAT}; use the "
                "version that saved it"
            )
        return conform({**about, "folder": folder}, Checkpoint, CHECKPOINT)
    except FileError as error:
        raise DamagedError(str(error)) from None


def find_weights(place: Path) -> Path:
    """Return the folder itself, or its newest undamaged checkpoint if it is the parent of checkpoints.

    Raises:
        CheckpointError: All checkpoints in it are damaged.
    """
    newest = Checkpoints(place, {}).newest()
    return place if newest is None else newest.folder


def find_team(run: Path) -> Path:
    """Return the folder with the weights of a team.

    Args:
        run: Folder of a run with one trained team, of one of its cells, of a saved or exported team, or of a
            checkpoint; or a folder of checkpoints, of which the newest undamaged one is used.

    Raises:
        CheckpointError: There is none, or more than one.
    """
    if (run / DESCRIPTION).is_file() or (run / "checkpoint.json").is_file():
        return run
    if any(run.glob("step-*")):
        return find_weights(run)
    if not run.is_dir():
        raise CheckpointError(f"{str(run)!r} does not exist; give a run, a saved or exported team, or a checkpoint")
    cell = trained_folder(run)
    if not (cell / "team").is_dir():
        raise CheckpointError(
            f"{str(cell)!r} is not done, its team is not saved yet; continue it with llm-dec-pomdp train --resume, "
            "or end it early with --steps"
        )
    return cell / "team"


def cells_of(run: Path) -> list[Path]:
    """Return the cell folders of a run, or the folder itself if it is a cell."""
    return [run] if (run / "cell.json").is_file() else sorted(path.parent for path in run.glob("cells/*/cell.json"))


def trained_folder(run: Path) -> Path:
    """Return the folder of the only trained cell of a run; raise CheckpointError if there is none or several."""
    trained = [p for p in cells_of(run) if (p / "team").is_dir() or any(p.glob("checkpoints/step-*"))]
    if not trained and (early := _ended_early(run)):
        raise CheckpointError(f"the run {str(run)!r} {early}")
    if len(trained) != 1:
        names = f": {', '.join(str(path) for path in trained)}" if trained else ""
        raise CheckpointError(
            f"{str(run)!r} holds {len(trained)} trained teams, not one{names}; give the folder of one team"
        )
    return trained[0]


def _ended_early(run: Path) -> str:
    """Return how a run or cell without a checkpoint ended, and what to do; "" if it is done or that is unknown."""
    place = run.parent.parent if (run / "cell.json").is_file() else run
    state, reason, _ = read_status(place) or ("done", "", 0.0)
    failures = [find_json(cell / "failure.json", dict[str, str]) or {} for cell in cells_of(run)]
    reason = next((failure["reason"] for failure in failures if "reason" in failure), reason)
    reason = reason.partition("\n")[0]
    if state == "running":
        return "has no checkpoint yet; wait for its first one (--save-every)"
    if state == "interrupted":
        return f"was interrupted before its first checkpoint ({reason}); continue with --resume {place}"
    if reason:
        return f"failed before its first checkpoint ({reason}); see `llm-dec-pomdp runs {place.parent}`"
    return ""


def versions() -> dict[str, str]:
    """Return the versions of the packages that the numbers of a run depend on."""
    packages = {name: metadata.version(name) for name in _PACKAGES}
    return {"llm_dec_pomdp": __version__, "python": python_version(), **packages}


def differences(there: Any, here: Any, path: str = "") -> list[str]:
    """Return every value in which two nested dictionaries differ, as "a.b: 1 -> 2"."""
    if isinstance(there, Mapping) and isinstance(here, Mapping):
        keys = [*there, *(key for key in here if key not in there)]
        return [
            line
            for key in keys
            for line in differences(there.get(key, _ABSENT), here.get(key, _ABSENT), f"{path}.{key}" if path else key)
        ]
    return [] if there == here else [f"{path}: {there!r} -> {here!r}"]


class _Absent:
    def __repr__(self) -> str:
        return "absent"


_ABSENT = _Absent()
