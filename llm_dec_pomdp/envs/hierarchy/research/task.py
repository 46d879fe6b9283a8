"""research-v0: a main agent answers a question from the reports of sub-agents that it asks.

| fact | value |
|---|---|
| agents | agent_0 "main", agent_1 ... one for each possible invocation ("sub", or the specialists' names) |
| turns | up to 20 (`max_turns`); sub-agents of one turn work at the same time |
| data | task files; `"hub"`: `hotpotqa/hotpot_qa`, configuration "distractor", train[:1000] / validation[:1000] |
| offline | 120 questions about 6 worlds for training, 60 about 3 others for tests; every world has some 350 sentences |
| return | 0 to 1.0, less what invocations and turns cost |

Observation. Main is told the question, and later the reports of the sub-agents that it asked, never a passage. Each
invocation of a sub-agent joins with a history of its own: its subtask, then what its searches find. It stays until the
end, since its reward depends on main's answer, but is not asked again when it has reported.

Action, `grammar="free"`. Main: lines `ASK name: what to find out` (several at once), or `ANSWER: ...`, or `STOP`.
Sub-agents have six turns: `SEARCH: words` (BM25, five passages), `READ: number` (the page around a passage) or
`REPORT: ...` (60 words; longer reports are cut with a note). Calls mean the same, as in `<tool_call>{"name": "search",
"arguments": {"query": "..."}}</tool_call>`. Other texts are invalid, and so are too many invocations and unknown names.
An invalid text of main ends the episode.

Action, `grammar="choice"`, for small models. Main picks one of three lettered options (two sub-questions, or to answer;
the first letter counts) and writes its answer when it is told to. Each prompt is complete and begins a new history. A
sub-agent is shown the two best passages and answers in one sentence. Only for embedded questions.

Reward, individual, all of it at the end (arXiv:2511.13288, section 3):

| who | reward |
|---|---|
| main, and the team | R_M = 0.1 format + 0.9 correct, both 0 where main's format is invalid; less the costs |
| every invocation | R_S = 0.1 format + 0.4 correct + 0.5 expert; 0 where its own format is invalid |

`correct`: the answer is right, names no second value of its kind, and `support` holds: every step of the question was
reported by an invocation that retrieved a passage which says so. A right answer without that counts as wrong.
`expert`: the report holds what its subtask asked for, by a passage that it retrieved, and no second value. Where the
facts are not known (published tasks and your own) it is the share of the report's names and numbers that were
retrieved. The option `expert` replaces both by the number that any policy gives.

Options: `max_invocations` (4); `cost_per_invocation`, `cost_per_turn` (0); `specialists`, which search only their parts
of the corpus (named by the parts, joined by "+": `["people+towns", "companies+works"]`); `context` (main is told only
the last so many words of reports); `expert` (a function of a prompt and the number of the try, which returns a text
with a number from 0 to 10).

Measured (`env.measure`) are the five decisions of main, each as the share of the right ones, on embedded questions.
Spawned when it helped: invocations, while a step of the question was open, for each of which there was a step. Asked
the right one: invocations of the specialist who could know. Said what was needed: subtasks that name their subject, and
reports that name what was shown. Kept what it was told: right answers when all steps were reported. Stopped in time:
ends when no step was open any more, of all ends and of all texts after that.

`env.alone()` is the same task for one agent that has the tools itself. Scripted teams: `script:optimal` earns 1.0 less
its costs on all embedded questions under both grammars, `script:ask_everything` the same with every invocation spent,
`script:never_ask` 0.1. Under the grammar "free" these make one mistake each: `script:asks_twice` (when to spawn),
`script:asks_another` (whom to ask, with specialists), `script:asks_vaguely` (what to say), `script:misreads` (how to
combine; it earns 0.1) and `script:goes_on` (when to stop).

A row of a task file has `question`, `answer` and `corpus`, the path of a JSONL file (`text`, and optionally `title` and
`part`) or of a folder of text files (a line is a passage, a sub-folder a part), relative to the task file or to the
working folder. Instead of `corpus` it may have the fields of HotpotQA and 2WikiMultihopQA (`context`,
`supporting_facts`).

Source: "Multi-Agent Deep Research: Training Multi-Agent Systems with M-GRPO", arXiv:2511.13288, for setting and
rewards; worlds, questions and both grammars are this suite's own. BM25: `bm25s`, arXiv:2407.03618.

Version history: v0, the first.

Example:
    >>> import llm_dec_pomdp
    >>> env = llm_dec_pomdp.make("research-v0")
    >>> observations, _ = env.reset(options={"index": 1})
    >>> observations["agent_0"].splitlines()[0]
    'Question: In which town was the author of Horwin by Night born?'
    >>> observations, *_ = env.step({"agent_0": "ASK sub: Who wrote Horwin by Night?"})
    >>> env.agents, env.asked("agent_0"), env.asked("agent_1")
    (['agent_0', 'agent_1'], False, True)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from typing_extensions import Unpack

from ....registries import nearest
from ....seeding import derive
from ....types import Event, Group, Message, Score, TaskItem, Tool
from ...base import Say
from ...facts import Facts
from ...task import Task, TaskOptions, Transition
from ...tasks import TaskError, Tasks, TaskSource
from .choice import CHOOSE, LETTERS, Choice
from .corpus import corpus, placed
from .decisions import Limits, decision_means
from .free import TOOLS, Free
from .grammar import FINDS, LEADS
from .judging import Expert, judged
from .options import Grammar, check_options
from .published import from_published
from .questions import embedded
from .scoring import FORMAT, redundancy, reward_of_main, reward_of_sub, truth_of
from .scripts import ERRING, TEAMS, Scripts
from .state import MAIN, Invocation, Lead, State, Step


class Research(Task[State]):
    """Ask, read, answer; the module is the manual.

    Args:
        grammar: "free" or "choice".
        max_invocations: How many sub-agents may be asked, 1 to 64.
        specialists: Parts of the corpus, joined by "+"; each may be asked `max_invocations` times.
        cost_per_invocation: Main pays it for every sub-agent that it asks.
        cost_per_turn: Main pays it for every turn of the episode.
        context: How many words of the reports main is told, the last ones; None: all.
        expert: Judges reports instead of the rule.
        tasks, common: See `Task`; H is 20.
    """

    declared = Facts(
        name="research-v0",
        components=("format", "correct", "cost"),
        diagnostics=("right", "support", "expert", "retrieval_hit", "redundancy", "invocations", "valid_subs"),
        score_range=(-math.inf, 1.0),  # follows max_turns
        joint_reward=False,
        hierarchical=True,
        hears_others=True,  # reports are for main
        hidden_fields=("answer", "hops"),
        scripts=TEAMS,
    )
    source = TaskSource(
        "research",
        hub="hotpotqa/hotpot_qa",
        hub_config="distractor",
        hub_splits={"train": "train[:1000]", "test": "validation[:1000]"},
        required=("prompt", "answer", "corpus"),
        fields={"prompt": "question", "id": "_id"},
        sample=embedded,
        convert=from_published,
    )

    def __init__(
        self,
        tasks: Tasks = "sample",
        *,
        grammar: Grammar = "free",
        max_invocations: int = 4,
        specialists: Sequence[str] = (),
        cost_per_invocation: float = 0.0,
        cost_per_turn: float = 0.0,
        context: int | None = None,
        expert: Expert | None = None,
        **common: Unpack[TaskOptions],
    ) -> None:
        costs = {"cost_per_invocation": cost_per_invocation, "cost_per_turn": cost_per_turn}
        check_options(grammar, max_invocations, context, specialists, costs)
        kinds = tuple(specialists) or ("sub",)
        parts = tuple(tuple(kind.split("+")) if specialists else () for kind in kinds)
        self.grammar: Grammar = grammar
        self.kinds, self.max_invocations, self.context = kinds, max_invocations, context
        self.cost_per_invocation, self.cost_per_turn = float(cost_per_invocation), float(cost_per_turn)
        self.expert = expert
        self.declared = replace(
            self.declared,
            roles=("main", *(kind for kind in kinds for _ in range(max_invocations))),
            silence_is_lowest=not (cost_per_invocation or cost_per_turn),
            scripts=(*TEAMS, *(ERRING if grammar == "free" else ())),
        )
        self._words = {"free": Free, "choice": Choice}[grammar](kinds, parts, max_invocations, context)
        self._folder = Path(tasks).parent if isinstance(tasks, (str, Path)) else Path()
        common.setdefault("max_turns", 20)
        super().__init__(tasks, **common)

    @property
    def facts(self) -> Facts:
        """From minus all costs to 1."""
        costs = self.max_invocations * self.cost_per_invocation + self.max_turns * self.cost_per_turn
        return replace(self.declared, score_range=(-costs, 1.0))

    def script(self, name: str) -> Say:
        """Teams that play embedded questions; those that make one mistake need the grammar "free"."""
        return getattr(self._scripts, name) if name in self.declared.scripts else super().script(name)

    def choices(self, agent: str, history: Sequence[Message] = ()) -> Sequence[str]:
        """The letters, where main has options; elsewhere agents write freely."""
        offered = self.grammar == "choice" and agent == MAIN and history and history[-1].text.endswith(CHOOSE)
        return tuple(LETTERS) if offered else ()

    @property
    def _scripts(self) -> Scripts:
        return Scripts((*embedded(), *self.items), self.grammar, self._words)

    def alone(self) -> Task[Any]:
        """The same task for one agent that has the tools itself."""
        from .single_agent import Solo

        return Solo(self)

    def tools(self, agent: str) -> tuple[Tool, ...]:
        """The calls of the grammar "free"."""
        names = LEADS if agent == MAIN else FINDS
        return tuple(TOOLS[name] for name in names) if self.grammar == "free" else ()

    def measure(self, groups: Sequence[Group]) -> Mapping[str, Mapping[str, float]]:
        """The five decisions of main, as shares of the right ones; see `research.decisions`."""
        return {
            "decisions": decision_means(self.items, Limits(self.kinds, self.max_invocations, self.max_turns), groups)
        }

    # --- tasks ---------------------------------------------------------------------------------------------------

    def prepare(self, items: tuple[TaskItem, ...]) -> tuple[TaskItem, ...]:
        """Make the paths of corpora independent of the folder of the task file."""
        if items and (problem := self.problem(items[0])):  # rows of the caller were checked; embedded ones are alike
            raise TaskError(f"task {items[0].id!r}, {problem}")
        return tuple(
            replace(item, fields={**item.fields, "corpus": placed(item.fields["corpus"], self._folder)})
            for item in items
        )

    def problem(self, item: TaskItem) -> str:
        """A corpus that cannot be read or lacks a part, or no hops for the grammar "choice"."""
        if self.grammar == "choice" and not item.fields.get("hops"):
            return (
                "field 'hops': is missing, and grammar 'choice' offers sub-questions by it; play it with grammar='free'"
            )
        name = item.fields["corpus"]
        try:
            parts = corpus(placed(name, self._folder)).parts
        except TaskError as error:
            return f"field 'corpus': {error}"
        wanted = [part for own in self._words.parts for part in own]
        if missing := sorted(set(wanted) - set(parts)):
            return f"field 'corpus': {name!r:.80} has no part {missing[0]!r}; {nearest(missing[0], parts)}"
        return ""

    # --- the course of a question --------------------------------------------------------------------------------

    def initial_state(self, item: TaskItem, seed: int) -> State:
        """Main is told the question."""
        state = State(item, derive(seed, "options"))
        return state._replace(told=((MAIN, self._words.question(state)),))

    def told(self, state: State) -> Mapping[str, str | Message]:
        """What follows from the last texts."""
        return dict(state.told)

    def roster(self, state: State) -> Sequence[str]:
        """Main, and all invocations so far."""
        return [MAIN, *(one.agent for one in state.invocations)]

    def describe(self, state: State) -> Mapping[str, Any]:
        """What every invocation did."""
        return {"invocations": [{**one._asdict(), "retrieved": list(one.retrieved)} for one in state.invocations]}

    def transition(self, state: State, actions: Mapping[str, str], seed: int) -> Transition[State]:
        """Main decides, or the sub-agents go on with their work."""
        now = state._replace(turn=state.turn + 1, told=())
        if state.working:
            return self._work(now, actions)
        text = actions[MAIN]
        lead = Lead("answer", text=text) if state.writing else self._words.lead(state, text)
        if lead.what == "answer" and not lead.text.strip():
            lead = Lead("invalid", text="the answer is empty")
        if lead.what == "ask" and now.turn < self.max_turns:
            return self._spawn(now, lead)
        if lead.what == "write":
            told = ((MAIN, Choice.request(self._words, state)),)  # type: ignore[arg-type]
            return self._on(now._replace(writing=True, told=told), (), frozenset({MAIN}))
        if lead.what == "ask":
            return self._on(now, ())
        event = Event("answer" if lead.what == "answer" else "stop", MAIN, {"text": lead.text})
        return self._end(now, lead, (event,))

    def _spawn(self, state: State, lead: Lead) -> Transition[State]:
        """The sub-agents that are asked join and begin their work."""
        read, events, following = corpus(state.item.fields["corpus"]), list[Event](), state
        for kind, subtask in lead.asks:
            one = Invocation(self._free_slot(kind, following.invocations), kind, subtask)
            events.append(Event("spawn", one.agent, {"role": kind, "by": MAIN, "subtask": subtask}))
            step = self._words.brief(state, one, read)
            events += _tool_events(one.agent, step)
            following = following._replace(
                invocations=(*following.invocations, one._replace(retrieved=step.retrieved)),
                told=(*following.told, (one.agent, step.told or Message("told", subtask))),
            )
        return self._on(following, events, there=self.roster(state))

    def _work(self, state: State, actions: Mapping[str, str]) -> Transition[State]:
        """The sub-agents go on with their work; main is told when the last one has reported."""
        read, events, after = corpus(state.item.fields["corpus"]), list[Event](), list[Invocation]()
        told: list[tuple[str, Message]] = []
        for one in state.invocations:
            if one.report is None:
                step = self._words.work(state, one, actions[one.agent], read)
                one = self._after(state.item, one, step)
                events += _tool_events(one.agent, step)
                if one.report is not None:
                    events.append(Event("return", one.agent, {"report": one.report, "expert": f"{one.expert:g}"}))
                elif step.told is not None:
                    told.append((one.agent, step.told))
            after.append(one)
        following = state._replace(invocations=tuple(after), told=tuple(told))
        return self._on(following, events) if following.working else self._tell_main(following, events)

    def _tell_main(self, state: State, events: Sequence[Event]) -> Transition[State]:
        """Tell main the reports, after all sub-agents have given theirs."""
        whole = self.grammar == "choice" or self.context is not None
        message = self._words.question(state) if whole else self._words.reports(state, state.invocations[state.known :])
        writing = self.grammar == "choice" and len(state.invocations) == self.max_invocations
        following = state._replace(told=((MAIN, message),), known=len(state.invocations), writing=writing)
        return self._on(following, events, frozenset({MAIN}) if whole else frozenset())

    def _after(self, item: TaskItem, one: Invocation, step: Step) -> Invocation:
        """An invocation after a text that it wrote."""
        retrieved = tuple(dict.fromkeys((*one.retrieved, *step.retrieved)))
        one = one._replace(turns=one.turns + 1, retrieved=retrieved, report=step.report, valid=step.valid)
        if step.report is None or not step.valid:
            return one
        return one._replace(
            expert=judged(self.expert, item, one.work) if self.expert else truth_of(item).expert(one.work)
        )

    def _free_slot(self, kind: str, taken: Sequence[Invocation]) -> str:
        first = 1 + self.kinds.index(kind) * self.max_invocations
        return self.possible_agents[first + sum(one.kind == kind for one in taken)]

    # --- rewards -------------------------------------------------------------------------------------------------

    def _on(
        self,
        state: State,
        events: Sequence[Event],
        anew: frozenset[str] = frozenset(),
        there: Sequence[str] | None = None,
    ) -> Transition[State]:
        """The question goes on and pays nothing yet, unless its turns are used up."""
        if state.turn >= self.max_turns:
            late = Lead("invalid", text=f"no answer in {self.max_turns} turns")
            return self._end(state._replace(told=()), late, events)
        zeros = dict.fromkeys(self.roster(state) if there is None else there, 0.0)
        return Transition(state, 0.0, rewards=zeros, events=tuple(events), anew=anew)

    def _end(self, state: State, lead: Lead, events: Sequence[Event]) -> Transition[State]:
        """Pay all agents: R_M and R_S of arXiv:2511.13288."""
        score = self._score(state, lead)
        correct = score.components["correct"] > 0
        rewards = {MAIN: score.total}
        for one in state.invocations:
            valid = one.valid and one.report is not None
            rewards[one.agent] = reward_of_sub(valid=valid, correct=correct, expert=one.expert)
        return Transition(state, score.total, score, terminated=True, rewards=rewards, events=tuple(events))

    def _score(self, state: State, lead: Lead) -> Score:
        truth, works = truth_of(state.item), [one.work for one in state.invocations]
        valid, right = lead.what != "invalid", lead.what == "answer" and truth.right(lead.text)
        support = truth.supported(works)
        earned = reward_of_main(valid=valid, correct=right and support)
        cost = self.cost_per_invocation * len(works) + self.cost_per_turn * state.turn
        parts = {"format": FORMAT * valid, "correct": earned - FORMAT * valid, "cost": 0.0 - cost}
        count = max(1, len(works))
        facts = {
            "right": float(right),
            "support": float(support),
            "expert": sum(one.expert for one in state.invocations) / count,
            "retrieval_hit": truth.hits(works),
            "redundancy": redundancy(works),
            "invocations": float(len(works)),
            "valid_subs": sum(one.valid and one.report is not None for one in state.invocations) / count,
        }
        return Score(sum(parts.values()), parts, facts, {} if valid else {"main": lead.text})


def _tool_events(agent: str, step: Step) -> list[Event]:
    """The events of a tool call and its result."""
    if not step.call[0]:
        return []
    shown = step.told.text if step.told is not None else ""
    return [
        Event("call", agent, {"tool": step.call[0], "input": step.call[1]}),
        Event("result", agent, {"tool": step.call[0], "output": shown}),
    ]
