"""scouts-v0: Scouts observe offers and report them, and a coordinator decides when to stop.

| fact | value |
|---|---|
| agents | agent_0 "coordinator", agent_1 ... agent_n "scout" |
| turns | 2 L - 1 = 11 (`max_turns`): coordinator and scouts act alternately, with at most L = 6 looks |
| options | `scouts` n = 2, `offers` V = 10, `cost` = 1.0 of a look |
| return | the best offer of all looks, minus the cost of the looks |
| optimal value | 6.114 with the defaults; known for all options |

Observation. The coordinator observes the task, and after every look the report of each scout and the number of looks
left. At each look a scout observes an offer that no other agent sees. Offers are uniform on 0 to V - 1 and independent.
A scout does not observe earlier looks. Earlier offers stay available (recall): the best offer of all looks counts.

Action. The coordinator writes LOOK or STOP, in any case; the last of these words in its text counts. A text without
either word ends the episode and costs as much as a look. A scout may write any text, which the coordinator observes on
one line. The team has to learn what a report means. Two reports, poor and good (`choices`), are enough for the optimum.

Reward (one float for the team). The reward of a LOOK is its improvement of the best offer, minus the cost of a look.
STOP and reports have reward 0. The sum is the score, with the parts `offer` (the best one) and `cost` (negative). The
last look ends the episode, because no decision is left.

Measured (`env.measure`):

| column | mean over episodes |
|---|---|
| looks | number of looks |
| best looks | number of looks of the best rule on the same offers |
| too early %, too late % | share of episodes with fewer, or more, looks than the best rule |

Optimum. A look is one box of Weitzman's problem; its prize M is the best of its n offers. The best rule looks while the
best offer so far is below z, where E[(M - z)+] = cost (Weitzman, Econometrica 1979). One bit from each scout is enough:
whether its offer is at least z. The equations and the results of learners are in docs/stopping.md.

In reports 0 % is the return of a team that stops at once (0), and 100 % is the optimum. If no look is worth its cost,
0 % and 100 % are the lowest and the highest score.

| team | plays |
|---|---|
| `script:optimal` | the best rule, from the reports |
| `script:never-stop` | all looks |
| `script:stop-at-once` | no look |
| `script:fixed-looks` | the best number of looks that is fixed beforehand |

Source: written for this package.

Version history: v0, the first.

Example:
    >>> import llm_dec_pomdp
    >>> env = llm_dec_pomdp.make("scouts-v0")
    >>> round(env.facts.optimum, 3), round(env.threshold, 3)
    (6.114, 6.118)
    >>> _ = env.reset(seed=0)
    >>> env.step(dict.fromkeys(env.agents, "LOOK"))[0]["agent_1"].splitlines()[-1]
    'Your offer: 8'
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any, NamedTuple, Unpack

from llm_dec_pomdp.envs import Facts, Script, Task, TaskOptions, Tasks, TaskSource, Transition
from llm_dec_pomdp.seeding import derive
from llm_dec_pomdp.types import Event, Group, Message, Scale, Score, TaskItem

from .search import Search

COORDINATOR = "agent_0"
POOR, GOOD = "poor", "good"
LOOK, STOP = "LOOK", "STOP"
_DECISION = re.compile(rf"\b(?:{LOOK}|{STOP})\b", re.IGNORECASE | re.ASCII)
_LEFT = "Looks left:"
_OFFER = "Your offer:"
_REPORTS = "reports:"
_TASK = TaskItem(
    "scouts",
    "You coordinate scouts who look for an offer. A look shows every scout an offer of its own, which you do not see, "
    "and costs the team. The best offer that was ever shown counts, whoever saw it. After a look the scouts report. "
    "Say LOOK for another look, or STOP.",
)
_SCOUT = "You are a scout. Only you see this offer. Report it to the coordinator in a word, such as poor or good."


class State(NamedTuple):
    """The state of `Scouts`."""

    item: TaskItem  # its prompt explains the task to the coordinator
    seed: int  # seed of all offers
    looks: int = 0  # looks so far
    best: int = 0  # the best offer so far; 0 before the first look
    looking: bool = False  # whether the scouts act next
    reports: tuple[str, ...] = ()  # last report of each scout
    over: bool = False  # whether the episode has ended
    total: float = 0.0  # return so far


class Scouts(Task[State]):
    """Environment in which a team searches with recall. See the module docstring.

    Args:
        tasks: "sample" is the one task, which is in every split; rows of your own explain it in other words.
        scouts: The number of scouts n, at least 1.
        offers: The number of different offers V, at least 2.
        cost: The cost of a look, above 0, in the unit of the offers.
        common: See `Task`; `max_turns` H is 11 by default, and there are (H + 1) // 2 looks.

    Attributes:
        threshold: z, the lowest value of an offer at which stopping is optimal.
    """

    source = TaskSource("scouts", sample=lambda: [_TASK], every_split=True)
    declared = Facts(
        name="scouts-v0",
        components=("offer", "cost"),
        diagnostics=("looks", "optimal_looks"),
        score_range=(-math.inf, math.inf),  # set in `facts`, since it depends on max_turns
        silence_is_lowest=False,
        shares_texts=True,
        scripts=("optimal", "never-stop", "stop-at-once", "fixed-looks"),
        size="scouts",
    )

    def __init__(
        self,
        tasks: Tasks = "sample",
        *,
        scouts: int = 2,
        offers: int = 10,
        cost: float = 1.0,
        **common: Unpack[TaskOptions],
    ) -> None:
        for name, value, least in (("scouts", scouts, 1), ("offers", offers, 2)):
            if isinstance(value, bool) or not isinstance(value, int) or value < least:  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ValueError(f"{name} is {value!r}; give an integer of at least {least}")
        if isinstance(cost, bool) or not isinstance(cost, (int, float)) or not 0 < cost < math.inf:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"cost is {cost!r}; it is the cost of a look, give a finite number above 0")
        self.scouts, self.offers, self.cost = scouts, offers, float(cost)
        self.threshold = Search(scouts, offers, self.cost, looks=1).threshold()  # z
        self.declared = replace(self.declared, roles=("coordinator", *["scout"] * scouts))
        common.setdefault("max_turns", 11)
        super().__init__(tasks, **common)
        numbers = map(str, range(max(offers, scouts + 1, self.search.looks + 1)))
        labels = f"Scout {_REPORTS} {_OFFER} {_LEFT}".split()
        self.declared = replace(self.declared, vocabulary=(LOOK, STOP, POOR, GOOD, *labels, *numbers))

    @property
    def search(self) -> Search:
        """The search problem and its solution."""
        return Search(self.scouts, self.offers, self.cost, (self.max_turns + 1) // 2)

    @property
    def facts(self) -> Facts:
        """The facts, with the optimum by dynamic programming, and the bounds.

        The lowest score is the return of all looks without an offer above 0, and the highest the return of the highest
        offer at the first look. On the percent scale, a team that stops at once has 0 %, and an optimal team 100 %. If
        no look is worth its cost, the bounds are 0 % and 100 %.
        """
        best, most = self.search.value(), max(0.0, self.offers - 1 - self.cost)
        bounds = -self.cost * self.search.looks, most
        scale = Scale(0.0, best) if best > 0 else Scale(*bounds)
        return replace(self.declared, score_range=bounds, turn_range=(-self.cost, most), optimum=best, scale=scale)

    def choices(self, agent: str, history: Sequence[Message] = ()) -> Sequence[str]:
        """Return LOOK and STOP for the coordinator, poor and good for scouts."""
        return (LOOK, STOP) if agent == COORDINATOR else (POOR, GOOD)

    # --- the task -----------------------------------------------------------------------------------------------------

    def initial_state(self, item: TaskItem, seed: int) -> State:
        """Return the state before the first look."""
        return State(item, seed)

    def shown_at(self, seed: int, look: int) -> tuple[int, ...]:
        """Return the offer that each scout observes at a look; looks count from 1."""
        return tuple(derive(seed, "offer", look, scout) % self.offers for scout in range(self.scouts))

    def observations(self, state: State) -> Mapping[str, str]:
        """Return after a LOOK the offer of each scout, else the task or the reports for the coordinator."""
        if state.over:
            return {}
        if state.looking:
            offers = self.shown_at(state.seed, state.looks)
            pairs = zip(self.possible_agents[1:], offers, strict=True)
            return {agent: f"{_SCOUT}\n{_OFFER} {offer}" for agent, offer in pairs}
        left = f"{_LEFT} {self.search.looks - state.looks}"
        if state.reports:
            lines = [f"Scout {i} {_REPORTS} {report}" for i, report in enumerate(state.reports, start=1)]
            return {COORDINATOR: "\n".join([*lines, left])}
        facts = f"A look costs {self.cost:g}. Offers are 0 to {self.offers - 1}, each equally likely. "
        return {COORDINATOR: f"{state.item.prompt}\n\n{facts}There are {self.scouts} scouts.\n{left}"}

    def transition(self, state: State, actions: Mapping[str, str], seed: int) -> Transition[State]:
        """Store the reports of the scouts, or apply the decision of the coordinator."""
        if state.looking:
            reports = tuple(" ".join(actions[agent].split()) for agent in self.possible_agents[1:])
            return Transition(state._replace(looking=False, reports=reports), 0.0)
        decisions = _DECISION.findall(actions[COORDINATOR])
        if not decisions:
            return self._ended(state, paid=-self.cost, why="the text is neither LOOK nor STOP")
        if decisions[-1].upper() == STOP:
            return self._ended(state, paid=0.0, why="it said STOP")
        looks = state.looks + 1
        best = max(state.best, *self.shown_at(state.seed, looks))
        paid = best - state.best - self.cost
        state = state._replace(looks=looks, best=best)
        if looks == self.search.looks:
            return self._ended(state, paid=paid, why="no look is left")
        state = state._replace(looking=True, total=state.total + paid)
        return Transition(state, paid, self._score(state), reset_history=frozenset(self.possible_agents[1:]))

    def _ended(self, state: State, paid: float, why: str) -> Transition[State]:
        state = state._replace(over=True, total=state.total + paid)
        stop = Event("stop", COORDINATOR, {"why": why})
        return Transition(state, paid, self._score(state), terminated=True, events=(stop,))

    def _score(self, state: State) -> Score:
        facts = {"looks": float(state.looks), "optimal_looks": float(self.optimal_looks(state.seed))}
        return Score(state.total, {"offer": float(state.best), "cost": state.total - state.best}, facts)

    def optimal_looks(self, seed: int) -> int:
        """Return the number of looks that the best rule makes on the offers of a seed."""
        most, looks, best = self.search.looks, 0, 0
        while looks < most and best < self.threshold:
            looks += 1
            best = max(best, *self.shown_at(seed, looks))
        return looks

    def describe(self, state: State) -> Mapping[str, Any]:
        """Return the number of looks, the best offer, and the offers of the last look."""
        shown = self.shown_at(state.seed, state.looks) if state.looks else ()
        return {"looks": state.looks, "best": state.best, "offers": list(shown)}

    def measure(self, groups: Sequence[Group]) -> Mapping[str, Mapping[str, float]]:
        """Return looks per episode, looks of the best rule, and wrong stops in %; see the module docstring."""
        facts = [e.final.diagnostics for group in groups for e in group.episodes if e.final]
        looks, best = ([fact[name] for fact in facts] for name in self.declared.diagnostics)
        if not facts:
            return {}
        shares = {
            "too early %": 100 * fmean(m < b for m, b in zip(looks, best, strict=True)),
            "too late %": 100 * fmean(m > b for m, b in zip(looks, best, strict=True)),
        }
        return {"stopping": {"looks": fmean(looks), "best looks": fmean(best), **shares}}

    # --- teams without a model ----------------------------------------------------------------------------------------

    def script(self, name: str) -> Script:
        """Return the optimal team, or one of three teams that ignore the reports."""
        most = self.search.looks
        looks = {"never-stop": most, "stop-at-once": 0, "fixed-looks": self.search.best_fixed_looks()}
        if name in looks:
            return self._making(looks[name])
        return self._optimal if name == "optimal" else super().script(name)

    def _optimal(self, agent: str, history: Sequence[Message]) -> str:
        """Act as a scout that reports good for an offer of at least z, or as a coordinator that then stops."""
        if agent != COORDINATOR:
            return GOOD if _number_after(_OFFER, history[-1].text) >= self.threshold else POOR
        _number_after(_LEFT, history[-1].text)
        heard = (word for message in history if message.role == "observation" for word in _reports(message.text))
        return STOP if self.threshold <= 0 or GOOD in heard else LOOK

    def _making(self, looks: int) -> Script:
        """Return a team that always makes this many looks."""
        stops_at = self.search.looks - looks

        def say(agent: str, history: Sequence[Message]) -> str:
            if agent != COORDINATOR:
                return POOR
            return LOOK if _number_after(_LEFT, history[-1].text) > stops_at else STOP

        return say


def _reports(observation: str) -> list[str]:
    """Return the reports of the scouts from an observation of the coordinator."""
    return [line.partition(_REPORTS)[2].strip() for line in observation.splitlines() if line.startswith("Scout ")]


def _number_after(label: str, observation: str) -> int:
    """Return the number at the end of an observation.

    Raises:
        ValueError: The observation does not end with the label and a number.
    """
    before, _, number = observation.rpartition(f"{label} ")
    if not before or not number.isdigit():
        raise ValueError(
            f"the scripts of scouts-v0 need an observation that ends with {label!r} and a number, not "
            f"{observation[-60:]!r}; play it without drafts and with one text per agent"
        )
    return int(number)
