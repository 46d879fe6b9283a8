"""incident-v0: Responders send reports to a coordinator, who may leave, so that one of them has to take over.

| fact | value |
|---|---|
| agents | agent_0 "coordinator", agent_1 "deputy", agent_2 ... agent_n "responder" |
| turns | R = 3 rounds of reports, and the turns in which somebody takes over; `max_turns` = 6 |
| data | 2 R tasks, equally likely; the same for training and test |
| options | `responders` n = 3 (2 or 3), the deputy included; `rounds` R = 3 (1 to 3); `cost` c = 0.02 of a message |
| files | rows of `prompt` (the request) and `leaves`: the last round of the coordinator, or never |
| return | the share of the n R reports that the lead knows at the end, less the costs |
| optimum | 0.6889 with the defaults; known for all options |

Observation. In each round the deputy and every responder have a new report. In half of the tasks the coordinator stays,
in the others it leaves after round 1, 2, ... or R. No agent observes this beforehand.

| agent | knows |
|---|---|
| coordinator | the reports that were sent to it |
| deputy | its own reports, those that were sent to all, and those of which it was briefed |
| responder | its own reports, and those that were sent to all |

Action. A word. Any other text counts as the first word of its row.

| agent and turn | words |
|---|---|
| deputy or responder, in a round | keep; lead (send the report to the lead, cost c); all (send it to all, cost n c) |
| coordinator, in a round | wait; brief (send the deputy all that it knew before this round, cost c) |
| deputy or responder, after the coordinator has left | keep; lead (take over) |

Exactly one agent has to take over. Otherwise all are asked again, which costs 0.1. The new lead cannot leave, and does
not act in the remaining rounds; it also knows its own reports. A report that it was not sent before it led is lost.

Reward (one float for the team). It is 0 before the end of the episode, and then the return. Without a lead the share
of known reports is 0.

What it tests. Roles that change: whether a team prepares for the loss of its coordinator, and agrees on a successor.
As long as the coordinator stays, the preparation only has costs.

Optimum. It is computed by dynamic programming over the number of reports that each set of agents knows. With the
defaults the coordinator briefs the deputy in rounds 2 and 3, every report is sent to the lead, and the deputy takes
over. With two responders it is cheaper that agent_2 sends its reports to all.

Teams. `script:optimal` plays the optimum. `script:unprepared` sends every report to the lead and never briefs, and the
deputy takes over. `choices` are the words of the table. In reports 0 % is a return of 0, and 100 % is the optimum.

Measured (`env.measure`), over the episodes in which the coordinator leaves:

| column | value |
|---|---|
| recovery turns | mean number of turns in which agents were asked to take over |
| lost % | share of the reports known to the coordinator that the last lead does not know |
| agent_1 leads %, ... | share of episodes in which this agent has taken over |

Source: written for this package.

Version history: v0, the first.

Example:
    >>> import llm_dec_pomdp
    >>> env = llm_dec_pomdp.make("incident-v0", responders=2)
    >>> _ = env.reset(options={"task_id": "incident/leaves_1"})
    >>> observed = env.step({"agent_0": "wait", "agent_1": "lead", "agent_2": "all"})[0]
    >>> observed["agent_1"]
    'The coordinator has left. You know 3 of 6 reports: 1.1, 1.2, 2.1. Say lead to take over, or keep.'
    >>> env.agents
    ['agent_1', 'agent_2']
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any, NamedTuple, Unpack

from llm_dec_pomdp.envs import Facts, Script, Task, TaskOptions, Tasks, TaskSource, Transition, check_int, is_sample
from llm_dec_pomdp.types import Event, Group, Message, Scale, Score, TaskItem

COORDINATOR = "agent_0"
KEEP, LEAD, ALL = "keep", "lead", "all"
WAIT, BRIEF = "wait", "brief"
NEVER = "never"
DELAY = 0.1  # cost of a turn in which nobody takes over, or more than one
_REQUEST = "You handle an incident. At the end the one who leads should know all reports. The coordinator may leave."
Counts = tuple[int, ...]  # of reports, by responder
Reports = frozenset[tuple[int, int]]  # (agent, round)


def _tasks(rounds: int) -> list[TaskItem]:
    numbers = range(1, rounds + 1)
    times = {f"leaves_{i}": str(i) for i in numbers} | {f"stays_{i}": NEVER for i in numbers}
    return [TaskItem(f"incident/{name}", _REQUEST, fields={"leaves": time}) for name, time in times.items()]


class State(NamedTuple):
    """The state of `Incident`."""

    item: TaskItem
    known: tuple[Reports, ...]  # reports that each agent knows, the coordinator first
    lead: int | None = 0  # number of the agent that leads; None if nobody does
    round: int = 1  # current round, or the number of rounds + 1
    turns: int = 0
    costs: float = 0.0
    recovery: int = 0  # turns in which responders were asked to take over
    over: bool = False


class Incident(Task[State]):
    """Environment of a team whose coordinator may leave. See the module docstring.

    Args:
        tasks: "sample": the 2 R tasks, which are in every split; rows of your own have another request.
        responders: The number of agents with reports n, 2 or 3.
        rounds: The number of rounds of reports R, 1 to 3.
        cost: The cost c of a message to one agent, from 0 to 1.
        common: See `Task`; `max_turns` is `rounds` + 3 by default. If the last turn comes earlier, the episode ends
            with the reports of the current lead.
    """

    declared = Facts(
        name="incident-v0",
        components=("known", "costs"),
        diagnostics=("left", "recovery", "lost", "successor"),
        score_range=(0.0, 1.0),  # set in the constructor
        silence_is_lowest=False,
        shares_texts=True,
        scripts=("optimal", "unprepared"),
    )

    def __init__(
        self,
        tasks: Tasks = "sample",
        *,
        responders: int = 3,
        rounds: int = 3,
        cost: float = 0.02,
        **common: Unpack[TaskOptions],
    ) -> None:
        self.responders, self.rounds = check_int("responders", responders, 2, 3), check_int("rounds", rounds, 1, 3)
        if isinstance(cost, bool) or not isinstance(cost, (int, float)) or not 0 <= cost <= 1:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"cost is {cost!r}; it is the cost of a message, give a number from 0 to 1")
        self.cost = float(cost)
        source = functools.partial(_tasks, rounds)
        self.source = TaskSource("incident", required=("prompt", "leaves"), sample=source, every_split=True)  # type: ignore[misc]
        turns = common.setdefault("max_turns", rounds + 3)
        best = optimum(responders, rounds, self.cost)[0] if turns > rounds and is_sample(tasks) else None
        self.declared = replace(
            self.declared,
            roles=("coordinator", "deputy", *["responder"] * (responders - 1)),
            score_range=(-turns * max(DELAY, self.cost * (1 + responders**2)), 1.0),
            optimum=best,
            scale=Scale(0.0, 1.0 if best is None else best),
        )
        super().__init__(tasks, **common)

    def problem(self, item: TaskItem) -> str:
        """Return why the field `leaves` of a row is invalid; "" if it is valid."""
        times = [*map(str, range(1, self.rounds + 1)), NEVER]
        leaves = item.fields["leaves"]
        return "" if leaves in times else f"field 'leaves': {leaves!r:.40}; give one of {', '.join(times)}"

    def initial_state(self, item: TaskItem, seed: int) -> State:
        """Return the state in which each responder knows its first report."""
        return self._with_reports(State(item, (frozenset(),) * (self.responders + 1)))

    def _with_reports(self, state: State) -> State:
        """Give each responder its report of the round."""
        known = [reports | {(i, state.round)} for i, reports in enumerate(state.known[1:], 1)]
        return state._replace(known=(state.known[0], *known))

    def roster(self, state: State) -> Sequence[str]:
        """Return all agents, without the coordinator once it has left."""
        return self.possible_agents if state.lead == 0 else self.possible_agents[1:]

    def observations(self, state: State) -> Mapping[str, str | Message]:
        """Return the number of the round, the known reports, and the words of each agent that acts."""
        if state.over:
            return {}
        price = f"A message costs {self.cost:g} for each receiver."
        texts: dict[str, str] = {}
        for i, agent in enumerate(self.possible_agents):
            names = ", ".join(f"{sender}.{number}" for sender, number in sorted(state.known[i]))
            knows = (
                f"You know {len(state.known[i])} of {self.responders * self.rounds} reports{names and f': {names}'}."
            )
            task = f"{state.item.prompt} {price} Round {state.round} of {self.rounds}. {knows}"
            if state.lead is None and i:
                texts[agent] = f"The coordinator has left. {knows} Say {LEAD} to take over, or {KEEP}."
            elif state.lead == i == 0:
                texts[agent] = f"{task} Say {WAIT} or {BRIEF}."
            elif state.lead is not None and i and i != state.lead:
                texts[agent] = f"{task} Your report {i}.{state.round} is new; say {KEEP}, {LEAD} or {ALL}."
        return texts

    def transition(self, state: State, actions: Mapping[str, str], seed: int) -> Transition[State]:
        """Pass reports on, or let a responder take over; then the coordinator may leave."""
        words = {int(agent.rpartition("_")[2]): text.strip().lower() for agent, text in actions.items()}
        state, events = state._replace(turns=state.turns + 1), list[Event]()
        if state.lead is None:
            candidates = [i for i, word in words.items() if word == LEAD]
            state = state._replace(recovery=state.recovery + 1)
            if len(candidates) == 1:
                state = state._replace(lead=candidates[0])
                events.append(Event("takes_over", self.possible_agents[candidates[0]]))
            else:
                state = state._replace(costs=state.costs + DELAY)
        else:
            known, costs = [set(reports) for reports in state.known], 0.0
            if words.pop(0, WAIT) == BRIEF:
                known[1] |= known[0]
                costs += self.cost
            for i, word in words.items():
                receivers = range(len(known)) if word == ALL else [state.lead] if word == LEAD else []
                costs += self.cost * len([receiver for receiver in receivers if receiver != i])
                for receiver in receivers:
                    known[receiver].add((i, state.round))
            state = state._replace(known=tuple(map(frozenset, known)), costs=state.costs + costs)
            if state.lead == 0 and state.item.fields["leaves"] == str(state.round):
                state = state._replace(lead=None)
                events.append(Event("leaves", COORDINATOR))
            state = state._replace(round=state.round + 1)
            if state.round <= self.rounds:
                state = self._with_reports(state)
        over = state.turns == self.max_turns or (state.round > self.rounds and state.lead is not None)
        if not over:
            return Transition(state, events=tuple(events))
        score = self._score(state)
        return Transition(state._replace(over=True), score.total, score, terminated=True, events=tuple(events))

    def _score(self, state: State) -> Score:
        left, lead, before = state.lead != 0, state.lead, state.known[0]
        known = frozenset[tuple[int, int]]() if lead is None else state.known[lead]
        share = len(known) / (self.responders * self.rounds)
        lost = len(before - known) / len(before) if left and before else 0.0
        facts = {"left": float(left), "recovery": float(state.recovery), "lost": lost, "successor": float(lead or 0)}
        return Score(share - state.costs, {"known": share, "costs": -state.costs}, facts)

    def choices(self, agent: str, history: Sequence[Message] = ()) -> Sequence[str]:
        """Return the words of the coordinator, or those of a responder."""
        return (WAIT, BRIEF) if agent == COORDINATOR else (KEEP, LEAD, ALL)

    def describe(self, state: State) -> Mapping[str, Any]:
        """Return the lead, the last round of the coordinator, and the number of reports that each agent knows."""
        return {"lead": state.lead, "leaves": state.item.fields["leaves"], "known": [*map(len, state.known)]}

    def measure(self, groups: Sequence[Group]) -> Mapping[str, Mapping[str, float]]:
        """Return recovery, loss and successors when the coordinator leaves; see the module docstring."""
        facts = [e.final.diagnostics for group in groups for e in group.episodes if e.final]
        left = [fact for fact in facts if fact["left"]]
        if not left:
            return {}
        successors = {
            f"{agent} leads %": 100 * fmean(fact["successor"] == i for fact in left)
            for i, agent in enumerate(self.possible_agents)
            if i
        }
        means = {"recovery turns": fmean(f["recovery"] for f in left), "lost %": 100 * fmean(f["lost"] for f in left)}
        return {"handover": {**means, **successors}}

    def script(self, name: str) -> Script:
        """Return the optimal team, or the team that does not prepare for the loss of its coordinator."""
        if name not in self.declared.scripts:
            return super().script(name)
        plan = optimum(self.responders, self.rounds, self.cost)[1] if name == "optimal" else ()

        def act(agent: str, history: Sequence[Message]) -> str:
            text, i = history[-1].text, int(agent.rpartition("_")[2])
            rounds = [message.text for message in history if " Round " in message.text]
            number = int(rounds[-1].partition(" Round ")[2].partition(" of ")[0])
            if "has left" in text:
                return LEAD if i == (plan[number - 1].successor if plan else 1) else KEEP
            left = any("has left" in message.text for message in history)
            return plan[number - 1].words[i] if plan and not left else WAIT if i == 0 else LEAD

        return act


class Step(NamedTuple):
    """A round of an optimal plan.

    Attributes:
        words: The word of each agent, the coordinator first.
        successor: Number of the responder that takes over if the coordinator leaves after this round.
    """

    words: tuple[str, ...]
    successor: int


@functools.cache
def optimum(responders: int, rounds: int, cost: float) -> tuple[float, tuple[Step, ...]]:
    """Return the expected return of an optimal team, and its plan while the coordinator is there.

    The reports so far are counted by sender. Only the sender knows the reports in `alone`. The coordinator also knows
    those in `told`, and coordinator and deputy know those in `briefed`. All agents know the remaining reports. After
    the coordinator has left, the best team sends all further reports to the new lead if this is worth its cost.

    Args:
        responders: The number of agents with reports.
        rounds: The number of rounds.
        cost: The cost of a message to one agent.
    """
    total = responders * rounds
    everywhere = range(responders)

    def gone(after: int, alone: Counts, told: Counts, briefed: Counts) -> tuple[float, int]:
        """Return the expected return to go if the coordinator leaves after a round, and the successor."""
        private = [sum(counts) for counts in zip(alone, told, briefed, strict=True)]
        shared = responders * after - sum(private)
        knows = [shared + private[i] + (sum(briefed) - briefed[i] if i == 0 else 0) for i in everywhere]
        later = (rounds - after) * (1 / total + (responders - 1) * max(0.0, 1 / total - cost))
        return max(knows) / total + later, knows.index(max(knows)) + 1

    @functools.cache
    def stays(number: int, alone: Counts, told: Counts, briefed: Counts) -> tuple[float, tuple[Step, ...]]:
        """Return the expected return to go from a round on, and the plan."""
        if number > rounds:
            return 1 - sum(alone) / total, ()
        chance = 1 / (2 * rounds + 1 - number)  # that the coordinator leaves after this round, if it has not yet left
        found: list[tuple[float, tuple[Step, ...]]] = []
        for brief, *words in itertools.product((WAIT, BRIEF), *[(KEEP, LEAD, ALL)] * responders):
            moved = [told[i] if brief == BRIEF and i else 0 for i in everywhere]
            after = (
                tuple(alone[i] + (words[i] == KEEP) for i in everywhere),
                tuple(told[i] - moved[i] + (words[i] == LEAD) for i in everywhere),
                tuple(briefed[i] + moved[i] for i in everywhere),
            )
            price = cost * ((brief == BRIEF) + words.count(LEAD) + responders * words.count(ALL))
            without, successor = gone(number, *after)
            value, plan = stays(number + 1, *after)
            step = Step((brief, *words), successor)
            found.append((chance * without + (1 - chance) * value - price, (step, *plan)))
        return max(found, key=lambda pair: pair[0])

    none = (0,) * responders
    return stays(1, none, none, none)
