"""bfcl-v0 against the published checker: gold of all rows, and mutated answers. Needs the distribution `bfcl-eval`."""

from __future__ import annotations

import itertools
import json
import random
import re
from collections.abc import Mapping
from typing import Any

import pytest

import llm_dec_pomdp
from llm_dec_pomdp.agents import Sampling
from llm_dec_pomdp.agents.scripted import Uniform
from llm_dec_pomdp.contrib.calls.bfcl import BFCL, kits, owners, row_of
from llm_dec_pomdp.contrib.calls.published import COMMAND, installed
from llm_dec_pomdp.envs import TextDecPOMDP
from llm_dec_pomdp.envs.checks.check import CHECKS
from llm_dec_pomdp.envs.tools import Call, Toolbox, ToolState
from llm_dec_pomdp.rollout import Trajectories
from llm_dec_pomdp.types import TaskItem

needs_bfcl = pytest.mark.skipif(not installed(), reason=f"needs {COMMAND}")
MUTATED = 500


@pytest.mark.skipif(installed(), reason="the distribution is there")
def test_without_the_distribution_an_error_names_the_command() -> None:
    with pytest.raises(ModuleNotFoundError, match="pip install --no-deps bfcl-eval"):
        llm_dec_pomdp.make("bfcl-v0")


def earned(env: Any, item: TaskItem, calls: list[list[str]]) -> float:
    """Return the return of a team that makes these calls, with an order at each change of class, and answers."""
    env.reset(options={"task_id": item.id})

    def act(agent: str, text: str) -> None:
        env.step({**dict.fromkeys(env.agents, ""), agent: text})

    for turn in calls:
        for name, of_class in itertools.groupby(turn, lambda text: owners()[text.partition("(")[0].strip()]):
            texts = list(of_class)
            for start in range(0, len(texts), 16):
                act("agent_0", f"{name}: call")
                act(env.specialists[name], f"[{', '.join(texts[start : start + 16])}]")
                act(env.specialists[name], "They ran.")
        act("agent_0", "Done.")
    return env.last_score.total


def lost_by_gold(env: TextDecPOMDP) -> list[str]:
    """Return the rows on which `script:gold` does not receive 1."""
    script, lost = env.script("gold"), list[str]()
    for item in env.items:
        env.reset(options={"task_id": item.id})
        while env.agents:
            env.step({a: script(a, env.history(a)) if env.asked(a) else "" for a in env.agents})
        assert env.last_score is not None
        lost += [item.id] * (env.last_score.total != 1.0)
    return lost


@needs_bfcl
@pytest.mark.slow
@pytest.mark.parametrize("category", ["base", "miss_func", "miss_param", "long_context"])
def test_gold_earns_all_of_every_row(category: Any) -> None:
    env = BFCL(category=category)
    assert len(env.items) == 200
    assert lost_by_gold(env) == []


OF_ALL_CATEGORIES = [category * 200 + row for category in range(4) for row in (0, 1, 8, 11, 20, 29, 49, 195)]


@needs_bfcl
@pytest.mark.parametrize(
    "rows", [pytest.param(OF_ALL_CATEGORIES, id="some"), pytest.param((), id="all", marks=pytest.mark.slow)]
)
def test_gold_tells_rows_of_all_categories_apart(rows: Any) -> None:
    assert lost_by_gold(BFCL(rows=rows).with_candidates()) == []
    lost = [] if rows else ["multi_turn_miss_param_180"]
    assert lost_by_gold(BFCL(rows=rows)) == lost


@needs_bfcl
def test_two_rows_cannot_both_be_played_right() -> None:
    """The right calls of one row have the same results in the other row, until the rows require different bookings."""
    observed: list[Any] = []
    for name in ("base", "miss_param"):
        env = BFCL(category=name)
        item = next(item for item in env.items if item.id == f"multi_turn_{name}_180")
        base = row_of(next(i for i in BFCL(category="base").items if i.id == "multi_turn_base_180").fields["row"])
        earned(env, item, [list(turn) for turn in base.gold[:2]])
        histories = [env.history(agent) for agent in env.possible_agents]
        observed.append((histories, row_of(item.fields["row"]).gold[2]))
    assert observed[0][0] == observed[1][0]
    assert observed[0][1] != observed[1][1]


def mutated(gold: list[list[str]], draw: random.Random) -> list[list[str]]:
    """Change one or two calls of a row: remove, repeat or move them, or change an argument."""
    calls = [list(turn) for turn in gold]
    for _ in range(draw.randrange(1, 3)):
        full = [turn for turn in calls if turn]
        if not full:
            break
        turn = draw.choice(full)
        place = draw.randrange(len(turn))
        kind = draw.randrange(5)
        if kind == 0:
            turn.pop(place)
        elif kind == 1:
            turn.insert(place, turn[place])
        elif kind == 2:
            draw.choice(calls).append(turn.pop(place))
        elif kind == 3:
            turn.reverse()
        else:
            turn[place] = re.sub(r"(?<=[=(])'(?=\w)", "'x", re.sub(r"=(\d)", r"=1\1", turn[place]), count=1)
    return calls


@needs_bfcl
@pytest.mark.slow
def test_mutated_answers_earn_what_the_published_checker_says() -> None:
    from bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker import (  # pyright: ignore[reportMissingImports]
        multi_turn_checker,  # pyright: ignore[reportUnknownVariableType]
    )

    env, draw = BFCL(), random.Random(0)
    known = owners()
    verdicts: list[bool] = []
    for number in range(MUTATED):
        item = draw.choice(env.items)
        row = row_of(item.fields["row"])
        calls = mutated([list(turn) for turn in row.gold], draw)
        calls = [[text for text in turn if text.partition("(")[0].strip() in known] for turn in calls]
        entry: Mapping[str, Any] = {
            "id": item.id,
            "initial_config": {name: json.loads(config) for name, config in row.configs.items()},
            "involved_classes": list(row.classes),
        }
        gold = [list(turn) for turn in row.gold]
        verdict = multi_turn_checker([[t] if t else [] for t in calls], gold, entry, "", f"m{number}")  # pyright: ignore[reportUnknownVariableType]
        assert (item.id, calls, earned(env, item, calls) == 1.0) == (item.id, calls, verdict["valid"])
        verdicts.append(bool(verdict["valid"]))  # pyright: ignore[reportUnknownArgumentType]
    assert 0.1 < sum(verdicts) / MUTATED < 0.9


@needs_bfcl
@pytest.mark.parametrize("options", [{}, {"candidates": True}])
def test_every_law_is_kept(options: dict[str, Any]) -> None:
    env = llm_dec_pomdp.make("bfcl-v0", category="base", max_turns=24, **options)
    assert llm_dec_pomdp.check_env(env, rows=1) == list(CHECKS)


@needs_bfcl
def test_whatever_is_offered_in_chosen_rows_is_in_their_vocabulary() -> None:
    env: Any = BFCL(category="base", rows=[4, 11, 13, 45], max_turns=30).with_candidates()
    known, rows = set(env.facts.vocabulary), [item.id for item in env.items]
    groups = Trajectories("own").play(env, Uniform(env.choices), rows, range(4), Sampling(), 3)
    heard = {text for g in groups for e in g.episodes for turn in e.turns for text in turn.observations.values()}
    offered = [f"{letter} {text}" for told in heard if told for text, letter in env.offered_in(told).items()]
    assert offered
    assert known.issuperset(" ".join(offered).split())


@needs_bfcl
def test_functions_that_are_missing_are_told_when_they_are_there() -> None:
    env: Any = BFCL(category="miss_func")
    env.reset(options={"task_id": "multi_turn_miss_func_0"})
    files = "agent_1"
    quiet = dict.fromkeys(env.agents, "")
    for turn in range(4):
        env.step({**quiet, "agent_0": "GorillaFileSystem: look"})
        observation = env.history(files)[-1].text
        assert ("- sort(" in observation) is (turn == 3)
        assert ("You are the application" in observation) is (turn in (0, 3))
        env.step({**quiet, files: "nothing"})
        env.step({**quiet, "agent_0": "Done."})


@needs_bfcl
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("power", {"base": 10, "exponent": 10**9}),
        ("logarithm", {"value": 20, "base": 10, "precision": 10**9}),
        ("square_root", {"number": 2, "precision": 10**9}),
        ("round_number", {"number": 5, "decimal_places": -(10**9)}),
    ],
)
def test_arguments_that_make_a_function_compute_for_ever_are_refused(name: str, arguments: dict[str, int]) -> None:
    box = Toolbox(kits())
    [answer] = box.answer(ToolState(), "agent_0", [Call(name, arguments)])[1]
    assert not answer.valid
    assert str(10**9) in answer.answer
