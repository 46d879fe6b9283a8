"""`check_env`: conformance checks of a text Dec-POMDP, for the environments of this package and of users.

    reward parts        the components of a score are the declared ones and sum to its total
    determinism         the same seed and actions give the same episode
    PettingZoo          its `parallel_api_test` and `parallel_seed_test` pass, with warnings as errors
    rewards             rewards are Python floats, identical for all agents if the reward is declared joint
    no leaks            observations show no teammate's action (unless the environment declares that), and neither
                        observations, infos nor `state()` show a reference or a hidden field
    bounds              rewards of adversarial actions are finite and in `reward_range`; empty actions score the minimum
    silence             a turn of empty actions has no positive reward, even after turns of a scripted team
    references          the reference of each row receives the maximum, or the documented share of it
    ends                no turn truncates; the last turn terminates
    finished            stepping a finished episode raises `NotAskedToStepError`
    forks               stepping a fork does not change its parent, and stepping the parent does not change the fork
    states              the hidden state is an immutable value
    pickling            a pickled copy plays the same episode, and `state()` is JSON
    infos               the same numeric keys at reset and at every step
    tools               see `checks.tools`; environments without tools pass
    processes           another process with another PYTHONHASHSEED plays the same episode, within a time limit

The error of a failed check names the check and the remedy. If user code raised an exception, the error names the file,
line, task and actions. Another process cannot import a class that a script or notebook defines, so the check
"processes" is left out there, with a warning.

A module may call `check_env` when it is imported. The process of the check "processes" imports that module too; there,
`check_env` returns at once.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import pickle
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ...types import Score, TaskItem
from ...user_code import shortened
from ..base import NotAskedToStepError, Script, TextDecPOMDP
from ..task import mutable_part
from .base import CheckFailure, phases, play, raised, require
from .processes import CHILD, processes
from .texts import adversarial_texts
from .tools import tools_check

CANARY = "canary_{}_9c1f"
SCRIPTED_TURNS = 2  # turns of a scripted team before the turns of empty actions
GOLD_ROWS = 8  # rows whose reference is scored by default; `check_env(env, rows=None)` scores all


def check_env(env: TextDecPOMDP, *, rows: int | None = GOLD_ROWS) -> list[str]:
    """Run all conformance checks on an environment; see the module for the list.

    Args:
        env: Any environment or protocol wrapper. It is reset and stepped, so a running episode in it is lost.
        rows: Number of rows whose reference is scored; None for all.

    Returns:
        The names of the checks that passed; an empty list in the process that the check "processes" starts.

    Raises:
        TypeError: `env` is not an environment.
        CheckFailure: A check failed. The message names the first one that failed and the remedy.
    """
    if not isinstance(env, TextDecPOMDP):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"env is a {type(env).__name__} ({env!r:.60}); give an environment, e.g. make('tldr-v0')")
    if CHILD in os.environ:
        return []
    turns = env.max_turns
    checked: list[str] = []
    for name, check in CHECKS.items():
        try:
            unchecked = check(env, rows)
        except Exception as error:
            what = str(error) if isinstance(error, CheckFailure) else f"it raised {raised(error)}"
            raise CheckFailure(f"{env.metadata['name']} fails the conformance check '{name}': {what}") from error
        finally:
            env.max_turns = turns  # PettingZoo's test changes it
        if unchecked:
            message = f"the conformance check '{name}' of {env.metadata['name']} was not run: {unchecked}"
            warnings.warn(message, stacklevel=2)
        else:
            checked.append(name)
    return checked


def _pettingzoo(env: TextDecPOMDP, rows: int | None) -> None:
    # Imported here, because it imports pytest if that is installed, which takes 50 ms.
    from pettingzoo.test import parallel_api_test, parallel_seed_test  # pyright: ignore[reportUnknownVariableType]

    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "No agents present but not all possible_agents")  # some agents never join
        try:
            parallel_api_test(env, num_cycles=10)
            parallel_seed_test(lambda: pickle.loads(pickle.dumps(env)), num_cycles=3)
        except Exception as error:
            raise CheckFailure(f"PettingZoo's own test failed: {raised(error)}") from error


def _rewards(env: TextDecPOMDP, rows: int | None) -> None:
    env.reset(seed=1, options={"index": 0})
    gold, first = _gold(env.task, env.item), env.task.possible_agents[0]
    for right in ({first: gold.get(first, "")}, {}):  # one agent gives its reference, then none does
        played = ", ".join(f"{a} acted {shortened(right.get(a, f'{a} speaks'))}" for a in env.possible_agents)
        for _, rewards, *_ in list(play(env, {"index": 0}, lambda a, _, right=right: right.get(a, f"{a} speaks")))[1:]:
            require(
                all(type(r) is float for r in rewards.values()),
                f"rewards are {rewards} after {played}; give every agent a Python float",
            )
            require(
                not env.facts.joint_reward or len(set(map(repr, rewards.values()))) == 1,
                f"rewards are {rewards} after {played}, but the reward is declared joint; give every agent the "
                "identical float, or set joint_reward = False",
            )


def _no_leaks(env: TextDecPOMDP, rows: int | None) -> None:
    item = env.items[0]
    hidden = replace(
        item,
        reference=tuple(CANARY.format("reference") + text for text in item.reference),
        fields={
            name: f"{text}\n# {CANARY.format(name)}" if name in env.facts.hidden_fields else text
            for name, text in item.fields.items()
        },
    )
    secrets = ("reference", *env.facts.hidden_fields)
    env = env.with_items((hidden,))
    env.max_turns = max(env.max_turns, 3 * phases(env))  # feedback may leak too
    for result in play(env, {"index": 0}, lambda agent, turn: CANARY.format(agent)):
        for agent, text in result[0].items():
            for secret in (*secrets, *(() if env.facts.shares_texts else set(env.possible_agents) - {agent})):
                require(
                    CANARY.format(secret) not in text,
                    f"the observation of {agent} shows {secret!r}, which it must not see; leave it out",
                )
        for secret in secrets:
            require(
                CANARY.format(secret) not in env.state() + repr(result[-1]),
                f"state() or the infos show {secret!r}, which only the reward may read; leave it out",
            )


def _determinism(env: TextDecPOMDP, rows: int | None) -> None:
    def say(agent: str, turn: int) -> str:
        return f"{agent} says the same few words in turn {turn} of this episode"

    first, second = list(play(env, {}, say)), list(play(env, {}, say))
    require(
        repr(first) == repr(second),
        "the same seed and actions gave two different episodes; derive all chance from the seed of reset",
    )
    same = [env.reset(seed=seed)[0] for seed in (5, 5)]
    require(
        same[0] == same[1], "reset(seed=5) gave two different observations; derive the choice of the task from the seed"
    )


def _bounds(env: TextDecPOMDP, rows: int | None) -> None:
    low, high = env.facts.reward_range
    for text in adversarial_texts():
        for result in list(play(env, {"index": 0}, lambda agent, turn, text=text: text))[1:]:
            reward = next(iter(result[1].values()))
            require(
                math.isfinite(reward) and low <= reward <= high,
                f"the action {text[:40]!r} received the reward {reward}, which is not within {env.facts.reward_range}; "
                "correct the reward, or declare its range",
            )
    if env.facts.silence_is_lowest:
        list(play(env, {"index": 0}, lambda agent, turn: ""))
        empty, lowest = env.last_score, env.facts.score_range[0]
        require(
            empty is None or empty.total == lowest,
            f"empty actions received the score {empty and empty.total}, but the declared minimum is {lowest}; correct "
            "the score, or declare silence_is_lowest=False",
        )


def _silence(env: TextDecPOMDP, rows: int | None) -> None:
    task = env.task
    if not task.facts.silence_is_lowest:
        return
    known = {name: task.script(name) for name in task.facts.scripts if name not in ("optimal", "gold")}
    played = [("", 0), *((name, turns) for name in known for turns in range(1, SCRIPTED_TURNS + 1))]
    for name, turns in played:
        before = f", after {turns} turns of script:{name}" if turns else ""
        task.reset(seed=1, options={"index": 0})
        while task.agents:
            silent = task.turn >= turns
            asked = [agent for agent in task.agents if task.asked(agent) and not silent]
            task.step(dict.fromkeys(task.agents, "") | {agent: _says(known[name], agent, env.task) for agent in asked})
            paid = task.latest.transition.reward
            require(
                not (silent and paid > 0),
                f"turn {task.turn} has the reward {paid:g} for empty actions{before}; give them no positive reward",
            )


def _says(script: Script, agent: str, task: TextDecPOMDP) -> str:
    """Return the action of a script; empty if it does not know the task."""
    try:
        return script(agent, task.history(agent))
    except ValueError:
        return ""


def _references(env: TextDecPOMDP, rows: int | None) -> None:
    task, known = env.task, env.task.facts
    least, most = known.reference_share * known.max_return, known.max_return
    for item in task.items[:rows]:
        gold = _gold(task, item)
        if not gold or (score := _score_of(task, item, gold)) is None:
            continue
        require(
            least - 1e-6 <= score.total <= most + 1e-6,
            f"the reference of task {item.id!r} receives the score {score.total}, not "
            + (f"the maximum {least}" if least == most else f"{least} to {most}")
            + "; correct the row or the score",
        )


def _gold(task: TextDecPOMDP, item: TaskItem) -> dict[str, str]:
    """Return the joint action of a row's references; {} if it has none."""
    given = len(item.reference) == len(task.possible_agents)
    return dict(zip(task.possible_agents, item.reference, strict=True)) if given else {}


def _score_of(task: TextDecPOMDP, item: TaskItem, actions: Mapping[str, str]) -> Any:
    """Return the score of a joint action in the first turn."""
    task.reset(seed=1, options={"task_id": item.id})
    task.step({agent: actions.get(agent, "") for agent in task.agents})
    return task.latest.transition.score


def _ends(env: TextDecPOMDP, rows: int | None) -> None:
    steps = list(play(env, {"index": 0}, lambda agent, turn: "a few words"))[1:]
    for number, (_, _, _, truncations, _) in enumerate(steps, 1):
        require(
            not any(truncations.values()),
            f"turn {number} truncates ({truncations}); the horizon is part of the task, so let the last turn terminate",
        )


def _finished(env: TextDecPOMDP, rows: int | None) -> None:
    list(play(env, {"index": 0}, lambda agent, turn: "done"))
    try:
        env.step(dict.fromkeys(env.possible_agents, "again"))
    except NotAskedToStepError:
        return
    except Exception as error:
        raise CheckFailure(
            f"stepping a finished episode raised {type(error).__name__}; use NotAskedToStepError"
        ) from error
    raise CheckFailure("stepping a finished episode raised nothing; raise NotAskedToStepError")


def _forks(env: TextDecPOMDP, rows: int | None) -> None:
    def play_on(env: TextDecPOMDP, words: str) -> list[Any]:
        """Return the results of all steps to the end of the episode, by which forks are compared."""
        done: list[Any] = []
        while env.agents:
            done.append(env.step({agent: f"{agent} {words}" for agent in env.agents}))
        return done

    env.reset(seed=1, options={"index": 0})
    untouched = pickle.loads(pickle.dumps(env))
    expected = play_on(untouched, "goes on alone")
    play_on(env.fork(), "speaks in the fork only")
    advice = "keep everything that changes during an episode in the state, and nothing on the object"
    require(bool(env.agents), f"stepping a fork ended its parent's episode; {advice}")
    second, first = env.fork(), play_on(env, "goes on alone")
    require(repr(first) == repr(expected), f"stepping a fork changed its parent; {advice}")
    require(repr(play_on(second, "goes on alone")) == repr(expected), f"stepping a parent changed its fork; {advice}")


def _pickling(env: TextDecPOMDP, rows: int | None) -> None:
    twin = pickle.loads(pickle.dumps(env))
    episodes = [list(play(e, {}, lambda agent, turn: "a few words")) for e in (env, twin)]
    require(
        repr(episodes[0]) == repr(episodes[1]),
        "a pickled copy plays a different episode; keep all state in attributes",
    )
    try:
        json.loads(env.state())
    except (TypeError, ValueError) as error:
        raise CheckFailure("state() is not JSON text; return json.dumps(...) of plain data") from error


def _infos(env: TextDecPOMDP, rows: int | None) -> None:
    wanted = {f"reward/{name}" for name in env.facts.components}
    for result in play(env, {"index": 0}, lambda agent, turn: "a few words"):
        for agent, info in result[-1].items():
            numbers = {key for key, value in info.items() if isinstance(value, (int, float))}
            require(
                numbers >= wanted,
                f"the info of {agent} lacks {sorted(wanted - numbers)}; give the same numeric keys at reset and step",
            )


def _reward_parts(env: TextDecPOMDP, rows: int | None) -> None:
    task = env.task
    item = task.items[0]
    tried = [dict.fromkeys(task.possible_agents, text) for text in ("", "a few words")]
    for actions in [*tried, gold] if (gold := _gold(task, item)) else tried:
        score = _score_of(task, item, actions)
        if score is None:
            continue
        after = f"on task {item.id!r}, {', '.join(f'{a} acted {shortened(t)}' for a, t in actions.items())}"
        require(isinstance(score, Score), f"a score is a {type(score).__name__} ({score!r:.60}) {after}; give a Score")
        require(
            set(score.components) == set(task.facts.components),
            f"a score has the components {sorted(score.components)}, but {sorted(task.facts.components)} are declared "
            f"({after})",
        )
        total = sum(score.components.values())
        require(
            not score.scorable or math.isclose(score.total, total, abs_tol=1e-6),
            f"the components sum to {total}, but the total is {score.total} ({after}); make the total their sum",
        )


def _states(env: TextDecPOMDP, rows: int | None) -> None:
    for _ in play(env, {"index": 0}, lambda agent, turn: "a few words"):
        state = env.task.latest.transition.state
        problem = mutable_part(state)
        require(not problem, f"the state of turn {env.turn} is {state!r:.60}: {problem}")


# Each check raises CheckFailure if it fails, and returns a reason if it cannot be run.
CHECKS: Mapping[str, Callable[[TextDecPOMDP, int | None], str | None]] = {
    "reward parts": _reward_parts,
    "determinism": _determinism,
    "PettingZoo": _pettingzoo,
    "rewards": _rewards,
    "no leaks": _no_leaks,
    "bounds": _bounds,
    "silence": _silence,
    "references": _references,
    "ends": _ends,
    "finished": _finished,
    "forks": _forks,
    "states": _states,
    "pickling": _pickling,
    "infos": _infos,
    "tools": tools_check,
    "processes": processes,
}
