"""A textbook Dec-POMDP in words: observations as sentences, actions as words anywhere in a text."""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import resources
from typing import Any, ClassVar, Literal, NamedTuple, Unpack, get_args

from ...registries import nearest
from ...seeding import derive, uniforms
from ...types import Message, Scale, Score, TaskItem
from ..base import Script
from ..facts import Facts
from ..task import Task, TaskOptions, Transition
from ..tasks import Tasks, TaskSource
from .model import Model, embedded

Words = Literal["fixed", "paraphrased"]
PENALTY = 1.0  # for a text without a known action


class State(NamedTuple):
    """The state of a `Classic`."""

    item: TaskItem  # its prompt explains the problem
    hidden: int  # index of the model's state
    observed: tuple[int, ...] = ()  # index of each agent's last observation; () at the beginning
    total: float = 0.0  # return so far
    turn: int = 0  # joint actions played
    wording: int = 0  # seed of the choice of sentences


class Classic(Task[State]):
    """Declare the attributes; the model is `data/classics/<file>.dpomdp`.

    An agent's action is the last action name in its text, as whole words in any case, with spaces, hyphens or
    underscores between them; of names that begin at the same place the longest. A text without one counts as the
    harmless action and costs `PENALTY`, so that it never pays.

    Args:
        tasks: "sample" is the one problem, which is in every split; items of your own explain it in other words.
        words: How observations are said: "fixed", always in one sentence, or "paraphrased", in one of several that
            the seed chooses.
        common: See `Task`; H, the horizon, is 3.

    Attributes:
        file: Name of the model.
        explanation: The problem, as it is told at the first turn.
        harmless: The action of a text without a known action.
        phrases: Sentences for each observation; "fixed" takes the first.
        published: Published optimal values, by horizon.
    """

    file: ClassVar[str]
    explanation: ClassVar[str]
    harmless: ClassVar[str]
    phrases: ClassVar[Mapping[str, Sequence[str]]]
    published: ClassVar[Mapping[int, float]]

    def __init_subclass__(cls) -> None:
        item = TaskItem(cls.file, cls.explanation)
        cls.source = TaskSource(cls.file, sample=lambda: [item], every_split=True)
        cls.declared = Facts(
            name=f"{cls.file}-v0",
            components=("payoff",),
            diagnostics=("unknown_actions",),
            score_range=(-math.inf, math.inf),  # follows max_turns, as the optimum does
            silence_is_lowest=False,
            scripts=("optimal",),
        )

    def __init__(
        self,
        tasks: Tasks = "sample",
        *,
        words: Words = "fixed",
        **common: Unpack[TaskOptions],
    ) -> None:
        if words not in get_args(Words):
            raise ValueError(f"words is {words!r}; {nearest(words, get_args(Words))}")
        self.words: Words = words
        self.declared = replace(self.declared, roles=tuple(map(_spoken, self.model.agents)))
        common.setdefault("max_turns", 3)
        super().__init__(tasks, **common)

    @property
    def model(self) -> Model:
        """The tables."""
        return embedded(self.file)

    @property
    def facts(self) -> Facts:
        """With the bounds of the tables: their lowest reward less the penalty of every agent, and their highest.

        The optimum is the published one. A random team is 0 %, an optimal one 100 %; the bounds of the return where the
        optimum is not known.
        """
        turns, (low, high) = self.max_turns, _range(self.file)
        bounds, optimum = (min(low * turns, 0.0), max(high * turns, 0.0)), self.published.get(turns)
        scale = Scale(*bounds) if optimum is None else Scale(_value_at_random(self.file, turns), optimum)
        return replace(self.declared, score_range=bounds, turn_range=(low, high), optimum=optimum, scale=scale)

    def choices(self, agent: str, history: Sequence[Message] = ()) -> Sequence[str]:
        """The actions by name."""
        return [_spoken(name) for name in self.model.actions[self.possible_agents.index(agent)]]

    # --- the task ------------------------------------------------------------------------------------------------

    def initial_state(self, item: TaskItem, seed: int) -> State:
        """A state that the model begins in."""
        return State(item, self.model.first(uniforms(seed, 1)[0]))

    def observations(self, state: State) -> Mapping[str, str]:
        """At first the problem, then to each agent its own observation; nothing after the last turn."""
        left = self.max_turns - state.turn
        say = self._sentence if state.observed else self._introduction
        observations = {
            agent: f"{say(place, state)} Turns left: {left}." for place, agent in enumerate(self.possible_agents)
        }
        return observations if left > 0 else {}

    def transition(self, state: State, actions: Mapping[str, str], seed: int) -> Transition[State]:
        """Read the actions, draw the next state and what is observed, and pay R(s, a, s')."""
        model = self.model
        named = [_named(model.actions[place], actions[agent]) for place, agent in enumerate(self.possible_agents)]
        unknown = named.count(None)
        played = tuple(
            names.index(self.harmless) if action is None else action
            for names, action in zip(model.actions, named, strict=True)
        )
        following, observed = model.follow(state.hidden, played, uniforms(seed, 2).tolist())
        reward = float(model.rewards[played][state.hidden, following]) - PENALTY * unknown
        total = state.total + reward
        wording = derive(seed, "words") if self.words == "paraphrased" else 0
        score = Score(total, {"payoff": total}, {"unknown_actions": float(unknown)})
        return Transition(State(state.item, following, observed, total, state.turn + 1, wording), reward, score)

    def describe(self, state: State) -> Mapping[str, Any]:
        """The model's state, by name."""
        return {"state": self.model.states[state.hidden], "return": state.total}

    # --- words ---------------------------------------------------------------------------------------------------

    def _introduction(self, place: int, state: State) -> str:
        role, actions = self.declared.roles[place], ", ".join(map(_spoken, self.model.actions[place]))
        return (
            f"{state.item.prompt}\n\nYou are {role}. At every turn choose one action by its name: "
            f"{actions}. The last action that you name counts."
        )

    def _sentence(self, place: int, state: State) -> str:
        sentences = self.phrases[self.model.observations[place][state.observed[place]]]
        chosen = derive(state.wording, place) % len(sentences) if self.words == "paraphrased" else 0
        return sentences[chosen]

    def _heard(self, place: int, text: str) -> int:
        """Index of the observation that a message begins with."""
        for number, name in enumerate(self.model.observations[place]):
            if text.startswith(tuple(self.phrases[name])):
                return number
        raise ValueError(
            f"the optimal team does not know the observation {text[:60]!r}; it plays {self.metadata['name']} without "
            "drafts and with one text per agent"
        )

    # --- the optimal team ----------------------------------------------------------------------------------------

    def script(self, name: str) -> Script:
        """ "optimal" is an optimal team, from `data/classics/optimal.json`."""
        return self._optimal if name == "optimal" else super().script(name)

    def _optimal(self, agent: str, history: Sequence[Message]) -> str:
        place = self.possible_agents.index(agent)
        team = _optimal_teams()[self.file].get(str(self.max_turns))
        if team is None:
            raise ValueError(
                f"no optimal team of {self.metadata['name']} is known at max_turns = {self.max_turns}; take one of "
                + ", ".join(_optimal_teams()[self.file])
            )
        heard = [self._heard(place, message.text) for message in history[1:] if message.role == "observation"]
        seen = functools.reduce(lambda code, number: code * len(self.model.observations[place]) + number, heard, 0)
        if len(heard) >= self.max_turns:
            raise ValueError(
                f"{agent} was told {len(heard)} observations in {self.max_turns} turns; start a new episode"
            )
        return _spoken(self.model.actions[place][int(team[place][len(heard)][seen])])


def _spoken(name: str) -> str:
    """The name of a model's action as agents say it."""
    return name.replace("-", " ")


@functools.cache
def _pattern(names: tuple[str, ...]) -> re.Pattern[str]:
    """Matches any of the names as whole words, the longest first."""
    ordered = sorted(names, key=len, reverse=True)
    alternatives = "|".join(r"[\s_-]{1,3}".join(map(re.escape, name.split("-"))) for name in ordered)
    return re.compile(rf"(?<!\w)(?:{alternatives})(?!\w)", re.IGNORECASE | re.ASCII)


def _named(names: tuple[str, ...], text: str) -> int | None:
    """Index of the last action that a text names; None where it names none."""
    found = _pattern(names).findall(text)
    return names.index("-".join(re.split(r"[\s_-]+", found[-1].lower()))) if found else None


@functools.cache
def _range(file: str) -> tuple[float, float]:
    model = embedded(file)
    possible = model.rewards[model.transitions > 0]
    return float(possible.min()) - PENALTY * len(model.agents), float(possible.max())


@functools.cache
def _value_at_random(file: str, turns: int) -> float:
    return embedded(file).value_at_random(turns)


@functools.cache
def _optimal_teams() -> Mapping[str, Mapping[str, Sequence[Sequence[str]]]]:
    """By problem and horizon, for each agent and each length of its history a text with a digit (action) per history.

    Histories of one length are in lexicographic order of the indices of their observations, the earliest first.
    """
    file = resources.files("llm_dec_pomdp.data") / "classics" / "optimal.json"
    return json.loads(file.read_text(encoding="utf-8"))
