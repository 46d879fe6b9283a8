"""`check_env`: the laws of a text Dec-POMDP, for our environments and for yours.

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
    processes           another process with another PYTHONHASHSEED plays the same episode, within a time limit

Each violation is a sentence that names the law and says what to do. What a script or a notebook defines cannot be found
by another process, so that "processes" is left out there, with a warning.

A module may call `check_env` when it is imported. The process of the last law imports it too, and must not check again:
there `check_env` returns at once.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import math
import os
import pickle
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..types import Message, Score, TaskItem
from .adversarial import adversarial_texts
from .base import NotAskedToStepError, TextDecPOMDP
from .task import Task, mutable_part

CANARY = "canary_{}_9c1f"
SCRIPTED_TURNS = 2  # before everybody falls silent
GOLD_ROWS = 8  # how many rows the quick check scores; `check_env(env, rows=None)` scores all
LEAST_SECONDS = 60.0  # for another process: imports, and this many times as long as the episodes take here
MOST_TIMES = 10.0
CHILD = "LLM_DEC_POMDP_CHECKED_BY"  # environment variable of that process


class CheckFailure(AssertionError):  # noqa: N818  # a failed check is an assertion
    """An environment breaks a law."""


def check_env(env: TextDecPOMDP, *, rows: int | None = GOLD_ROWS) -> list[str]:
    """Check an environment against every law.

    Args:
        env: Any environment or protocol wrapper. It is reset and stepped; what it held is gone.
        rows: How many rows to score with their reference; None for all.

    Returns:
        The names of the laws that were checked; none in the process that a check has started.

    Raises:
        CheckFailure: The first violation, with what to do about it.
    """
    if not isinstance(env, TextDecPOMDP):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"env is a {type(env).__name__} ({env!r:.60}); give an environment, e.g. make('tldr-v0')")
    if CHILD in os.environ:
        return []
    turns = env.max_turns
    checked: list[str] = []
    for name, law in LAWS.items():
        try:
            unchecked = law(env, rows)
        except Exception as error:
            what = str(error) if isinstance(error, CheckFailure) else f"it raised {type(error).__name__}: {error}"
            raise CheckFailure(f"{env.metadata['name']} breaks the law '{name}': {what}") from error
        finally:
            env.max_turns = turns  # PettingZoo's test changes it
        if unchecked:
            warnings.warn(f"the law '{name}' of {env.metadata['name']} was not checked: {unchecked}", stacklevel=2)
        else:
            checked.append(name)
    return checked


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise CheckFailure(message)


def _play(env: TextDecPOMDP, options: Mapping[str, Any], say: Callable[[str, int], str]) -> Iterator[Any]:
    """Reset and step to the end; yields the reset result and every step result."""
    yield env.reset(seed=1, options=dict(options))
    turn = 0
    while env.agents:
        yield env.step({agent: say(agent, turn) for agent in env.agents})
        turn += 1


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
            raise CheckFailure(f"PettingZoo's own test failed: {type(error).__name__}: {error}") from error


def _rewards(env: TextDecPOMDP, rows: int | None) -> None:
    env.reset(seed=1, options={"index": 0})
    gold = env.gold(env.item) if env.item.reference else {}
    first = env.task.possible_agents[0]
    for right in ({first: gold.get(first, "")}, {}):  # one agent is right, then none
        for _, rewards, *_ in list(_play(env, {"index": 0}, lambda a, _, right=right: right.get(a, f"{a} speaks")))[1:]:
            _require(
                all(type(r) is float for r in rewards.values()),
                f"rewards are {rewards}; give every agent a Python float",
            )
            _require(
                not env.joint_reward or len(set(map(repr, rewards.values()))) == 1,
                f"rewards are {rewards}, but the reward is declared joint; give every agent the identical float, or "
                "set joint_reward = False",
            )


def _no_leaks(env: TextDecPOMDP, rows: int | None) -> None:
    item = env.items[0]
    hidden = replace(
        item,
        reference=tuple(CANARY.format("reference") + text for text in item.reference),
        fields={
            name: f"{text}\n# {CANARY.format(name)}" if name in env.hidden_fields else text
            for name, text in item.fields.items()
        },
    )
    secrets = ("reference", *env.hidden_fields)
    env = env.with_items((hidden,))
    env.max_turns = max(env.max_turns, 3 * phases(env))  # feedback may leak too
    for result in _play(env, {"index": 0}, lambda agent, turn: CANARY.format(agent)):
        for agent, text in result[0].items():
            for secret in (*secrets, *(() if env.hears_others else set(env.possible_agents) - {agent})):
                _require(
                    CANARY.format(secret) not in text,
                    f"the observation of {agent} shows {secret!r}, which it must not see; change what it is told",
                )
        for secret in secrets:
            _require(
                CANARY.format(secret) not in env.state() + repr(result[-1]),
                f"state() or the infos show {secret!r}, which only the reward may read; leave it out there",
            )


def _determinism(env: TextDecPOMDP, rows: int | None) -> None:
    def say(agent: str, turn: int) -> str:
        return f"{agent} says the same few words in turn {turn} of this episode"

    first, second = list(_play(env, {}, say)), list(_play(env, {}, say))
    _require(repr(first) == repr(second), "the same seed and actions gave two episodes; let reset(seed) decide")
    same = [env.reset(seed=seed)[0] for seed in (5, 5)]
    _require(same[0] == same[1], "reset(seed=5) gave two different observations; let the seed choose the task")


def _bounds(env: TextDecPOMDP, rows: int | None) -> None:
    low, high = env.reward_range
    for text in adversarial_texts():
        for result in list(_play(env, {"index": 0}, lambda agent, turn, text=text: text))[1:]:
            reward = next(iter(result[1].values()))
            _require(
                math.isfinite(reward) and low <= reward <= high,
                f"the text {text[:40]!r} earned {reward}, which is not within {env.reward_range}",
            )
    if env.silence_is_lowest:
        list(_play(env, {"index": 0}, lambda agent, turn: ""))
        empty, lowest = env.last_score, env.score_range[0]
        _require(
            empty is None or empty.total == lowest,
            f"empty texts earned {empty and empty.total}; the documented minimum is {lowest}",
        )


def _silence(env: TextDecPOMDP, rows: int | None) -> None:
    task = env.task
    if not task.silence_is_lowest:
        return
    scripts: Mapping[str, Any] = task.scripts if isinstance(task, Task) else {}
    known = {name: say for name, say in scripts.items() if name != "optimal"}
    played = [("", 0), *((name, turns) for name in known for turns in range(1, SCRIPTED_TURNS + 1))]
    for name, turns in played:
        before = f", after {turns} turns of script:{name}" if turns else ""
        task.reset(seed=1, options={"index": 0})
        while task.agents:
            silent = task.turn >= turns
            asked = [agent for agent in task.agents if task.asked(agent) and not silent]
            task.step(dict.fromkeys(task.agents, "") | {agent: _says(known[name], agent, env.task) for agent in asked})
            paid = task.latest.transition.reward
            _require(
                not (silent and paid > 0),
                f"turn {task.turn} pays {paid:g} for empty texts{before}; let saying nothing pay nothing",
            )


def _says(script: Callable[[str, Sequence[Message]], str], agent: str, task: TextDecPOMDP) -> str:
    """What a script says; nothing where it does not know the task."""
    try:
        return script(agent, task.history(agent))
    except ValueError:
        return ""


def _references(env: TextDecPOMDP, rows: int | None) -> None:
    task = env.task
    for item in task.items[:rows]:
        gold = task.gold(item) if item.reference else {}
        if not gold:
            continue
        total = _score_of(task, item, gold).total
        least = task.reference_share * task.max_return
        _require(
            least - 1e-6 <= total <= task.max_return + 1e-6,
            f"the reference of task {item.id!r} earns {total}, not "
            + (f"the maximum {least}" if task.reference_share == 1 else f"{least} to {task.max_return}")
            + "; correct the row",
        )


def _score_of(task: TextDecPOMDP, item: TaskItem, actions: Mapping[str, str]) -> Any:
    """The score of a first joint action."""
    task.reset(seed=1, options={"task_id": item.id})
    task.step({agent: actions.get(agent, "") for agent in task.agents})
    return task.latest.transition.score


def _ends(env: TextDecPOMDP, rows: int | None) -> None:
    steps = list(_play(env, {"index": 0}, lambda agent, turn: "a few words"))[1:]
    for number, (_, _, _, truncations, _) in enumerate(steps, 1):
        _require(
            not any(truncations.values()),
            f"turn {number} truncates ({truncations}); turns are part of the task, so let the last one terminate",
        )


def _finished(env: TextDecPOMDP, rows: int | None) -> None:
    list(_play(env, {"index": 0}, lambda agent, turn: "done"))
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
    def play_on(own: TextDecPOMDP, words: str) -> list[Any]:
        """Every step from here to the end of the episode. Forks are compared by these, not by `state()`."""
        done: list[Any] = []
        while own.agents:
            done.append(own.step({agent: f"{agent} {words}" for agent in own.agents}))
        return done

    env.reset(seed=1, options={"index": 0})
    untouched = pickle.loads(pickle.dumps(env))
    expected = play_on(untouched, "goes on alone")
    play_on(env.fork(), "speaks in the fork only")
    _require(bool(env.agents), "stepping a fork ended its parent's episode; keep what changes in the state")
    second, first = env.fork(), play_on(env, "goes on alone")
    advice = "keep all that changes during an episode in the state, and nothing on the object"
    _require(repr(first) == repr(expected), f"a fork that was played changes what its parent does; {advice}")
    _require(
        repr(play_on(second, "goes on alone")) == repr(expected), f"a parent that was played changes a fork; {advice}"
    )


def _pickling(env: TextDecPOMDP, rows: int | None) -> None:
    twin = pickle.loads(pickle.dumps(env))
    episodes = [list(_play(e, {}, lambda agent, turn: "a few words")) for e in (env, twin)]
    _require(
        repr(episodes[0]) == repr(episodes[1]), "a pickled copy plays another episode; keep all state in attributes"
    )
    try:
        json.loads(env.state())
    except (TypeError, ValueError) as error:
        raise CheckFailure("state() is not JSON text; return json.dumps(...) of plain data") from error


def _infos(env: TextDecPOMDP, rows: int | None) -> None:
    wanted = {f"reward/{name}" for name in env.components}
    for result in _play(env, {"index": 0}, lambda agent, turn: "a few words"):
        for agent, info in result[-1].items():
            numbers = {key for key, value in info.items() if isinstance(value, (int, float))}
            _require(
                numbers >= wanted,
                f"the info of {agent} lacks {sorted(wanted - numbers)}; give the same numeric keys at reset and step",
            )


def _reward_parts(env: TextDecPOMDP, rows: int | None) -> None:
    task = env.task
    item = task.items[0]
    tried = [dict.fromkeys(task.possible_agents, text) for text in ("", "a few words")]
    for actions in [*tried, task.gold(item)] if item.reference else tried:
        score = _score_of(task, item, actions)
        if score is None:
            continue
        _require(isinstance(score, Score), f"a score is a {type(score).__name__} ({score!r:.60}); give a Score")
        _require(
            set(score.components) == set(task.components),
            f"a score has the components {sorted(score.components)}, but {sorted(task.components)} are declared",
        )
        total = sum(score.components.values())
        _require(
            not score.scorable or math.isclose(score.total, total, abs_tol=1e-6),
            f"the components sum to {total}, but the total is {score.total}; make the total their sum",
        )


def _states(env: TextDecPOMDP, rows: int | None) -> None:
    for _ in _play(env, {"index": 0}, lambda agent, turn: "a few words"):
        state = env.task.latest.transition.state
        problem = mutable_part(state)
        _require(not problem, f"the state of turn {env.turn} is {state!r:.60}: {problem}")


def _processes(env: TextDecPOMDP, rows: int | None) -> str | None:
    """Why it cannot be checked; None where it holds."""
    copied = pickle.dumps(env)
    if here := _defined_in_main(copied):
        return (
            f"{' and '.join(here)} of this script or notebook cannot be found by another process; for this law define "
            "the environment in a module of its own"
        )
    started = time.perf_counter()
    expected = fingerprint(env)
    limit = LEAST_SECONDS + MOST_TIMES * (time.perf_counter() - started)
    code, said, error = _in_a_child(pickle.dumps(sys.path) + copied, limit)
    if code:
        last = error.strip().rpartition("\n")[2]
        raise CheckFailure(
            f"a pickled copy cannot be played in another process ({last}); define it in a module of its own"
        )
    _require(
        said == expected,
        "with another PYTHONHASHSEED another process plays another episode; let no hash() and no order of a set decide",
    )
    return None


def _defined_in_main(copied: bytes) -> list[str]:
    """The classes and functions of `__main__` that a pickled value needs."""
    names: list[str] = []

    class Finder(pickle.Unpickler):
        def find_class(self, module: str, name: str) -> Any:
            if module == "__main__":
                names.append(name)
            return super().find_class(module, name)

    Finder(io.BytesIO(copied)).load()
    return list(dict.fromkeys(names))


def _in_a_child(told: bytes, limit: float) -> tuple[int, str, str]:
    """Exit code, fingerprint and messages of a process that plays a pickled copy.

    Raises:
        CheckFailure: It has not ended within `limit` seconds. It is killed, with all that it has started.
    """
    seed = "4711" if os.environ.get("PYTHONHASHSEED") != "4711" else "1"
    with subprocess.Popen(
        [sys.executable, "-c", _CHILD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONHASHSEED": seed, CHILD: str(os.getpid())},
        start_new_session=True,
    ) as child:
        try:
            said, error = child.communicate(told, timeout=limit)
        except BaseException as stopped:
            os.killpg(child.pid, signal.SIGKILL)
            if not isinstance(stopped, subprocess.TimeoutExpired):
                raise
            raise CheckFailure(
                f"another process has not imported and played a pickled copy within {limit:.0f} seconds; let its "
                "module do nothing but define it, with all else below `if __name__ == '__main__':`"
            ) from None
    return child.returncode, said.decode(), error.decode(errors="replace")


# What modules print when they are imported is kept apart from the answer.
_CHILD = """
import os, pickle, sys
answer = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
sys.path[:] = pickle.load(sys.stdin.buffer)
env = pickle.load(sys.stdin.buffer)
from llm_dec_pomdp.envs.check import fingerprint
print(fingerprint(env), end="", file=answer, flush=True)
"""


def fingerprint(env: TextDecPOMDP) -> str:
    """A hash of whole episodes in which agents first say poor texts and then the references."""
    env.max_turns = max(env.max_turns, 2 * phases(env))

    def say(agent: str, turn: int) -> str:
        known = dict(zip(env.task.possible_agents, env.items[0].reference, strict=False))
        return known.get(agent, "") if turn >= phases(env) else f"{agent} says the same few words in turn {turn}"

    played = [list(_play(env, options, say)) for options in ({"index": 0}, {}, {})]
    return hashlib.sha256(repr((played, env.state())).encode("utf-8", "backslashreplace")).hexdigest()


def phases(env: TextDecPOMDP) -> int:
    """Turns of an environment per turn of the task inside it."""
    return env.max_turns // env.task.max_turns


# A law raises CheckFailure where it is broken, and returns why it cannot be checked where it cannot.
LAWS: Mapping[str, Callable[[TextDecPOMDP, int | None], str | None]] = {
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
    "processes": _processes,
}
