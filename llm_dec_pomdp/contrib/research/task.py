"""research-v0: A main agent answers a question from the reports of specialists: they search, query and compute.

| fact | value |
|---|---|
| agents | agent_0 "main", agent_1 ... one for each possible invocation ("reader", "analyst", "calculator") |
| turns | up to 32 (`max_turns`); sub-agents of one turn work at the same time |
| data | task files; `"hub"`: `hotpotqa/hotpot_qa`, configuration "distractor", train[:1000] / validation[:1000] |
| offline | 120 questions about 6 worlds for training, 60 about 3 others for tests |
| a world | some 250 sentences about people, and three tables |
| a question | needs 1 to 6 invocations: chains, comparisons, counts, sums and differences |
| return | 0 to 1.0, less what invocations and turns cost |

Observation. Main is told the question, and later the reports of the sub-agents that it asked, never what their tools
gave. Each invocation of a sub-agent joins with a history of its own: its subtask, then the answers to its calls. It
stays until the end, since its reward depends on main's answer, but is not asked again when it has reported.

Action. With `grammar="free"` agents call [tools](../tools.md), in any of the forms there; a text without a call is
main's answer, or a sub-agent's report (60 words; longer reports are cut with a note).

| who | tools |
|---|---|
| main | `ask(to, subtask)`, several at once |
| reader | `search(query)` (BM25, five passages), `read(number)` (the passages around one) |
| analyst | `schema()`, `query(statement)` (sqlite) |
| calculator | `python(code)` |

Sub-agents have six texts, the last of which has to be the report. What cannot be run is answered with the reason. A
text without words, a sixth text with a call and an end of the turns are invalid.

With `grammar="choice"`, for small models, every text is a letter (the first counts) that picks one of three options: a
text of an optimal team (a call, a report, the answer), one with a wrong argument, and one for another tool, specialist
or end. The seed decides their order. Each prompt is complete and begins a new history. Only for embedded questions.

Reward, individual, all of it at the end (arXiv:2511.13288, section 3):

| who | reward |
|---|---|
| main, and the team | R_M = 0.1 format + 0.9 correct, both 0 where main's format is invalid; less the costs |
| every invocation | R_S = 0.1 format + 0.4 correct + 0.5 expert; 0 where its own format is invalid |

`correct`: the answer is right, names no second value of its kind, and `support` holds: every step of the question was
reported by an invocation whose calls showed it. A right answer without that counts as wrong. `expert`: the report
holds what its subtask asked for, shown by its calls, and no second value. A call shows a fact of the texts by its
sentence, one of the tables if another value would change what the query gives, a sum by its value. Where the facts are
not known (published tasks and your own) `expert` is the share of the report's names and numbers that calls gave. The
option `expert` replaces both by the number that any policy gives.

Options: `max_invocations` (8); `cost_per_invocation`, `cost_per_turn` (0); `specialists`, each with one skill or
several (`["reader", "analyst+calculator"]`); `context` (main is told only the last so many words of reports); `expert`
(a function of a prompt and the number of the try, which returns a text with a number from 0 to 10); `needs` (only
embedded questions that need so many invocations, such as `[1, 4]`).

Measured (`env.measure`) are the five decisions of main, each as the share of the right ones, on embedded questions.
Spawned when it helped: invocations, while a step of the question was open, for each of which there was a step. Asked
the right one: invocations of the specialist who could know. Said what was needed: subtasks that name their subject, and
reports that name what was shown. Kept what it was told: right answers when all steps were reported. Stopped in time:
ends when no step was open any more, of all ends and of all texts after that.

Teams. `env.alone()` is the same task for one agent that has the tools itself. Of the scripts, `script:optimal` earns
1.0 less its costs on all embedded questions under both grammars, `script:ask_everything` the same with every invocation
spent, `script:never_ask` 0.1. Under the grammar "free" these make one mistake each: `script:asks_twice` (when to
spawn), `script:asks_another` (whom to ask), `script:asks_vaguely` (what to say), `script:misreads` (how to combine; it
earns 0.1) and `script:goes_on` (when to stop).

Files. A row of a task file has `question`, `answer` and `corpus`, the path of a JSONL file (`text`, and optionally
`title`) or of a folder of text files (a line is a passage), relative to the task file or to the working folder. Instead
of `corpus` it may have the fields of HotpotQA and 2WikiMultihopQA (`context`, `supporting_facts`). There are no tables
then, so `specialists=["reader"]` is enough.

Source: "Multi-Agent Deep Research: Training Multi-Agent Systems with M-GRPO", arXiv:2511.13288, for setting and
rewards; worlds, questions and both grammars are this suite's own. BM25: `bm25s`, arXiv:2407.03618.

Version history: v0, the first.

Example:
    >>> import llm_dec_pomdp
    >>> env = llm_dec_pomdp.make("research-v0")
    >>> observations, _ = env.reset(options={"index": 10})
    >>> observations["agent_0"].splitlines()[0]
    'Question: How many companies are based in the town in which Ralkel Ropes is based?'
    >>> observations, *_ = env.step({"agent_0": 'ask("analyst", "In which town is Ralkel Ropes based?")'})
    >>> env.agents, env.asked("agent_0"), env.asked("agent_9")
    (['agent_0', 'agent_9'], False, True)
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, Unpack, get_args

from llm_dec_pomdp.envs import Facts, Script, Task, TaskError, TaskOptions, Tasks, TaskSource, TextDecPOMDP, Transition
from llm_dec_pomdp.envs.hierarchy.base import MAIN, Hierarchy, parts_of_main, spawned
from llm_dec_pomdp.envs.tools import Answered, Call, Limits, Toolbox, kit
from llm_dec_pomdp.envs.tools.python import python
from llm_dec_pomdp.envs.tools.search import search
from llm_dec_pomdp.envs.tools.sql import sql
from llm_dec_pomdp.registries import nearest
from llm_dec_pomdp.seeding import derive
from llm_dec_pomdp.types import Event, Group, Message, Reviewer, Score, TaskItem, Tool

from .corpus import corpus, from_published, placed
from .decisions import Bounds, decision_means
from .questions import Invocation, QuestionState, Used, embedded, facts_of, steps_of
from .scoring import judged, redundancy, truth_of
from .scripts import (
    ERRING,
    LETTERS,
    TEAMS,
    Scripts,
    notes,
    offered,
    options_alone,
    options_of_main,
    options_of_sub,
    picked,
    reported,
)
from .worlds import SKILLS

Grammar = Literal["free", "choice"]
Orders = tuple[tuple[str, str], ...]  # whom main has asked, and for what
MOST = 64  # invocations
SUB_TURNS = 6  # texts of an invocation, the last of which has to be its report
CALLS = 24  # of each tool, by an invocation
REPORT_WORDS, SUBTASK_WORDS = 60, 60
CHARACTERS = 8  # allowed for a word, on average, where a text is cut
_TOOLS = {"search": "reader", "sql": "analyst", "python": "calculator"}  # skill by kit
_DOES = {"reader": "searches texts", "analyst": "queries tables", "calculator": "runs Python"}


class Lead(NamedTuple):
    """The tool of main; its state is what was asked of whom."""

    kinds: tuple[str, ...]

    def ask(self, state: Orders, to: str, subtask: str) -> tuple[Orders, str]:
        """Ask a sub-agent to find something out. What you ask at once is worked on at the same time.

        Args:
            to: Name of the sub-agent.
            subtask: What it is to find out; it knows nothing else.
        """
        if to not in self.kinds:
            raise ValueError(f"nobody is called {to!r:.60}; {nearest(to, self.kinds)}")
        return (*state, (to, cut(subtask, SUBTASK_WORDS))), ""


@functools.lru_cache(maxsize=64)
def toolbox(name: str, kinds: tuple[str, ...], most: int) -> Toolbox:
    """The tools for the corpus of that name: `ask` for main, those of their skills for sub-agents.

    Without kinds of sub-agents main has all tools itself.
    """
    held = corpus(name)
    kits = [search(held.texts), sql(held.script), replace(python(), private=True)]
    users = {
        kit.name: [agent for agent, kind in roles(kinds, most).items() if _TOOLS[kit.name] in kind.split("+")]
        for kit in kits
    }
    if kinds:
        kits, users = [kit("lead", Lead(kinds).ask, initial=()), *kits], users | {"lead": [MAIN]}
    bounded = {f.tool.name: Limits(calls=CALLS, seconds=0) for kit in kits for f in kit.functions}
    return Toolbox(kits, bounded | ({"ask": Limits(calls=most, seconds=0)} if kinds else {}), users)


class Research(Hierarchy[QuestionState]):
    """Ask, read, query, compute, answer; the module is the manual.

    Args:
        grammar: "free" or "choice".
        max_invocations: How many sub-agents may be asked, 1 to 64.
        specialists: Their skills, joined by "+"; each may be asked `max_invocations` times.
        cost_per_invocation: Main pays it for every sub-agent that it asks.
        cost_per_turn: Main pays it for every turn of the episode.
        context: How many words of the reports main is told, the last ones; None: all.
        expert: Judges reports instead of the rule.
        needs: Embedded questions that need so many invocations, 1 to 6; () for all.
        tasks, common: See `Task`; H is 32.
    """

    declared = Facts(
        name="research-v0",
        components=("format", "correct", "cost"),
        diagnostics=("right", "support", "expert", "retrieval_hit", "redundancy", "invocations", "valid_subs"),
        score_range=(-math.inf, 1.0),  # follows max_turns
        joint_reward=False,
        hierarchical=True,
        shares_texts=True,  # reports are for main
        hidden_fields=("answer", "steps"),
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
        max_invocations: int = 8,
        specialists: Sequence[str] = SKILLS,
        cost_per_invocation: float = 0.0,
        cost_per_turn: float = 0.0,
        context: int | None = None,
        expert: Reviewer | None = None,
        needs: Sequence[int] = (),
        **common: Unpack[TaskOptions],
    ) -> None:
        costs = {"cost_per_invocation": cost_per_invocation, "cost_per_turn": cost_per_turn}
        check_options(grammar, max_invocations, context, specialists, costs)
        self.grammar: Grammar = grammar
        self.kinds, self.max_invocations, self.context = tuple(specialists), max_invocations, context
        self.cost_per_invocation, self.cost_per_turn = float(cost_per_invocation), float(cost_per_turn)
        self.expert, self.needs = expert, frozenset(needs)
        self.declared = replace(
            self.declared,
            roles=tuple(roles(self.kinds, max_invocations).values()),
            silence_is_lowest=not (cost_per_invocation or cost_per_turn),
            scripts=(*TEAMS, *(ERRING if grammar == "free" else ())),
        )
        self._folder = Path(tasks).parent if isinstance(tasks, (str, Path)) else Path()
        common.setdefault("max_turns", 32)
        super().__init__(tasks, **common)

    @property
    def facts(self) -> Facts:
        """From minus all costs to 1."""
        costs = self.max_invocations * self.cost_per_invocation + self.max_turns * self.cost_per_turn
        return replace(self.declared, score_range=(-costs, 1.0))

    def script(self, name: str) -> Script:
        """Teams that play embedded questions; those that make one mistake need the grammar "free"."""
        if name not in self.declared.scripts:
            return super().script(name)
        teams = Scripts((*embedded(), *self.items), roles(self.kinds, self.max_invocations), self.max_invocations)
        return getattr(teams, name)

    def choices(self, agent: str, history: Sequence[Message] = ()) -> Sequence[str]:
        """The letters of the grammar "choice"; in the grammar "free" agents write freely."""
        return tuple(LETTERS) if self.grammar == "choice" else ()

    def alone(self) -> Task[Any]:
        """The same task for one agent that has the tools itself."""
        return ResearchAlone(self)

    def tools(self, agent: str) -> tuple[Tool, ...]:
        """`ask` for main, those of their skills for sub-agents; in the grammar "choice" they are in the options."""
        return self._box(self.items[0]).tools(agent) if self.grammar == "free" else ()

    def measure(self, groups: Sequence[Group]) -> Mapping[str, Mapping[str, float]]:
        """The five decisions of main, as shares of the right ones; see `research.decisions`."""
        return {
            "decisions": decision_means(self.items, Bounds(self.kinds, self.max_invocations, self.max_turns), groups)
        }

    def _box(self, item: TaskItem) -> Toolbox:
        return toolbox(item.fields["corpus"], self.kinds, self.max_invocations)

    # --- tasks ---------------------------------------------------------------------------------------------------

    def prepare(self, items: tuple[TaskItem, ...]) -> tuple[TaskItem, ...]:
        """Make the paths of corpora independent of the folder of the task file, and leave out what is not wanted."""
        return tuple(
            replace(item, fields={**item.fields, "corpus": placed(item.fields["corpus"], self._folder)})
            for item in items
            if not self.needs or (steps_of(item) and len(facts_of(item)) in self.needs)
        )

    def problem(self, item: TaskItem) -> str:
        """A corpus that cannot be read, or no steps for the grammar "choice"."""
        if self.grammar == "choice" and not steps_of(item):
            return (
                "field 'steps': is missing, and grammar 'choice' offers sub-questions by it; play it with "
                "grammar='free'"
            )
        try:
            corpus(placed(item.fields["corpus"], self._folder))
        except TaskError as error:
            return f"field 'corpus': {error}"
        return ""

    # --- what agents are told ------------------------------------------------------------------------------------

    def initial_state(self, item: TaskItem, seed: int) -> QuestionState:
        """Main is told the question."""
        state = QuestionState(item, derive(seed, "options"))
        return state._replace(messages=((MAIN, self._prompt(state)),))

    def observations(self, state: QuestionState) -> Mapping[str, str | Message]:
        """What follows from the last texts."""
        return dict(state.messages)

    @property
    def _whole(self) -> bool:
        """Whether each prompt of main is complete and begins a new history."""
        return self.grammar == "choice" or self.context is not None

    def _prompt(self, state: QuestionState) -> Message:
        """All that main knows."""
        seen = self._seen(state) if self.context is None else last_words(self._seen(state), self.context)
        if self.grammar == "choice":
            blocks = [f"Question: {state.item.prompt}", seen, offered(self._options(state))]
        else:
            rules = f"{self._rules} A text without a call is your answer; give it in a few words."
            blocks = [f"Question: {state.item.prompt}\n{rules}", self._box(state.item).notice(MAIN), seen]
        return Message("observation", "\n\n".join(filter(None, blocks)))

    @property
    def _rules(self) -> str:
        able = (f"{kind} ({', '.join(_DOES[skill] for skill in kind.split('+'))})" for kind in self.kinds)
        return (
            "You ask sub-agents, who know what you write to them and nothing else, and see nothing but their reports: "
            f"{', '.join(able)}. You may ask {self.max_invocations} times."
        )

    def _seen(self, state: QuestionState) -> str:
        refused = [used.answer for used in state.calls[len(state.calls) - len(state.pending) :] if not used.ran]
        return "\n".join([*map(reported, state.invocations), *refused])

    def _options(self, state: QuestionState) -> Sequence[str]:
        return options_of_main(state, self.kinds)

    def _brief(self, state: QuestionState, work: Invocation) -> Message:
        """What a sub-agent is told at first; with options, in every turn."""
        if self.grammar == "choice":
            blocks = [f"Find out: {work.subtask}", notes(work.calls), offered(options_of_sub(state, work))]
        else:
            blocks = [
                f"Find out: {work.subtask}\nYou have {SUB_TURNS} texts. One without a call is your report, in at most "
                f"{REPORT_WORDS} words. Letters without a name, gossip and rumours may be wrong.",
                self._box(state.item).notice(work.agent),
            ]
        return Message("observation", "\n\n".join(filter(None, blocks)))

    def describe(self, state: QuestionState) -> Mapping[str, Any]:
        """What every invocation did, and what main called."""
        works = [{**work._asdict(), "calls": [used._asdict() for used in work.calls]} for work in state.invocations]
        return {"invocations": works, "calls": [used._asdict() for used in state.calls]}

    # --- the course of a question --------------------------------------------------------------------------------

    def transition(self, state: QuestionState, actions: Mapping[str, str], seed: int) -> Transition[QuestionState]:
        """Main decides, or the sub-agents go on with their work."""
        now = state._replace(turn=state.turn + 1, messages=())
        if state.working:
            return self._work(
                now, {work.agent: self._chosen(state, work, actions[work.agent]) for work in state.working}
            )
        text = actions[MAIN]
        return self._lead(now, picked(self._options(state), text) if self.grammar == "choice" else text)

    def _chosen(self, state: QuestionState, work: Invocation, text: str) -> str:
        return picked(options_of_sub(state, work), text) if self.grammar == "choice" else text

    def _lead(self, state: QuestionState, text: str) -> Transition[QuestionState]:
        """Main asks or answers."""
        box = self._box(state.item)
        if not (calls := box.calls(MAIN, text)):
            event = Event("answer" if text.strip() else "stop", MAIN, {"text": text})
            return self.end(state, self._score(state, text, "it said nothing"), (event,))
        if state.turn >= self.max_turns:
            return self._on(state, ())
        tools, answered = box.answer(state.tools, MAIN, calls)
        shown = [answer for answer in answered if not (answer.valid and self.kinds)]
        events = [*box.events(MAIN, shown)]
        following = state._replace(tools=tools, calls=(*state.calls, *used(answered)))
        orders = box.state_of(tools, box.kits[0], MAIN)[len(state.invocations) :] if self.kinds else ()
        for kind, subtask in orders:
            first = 1 + self.kinds.index(kind) * self.max_invocations
            agent = self.possible_agents[first + sum(work.kind == kind for work in following.invocations)]
            work = Invocation(agent, kind, subtask)
            events.append(spawned(agent, kind, subtask))
            following = following._replace(
                invocations=(*following.invocations, work),
                messages=(*following.messages, (agent, self._brief(following, work))),
            )
        fresh = iter(following.invocations[len(state.invocations) :])
        pending = tuple("" if answer in shown else next(fresh).agent for answer in answered)
        following = following._replace(pending=pending)
        return self._on(following, events) if following.working else self._tell_main(following, events)

    def _work(self, state: QuestionState, actions: Mapping[str, str]) -> Transition[QuestionState]:
        """The sub-agents go on with their work; main is told when the last one has reported."""
        box, events, reset_history = self._box(state.item), list[Event](), list[str]()
        for place, work in enumerate(state.invocations):
            if work.report is not None:
                continue
            calls, now = box.calls(work.agent, actions[work.agent]), work._replace(turns=work.turns + 1)
            if not calls or now.turns >= SUB_TURNS:
                now = self._reported(state.item, now, "" if calls else actions[work.agent])
                events.append(Event("return", work.agent, {"report": now.reported, "expert": f"{now.expert:g}"}))
            else:
                tools, answered = box.answer(state.tools, work.agent, calls)
                events += box.events(work.agent, answered)
                now = now._replace(calls=(*work.calls, *used(answered)))
                state = state._replace(tools=tools)
                message = self._brief(state, now) if self.grammar == "choice" else box.message(answered)
                if now.turns == SUB_TURNS - 1 and self.grammar == "free":
                    message = message._replace(text=f"{message.text}\n\nYour next text has to be your report.")
                state = state._replace(messages=(*state.messages, (work.agent, message)))
                reset_history += [work.agent] if self.grammar == "choice" else []
            state = state._replace(invocations=(*state.invocations[:place], now, *state.invocations[place + 1 :]))
        return self._on(state, events, reset_history) if state.working else self._tell_main(state, events)

    def _reported(self, item: TaskItem, work: Invocation, text: str) -> Invocation:
        """An invocation after its report."""
        work = work._replace(report=cut(text, REPORT_WORDS), valid=bool(text.strip()))
        if not work.usable:
            return work
        return work._replace(expert=judged(self.expert, work) if self.expert else truth_of(item).expert(work))

    def _tell_main(self, state: QuestionState, events: Sequence[Event]) -> Transition[QuestionState]:
        """Tell main what its calls gave, after all sub-agents have reported."""
        if self._whole:
            return self._on(state._replace(messages=((MAIN, self._prompt(state)),)), events, reset_history=(MAIN,))
        reports = {work.agent: reported(work) for work in state.invocations}
        pairs = zip(state.calls[len(state.calls) - len(state.pending) :], state.pending, strict=True)
        given = [Answered(Call(used.tool), reports.get(agent, used.answer), used.ran, 0.0) for used, agent in pairs]
        return self._on(state._replace(messages=((MAIN, self._box(state.item).message(given)),)), events)

    def _on(
        self, state: QuestionState, events: Sequence[Event], reset_history: Sequence[str] = ()
    ) -> Transition[QuestionState]:
        """The question goes on, unless its turns are used up."""
        if state.turn < self.max_turns:
            return self.go_on(state, events, reset_history)
        score = self._score(state, "", f"no answer in {self.max_turns} turns")
        return self.end(state._replace(messages=()), score, events)

    def _score(self, state: QuestionState, answer: str, otherwise: str) -> Score:
        """R_M and what explains it; `otherwise` says why there is no answer."""
        truth, works = truth_of(state.item), self._works(state, answer)
        valid, right, support = bool(answer.strip()), truth.right(answer), truth.supported(works)
        cost = self.cost_per_invocation * len(state.invocations) + self.cost_per_turn * state.turn
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
        return Score(sum(parts.values()), parts, facts, {} if valid else {"main": otherwise})

    def _works(self, state: QuestionState, answer: str) -> Sequence[Invocation]:
        """What the answer rests on."""
        return state.invocations


class ResearchAlone(Research):
    """One agent has all tools and answers; the options are those of the task for a hierarchy.

    Its history fills with what its calls give, where main's fills with reports; with `context` it sees only the last
    words of them.

    Args:
        team: The hierarchy.
    """

    def __init__(self, team: Research) -> None:
        vars(self).update(vars(team))
        self.kinds = ()
        self.declared = Facts(
            name=f"{team.declared.name}/alone",
            roles=("solo",),
            components=team.declared.components,
            diagnostics=("right", "support", "retrieval_hit"),
            score_range=(-math.inf, 1.0),  # follows max_turns
            silence_is_lowest=not team.cost_per_turn,
            hidden_fields=team.declared.hidden_fields,
            scripts=("optimal",),
        )
        self.metadata = {**team.metadata, "name": self.declared.name}
        TextDecPOMDP.__init__(self, 1, team.max_turns, team.render_mode)

    @property
    def facts(self) -> Facts:
        """From minus the costs of all turns to 1."""
        return replace(self.declared, score_range=(-self.max_turns * self.cost_per_turn, 1.0))

    def script(self, name: str) -> Script:
        """ "optimal" uses the tools for each open step of an embedded question, and answers."""
        return Scripts((*embedded(), *self.items), {}, 0).alone if name == "optimal" else super().script(name)

    def alone(self) -> Task[Any]:
        """It is alone."""
        return self

    def measure(self, groups: Sequence[Group]) -> Mapping[str, Mapping[str, float]]:
        """Nothing: it leads nobody."""
        return {}

    @property
    def _rules(self) -> str:
        return "Letters without a name, gossip and rumours may be wrong."

    def _seen(self, state: QuestionState) -> str:
        return notes(state.calls)

    def _options(self, state: QuestionState) -> Sequence[str]:
        return options_alone(state)

    def _works(self, state: QuestionState, answer: str) -> Sequence[Invocation]:
        """The answer itself counts as the report."""
        return [Invocation(MAIN, "", state.item.prompt, calls=state.calls, report=answer)]

    def go_on(
        self, state: QuestionState, events: Sequence[Event], reset_history: Sequence[str] = ()
    ) -> Transition[QuestionState]:
        """Its reward is the team's."""
        return replace(super().go_on(state, events, reset_history), rewards=None)

    def end(self, state: QuestionState, score: Score, events: Sequence[Event]) -> Transition[QuestionState]:
        """Its reward is the team's."""
        return replace(super().end(state, score, events), rewards=None)


def roles(kinds: Sequence[str], most: int) -> dict[str, str]:
    """Who may be there: main, and each specialist as often as it may be asked; without kinds one with all skills."""
    names = ["main", *(kind for kind in kinds for _ in range(most))] if kinds else ["+".join(SKILLS)]
    return {f"agent_{place}": name for place, name in enumerate(names)}


def used(answered: Sequence[Answered]) -> tuple[Used, ...]:
    """The calls of a text with the first argument of each."""
    first = (str(next(iter((*call.places, *call.arguments.values())), "")) for call, *_ in answered)
    return tuple(Used(a.call.name, argument, a.answer, a.valid) for a, argument in zip(answered, first, strict=True))


def cut(text: str, words: int) -> str:
    """A text cut to so many words; a cut is noted at its end."""
    characters = CHARACTERS * words
    kept = " ".join(text[: 4 * characters].split()[:words])[:characters]
    if len(kept) == len(" ".join(text[: 4 * characters].split())) and len(text) <= 4 * characters:
        return text.strip()
    return f"{kept} [cut after {words} words]"


def last_words(text: str, count: int) -> str:
    """The last words of a text, its line breaks kept; of 100 characters each at most, on average."""
    text = text[-100 * count :]
    starts = [
        place for place, sign in enumerate(text) if not sign.isspace() and (not place or text[place - 1].isspace())
    ]
    return text[starts[-count] :] if count < len(starts) else text


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
    if isinstance(kinds, str) or not kinds or len(set(kinds)) < len(kinds):
        raise ValueError(f"specialists is {kinds!r}; give a list of different skills, such as {list(SKILLS)}")
    if unknown := [skill for kind in kinds for skill in kind.split("+") if skill not in SKILLS]:
        raise ValueError(
            f"specialists has the skill {unknown[0]!r}; {nearest(unknown[0], SKILLS)}; join several by '+'"
        )
