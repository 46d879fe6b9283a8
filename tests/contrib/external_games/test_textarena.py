"""Games of TextArena, played by teams (`nox -s suites` installs it)."""

from __future__ import annotations

from typing import Any

import pytest

from llm_dec_pomdp import make
from llm_dec_pomdp.envs import CheckFailure, check_env
from llm_dec_pomdp.envs.wrappers import with_protocol

textarena = pytest.importorskip("textarena", reason="textarena is not installed: pip install -e '.[textarena]'")

ARENA = "llm_dec_pomdp.contrib.external_games.textarena:from_textarena"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("game", "players"), [("TowerOfHanoi-v0", 1), ("Secretary-v0-raw", 1), ("IteratedPrisonersDilemma-v0", 2)]
)
def test_a_game_keeps_the_laws(game: str, players: int) -> None:
    env = make(ARENA, game=game, players=players)
    assert "silence" in check_env(env)


@pytest.mark.slow
@pytest.mark.parametrize("game", ["Mastermind-v0", "GuessTheNumber-v0-raw"])
def test_a_game_that_pays_for_invalid_moves_is_named(game: str) -> None:
    with pytest.raises(CheckFailure, match=rf"textarena/{game} .*'silence': turn 3 .*0\.\d+"):
        check_env(make(ARENA, game=game))


def test_a_team_is_paid_what_the_game_pays() -> None:
    direct = textarena.make("GuessTheNumber-v0-raw")
    env: Any = with_protocol(make(ARENA, game="GuessTheNumber-v0-raw", sees="all"), "sequential")
    env.reset(seed=0, options={"index": 2})
    direct.reset(num_players=1, seed=int(env.item.fields["start"]))
    number = direct.state.game_state["game_number"]
    observations, *_ = env.step({"agent_0": "", "agent_1": ""})
    assert "Only the number that is wrapped in square brackets" in observations["agent_1"]
    _, rewards, terminations, *_ = env.step({"agent_0": "", "agent_1": f"[{number}]"})
    assert rewards["agent_0"] == 1.0
    assert terminations["agent_0"]


def test_a_history_grows_by_what_is_new_or_begins_anew_with_everything() -> None:
    lengths: list[list[int]] = []
    for game in ("GuessTheNumber-v0-raw", "GuessTheNumber-v0"):
        env: Any = make(ARENA, game=game, sees="all")
        env.reset(seed=0)
        env.step({"agent_0": "", "agent_1": "[1]"})
        lengths.append([message.text.count("You are playing") for message in env.history("agent_1")])
    assert lengths == [[1, 0, 0], [1]]


def test_players_are_paid_by_themselves() -> None:
    env: Any = make(ARENA, game="IteratedPrisonersDilemma-v0", players=2, roles=("one", "other"), max_turns=100)
    env.reset(seed=0)
    while env.agents:
        env.step({"agent_0": "[Defect]", "agent_1": "[Cooperate]"})
        rewards = env.latest.transition.rewards
    assert rewards["agent_0"] > rewards["agent_1"]


def test_another_game_is_named() -> None:
    with pytest.raises(KeyError, match=r"'Mastrmind-v0'.*Mastermind-v0"):
        make(ARENA, game="Mastrmind-v0")
