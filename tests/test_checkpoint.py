from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from models import AGENTS, Softmax, language_model, same, save_model, separate_team, softmax_team, weights

from llm_dec_pomdp.agents import Request, Sampling, Scripted, Team
from llm_dec_pomdp.agents.loading import load_team
from llm_dec_pomdp.checkpoint import DESCRIPTION, CheckpointError, load_weights, read_description, save_team

ABOUT: dict[str, Any] = {"model": "builtin:tiny", "agents": list(AGENTS), "nested": {"rank": 8, "rate": 0.5}}


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the team of seed 1 is saved."""
    place = tmp_path / "team"
    save_team(place, separate_team(seed=1), ABOUT)
    return place


# --- round trips ------------------------------------------------------------------------------------------------------


def test_weights_come_back_bit_for_bit(folder: Path) -> None:
    team = separate_team(seed=7)
    load_weights(folder, team)
    assert same(weights(team), weights(separate_team(seed=1)))


def test_a_restored_team_says_the_same(folder: Path) -> None:
    saved, restored = separate_team(seed=1), separate_team(seed=7)
    load_weights(folder, restored)
    requests = [Request(agent, ("say red",), (1, 2)) for agent in AGENTS]
    said = [[[c.text for c in a] for a in t.generate(requests, Sampling(max_new_tokens=8))] for t in (saved, restored)]
    assert said[0] == said[1]


def test_the_description_comes_back(folder: Path) -> None:
    assert read_description(folder) == ABOUT


def test_there_is_one_file_per_policy(folder: Path) -> None:
    assert names(folder) == {DESCRIPTION, "policy-0.safetensors", "policy-1.safetensors"}


def test_a_shared_policy_is_saved_once(tmp_path: Path) -> None:
    save_team(tmp_path / "team", Team(dict.fromkeys(AGENTS, language_model())), ABOUT)
    assert names(tmp_path / "team") == {DESCRIPTION, "policy-0.safetensors"}


def test_members_without_weights_are_not_saved(tmp_path: Path) -> None:
    team = Team({"agent_0": Scripted(lambda agent, history: "fixed"), "agent_1": language_model(seed=1)})
    save_team(tmp_path / "team", team, ABOUT)
    again = Team({"agent_0": Scripted(lambda agent, history: "fixed"), "agent_1": language_model(seed=2)})
    load_weights(tmp_path / "team", again)
    assert same(weights(again), weights(team))


def test_more_than_ten_policies_keep_their_order(tmp_path: Path) -> None:
    agents = [f"agent_{i}" for i in range(12)]
    save_team(tmp_path / "team", Team({a: Softmax(logits=[float(i)] * 4) for i, a in enumerate(agents)}), ABOUT)
    team = Team({agent: Softmax() for agent in agents})
    load_weights(tmp_path / "team", team)
    assert [float(state["logits"][0]) for state in weights(team)] == list(range(12))


def test_only_adapters_are_saved(tmp_path: Path) -> None:
    model = save_model(tmp_path / "model")
    team = load_team(AGENTS, model, sharing="lora", device="cpu", seed=1)
    for i, parameter in enumerate(team.trainable[0].parameters()):
        with torch.no_grad():
            parameter.add_(0.01 * i)
    save_team(tmp_path / "team", team, ABOUT)
    again = load_team(AGENTS, model, sharing="lora", device="cpu", seed=2)
    load_weights(tmp_path / "team", again)
    assert same(weights(again), weights(team))
    assert (tmp_path / "team" / "policy-0.safetensors").stat().st_size < 100_000


def test_tied_weights_can_be_saved(tmp_path: Path) -> None:
    team = separate_team(seed=1, tie_word_embeddings=True)
    save_team(tmp_path / "team", team, ABOUT)
    again = separate_team(seed=5, tie_word_embeddings=True)
    load_weights(tmp_path / "team", again)
    assert same(weights(again), weights(team))


def test_half_precision_is_kept(tmp_path: Path) -> None:
    team = separate_team(seed=1)
    for policy in team.policies:
        policy.model.bfloat16()  # type: ignore[attr-defined]
    save_team(tmp_path / "team", team, ABOUT)
    again = separate_team(seed=5)
    for policy in again.policies:
        policy.model.bfloat16()  # type: ignore[attr-defined]
    load_weights(tmp_path / "team", again)
    assert same(weights(again), weights(team))


def test_folders_above_are_made(tmp_path: Path) -> None:
    save_team(tmp_path / "runs" / "today" / "team", softmax_team(), ABOUT)
    assert read_description(tmp_path / "runs" / "today" / "team") == ABOUT


def test_saving_does_not_touch_the_team(tmp_path: Path) -> None:
    team = separate_team(seed=1)
    save_team(tmp_path / "team", team, ABOUT)
    assert same(weights(team), weights(separate_team(seed=1)))
    assert all(p.requires_grad for policy in team.trainable for p in policy.parameters())


# --- what does not fit ------------------------------------------------------------------------------------------------


def test_another_number_of_policies_is_named(folder: Path) -> None:
    with pytest.raises(CheckpointError, match=r"team' holds 2 policies, the team has 1"):
        load_weights(folder, Team({"agent_0": language_model()}))


def test_another_shape_is_named_with_its_file(folder: Path) -> None:
    with pytest.raises(CheckpointError, match=r"policy-0\.safetensors': .*has shape \(\d+, 16\), not \(\d+, 32\)"):
        load_weights(folder, separate_team(hidden_size=32))


def test_a_missing_description_says_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"holds no saved team \(team\.json is missing\)"):
        read_description(tmp_path)


def test_a_missing_folder_says_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="holds no saved team"):
        read_description(tmp_path / "nowhere")


def test_a_missing_folder_holds_no_weights(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="holds 0 policies"):
        load_weights(tmp_path / "nowhere", softmax_team())


def test_a_damaged_weights_file_is_named(folder: Path) -> None:
    path = folder / "policy-1.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(CheckpointError, match=r"policy-1\.safetensors"):
        load_weights(folder, separate_team())


def test_a_damaged_description_is_named(folder: Path) -> None:
    (folder / DESCRIPTION).write_text('{"model": ')
    with pytest.raises(CheckpointError, match=r"team\.json"):
        read_description(folder)


# --- replacing and failing --------------------------------------------------------------------------------------------


def test_a_new_team_replaces_the_old_one(folder: Path) -> None:
    save_team(folder, Team({"agent_0": language_model(seed=5)}), {"new": True})
    assert names(folder) == {DESCRIPTION, "policy-0.safetensors"}
    assert read_description(folder) == {"new": True}


def test_nothing_temporary_is_left(folder: Path) -> None:
    for seed in (2, 3):
        save_team(folder, separate_team(seed=seed), ABOUT)
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
        save_team(folder, Team({"agent_0": language_model(seed=5), "agent_1": Unsaveable()}), ABOUT)
    assert intact(folder)


def test_a_description_that_is_no_json_leaves_the_old_team(folder: Path) -> None:
    with pytest.raises(TypeError):
        save_team(folder, separate_team(seed=5), {"model": object()})
    assert intact(folder)


def test_a_failing_first_save_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="disk is full"):
        save_team(tmp_path / "team", Team({"agent_0": Unsaveable()}), ABOUT)
    assert names(tmp_path) == set()


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
        save_team(folder, separate_team(seed=5), ABOUT)
    assert moves
    assert intact(folder)


def test_a_reader_never_sees_half_a_team(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the weights are being written the old team is in place, whole."""
    seen: list[Mapping[str, Any]] = []

    class Watched(Softmax):
        def state_dict(self) -> dict[str, torch.Tensor]:
            seen.append({"whole": names(folder), "about": json.loads((folder / DESCRIPTION).read_text())})
            return super().state_dict()

    save_team(folder, Team({"agent_0": Watched()}), {"new": True})
    assert seen == [{"whole": {DESCRIPTION, "policy-0.safetensors", "policy-1.safetensors"}, "about": ABOUT}]
    assert read_description(folder) == {"new": True}
