"""Games of other suites as tasks: observations, rewards, and independent copies."""

from __future__ import annotations

import pickle
import random
from functools import partial
from typing import Any

import pytest

from llm_dec_pomdp.agents import Sampling
from llm_dec_pomdp.agents.scripted import Scripted
from llm_dec_pomdp.contrib.external_games.games import KEPT, Game, GameView
from llm_dec_pomdp.envs import CheckFailure, TaskError, check_env
from llm_dec_pomdp.envs.wrappers import with_protocol
from llm_dec_pomdp.episodes import Header, from_episode, validate
from llm_dec_pomdp.rollout import Trajectories, replay


class HighCard:
    """Game of three turns: [k] has reward k / 10, an empty text after a move `silence`. It shows its random numbers."""

    def __init__(self, silence: float = 0.0, unseeded: bool = False) -> None:
        self.silence, self.turn, self.moved = silence, 0, False
        self.draw = random.Random() if unseeded else random  # an unseeded one, which is what fails the check

    def reset(self, seed: int) -> GameView:
        self.turn, self.moved = 0, False
        return GameView(f"start {seed}\nthrow {self.draw.randint(1, 10**9)}\nSay a number such as [1] or [2].", (0.0,))

    def step(self, text: str) -> GameView:
        self.turn += 1
        number = text.strip("[]")
        valid = number in ("1", "2", "3")
        paid = float(number) / 10 if valid else self.silence if self.moved or self.silence < 0 else 0.0
        self.moved |= valid
        return GameView(f"throw {self.draw.randint(1, 10**9)}", (paid,), self.turn == 3)


class Duel:
    """Game of two players, who write a word in turn and receive its length as the reward."""

    def __init__(self) -> None:
        self.words: list[str] = []

    def reset(self, seed: int) -> GameView:
        return GameView("your word, 0", (0.0, 0.0))

    def step(self, text: str) -> GameView:
        self.words.append(text)
        over = len(self.words) == 2
        return GameView("your word, 1", tuple(len(w) / 10 for w in self.words) if over else (0.0, 0.0), over, player=1)


def high_card(sees: Any = "advisers", roles: tuple[str, ...] = ("adviser", "player"), **options: Any) -> Game:
    return Game("high-card", partial(HighCard, **options), roles, sees)


def actions(text: str) -> dict[str, str]:
    return {"agent_0": "never a move", "agent_1": text}


def test_the_last_role_makes_the_moves_and_the_team_is_paid() -> None:
    env = high_card()
    env.reset(options={"index": 1})
    rewards = [env.step(actions(text))[1]["agent_0"] for text in ("[3]", "nothing", "[1]")]
    assert rewards == [0.3, 0.0, 0.1]
    assert env.agents == []
    assert env.last_score is not None
    assert env.last_score.components == {"game": pytest.approx(0.4)}


def test_an_adviser_sees_the_game_and_the_player_does_not() -> None:
    observations, _ = high_card().reset(options={"index": 1})
    assert observations["agent_0"].startswith("start 1\n")
    assert observations["agent_1"] == (
        "A game is played that adviser can see and you cannot. You are the player: your text is the next move."
    )
    observations, _ = high_card("all").reset(options={"index": 1})
    assert observations["agent_0"].splitlines()[:3] == observations["agent_1"].splitlines()[:3]


def test_each_may_see_a_part() -> None:
    observations, _ = high_card("parts", ("left", "right")).reset(options={"index": 1})
    assert (
        "start 1" in observations["agent_0"]
        and "Say a number" in observations["agent_0"]
        and "throw" not in observations["agent_0"]
    )
    assert "throw" in observations["agent_1"] and "start 1" not in observations["agent_1"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "sees", ["advisers", *(pytest.param(sees, marks=pytest.mark.slow) for sees in ("all", "parts"))]
)
def test_a_game_on_the_global_generators_keeps_the_laws_and_leaves_them_alone(sees: str) -> None:
    random.seed(3)
    before = random.getstate()
    assert "silence" in check_env(high_card(sees))
    assert random.getstate() == before


def test_positions_are_found_again_when_their_games_are_gone() -> None:
    env = high_card()
    env.reset(seed=0, options={"index": 0})
    env.step(actions("[1]"))
    twins = [env.fork() for _ in range(KEPT + 2)]
    played = {repr(twin.step(actions("[2]"))[:2]) for twin in (*twins, pickle.loads(pickle.dumps(env)))}
    assert len(played) == 1


@pytest.mark.parametrize("protocol", ["parallel", "sequential", "centralized"])
def test_an_episode_is_traced_and_played_again(protocol: str) -> None:
    env = with_protocol(high_card("all"), protocol)
    say = high_card().script("examples")
    [group] = Trajectories("own").play(env, Scripted(say), [env.items[0].id], [3], Sampling())
    trace = from_episode(group.episodes[0], Header.of(env, protocol=protocol), env.items[0])
    assert validate(trace) == []
    assert replay(trace, env) == ""


def test_an_unseeded_generator_of_its_own_is_named() -> None:
    with pytest.raises(CheckFailure, match=r"high-card .*'determinism'"):
        check_env(high_card(unseeded=True))


def test_silence_that_pays_after_a_move_is_named() -> None:
    with pytest.raises(CheckFailure, match=r"'silence': turn 2 .*0\.25"):
        check_env(high_card(silence=0.25))


@pytest.mark.slow
def test_the_lowest_score_is_that_of_silence() -> None:
    env = high_card(silence=-0.5)
    assert "bounds" in check_env(env)
    assert env.facts.score_range == (-1.5, 1.0)
    env.max_turns = 2
    assert env.facts.score_range == (-1.0, 1.0)


def test_examples_are_moves_as_the_game_quotes_them() -> None:
    say = high_card().script("examples")
    env = high_card()
    env.reset(seed=1)
    moves: list[str] = []
    while env.agents:
        moves.append(say("agent_1", env.history("agent_1")))
        env.step(actions(moves[-1]))
    assert moves == ["[1]", "[2]", "[1]"]
    assert say("agent_0", ()) == ""


def test_several_players_move_in_turn_and_are_paid_by_themselves() -> None:
    env = Game("duel", Duel, ("one", "other"), players=2)
    observations, _ = env.reset()
    assert observations == {"agent_0": "your word, 0", "agent_1": ""}
    observations, *_ = env.step({"agent_0": "four", "agent_1": "not asked"})
    assert observations == {"agent_0": "", "agent_1": "your word, 1"}
    _, rewards, *_ = env.step({"agent_0": "", "agent_1": "me"})
    assert rewards == {"agent_0": 0.4, "agent_1": 0.2}
    assert env.latest.transition.reward == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sees": "adviser"}, "did you mean advisers"),
        ({"roles": ("player",)}, "set sees='all'"),
        ({"players": 3}, "high-card has 3 players"),
    ],
)
def test_roles_that_do_not_fit_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Game("high-card", HighCard, **arguments)


def test_a_start_is_a_number() -> None:
    item = high_card().items[0]
    with pytest.raises(TaskError, match="field 'start': 'x'"):
        Game("high-card", HighCard, tasks=[type(item)("a", "b", fields={"start": "x"})])
