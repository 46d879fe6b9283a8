"""A finite Dec-POMDP as tables, and a reader for a part of the `.dpomdp` text format.

The reader accepts these entries, one per keyword. `#` begins a comment, and later lines of T, O and R overwrite earlier
ones:

    agents: names, or a number     discount: 1     values: reward
    states: names, or a number     start: a state, `uniform`, or one probability per state
    actions: / observations:       (below: a line per agent with names, or a number)
    T: a1 a2 : s : s2 : p          T: a1 a2 : s : row, or `uniform`     T: a1 a2 : matrix, `uniform`, `identity`
    O: a1 a2 : s2 : o1 o2 : p      O: a1 a2 : s2 : row, or `uniform`    O: a1 a2 : matrix, or `uniform`
    R: a1 a2 : s : s2 : * : reward

`*` stands for all states, or for all actions or observations of one agent. A single `*` stands for those of all agents.
A number stands for the name with that index, from 0.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np
import numpy.typing as npt

from ...registries import nearest

Array = npt.NDArray[np.float64]
Index = tuple[int | slice, ...]
_KEY = re.compile(r"(agents|discount|values|states|start|actions|observations|T|O|R)\s*:(.*)")
_EVERY = slice(None)


class ModelError(ValueError):
    """A model that cannot be used; the message names the part, its value and the remedy."""


@dataclass(frozen=True, eq=False)
class Model:
    """A finite Dec-POMDP; immutable.

    Attributes:
        name: Name for error messages.
        agents: Names of agents.
        states: Names of states.
        actions: Names of actions, by agent.
        observations: Names of observations, by agent.
        start: P(s), shape (S,).
        transitions: P(s' | a, s), shape (A_1, ..., A_n, S, S).
        watching: P(o | a, s'), shape (A_1, ..., A_n, S, O_1, ..., O_n).
        rewards: R(a, s, s'), shape (A_1, ..., A_n, S, S).

    Raises:
        ModelError: Probabilities do not sum to one, or a reward is not finite; the message names the row.
    """

    name: str
    agents: tuple[str, ...]
    states: tuple[str, ...]
    actions: tuple[tuple[str, ...], ...]
    observations: tuple[tuple[str, ...], ...]
    start: Array
    transitions: Array
    watching: Array
    rewards: Array

    def __post_init__(self) -> None:
        every_state, joint = (self.states,), self.actions
        self._check_rows("start", self.start, ())
        self._check_rows("T", self.transitions, (*joint, *every_state))
        self._check_rows("O", self.joint_watching, (*joint, *every_state))
        if not np.isfinite(self.rewards).all():
            raise ModelError(f"{self.name}: a reward is not finite; give every R a number")
        for table in (self.start, self.transitions, self.watching, self.rewards):
            table.flags.writeable = False

    def _check_rows(self, what: str, table: Array, names: Sequence[Sequence[str]]) -> None:
        sums = table.sum(axis=-1)
        wrong = np.argwhere((np.abs(sums - 1) > 1e-6) | (table < 0).any(axis=-1) | ~np.isfinite(sums))
        if len(wrong):
            place = tuple(int(position) for position in wrong[0])
            row = [name[position] for name, position in zip(names, place, strict=True)]
            where = f" of {' '.join(row[:-1])!r} and state {row[-1]!r}" if row else ""
            raise ModelError(
                f"{self.name}: {what}{where} has probabilities {_shown(table[place])} that sum to {sums[place]:g}; "
                "give probabilities from 0 to 1 that sum to 1"
            )

    @functools.cached_property
    def joint_observations(self) -> tuple[tuple[int, ...], ...]:
        """Return every joint observation, in the order of `joint_watching`."""
        return tuple(itertools.product(*(range(len(names)) for names in self.observations)))

    @property
    def joint_watching(self) -> Array:
        """Return `watching` with one axis for joint observations, shape (A_1, ..., A_n, S, O)."""
        return self.watching.reshape(*self.watching.shape[: len(self.agents) + 1], -1)

    @functools.cached_property
    def _sums(self) -> tuple[Array, Array, Array]:
        """Return cumulative probabilities of start, transitions and observations; each row ends with exactly 1."""
        tables = (np.cumsum(table, axis=-1) for table in (self.start, self.transitions, self.joint_watching))
        start, transitions, watching = (table / table[..., -1:] for table in tables)
        return start, transitions, watching

    def first(self, draw: float) -> int:
        """Return the initial state for a random number from [0, 1)."""
        return int(self._sums[0].searchsorted(draw, "right"))

    def follow(self, state: int, actions: tuple[int, ...], draws: Sequence[float]) -> tuple[int, tuple[int, ...]]:
        """Return the next state and the joint observation for two random numbers from [0, 1)."""
        _, transitions, watching = self._sums
        following = int(transitions[actions][state].searchsorted(draws[0], "right"))
        observed = int(watching[actions][following].searchsorted(draws[1], "right"))
        return following, self.joint_observations[observed]

    def value_at_random(self, horizon: int) -> float:
        """Return the expected return of agents that select every action uniformly at random."""
        joint = tuple(range(len(self.agents)))
        transitions = self.transitions.mean(axis=joint)
        rewards = (self.transitions * self.rewards).mean(axis=joint).sum(axis=-1)
        reached, total = self.start, 0.0
        for _ in range(horizon):
            total += float(reached @ rewards)
            reached = reached @ transitions
        return total


@functools.cache
def embedded(name: str) -> Model:
    """Return the model in `data/classics/<name>.dpomdp`, which is read once per process."""
    file = resources.files("llm_dec_pomdp.data") / "classics" / f"{name}.dpomdp"
    return read_model(file.read_text(encoding="utf-8"), name)


def read_model(text: str, name: str) -> Model:
    """Read a model from the text of a `.dpomdp` file; see the module for the format.

    Raises:
        ModelError: A part is missing, unknown or malformed, or probabilities do not sum to one.
    """
    parts: dict[str, list[list[str]]] = {}
    for key, lines in _entries(text, name):
        parts.setdefault(key, []).append(lines)
    for key in ("agents", "states", "start", "actions", "observations", "T", "O", "R"):
        if key not in parts:
            raise ModelError(f"{name}: the part '{key}:' is missing; add it (found: {', '.join(parts) or 'nothing'})")
    for key, wanted in (("discount", 1.0), ("values", "reward")):
        given = " ".join(parts.get(key, [[str(wanted)]])[0])
        if given != wanted and (key == "values" or _number(given, f"{name}: discount") != wanted):
            raise ModelError(
                f"{name}: {key} is {given!r}; set it to {wanted}, as returns are undiscounted sums of rewards"
            )
    return _Reader(name, parts).model()


def _entries(text: str, name: str) -> Iterator[tuple[str, list[str]]]:
    """Yield keyword and lines of every entry, without comments and empty lines."""
    key, lines = "", list[str]()
    for number, line in enumerate(text.split("\n"), 1):
        line = line.partition("#")[0].strip()
        if begun := _KEY.fullmatch(line):
            if key:
                yield key, lines
            key, lines = begun[1], [begun[2].strip()] if begun[2].strip() else []
        elif line and not key:
            raise ModelError(f"{name}, line {number}: {line[:60]!r} belongs to no part; begin the file with 'agents:'")
        elif line:
            lines.append(line)
    if key:
        yield key, lines


class _Reader:
    """A reader that fills the tables of a model, part by part."""

    def __init__(self, name: str, parts: dict[str, list[list[str]]]) -> None:
        self.name, self.parts = name, parts
        self.agents = self._names("agents", parts["agents"][0], "agent")
        self.states = self._names("states", parts["states"][0], "s")
        self.actions = self._by_agent("actions", "a")
        self.observations = self._by_agent("observations", "o")

    def model(self) -> Model:
        acting, watching = tuple(map(len, self.actions)), tuple(map(len, self.observations))
        states = len(self.states)
        transitions, rewards = np.zeros((*acting, states, states)), np.zeros((*acting, states, states))
        observing = np.zeros((*acting, states, *watching))
        self._fill("T", transitions, lambda text: (self._state(text),))
        self._fill("O", observing, lambda text: self._joint(text, self.observations, "observation"))
        for lines in self.parts["R"]:
            fields = [field.strip() for field in " ".join(lines).split(":")]
            if len(fields) != 5 or fields[3] != "*":
                raise ModelError(
                    f"{self.name}: 'R: {' '.join(lines)}' cannot be read; write 'R: actions : state : next state : * : "
                    "reward', without a dependence on observations"
                )
            place = (*self._actions(fields[0]), self._state(fields[1]), self._state(fields[2]))
            rewards[place] = _number(fields[4], f"{self.name}: R of {fields[0]!r}")
        start = self._start(self.parts["start"][0])
        return Model(
            self.name,
            self.agents,
            self.states,
            self.actions,
            self.observations,
            start,
            transitions,
            observing,
            rewards,
        )

    def _names(self, what: str, lines: Sequence[str], letter: str) -> tuple[str, ...]:
        names = " ".join(lines).split()
        if len(names) == 1 and names[0].isdigit():
            names = [f"{letter}{number}" for number in range(int(names[0]))]
        if not names or len(set(names)) < len(names):
            raise ModelError(f"{self.name}: {what} are {' '.join(names)!r}; give different names, or their number")
        return tuple(names)

    def _by_agent(self, what: str, letter: str) -> tuple[tuple[str, ...], ...]:
        lines = self.parts[what][0]
        if len(lines) != len(self.agents):
            raise ModelError(
                f"{self.name}: {what} have {len(lines)} lines for {len(self.agents)} agents; give one line per agent"
            )
        return tuple(self._names(what, [line], letter) for line in lines)

    def _start(self, lines: Sequence[str]) -> Array:
        words, count = " ".join(lines).split(), len(self.states)
        if words == ["uniform"]:
            return np.full(count, 1 / count)
        if len(words) == 1:
            start = np.zeros(count)
            start[self._state(words[0])] = 1.0
            return start
        if len(words) != count:
            raise ModelError(
                f"{self.name}: start has {len(words)} numbers for {count} states; give one number per state"
            )
        return np.array([_number(word, f"{self.name}: start") for word in words])

    def _fill(self, key: str, table: Array, last: Callable[[str], Index]) -> None:
        """Enter every line of T or O; `last` reads the third field of a line."""
        for lines in self.parts[key]:
            *fields, values = [field.strip() for field in " ".join(lines).split(":")]
            where = f"{self.name}: '{key}: {' '.join(lines)[:60]}'"
            if not 1 <= len(fields) <= 3:
                raise ModelError(f"{where} has {len(fields) + 1} parts; write 'actions : state : result : probability'")
            place: Index = self._actions(fields[0])
            if len(fields) > 1:
                place += (self._state(fields[1]),)
            if len(fields) > 2:
                place += last(fields[2])
            shape = table.shape[len(self.agents) + len(fields) - 1 :] if len(fields) < 3 else ()
            table[place] = self._values(values.split(), shape, where, square=key == "T" and len(fields) == 1)

    def _values(self, words: Sequence[str], shape: tuple[int, ...], where: str, *, square: bool) -> Any:
        """Return the numbers of a part of a table with this shape."""
        row = math.prod(shape[1:] if len(shape) > 1 and shape[0] == len(self.states) else shape)
        if words == ["uniform"] and shape:
            return 1 / row
        if words == ["identity"] and square:
            return np.eye(len(self.states))
        if len(words) != math.prod(shape):
            raise ModelError(f"{where} has {len(words)} numbers instead of {math.prod(shape)}; give all of them")
        return np.array([_number(word, where) for word in words]).reshape(shape)

    def _actions(self, text: str) -> Index:
        return self._joint(text, self.actions, "action")

    def _joint(self, text: str, names: Sequence[tuple[str, ...]], what: str) -> Index:
        words = text.split()
        if words == ["*"]:
            return (_EVERY,) * len(names)
        if len(words) != len(names):
            raise ModelError(
                f"{self.name}: {text!r} names {len(words)} {what}s for {len(names)} agents; name one per agent"
            )
        return tuple(self._place(word, known, what) for word, known in zip(words, names, strict=True))

    def _state(self, text: str) -> int | slice:
        return self._place(text, self.states, "state")

    def _place(self, word: str, known: tuple[str, ...], what: str) -> int | slice:
        if word == "*":
            return _EVERY
        if word in known:
            return known.index(word)
        if word.isdigit() and int(word) < len(known):
            return int(word)
        raise ModelError(f"{self.name}: no {what} {word!r}; {nearest(word, known)}")


def _number(text: str, where: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ModelError(f"{where} has {text!r} instead of a number; write a number such as 0.85 or -2") from None


def _shown(row: Any) -> str:
    numbers = " ".join(f"{value:g}" for value in row[:8])
    return f"[{numbers}{' ...' if len(row) > 8 else ''}]"
