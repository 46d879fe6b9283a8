"""keys-v0: A main agent answers a two-hop question with sub-agents, each of which looks up one hop.

| fact | value |
|---|---|
| agents | agent_0 "main", agent_1 ... agent_D "sub": one sub-agent per delegation, which joins when main calls it |
| turns | 2 D + 1: main and the sub-agents act in turn |
| options | `relations` R = 3, `entities` E = 16, `delegations` D = 3, `filler` (words per passage) = 6 |
| context | `context`: number of words of its history that main observes, 0 for all; an optimal episode needs 10 |
| offline | 2048 / 256 questions (train / test), each with its own table of facts |
| files | rows with `prompt`, such as "Q e3 r2 r1", and `facts`: one line per relation, its values for e0, e1, ... |
| return | 0 to 1.0; optimum 1.0 |

Observation. Main observes the question `Q e3 r2 r1`: follow relation r2 from entity e3, then relation r1 from the
entity that was found. A sub-agent observes only its subtask `S e3 r2`. After a delegation, main observes only the
report of the sub-agent, `R e5` or `R none`.

Action. Main has two kinds of actions. `r2` calls a new sub-agent for relation r2 of the last known entity. `ANS` gives
the last report as the answer. Any other text of main ends the episode, as does a delegation after the D-th.

A sub-agent names a key, `k0`, `k1`, ...: relation r(j) is filed under key k(j + 1), and the last relation under k0. No
observation contains this rule; the sub-agents must learn it. The report is the entity of the passage under that key.
For any other text the report is `R none`.

Reward. Rewards are individual and come at the last turn, as in M-GRPO (arXiv:2511.13288):

| agent | reward |
|---|---|
| main, and the team | 0.1 format + 0.9 correct; 0 if a text of main is malformed or it gives no answer |
| a sub-agent | 0.1 format + 0.4 correct (of main) + 0.5 expert; 0 if it names no key |

`expert` is 1 if the report is the requested entity; M-GRPO measures this with an LLM judge. `invocations` counts the
sub-agents.

Single agent. Under the protocol "centralized" a single agent names the keys itself and observes whole passages,
`P f2 e5 f0 ...`. Their filler words use up its `context`. In the hierarchy main observes only short reports.

Optimum. `script:optimal` is an optimal team.

Source: written for this package. The setting and the rewards are those of M-GRPO, arXiv:2511.13288.

Version history: v0, the first.

Example:
    >>> import llm_dec_pomdp
    >>> env = llm_dec_pomdp.make("keys-v0")
    >>> env.reset(options={"index": 0})[0]
    {'agent_0': 'Q e12 r2 r1'}
    >>> env.step({"agent_0": "r2"})[0]["agent_1"]
    'S e12 r2'
    >>> env.facts.optimum
    1.0
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Unpack

from ....seeding import generator
from ....types import Event, Message, Score, TaskItem
from ...base import Script, TextDecPOMDP
from ...facts import Facts
from ...task import TaskOptions, Transition
from ...tasks import Tasks
from ..base import LEADER, Hierarchy, parts_of_main, spawned
from .lookup import Lookup, check_history, number_of, world


class Invocation(NamedTuple):
    """A sub-agent and its subtask."""

    agent: str  # its id
    entity: int  # the entity of the subtask
    relation: int  # the relation of the subtask
    usable: bool = False  # it named a key
    expert: bool = False  # its report is the requested entity

    @property
    def subtask(self) -> str:
        """Return the observation of the sub-agent."""
        return f"S e{self.entity} r{self.relation}"


class KeysState(NamedTuple):
    """The state of `Keys`."""

    item: TaskItem
    known: int  # the last reported entity; at first the entity of the question
    words: tuple[str, ...]  # words of main's history
    report: int | None = None  # the last report; None if there was none or it was "none"
    invocations: tuple[Invocation, ...] = ()  # all so far
    running: bool = False  # the last sub-agent acts next
    over: bool = False  # the episode has ended
    turn: int = 0  # joint actions played


class Keys(Hierarchy[KeysState]):
    """Two hops by delegation; the module docstring describes the environment.

    Args:
        relations: R, at least 2.
        entities: E, at least 2.
        delegations: D, at least 1.
        context: Number of words of its history that main observes; 0 for all.
        filler: Number of meaningless words in a passage.
        tasks, common: See `Task`; `max_turns` is 2 D + 1 by default, which is always enough.
    """

    declared = Facts(
        name="keys-v0",
        components=("format", "correct"),
        diagnostics=("expert", "invocations"),
        score_range=(0.0, 1.0),
        joint_reward=False,
        hierarchical=True,
        scripts=("optimal",),
        size="delegations",
    )
    source = Lookup(3, 16, 3, 0, 6).source

    def __init__(
        self,
        tasks: Tasks = "sample",
        *,
        relations: int = 3,
        entities: int = 16,
        delegations: int = 3,
        context: int = 0,
        filler: int = 6,
        **common: Unpack[TaskOptions],
    ) -> None:
        self.lookup = Lookup(relations, entities, delegations, context, filler)
        self.source = self.lookup.source  # type: ignore[misc]  # embedded rows are sampled in that size
        roles = ("main", *["sub"] * delegations)
        self.declared = replace(self.declared, roles=roles, vocabulary=self.lookup.vocabulary)
        common.setdefault("max_turns", 2 * delegations + 1)
        super().__init__(tasks, **common)

    @property
    def facts(self) -> Facts:
        """Return the facts; the optimum is 1 if delegations, turns and context are enough for both hops."""
        size = self.lookup
        solvable = size.delegations >= 2 and self.max_turns >= 5 and (not size.context or size.context >= 10)
        return replace(self.declared, optimum=1.0 if solvable else None)

    def problem(self, item: TaskItem) -> str:
        """Return why a row cannot be used: its question or table is malformed, or has another size; else ""."""
        return self.lookup.problem(item)

    def single_agent(self) -> TextDecPOMDP:
        """Return the environment in which a single agent looks up the keys itself."""
        from .single_agent import SingleAgentKeys

        return SingleAgentKeys(self)

    # --- the task ----------------------------------------------------------------------------------------------------

    def initial_state(self, item: TaskItem, seed: int) -> KeysState:
        """Return the state in which main has the question and no sub-agent exists."""
        return KeysState(item, world(item).start, tuple(item.prompt.split()))

    def observations(self, state: KeysState) -> Mapping[str, str]:
        """Return the observation of the acting agent.

        A sub-agent observes its subtask. Main observes the question or the last report; with a limited context it
        observes the last words of its history.
        """
        if state.over:
            return {}
        if state.running:
            return {state.invocations[-1].agent: state.invocations[-1].subtask}
        if self.lookup.context:
            return {LEADER: self.lookup.seen(state.words)}
        return {LEADER: _report(state.report) if state.invocations else state.item.prompt}

    def describe(self, state: KeysState) -> Mapping[str, Any]:
        """Return the table of facts."""
        return {"facts": state.item.fields["facts"]}

    def transition(self, state: KeysState, actions: Mapping[str, str], seed: int) -> Transition[KeysState]:
        """Apply an action: the report of a sub-agent, or a delegation or answer of main."""
        last, state = state.turn + 1 >= self.max_turns, state._replace(turn=state.turn + 1)
        if state.running:
            following, events = self._reported(state, actions[state.invocations[-1].agent], seed)
            if last:
                return self._ended(following, events)
            return self.go_on(following, events, reset_history=(LEADER,) if self.lookup.context else ())
        text = actions[LEADER].strip()
        state = state._replace(words=(*state.words, text))
        relation = number_of(text, "r", self.lookup.relations)
        if text == "ANS":
            answer = Event("answer", LEADER, {"answer": _report(state.report)})
            return self._ended(state, (answer,), answered=True)
        why = _why_stopped(relation, self.lookup.delegations - len(state.invocations), last)
        if relation is None or why:
            return self._ended(state, (Event("stop", LEADER, {"why": why}),))
        new = Invocation(f"agent_{len(state.invocations) + 1}", state.known, relation)
        following = state._replace(invocations=(*state.invocations, new), running=True)
        return self.go_on(following, (spawned(new.agent, "sub", new.subtask),))

    def _reported(self, state: KeysState, text: str, seed: int) -> tuple[KeysState, tuple[Event, ...]]:
        """Return the state and the events after the text of a sub-agent."""
        *earlier, invocation = state.invocations
        agent, facts = invocation.agent, world(state.item).facts
        key = number_of(text.strip(), "k", self.lookup.relations)
        reported = None if key is None else facts[self.lookup.filed_under(key)][invocation.entity]
        events: list[Event] = []
        if reported is not None:
            passage = self.lookup.passage(reported, generator(seed, "passage"))
            events += [Event("call", agent, {"key": f"k{key}"}), Event("result", agent, {"passage": passage})]
        events.append(Event("return", agent, {"report": _report(reported)}))
        right = reported == facts[invocation.relation][invocation.entity]
        following = state._replace(
            known=state.known if reported is None else reported,
            words=(*state.words, *_report(reported).split()),
            report=reported,
            invocations=(*earlier, invocation._replace(usable=key is not None, expert=right)),
            running=False,
        )
        return following, tuple(events)

    def _ended(self, state: KeysState, events: Sequence[Event], *, answered: bool = False) -> Transition[KeysState]:
        """End the episode with the rewards of all agents."""
        correct = answered and state.report == world(state.item).answer
        parts, count = parts_of_main(valid=answered, correct=correct), len(state.invocations)
        expert = sum(invocation.expert for invocation in state.invocations) / max(1, count)
        score = Score(sum(parts.values()), parts, {"expert": expert, "invocations": float(count)})
        return self.end(state._replace(over=True), score, events)

    # --- scripted teams -------------------------------------------------------------------------------------------

    def choices(self, agent: str, history: Sequence[Message] = ()) -> Sequence[str]:
        """Return relations and ANS for main, keys for a sub-agent."""
        if agent == LEADER:
            return (*(f"r{number}" for number in range(self.lookup.relations)), "ANS")
        return self.lookup.keys()

    def script(self, name: str) -> Script:
        """Return the scripted team "optimal", which looks up both hops in order and answers."""
        return self._optimal if name == "optimal" else super().script(name)

    def _optimal(self, agent: str, history: Sequence[Message]) -> str:
        """Return the optimal action: main asks for each hop until it is reported, then answers."""
        words = [word for message in history for word in message.text.split()]
        check_history(words, "Q" if agent == LEADER else "S", self.metadata["name"])
        if agent != LEADER:
            return f"k{self.lookup.key_of(int(words[2][1:]))}"
        reports = [word for before, word in itertools.pairwise(words) if before == "R"]
        hops = len(reports) - reports.count("none")
        return words[2 + hops] if hops < 2 and len(reports) < self.lookup.delegations else "ANS"


def _report(entity: int | None) -> str:
    return "R none" if entity is None else f"R e{entity}"


def _why_stopped(relation: int | None, delegations_left: int, last: bool) -> str:
    """Return why main cannot delegate; "" if it can."""
    if relation is None:
        return "the text is neither a relation nor ANS"
    if not delegations_left:
        return "no delegation is left"
    return "no turn is left" if last else ""
