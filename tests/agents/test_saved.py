"""The team of a finished run: it comes back as it was, and replacing it never leaves half of one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from models import AGENTS, Softmax, language_model, same, separate_team, softmax_team, weights

from llm_dec_pomdp.agents import Scripted, Team
from llm_dec_pomdp.agents.io.save import DESCRIPTION, CheckpointError, load_weights, read_description, save_team
from llm_dec_pomdp.storage.files import MANIFEST

ABOUT: dict[str, Any] = {"model": "builtin:tiny", "agents": list(AGENTS), "nested": {"rank": 8, "rate": 0.5}}


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


WHOLE = {DESCRIPTION, MANIFEST, *AGENTS}
FIRST = {DESCRIPTION, MANIFEST, AGENTS[0]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the team of seed 1 is saved."""
    place = tmp_path / "team"
    save_team(separate_team(seed=1), place, ABOUT)
    return place


# --- round trips ------------------------------------------------------------------------------------------------------


def comes_back(folder: Path, team: Team, other: Team) -> set[str]:
    """Save one team, load it into another, compare, and tell the names of the files."""
    save_team(team, folder, ABOUT)
    load_weights(folder, other)
    assert same(weights(other), weights(team))
    return names(folder)


@pytest.mark.parametrize("tied", [False, True])
def test_weights_and_description_come_back_and_the_team_is_not_touched(tmp_path: Path, tied: bool) -> None:
    place = tmp_path / "runs" / "today" / "team"
    team = separate_team(seed=1, tie_word_embeddings=tied)
    files = comes_back(place, team, separate_team(seed=7, tie_word_embeddings=tied))
    assert files == WHOLE
    assert read_description(place) == ABOUT
    assert same(weights(team), weights(separate_team(seed=1, tie_word_embeddings=tied)))
    assert all(p.requires_grad for policy in team.trainable for p in policy.parameters())


def test_a_shared_policy_is_saved_once(tmp_path: Path) -> None:
    teams = [Team(dict.fromkeys(AGENTS, language_model(seed))) for seed in (1, 2)]
    assert comes_back(tmp_path / "team", *teams) == FIRST


def test_members_without_weights_are_not_saved(tmp_path: Path) -> None:
    fixed = Scripted(lambda agent, history: "fixed")
    teams = [Team({"agent_0": fixed, "agent_1": language_model(seed)}) for seed in (1, 2)]
    assert comes_back(tmp_path / "team", *teams) == {DESCRIPTION, MANIFEST, AGENTS[1]}


def test_more_than_ten_policies_keep_their_order(tmp_path: Path) -> None:
    agents = [f"agent_{i}" for i in range(12)]
    team = Team({agent: Softmax(logits=[float(i)] * 4) for i, agent in enumerate(agents)})
    comes_back(tmp_path / "team", team, Team({agent: Softmax() for agent in agents}))


def test_half_precision_is_kept(tmp_path: Path) -> None:
    teams = [separate_team(seed) for seed in (1, 5)]
    for policy in (policy for team in teams for policy in team.policies):
        policy.model.bfloat16()  # type: ignore[attr-defined]
    comes_back(tmp_path / "team", *teams)


# --- what does not fit ------------------------------------------------------------------------------------------------


def test_another_number_of_policies_is_named(folder: Path) -> None:
    named = r"\['agent_0', 'agent_1'\].*\['agent_0'\]"
    with pytest.raises(CheckpointError, match=named):
        load_weights(folder, Team({"agent_0": language_model()}))
    with pytest.raises(CheckpointError, match=r"\[\]"):
        load_weights(folder / "nowhere", softmax_team())


def test_another_shape_is_named_with_its_agent(folder: Path) -> None:
    with pytest.raises(CheckpointError, match=r"agent_0.*\(\d+, 16\).*\(\d+, 32\)"):
        load_weights(folder, separate_team(hidden_size=32))


@pytest.mark.parametrize("place", [".", "nowhere"])
def test_a_missing_description_says_what_to_give(tmp_path: Path, place: str) -> None:
    with pytest.raises(CheckpointError, match=r"team\.json"):
        read_description(tmp_path / place)


def test_a_damaged_file_is_named(folder: Path) -> None:
    path = folder / "agent_1" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(CheckpointError, match=r"agent_1/model\.safetensors"):
        load_weights(folder, separate_team())
    (folder / DESCRIPTION).write_text('{"model": ')
    with pytest.raises(CheckpointError, match=r"team\.json"):
        read_description(folder)


# --- replacing and failing --------------------------------------------------------------------------------------------


def test_a_new_team_replaces_the_old_one_and_leaves_nothing_temporary(folder: Path) -> None:
    save_team(Team({"agent_0": language_model(seed=5)}), folder, {"new": True})
    assert names(folder) == FIRST
    assert read_description(folder) == {"new": True}
    assert names(folder.parent) == {"team"}


class Unsaveable(Softmax):
    def state_dict(self) -> dict[str, torch.Tensor]:
        raise OSError("the disk is full")


def intact(folder: Path) -> bool:
    """The team of seed 1 is there, whole, and nothing else is."""
    team = separate_team(seed=7)
    load_weights(folder, team)
    right = same(weights(team), weights(separate_team(seed=1)))
    return right and read_description(folder) == ABOUT and names(folder.parent) == {"team"}


def test_a_failing_second_policy_leaves_the_old_team(folder: Path) -> None:
    with pytest.raises(OSError, match="disk is full"):
        save_team(Team({"agent_0": language_model(seed=5), "agent_1": Unsaveable()}), folder, ABOUT)
    assert intact(folder)


def test_a_failing_move_leaves_the_old_team(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The new folder cannot take its place; once, so that putting the old one back would work."""
    moves: list[Any] = []
    for owner, name in ((Path, "rename"), (Path, "replace")):
        real = getattr(owner, name)

        def move(source: Path, target: Any, real: Any = real) -> Any:
            if Path(target) == folder and not moves:
                moves.append(source)
                raise OSError("the disk is gone")
            return real(source, target)

        monkeypatch.setattr(owner, name, move)
    with pytest.raises(OSError, match="disk is gone"):
        save_team(separate_team(seed=5), folder, ABOUT)
    assert moves
    assert intact(folder)


def test_a_reader_never_sees_half_a_team(folder: Path) -> None:
    """While the weights are being written the old team is in place, whole."""
    seen: list[Mapping[str, Any]] = []

    class Watched(Softmax):
        def state_dict(self) -> dict[str, torch.Tensor]:
            seen.append({"whole": names(folder), "about": json.loads((folder / DESCRIPTION).read_text())})
            return super().state_dict()

    save_team(Team({"agent_0": Watched()}), folder, {"new": True})
    assert seen
    assert all(state == {"whole": WHOLE, "about": ABOUT} for state in seen)
    assert read_description(folder) == {"new": True}
