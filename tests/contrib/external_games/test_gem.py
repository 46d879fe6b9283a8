"""Games of GEM, played by teams (`nox -s suites` installs it)."""

from __future__ import annotations

from typing import Any

import pytest

from llm_dec_pomdp import check_env, make
from llm_dec_pomdp.envs.wrappers import with_protocol

gem = pytest.importorskip("gem", reason="gem-llm is not installed: pip install -e '.[gem]'")

GEM = "llm_dec_pomdp.contrib.external_games.gem:from_gem"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("game", "sees"),
    [("game:Mastermind-v0-hard", "advisers"), ("game:Minesweeper-v0-easy", "parts"), ("rg:leg_counting", "all")],
)
def test_a_game_keeps_the_laws(game: str, sees: str) -> None:
    assert "silence" in check_env(make(GEM, game=game, sees=sees))


def test_a_team_is_paid_what_the_game_pays() -> None:
    """A player that follows its adviser wins, as it would in the same game of GEM."""
    direct = gem.make("game:GuessTheNumber-v0-easy")
    env: Any = with_protocol(make(GEM, game="game:GuessTheNumber-v0-easy"), "sequential")
    for index in (0, 1):
        observations, _ = env.reset(seed=0, options={"index": index})
        shown, info = direct.reset(seed=int(env.item.fields["start"]))
        assert observations["agent_0"].startswith(f"{shown}\n{info['suffix']}\n\nYou are the adviser.")
        number = f"\\boxed{{{direct.game_number}}}"
        observations, *_ = env.step({"agent_0": f"It is {number}", "agent_1": ""})
        assert observations["agent_1"].endswith("Now write your part so that it fits.")
        assert number in observations["agent_1"]
        _, rewards, terminations, *_ = env.step({"agent_0": "", "agent_1": number})
        assert rewards["agent_1"] == direct.step(number)[1] == 1.0
        assert terminations["agent_1"]


def test_another_environment_is_named() -> None:
    with pytest.raises(KeyError, match=r"'game:Mastermnd-v0-hard'.*game:Master"):
        make(GEM, game="game:Mastermnd-v0-hard")


def test_what_gem_refuses_is_said_with_its_own_error() -> None:
    with pytest.raises(RuntimeError, match="'game:FifteenPuzzle-v0-random'"):
        make(GEM, game="game:FifteenPuzzle-v0-random").reset()
