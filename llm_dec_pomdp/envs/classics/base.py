"""Base of the textbook Dec-POMDPs: observations are sentences, actions are words anywhere in a text."""

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
PENALTY = 1.0  # cost of a text without a known action


class State(NamedTuple):
    """The state of a `Classic`."""

    item: TaskItem  # its prompt explains the problem
    hidden: int  # index of the model's state
    observed: tuple[int, ...] = ()  # index of each agent's last observation; () at the first turn
    total: float = 0.0  # return so far
    turn: int = 0  # joint actions played
    wording: int = 0  # seed of the choice of sentences


class Classic(Task[State]):
    """A textbook Dec-POMDP, whose tables are `data/classics/<file>.dpomdp`; a subclass sets the attributes.

    An agent's action is the last action name in its text. Names are matched as whole words in any case, with spaces,
    hyphens or underscores between them; the longest of several names at one place counts. A text without an action name
    counts as the harmless action and costs `PENALTY`, so that it is never better than that action.

    Args:
        tasks: "sample" is the one problem, which is in every split; your own items explain it in other words.
        words: Wording of observations: "fixed" for one sentence each, "paraphrased" for one of several sentences,
            which the seed selects.
        common: See `Task`; `max_turns`, the horizon, is 3 by default.

    Attributes:
        file: Name of the model.
        explanation: The problem, as agents observe it at the first turn.
        harmless: The action that a text without a known action counts as.
        phrases: Sentences for each observation; "fixed" uses the first.
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
        """Return the tables of the problem."""
        return embedded(self.file)

    @property
    def facts(self) -> Facts:
        """Return the facts, with bounds of the reward from the tables and the published optimum.

        The lower bound is the lowest reward minus the penalty of every agent. On the scale of reports 0 % is a random
        team and 100 % an optimal one. At horizons without a known optimum they are the bounds of the return.
        """
        turns, (low, high) = self.max_turns, _range(self.file)
        bounds, optimum = (min(low * turns, 0.0), max(high * turns, 0.0)), self.published.get(turns)
        scale = Scale(*bounds) if optimum is None else Scale(_value_at_random(self.file, turns), optimum)
        return replace(self.declared, score_range=bounds, turn_range=(low, high), optimum=optimum, scale=scale)

    def choices(self, agent: str, history: Sequence[Message] = ()) -> Sequence[str]:
        """Return the names of the agent's actions."""
        return [_spoken(name) for name in self.model.actions[self.possible_agents.index(agent)]]

    # --- the task ------------------------------------------------------------------------------------------------

    def initial_state(self, item: TaskItem, seed: int) -> State:
        """Return an initial state, sampled from the start distribution of the model."""
        return State(item, self.model.first(uniforms(seed, 1)[0]))

    def observations(self, state: State) -> Mapping[str, str]:
        """Return the problem at the first turn, each agent's own observation later, and {} after the last turn."""
        left = self.max_turns - state.turn
        say = self._sentence if state.observed else self._introduction
        observations = {
            agent: f"{say(place, state)} Turns left: {left}." for place, agent in enumerate(self.possible_agents)
        }
        return observations if left > 0 else {}

    def transition(self, state: State, actions: Mapping[str, str], seed: int) -> Transition[State]:
        """Read the actions, sample the next state and the observations, and return them with the reward R(s, a, s')."""
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
        """Return the name of the hidden state, and the return so far."""
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
        """Return the index of the observation that a message begins with."""
        for number, name in enumerate(self.model.observations[place]):
            if text.startswith(tuple(self.phrases[name])):
                return number
        raise ValueError(
            f"script:optimal of {self.metadata['name']} does not know the observation {text[:60]!r}; use it without a "
            "protocol"
        )

    # --- the optimal team ----------------------------------------------------------------------------------------

    def script(self, name: str) -> Script:
        """Return the scripted team "optimal", which is stored in `data/classics/optimal.json`."""
        return self._optimal if name == "optimal" else super().script(name)

    def _optimal(self, agent: str, history: Sequence[Message]) -> str:
        place = self.possible_agents.index(agent)
        team = _optimal_teams()[self.file].get(str(self.max_turns))
        if team is None:
            raise ValueError(
                f"no optimal team of {self.metadata['name']} is known for max_turns={self.max_turns}; set it to "
                + ", ".join(_optimal_teams()[self.file])
            )
        heard = [self._heard(place, message.text) for message in history[1:] if message.role == "observation"]
        seen = functools.reduce(lambda code, number: code * len(self.model.observations[place]) + number, heard, 0)
        if len(heard) >= self.max_turns:
            raise ValueError(f"{agent} has {len(heard)} observations for {self.max_turns} turns; start a new episode")
        return _spoken(self.model.actions[place][int(team[place][len(heard)][seen])])


def _spoken(name: str) -> str:
    """Return the name of an action or agent of the model in the form that texts use."""
    return name.replace("-", " ")


@functools.cache
def _pattern(names: tuple[str, ...]) -> re.Pattern[str]:
    """Return a pattern that matches any of the names as whole words, the longest first."""
    ordered = sorted(names, key=len, reverse=True)
    alternatives = "|".join(r"[\s_-]{1,3}".join(map(re.escape, name.split("-"))) for name in ordered)
    return re.compile(rf"(?<!\w)(?:{alternatives})(?!\w)", re.IGNORECASE | re.ASCII)


def _named(names: tuple[str, ...], text: str) -> int | None:
    """Return the index of the last action that a text names; None if it names none."""
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
    """Return optimal teams by problem and horizon: texts by agent and length of the history.

    A text has one digit (the action) for each history of that length. Histories are in lexicographic order of the
    indices of their observations, the earliest first.
    """
    file = resources.files("llm_dec_pomdp.data") / "classics" / "optimal.json"
    return json.loads(file.read_text(encoding="utf-8"))
