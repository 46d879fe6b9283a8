"""keys-v0: A main agent answers a two-hop question with sub-agents, each of which looks up one hop.

| fact | value |
|---|---|
| agents | agent_0 "main", agent_1 ... agent_D "sub": one for each delegation, which joins when it is called |
| turns | 2 D + 1: main and the sub-agents speak in turn |
| options | `relations` R = 3, `entities` E = 16, `delegations` D = 3, `filler` words per passage, 6 |
| context | how many words of its history main sees (`context`, 0: all); an optimal episode needs 10 |
| offline | 2048 / 256 questions (train / test), each with a table of its own |
| files | rows of `prompt`, "Q e3 r2 r1", and `facts`, a line per relation: where it leads from e0, e1, ... |
| return | 0 to 1.0; optimum 1.0 |

Observation. Main is told `Q e3 r2 r1`: follow relation r2 from entity e3, then relation r1 from the entity it leads to.
A sub-agent is told its subtask `S e3 r2` and nothing else. Main is told only its report, `R e5` or `R none`.

Action. Main says `r2` (a new sub-agent looks up relation r2 of the last known entity) or `ANS` (the last report is the
answer). A sub-agent says a key, `k0`, `k1`, ...: relation r(j) is filed under key k(j + 1), the last relation under k0,
which nobody is told. Its report is the entity of the passage under that key. Any other text of main ends the episode,
and so does a delegation beyond D; any other text of a sub-agent reports none.

Reward, individual, at the last turn (arXiv:2511.13288; there a judge model gives `expert`, which is exact here):

| who | value |
|---|---|
| main, and the team | 0.1 format + 0.9 correct where all texts of main are well-formed and it answered, else 0 |
| a sub-agent | 0.1 format + 0.4 correct (of main) + 0.5 expert, where it said a key, else 0 |

`expert` is 1 where the report is the entity that was asked for. `invocations` counts the sub-agents.

A single agent (protocol "centralized") writes keys itself and observes passages, `P f2 e5 f0 ...`, whose filler words
take up its `context`. Main in the hierarchy observes reports instead.

Source: this suite's own; the setting and the rewards are those of M-GRPO, arXiv:2511.13288.

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
    entity: int  # whose relation is asked for
    relation: int  # what is asked for
    usable: bool = False  # it said a key
    expert: bool = False  # its report is the entity asked for

    @property
    def subtask(self) -> str:
        """What it is told."""
        return f"S e{self.entity} r{self.relation}"


class KeysState(NamedTuple):
    """The state of `Keys`."""

    item: TaskItem
    known: int  # the entity that was reported last; at first that of the question
    words: tuple[str, ...]  # words of main's history
    report: int | None = None  # the last report; None where there was none or it was "none"
    invocations: tuple[Invocation, ...] = ()  # all of them so far
    running: bool = False  # the last invocation is at work
    over: bool = False  # the episode has ended
    turn: int = 0  # joint actions played


class Keys(Hierarchy[KeysState]):
    """Two hops by delegation; the module is the manual.

    Args:
        relations: R, at least 2.
        entities: E, at least 2.
        delegations: D, at least 1.
        context: How many words of its history main sees; 0: all.
        filler: Words of a passage that say nothing.
        tasks, common: See `Task`; H is 2 D + 1, which is always enough.
    """

    declared = Facts(
        name="keys-v0",
        components=("format", "correct"),
        diagnostics=("expert", "invocations"),
        score_range=(0.0, 1.0),
        joint_reward=False,
        hierarchical=True,
        scripts=("optimal",),
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
        self.source = self.lookup.source  # type: ignore[misc]  # embedded rows are drawn in that size
        roles = ("main", *["sub"] * delegations)
        self.declared = replace(self.declared, roles=roles, vocabulary=self.lookup.vocabulary)
        common.setdefault("max_turns", 2 * delegations + 1)
        super().__init__(tasks, **common)

    @property
    def facts(self) -> Facts:
        """The optimum is 1 where two delegations, turns and context are enough for both hops."""
        size = self.lookup
        solvable = size.delegations >= 2 and self.max_turns >= 5 and (not size.context or size.context >= 10)
        return replace(self.declared, optimum=1.0 if solvable else None)

    def problem(self, item: TaskItem) -> str:
        """A question or a table that cannot be read, or one of another size."""
        return self.lookup.problem(item)

    def single_agent(self) -> TextDecPOMDP:
        """Return the form in which one agent looks keys up itself."""
        from .single_agent import SingleAgentKeys

        return SingleAgentKeys(self)

    # --- the task ----------------------------------------------------------------------------------------------------

    def initial_state(self, item: TaskItem, seed: int) -> KeysState:
        """Main has the question; there are no sub-agents yet."""
        return KeysState(item, world(item).start, tuple(item.prompt.split()))

    def observations(self, state: KeysState) -> Mapping[str, str]:
        """A sub-agent its subtask; main the question or the last report, or with a limited context its last words."""
        if state.over:
            return {}
        if state.running:
            return {state.invocations[-1].agent: state.invocations[-1].subtask}
        if self.lookup.context:
            return {LEADER: self.lookup.seen(state.words)}
        return {LEADER: _report(state.report) if state.invocations else state.item.prompt}

    def describe(self, state: KeysState) -> Mapping[str, Any]:
        """The table."""
        return {"facts": state.item.fields["facts"]}

    def transition(self, state: KeysState, actions: Mapping[str, str], seed: int) -> Transition[KeysState]:
        """A sub-agent reports, or main delegates or answers."""
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
        """The state and the events after the text of a sub-agent."""
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
        """Pay every live agent."""
        correct = answered and state.report == world(state.item).answer
        parts, count = parts_of_main(valid=answered, correct=correct), len(state.invocations)
        expert = sum(invocation.expert for invocation in state.invocations) / max(1, count)
        score = Score(sum(parts.values()), parts, {"expert": expert, "invocations": float(count)})
        return self.end(state._replace(over=True), score, events)

    # --- teams of known value ----------------------------------------------------------------------------------------

    def choices(self, agent: str, history: Sequence[Message] = ()) -> Sequence[str]:
        """Relations and ANS for main, keys for a sub-agent."""
        if agent == LEADER:
            return (*(f"r{number}" for number in range(self.lookup.relations)), "ANS")
        return self.lookup.keys()

    def script(self, name: str) -> Script:
        """ "optimal" looks up one hop after the other and answers."""
        return self._optimal if name == "optimal" else super().script(name)

    def _optimal(self, agent: str, history: Sequence[Message]) -> str:
        """Main asks for the first hop until it is reported, then for the second, and answers."""
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
    """Why main cannot delegate; "" where it can."""
    if relation is None:
        return "the text is neither a relation nor ANS"
    if not delegations_left:
        return "no delegation is left"
    return "no turn is left" if last else ""
