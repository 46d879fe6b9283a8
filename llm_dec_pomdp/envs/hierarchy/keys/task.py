"""keys-v0: a main agent answers a two-hop question with sub-agents, each of which looks up one hop.

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

One agent alone (protocol "centralized") says keys itself and is told passages, `P f2 e5 f0 ...`, whose filler words
take up its `context`. Main in the hierarchy sees reports instead.

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
from typing import NamedTuple

from typing_extensions import Unpack

from ....seeding import generator
from ....types import Event, Message, TaskItem
from ...base import TextDecPOMDP
from ...task import TaskOptions, Transition
from ...tasks import Tasks
from .lookup import Lookup, Told, key_of, number_of

MAIN = "agent_0"


class Invocation(NamedTuple):
    """A sub-agent and its subtask."""

    entity: int  # whose relation is asked for
    relation: int  # what is asked for
    formed: bool = False  # it said a key
    expert: bool = False  # its report is the entity asked for


class State(NamedTuple):
    """The state of `Keys`."""

    item: TaskItem
    known: int  # the entity that was reported last; at first that of the question
    words: tuple[str, ...]  # words of main's history
    report: int | None = None  # the last report; None where there was none or it was "none"
    calls: tuple[Invocation, ...] = ()  # all invocations so far
    running: bool = False  # the last invocation is at work
    over: bool = False  # the episode has ended
    turn: int = 0  # joint actions played


class Keys(Lookup[State]):
    """Two hops by delegation; the module is the manual.

    Args:
        relations: R, at least 2.
        entities: E, at least 2.
        delegations: D, at least 1.
        context: How many words of its history main sees; 0: all.
        filler: Words of a passage that say nothing.
        tasks, common: See `Task`; H is 2 D + 1, which is always enough.
    """

    declared = replace(
        Lookup.declared,
        name="keys-v0",
        diagnostics=("expert", "invocations"),
        joint_reward=False,
        hierarchical=True,
    )

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
        self.set_size(relations, entities, delegations, context, filler)
        self.declared = replace(self.declared, roles=("main", *["sub"] * delegations))
        common.setdefault("max_turns", 2 * delegations + 1)
        super().__init__(tasks, **common)

    def alone(self) -> TextDecPOMDP:
        """One agent that says keys itself."""
        from .single_agent import KeysAlone

        turns = min(self.delegations + 1, (self.max_turns + 1) // 2)
        size = (self.relations, self.entities, self.delegations, self.context, self.filler)
        return KeysAlone(size, max_turns=turns, render_mode=self.render_mode).with_items(self.items)

    # --- the task ----------------------------------------------------------------------------------------------------

    def initial_state(self, item: TaskItem, seed: int) -> State:
        """Main has the question; there are no sub-agents yet."""
        return State(item, self.world(item).start, tuple(item.prompt.split()))

    def told(self, state: State) -> Told:
        """A sub-agent its subtask; main the question or the last report, or with a limited context its last words."""
        if state.over:
            return {}
        if state.running:
            call = state.calls[-1]
            return {f"agent_{len(state.calls)}": f"S e{call.entity} r{call.relation}"}
        if self.context:
            return {MAIN: self.seen(state.words)}
        return {MAIN: _report(state.report) if state.calls else state.item.prompt}

    def roster(self, state: State) -> Sequence[str]:
        """Main and all sub-agents that it has called."""
        return self.possible_agents[: 1 + len(state.calls)]

    def transition(self, state: State, actions: Mapping[str, str], seed: int) -> Transition[State]:
        """A sub-agent reports, or main delegates or answers."""
        last = state.turn + 1 >= self.max_turns
        if state.running:
            following, events = self._reported(state, actions[f"agent_{len(state.calls)}"], seed)
            if last:
                return self._ended(following, events)
            return self._on(following, events, anew=bool(self.context))
        text = actions[MAIN].strip()
        state = state._replace(turn=state.turn + 1, words=(*state.words, text))
        relation = number_of(text, "r", self.relations)
        if text == "ANS":
            answer = Event("answer", MAIN, {"answer": _report(state.report)})
            return self._ended(state, (answer,), answered=True)
        why = _why_stopped(relation, self.delegations - len(state.calls), last)
        if relation is None or why:
            return self._ended(state, (Event("stop", MAIN, {"why": why}),))
        calls = (*state.calls, Invocation(state.known, relation))
        subtask = f"S e{state.known} r{relation}"
        spawn = Event("spawn", f"agent_{len(calls)}", {"role": "sub", "by": MAIN, "subtask": subtask})
        return self._on(state._replace(calls=calls, running=True), (spawn,))

    def _reported(self, state: State, text: str, seed: int) -> tuple[State, tuple[Event, ...]]:
        """The state and the events after the text of a sub-agent."""
        agent, call = f"agent_{len(state.calls)}", state.calls[-1]
        facts = self.world(state.item).facts
        key = number_of(text.strip(), "k", self.relations)
        reported = None if key is None else facts[self.filed_under(key)][call.entity]
        events: list[Event] = []
        if reported is not None:
            passage = self.passage(reported, generator(seed, "passage"))
            events += [Event("call", agent, {"key": f"k{key}"}), Event("result", agent, {"passage": passage})]
        events.append(Event("return", agent, {"report": _report(reported)}))
        call = call._replace(formed=key is not None, expert=reported == facts[call.relation][call.entity])
        words = (*state.words, *_report(reported).split())
        known = state.known if reported is None else reported
        calls = (*state.calls[:-1], call)
        turn = state.turn + 1
        following = state._replace(known=known, words=words, report=reported, calls=calls, running=False, turn=turn)
        return following, tuple(events)

    def _on(self, state: State, events: tuple[Event, ...], *, anew: bool = False) -> Transition[State]:
        """The episode goes on and pays nothing yet."""
        again = frozenset([MAIN] if anew else [])
        rewards = dict.fromkeys(self.possible_agents[: 1 + len(state.calls) - state.running], 0.0)
        return Transition(state, 0.0, rewards=rewards, events=events, anew=again)

    def _ended(self, state: State, events: tuple[Event, ...], *, answered: bool = False) -> Transition[State]:
        """Pay every live agent: main and the team R_M, a sub-agent R_S."""
        correct = answered and state.report == self.world(state.item).answer
        count = len(state.calls)
        facts = {"expert": sum(c.expert for c in state.calls) / max(1, count), "invocations": float(count)}
        score = self.score(formed=answered, correct=correct, facts=facts)
        rewards = {MAIN: score.total}
        for agent, call in zip(self.possible_agents[1:], state.calls, strict=False):
            rewards[agent] = 0.1 + 0.4 * correct + 0.5 * call.expert if call.formed else 0.0  # (R_S)
        over = state._replace(over=True)
        return Transition(over, score.total, score, terminated=True, rewards=rewards, events=events)

    # --- teams of known value ----------------------------------------------------------------------------------------

    @property
    def solvable(self) -> bool:
        """Whether there are two delegations, turns and context for both hops."""
        return self.delegations >= 2 and self.max_turns >= 5 and (not self.context or self.context >= 10)

    def choices(self, agent: str, history: Sequence[Message] = ()) -> Sequence[str]:
        """Relations and ANS for main, keys for a sub-agent."""
        if agent == MAIN:
            return (*(f"r{number}" for number in range(self.relations)), "ANS")
        return [f"k{number}" for number in range(self.relations)]

    def _optimal(self, agent: str, history: Sequence[Message]) -> str:
        """Main asks for the first hop until it is reported, then for the second, and answers."""
        words = [word for message in history for word in message.text.split()]
        self.refuse_foreign(words, "Q" if agent == MAIN else "S")
        if agent != MAIN:
            return f"k{key_of(int(words[2][1:]), self.relations)}"
        reports = [word for before, word in itertools.pairwise(words) if before == "R"]
        hops = len(reports) - reports.count("none")
        return words[2 + hops] if hops < 2 and len(reports) < self.delegations else "ANS"


def _report(entity: int | None) -> str:
    return "R none" if entity is None else f"R e{entity}"


def _why_stopped(relation: int | None, delegations_left: int, last: bool) -> str:
    """Why main cannot delegate; "" where it can."""
    if relation is None:
        return "the text is neither a relation nor ANS"
    if not delegations_left:
        return "no delegation is left"
    return "no turn is left" if last else ""
