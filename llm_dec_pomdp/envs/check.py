"""`check_env`: conformance checks of a text Dec-POMDP, for our environments and for yours.

PettingZoo's `parallel_api_test` and `parallel_seed_test` run, with warnings as errors, and:

    rewards             every agent gets the identical float, exactly where the reward is declared joint
    no leaks            canaries in the other agents' texts, references and tests show up in no observation
    determinism         the same seed and actions give the same episode
    bounds              rewards finite and in `reward_range` on adversarial texts; empty text scores the minimum
    silence             a turn in which nobody says anything pays nothing, whatever scripted teams said before
    references          every row's reference earns the maximum, or the share of it that the environment documents
    ends                the last turn terminates (PettingZoo: an agent that is gone has ended), and no turn truncates
    finished            stepping a finished episode raises one clear error
    forks               a fork and its parent do not affect each other, by what they do
    states              the hidden state is an immutable value
    pickling            a copy made by pickle plays the same episode; infos and state are JSON
    infos               the same numeric keys at reset and at every step
    tools               where agents have tools: see `check_tools`
    processes           another process with another PYTHONHASHSEED plays the same episode, within a time limit

A failed check is a sentence that names the check and says what to do. If user code raised an exception, it names the
file, line, task and actions. What a script or a notebook defines cannot be found
by another process, so that "processes" is left out there, with a warning.

A module may call `check_env` when it is imported. The process of the last check imports it too, and must not check
again: there `check_env` returns at once.
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

from ..types import Score, TaskItem
from ..user_code import shortened
from .adversarial import adversarial_texts
from .base import NotAskedToStepError, Script, TextDecPOMDP
from .check_tools import tools_check
from .elsewhere import CHILD, CheckFailure, phases, play, processes, raised, require
from .task import mutable_part

CANARY = "canary_{}_9c1f"
SCRIPTED_TURNS = 2  # before everybody falls silent
GOLD_ROWS = 8  # how many rows the quick check scores; `check_env(env, rows=None)` scores all


def check_env(env: TextDecPOMDP, *, rows: int | None = GOLD_ROWS) -> list[str]:
    """Run all checks on an environment.

    Args:
        env: Any environment or protocol wrapper. It is reset and stepped; what it held is gone.
        rows: How many rows to score with their reference; None for all.

    Returns:
        The names of the checks that passed; none in the process that a check has started.

    Raises:
        CheckFailure: The first check that failed, with what to do about it.
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
            raise CheckFailure(f"{env.metadata['name']} fails the check '{name}': {what}") from error
        finally:
            env.max_turns = turns  # PettingZoo's test changes it
        if unchecked:
            warnings.warn(f"the check '{name}' of {env.metadata['name']} was not run: {unchecked}", stacklevel=2)
        else:
            checked.append(name)
    return checked


def _pettingzoo(env: TextDecPOMDP, rows: int | None) -> None:
    # Here, because it imports pytest where that is installed, which costs 50 ms that only this check needs.
    from pettingzoo.test import parallel_api_test, parallel_seed_test  # pyright: ignore[reportUnknownVariableType]

    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "No agents present but not all possible_agents")  # who never came
        try:
            parallel_api_test(env, num_cycles=10)
            parallel_seed_test(lambda: pickle.loads(pickle.dumps(env)), num_cycles=3)
        except Exception as error:
            raise CheckFailure(f"PettingZoo's own test failed: {raised(error)}") from error


def _rewards(env: TextDecPOMDP, rows: int | None) -> None:
    env.reset(seed=1, options={"index": 0})
    gold, first = _gold(env.task, env.item), env.task.possible_agents[0]
    for right in ({first: gold.get(first, "")}, {}):  # one agent is right, then none
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
                    f"the observation of {agent} shows {secret!r}, which it must not see; change what it is told",
                )
        for secret in secrets:
            require(
                CANARY.format(secret) not in env.state() + repr(result[-1]),
                f"state() or the infos show {secret!r}, which only the reward may read; leave it out there",
            )


def _determinism(env: TextDecPOMDP, rows: int | None) -> None:
    def say(agent: str, turn: int) -> str:
        return f"{agent} says the same few words in turn {turn} of this episode"

    first, second = list(play(env, {}, say)), list(play(env, {}, say))
    require(repr(first) == repr(second), "the same seed and actions gave two episodes; let reset(seed) decide")
    same = [env.reset(seed=seed)[0] for seed in (5, 5)]
    require(same[0] == same[1], "reset(seed=5) gave two different observations; let the seed choose the task")


def _bounds(env: TextDecPOMDP, rows: int | None) -> None:
    low, high = env.facts.reward_range
    for text in adversarial_texts():
        for result in list(play(env, {"index": 0}, lambda agent, turn, text=text: text))[1:]:
            reward = next(iter(result[1].values()))
            require(
                math.isfinite(reward) and low <= reward <= high,
                f"the text {text[:40]!r} earned {reward}, which is not within {env.facts.reward_range}",
            )
    if env.facts.silence_is_lowest:
        list(play(env, {"index": 0}, lambda agent, turn: ""))
        empty, lowest = env.last_score, env.facts.score_range[0]
        require(
            empty is None or empty.total == lowest,
            f"empty texts earned {empty and empty.total}; the documented minimum is {lowest}",
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
                f"turn {task.turn} pays {paid:g} for empty texts{before}; let saying nothing pay nothing",
            )


def _says(script: Script, agent: str, task: TextDecPOMDP) -> str:
    """What a script says; nothing where it does not know the task."""
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
            f"the reference of task {item.id!r} earns {score.total}, not "
            + (f"the maximum {least}" if least == most else f"{least} to {most}")
            + "; correct the row",
        )


def _gold(task: TextDecPOMDP, item: TaskItem) -> dict[str, str]:
    """The joint action of a row's references; {} where it has none."""
    given = len(item.reference) == len(task.possible_agents)
    return dict(zip(task.possible_agents, item.reference, strict=True)) if given else {}


def _score_of(task: TextDecPOMDP, item: TaskItem, actions: Mapping[str, str]) -> Any:
    """The score of a first joint action."""
    task.reset(seed=1, options={"task_id": item.id})
    task.step({agent: actions.get(agent, "") for agent in task.agents})
    return task.latest.transition.score


def _ends(env: TextDecPOMDP, rows: int | None) -> None:
    steps = list(play(env, {"index": 0}, lambda agent, turn: "a few words"))[1:]
    for number, (_, _, _, truncations, _) in enumerate(steps, 1):
        require(
            not any(truncations.values()),
            f"turn {number} truncates ({truncations}); turns are part of the task, so let the last one terminate",
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
        """Every step from here to the end of the episode. Forks are compared by these, not by `state()`."""
        done: list[Any] = []
        while env.agents:
            done.append(env.step({agent: f"{agent} {words}" for agent in env.agents}))
        return done

    env.reset(seed=1, options={"index": 0})
    untouched = pickle.loads(pickle.dumps(env))
    expected = play_on(untouched, "goes on alone")
    play_on(env.fork(), "speaks in the fork only")
    require(bool(env.agents), "stepping a fork ended its parent's episode; keep what changes in the state")
    second, first = env.fork(), play_on(env, "goes on alone")
    advice = "keep all that changes during an episode in the state, and nothing on the object"
    require(repr(first) == repr(expected), f"a fork that was played changes what its parent does; {advice}")
    require(
        repr(play_on(second, "goes on alone")) == repr(expected), f"a parent that was played changes a fork; {advice}"
    )


def _pickling(env: TextDecPOMDP, rows: int | None) -> None:
    twin = pickle.loads(pickle.dumps(env))
    episodes = [list(play(e, {}, lambda agent, turn: "a few words")) for e in (env, twin)]
    require(
        repr(episodes[0]) == repr(episodes[1]), "a pickled copy plays another episode; keep all state in attributes"
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


# A check raises CheckFailure if it fails, and returns the reason if it cannot be run.
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
