"""keys-v0: a main agent answers a two-hop question by sub-agents that look one hop up each.

| fact | value |
|---|---|
| agents | agent_0 "main", agent_1 ... agent_D "sub": one for each delegation, who comes when it is called |
| turns | 2 D + 1: main and the sub-agents speak in turn |
| options | `relations` R = 3, `entities` E = 16, `delegations` D = 3, `filler` words per passage, 6 |
| context | words of its history that main sees (`context`, 0: all); 10 hold all of an optimal episode |
| offline | 2048 / 256 questions (train / test), each with a table of its own drawn from its seed |
| files | rows of `prompt`, "Q e3 r2 r1", and `facts`, a line per relation: where it leads from e0, e1, ... |
| return | 0 to 1.0; optimum 1.0 |

Observation. Main is told `Q e3 r2 r1`: from entity e3 follow relation r2, and from where it leads relation r1. A
sub-agent is told `S e3 r2`, its subtask, and nothing else. Main is told its report alone, `R e5`, or `R none`.

Action. Main says `r2` (look relation r2 of the last known entity up: a new sub-agent is called) or `ANS` (the last
report is the answer). A sub-agent says a key, `k0`, `k1`, ...: what relation r(j) leads to is filed under key k(j + 1),
that of the last one under k0, which nobody is told. It reports the entity of the passage below that key. Any other text
of main ends the episode, as a delegation beyond D does; any other text of a sub-agent reports none.

Reward, individual, at the last turn (arXiv:2511.13288; there a judge model gives `expert`, which is exact here):

| who | value |
|---|---|
| main, and the team | 0.1 format + 0.9 correct where all that main said is well-formed and it answered, else 0 |
| a sub-agent | 0.1 format + 0.4 correct (of main) + 0.5 expert, where it said a key, else 0 |

`expert` is 1 where the report is the entity that was asked for. `invocations` counts the sub-agents.

One agent alone (protocol "centralized") says keys itself and is told passages, `P f2 e5 f0 ...`, whose filler words
count in its `context`: that is what a hierarchy is for, since main sees reports.

Source: this suite's own; the setting and the rewards are those of M-GRPO, arXiv:2511.13288.

Version history: v0, the first.

Example:
    >>> import llm_dec_pomdp
    >>> env = llm_dec_pomdp.make("keys-v0")
    >>> env.reset(options={"index": 0})[0]
    {'agent_0': 'Q e12 r2 r1'}
    >>> env.step({"agent_0": "r2"})[0]["agent_1"]
    'S e12 r2'
    >>> env.optimum
    1.0
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ...seeding import generator
from ...types import Event, Message, TaskItem
from ..base import TextDecPOMDP
from ..task import Transition
from ..tasks import Tasks
from .lookup import Lookup, Told, key_of, number_of, share_right

MAIN = "agent_0"
NO_TURN = "no turn is left"


class Invocation(NamedTuple):
    """A sub-agent and its subtask.

    Attributes:
        entity: Whose relation is asked for.
        relation: What is asked for.
        formed: It said a key.
        expert: Its report is the entity asked for.
    """

    entity: int
    relation: int
    formed: bool = False
    expert: bool = False


class State(NamedTuple):
    """The state of `Keys`.

    Attributes:
        item: The task.
        known: The entity that was reported last, at first that of the question.
        report: What was reported last; None where nothing or none was.
        calls: All invocations so far.
        running: The last of them is at work.
        words: Of main's history.
        over: Nobody is told anything more.
        turn: Joint actions played.
    """

    item: TaskItem
    known: int
    words: tuple[str, ...]
    report: int | None = None
    calls: tuple[Invocation, ...] = ()
    running: bool = False
    over: bool = False
    turn: int = 0


class Keys(Lookup[State]):
    """Two hops by delegation; the module is the manual.

    Args:
        tasks, split, fields, render_mode: See `Task`.
        max_turns: H; None is 2 D + 1, which is always enough.
        relations: R, at least 2.
        entities: E, at least 2.
        delegations: D, at least 1.
        context: How many words of its history main sees; 0: all.
        filler: Words of a passage that say nothing.
    """

    metadata = {**Lookup.metadata, "name": "keys-v0"}
    diagnostics = ("expert", "invocations")
    joint_reward = False
    hierarchical = True

    def __init__(
        self,
        tasks: Tasks = "sample",
        *,
        split: str | None = None,
        fields: Mapping[str, str] | None = None,
        max_turns: int | None = None,
        render_mode: str | None = None,
        relations: int = 3,
        entities: int = 16,
        delegations: int = 3,
        context: int = 0,
        filler: int = 6,
    ) -> None:
        self.set_size(relations, entities, delegations, context, filler)
        self.roles = ("main", *["sub"] * delegations)
        turns = 2 * delegations + 1 if max_turns is None else max_turns
        super().__init__(tasks, split=split, fields=fields, max_turns=turns, render_mode=render_mode)

    def alone(self) -> TextDecPOMDP:
        """One agent that says keys itself."""
        from .alone import KeysAlone

        turns = min(self.delegations + 1, (self.max_turns + 1) // 2)
        size = (self.relations, self.entities, self.delegations, self.context, self.filler)
        return KeysAlone(size, max_turns=turns, render_mode=self.render_mode).with_items(self.items)

    # --- the task ----------------------------------------------------------------------------------------------------

    def initial_state(self, item: TaskItem, seed: int) -> State:
        """Main has the question, and nobody was called."""
        return State(item, self.world(item).start, tuple(item.prompt.split()))

    def told(self, state: State) -> Told:
        """Main its question or the last report, or all of its history that it sees; a sub-agent its subtask."""
        if state.over:
            return {}
        if state.running:
            call = state.calls[-1]
            return {f"agent_{len(state.calls)}": f"S e{call.entity} r{call.relation}"}
        return {MAIN: self.seen(state.words) if self.context else _heard_last(state)}

    def roster(self, state: State) -> Sequence[str]:
        """Main and everybody whom it has called."""
        return self.possible_agents[: 1 + len(state.calls)]

    def transition(self, state: State, actions: Mapping[str, str], seed: int) -> Transition[State]:
        """A sub-agent reports, or main delegates or answers."""
        last = state.turn + 1 >= self.max_turns
        if state.running:
            following, events = self._reported(state, actions[f"agent_{len(state.calls)}"], seed)
            if last:
                return self._ended(following, events, terminated=False)
            return self._on(following, events, anew=bool(self.context))
        text = actions[MAIN].strip()
        state = state._replace(turn=state.turn + 1, words=(*state.words, text))
        relation = number_of(text, "r", self.relations)
        if text == "ANS":
            answer = Event("answer", MAIN, {"answer": _report(state.report)})
            return self._ended(state, (answer,), answered=True)
        why = _why_stopped(relation, self.delegations - len(state.calls), last)
        if relation is None or why:
            return self._ended(state, (Event("stop", MAIN, {"why": why}),), terminated=why != NO_TURN)
        calls = (*state.calls, Invocation(state.known, relation))
        subtask = f"S e{state.known} r{relation}"
        spawn = Event("spawn", f"agent_{len(calls)}", {"role": "sub", "by": MAIN, "subtask": subtask})
        return self._on(state._replace(calls=calls, running=True), (spawn,))

    def _reported(self, state: State, text: str, seed: int) -> tuple[State, tuple[Event, ...]]:
        """A sub-agent said a key, or something that is none."""
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
        """Nothing is paid yet."""
        again = frozenset([MAIN] if anew else [])
        rewards = dict.fromkeys(self.possible_agents[: 1 + len(state.calls) - state.running], 0.0)
        return Transition(state, 0.0, rewards=rewards, events=events, anew=again)

    def _ended(
        self, state: State, events: tuple[Event, ...], *, answered: bool = False, terminated: bool = True
    ) -> Transition[State]:
        """Pay everybody who was there: main and the team R_M, a sub-agent R_S."""
        correct = answered and state.report == self.world(state.item).answer
        facts = {"expert": share_right([c.expert for c in state.calls]), "invocations": float(len(state.calls))}
        score = self.score(formed=answered, correct=correct, facts=facts)
        rewards = {MAIN: score.total}
        for agent, call in zip(self.possible_agents[1:], state.calls, strict=False):
            rewards[agent] = 0.1 + 0.4 * correct + 0.5 * call.expert if call.formed else 0.0  # (R_S)
        over = state._replace(over=True)
        return Transition(over, score.total, score, terminated=terminated, rewards=rewards, events=events)

    # --- teams of known value ----------------------------------------------------------------------------------------

    @property
    def optimum(self) -> float | None:  # type: ignore[override]
        """1, where there are two delegations, turns and context for both hops."""
        enough = self.delegations >= 2 and self.max_turns >= 5 and (not self.context or self.context >= 10)
        return 1.0 if enough else None

    def choices(self, agent: str, history: Sequence[Message]) -> Sequence[str]:
        """Relations and ANS for main, keys for a sub-agent."""
        if agent == MAIN:
            return (*(f"r{number}" for number in range(self.relations)), "ANS")
        return [f"k{number}" for number in range(self.relations)]

    def optimal_action(self, agent: str, history: Sequence[Message]) -> str:
        """Main asks for the first hop until there is a report of it, then for the second, and answers."""
        words = [word for message in history for word in message.text.split()]
        self.refuse_foreign(words, "Q" if agent == MAIN else "S")
        if agent != MAIN:
            return f"k{key_of(int(words[2][1:]), self.relations)}"
        reports = [word for before, word in itertools.pairwise(words) if before == "R"]
        hops = len(reports) - reports.count("none")
        return words[2 + hops] if hops < 2 and len(reports) < self.delegations else "ANS"


def _report(entity: int | None) -> str:
    return "R none" if entity is None else f"R e{entity}"


def _heard_last(state: State) -> str:
    return _report(state.report) if state.calls else state.item.prompt


def _why_stopped(relation: int | None, delegations_left: int, last: bool) -> str:
    """Why main cannot delegate; "" where it can."""
    if relation is None:
        return "the text is neither a relation nor ANS"
    if not delegations_left:
        return "no delegation is left"
    return NO_TURN if last else ""
