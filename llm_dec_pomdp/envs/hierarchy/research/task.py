"""research-v0: A main agent answers a question from the reports of sub-agents that it asks.

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

Action. With `grammar="free"` main writes lines `ASK name: what to find out` (several at once), or `ANSWER: ...`, or
`STOP`. Sub-agents have six turns: `SEARCH: words` (BM25, five passages), `READ: number` (the page around a passage) or
`REPORT: ...` (60 words; longer reports are cut with a note). Calls mean the same, as in `<tool_call>{"name": "search",
"arguments": {"query": "..."}}</tool_call>`. Other texts are invalid, and so are too many invocations and unknown names.
An invalid text of main ends the episode.

With `grammar="choice"`, for small models, main picks one of three lettered options (two sub-questions, or to answer;
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

Teams. `env.alone()` is the same task for one agent that has the tools itself. Of the scripts, `script:optimal` earns
1.0 less its costs on all embedded questions under both grammars, `script:ask_everything` the same with every invocation
spent, `script:never_ask` 0.1. Under the grammar "free" these make one mistake each: `script:asks_twice` (when to
spawn), `script:asks_another` (whom to ask, with specialists), `script:asks_vaguely` (what to say), `script:misreads`
(how to combine; it earns 0.1) and `script:goes_on` (when to stop).

Files. A row of a task file has `question`, `answer` and `corpus`, the path of a JSONL file (`text`, and optionally
`title` and `part`) or of a folder of text files (a line is a passage, a sub-folder a part), relative to the task file
or to the working folder. Instead of `corpus` it may have the fields of HotpotQA and 2WikiMultihopQA (`context`,
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
from typing import Any, Literal, get_args

from typing_extensions import Unpack

from ....registries import nearest
from ....seeding import derive
from ....types import Event, Group, Message, Score, TaskItem, Tool
from ...base import Say
from ...facts import Facts
from ...task import Task, TaskOptions, Transition
from ...tasks import TaskError, Tasks, TaskSource
from ..base import MAIN, Hierarchy, parts_of_main, spawned
from .choice import CHOOSE, LETTERS, Choice
from .corpus import corpus, from_published, placed
from .decisions import Limits, decision_means
from .free import FINDS, LEADS, TOOLS, Free
from .questions import Effect, Invocation, Lead, QuestionState, embedded, tool_events
from .scoring import ReportJudge, judged, redundancy, truth_of
from .scripts import ERRING, TEAMS, Scripts

Grammar = Literal["free", "choice"]
MOST = 64  # invocations


class Research(Hierarchy[QuestionState]):
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
        expert: ReportJudge | None = None,
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
        from .single_agent import ResearchAlone

        return ResearchAlone(self)

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
        wanted = [part for parts_of_kind in self._words.parts for part in parts_of_kind]
        if missing := sorted(set(wanted) - set(parts)):
            return f"field 'corpus': {name!r:.80} has no part {missing[0]!r}; {nearest(missing[0], parts)}"
        return ""

    # --- the course of a question --------------------------------------------------------------------------------

    def initial_state(self, item: TaskItem, seed: int) -> QuestionState:
        """Main is told the question."""
        state = QuestionState(item, derive(seed, "options"))
        return state._replace(messages=((MAIN, self._words.question(state)),))

    def told(self, state: QuestionState) -> Mapping[str, str | Message]:
        """What follows from the last texts."""
        return dict(state.messages)

    def describe(self, state: QuestionState) -> Mapping[str, Any]:
        """What every invocation did."""
        works = state.invocations
        return {"invocations": [{**work._asdict(), "retrieved": list(work.retrieved)} for work in works]}

    def transition(self, state: QuestionState, actions: Mapping[str, str], seed: int) -> Transition[QuestionState]:
        """Main decides, or the sub-agents go on with their work."""
        now = state._replace(turn=state.turn + 1, messages=())
        if state.working:
            return self._work(now, actions)
        text = actions[MAIN]
        lead = Lead("answer", text=text) if state.writing else self._words.lead(state, text)
        if lead.what == "answer" and not lead.text.strip():
            lead = Lead("invalid", text="the answer is empty")
        if lead.what == "ask" and now.turn < self.max_turns:
            return self._spawn(now, lead)
        if lead.what == "write":
            request = Choice.request(self._words, state)  # type: ignore[arg-type]
            return self._on(now._replace(writing=True, messages=((MAIN, request),)), (), anew=(MAIN,))
        if lead.what == "ask":
            return self._on(now, ())
        event = Event("answer" if lead.what == "answer" else "stop", MAIN, {"text": lead.text})
        return self.end(now, self._score(now, lead), (event,))

    def _spawn(self, state: QuestionState, lead: Lead) -> Transition[QuestionState]:
        """The sub-agents that are asked join and begin their work."""
        passages, events, following = corpus(state.item.fields["corpus"]), list[Event](), state
        for kind, subtask in lead.asks:
            work = Invocation(self._free_slot(kind, following.invocations), kind, subtask)
            effect = self._words.brief(state, work, passages)
            events += [spawned(work.agent, kind, subtask), *_tool_events(work.agent, effect)]
            following = following._replace(
                invocations=(*following.invocations, work._replace(retrieved=effect.retrieved)),
                messages=(*following.messages, (work.agent, effect.message or Message("told", subtask))),
            )
        return self._on(following, events)

    def _work(self, state: QuestionState, actions: Mapping[str, str]) -> Transition[QuestionState]:
        """The sub-agents go on with their work; main is told when the last one has reported."""
        passages, events, after = corpus(state.item.fields["corpus"]), list[Event](), list[Invocation]()
        messages: list[tuple[str, Message]] = []
        for work in state.invocations:
            if work.report is None:
                effect = self._words.work(state, work, actions[work.agent], passages)
                work = self._after(state.item, work, effect)
                events += _tool_events(work.agent, effect)
                if work.report is not None:
                    events.append(Event("return", work.agent, {"report": work.report, "expert": f"{work.expert:g}"}))
                elif effect.message is not None:
                    messages.append((work.agent, effect.message))
            after.append(work)
        following = state._replace(invocations=tuple(after), messages=tuple(messages))
        return self._on(following, events) if following.working else self._tell_main(following, events)

    def _tell_main(self, state: QuestionState, events: Sequence[Event]) -> Transition[QuestionState]:
        """Tell main the reports, after all sub-agents have given theirs."""
        whole = self.grammar == "choice" or self.context is not None
        message = self._words.question(state) if whole else self._words.reports(state, state.invocations[state.known :])
        writing = self.grammar == "choice" and len(state.invocations) == self.max_invocations
        following = state._replace(messages=((MAIN, message),), known=len(state.invocations), writing=writing)
        return self._on(following, events, anew=(MAIN,) if whole else ())

    def _after(self, item: TaskItem, work: Invocation, effect: Effect) -> Invocation:
        """An invocation after a text that it wrote."""
        retrieved = tuple(dict.fromkeys((*work.retrieved, *effect.retrieved)))
        work = work._replace(turns=work.turns + 1, retrieved=retrieved, report=effect.report, valid=effect.valid)
        if not work.usable:
            return work
        return work._replace(expert=judged(self.expert, item, work) if self.expert else truth_of(item).expert(work))

    def _free_slot(self, kind: str, taken: Sequence[Invocation]) -> str:
        first = 1 + self.kinds.index(kind) * self.max_invocations
        return self.possible_agents[first + sum(work.kind == kind for work in taken)]

    def _on(self, state: QuestionState, events: Sequence[Event], anew: Sequence[str] = ()) -> Transition[QuestionState]:
        """The question goes on, unless its turns are used up."""
        if state.turn < self.max_turns:
            return self.go_on(state, events, anew)
        late = Lead("invalid", text=f"no answer in {self.max_turns} turns")
        return self.end(state._replace(messages=()), self._score(state, late), events)

    def _score(self, state: QuestionState, lead: Lead) -> Score:
        truth, works = truth_of(state.item), state.invocations
        valid, right = lead.what != "invalid", lead.what == "answer" and truth.right(lead.text)
        support = truth.supported(works)
        cost = self.cost_per_invocation * len(works) + self.cost_per_turn * state.turn
        parts = parts_of_main(valid=valid, correct=right and support) | {"cost": 0.0 - cost}
        count = max(1, len(works))
        facts = {
            "right": float(right),
            "support": float(support),
            "expert": sum(work.expert for work in works) / count,
            "retrieval_hit": truth.hits(works),
            "redundancy": redundancy(works),
            "invocations": float(len(works)),
            "valid_subs": sum(work.usable for work in works) / count,
        }
        return Score(sum(parts.values()), parts, facts, {} if valid else {"main": lead.text})


def _tool_events(agent: str, effect: Effect) -> list[Event]:
    """The events of a tool call and its result."""
    tool, argument = effect.call
    return tool_events(agent, tool, argument, effect.message.text if effect.message else "") if tool else []


def check_options(
    grammar: str, most: int, context: int | None, kinds: Sequence[str], costs: Mapping[str, float]
) -> None:
    """Refuse impossible options with a ValueError that names the option and its value."""
    if grammar not in get_args(Grammar):
        raise ValueError(f"grammar is {grammar!r}; {nearest(str(grammar), get_args(Grammar))}")
    if isinstance(most, bool) or most not in range(1, MOST + 1):
        raise ValueError(f"max_invocations is {most!r}; sub-agents may be asked 1 to {MOST} times")
    if context is not None and (isinstance(context, bool) or context < 1):
        raise ValueError(f"context is {context!r}; it counts words, at least 1, or is None for all")
    for name, cost in costs.items():
        if not 0 <= cost < float("inf"):
            raise ValueError(f"{name} is {cost!r}; a cost is finite and at least 0")
    if isinstance(kinds, str) or len(set(kinds)) < len(kinds) or "main" in kinds:
        raise ValueError(
            f"specialists is {kinds!r}; give a list of different parts of the corpus, such as "
            '["people+towns", "companies+works"]'
        )
