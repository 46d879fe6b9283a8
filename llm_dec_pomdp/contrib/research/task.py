"""research-v0: A main agent answers a question from the reports of specialists: they search, query and compute.

| fact | value |
|---|---|
| agents | agent_0 "main", agent_1 ... one for each possible invocation ("reader", "analyst", "calculator") |
| turns | up to 32 (`max_turns`); sub-agents of one turn work in parallel |
| data | task files; `"hub"`: `hotpotqa/hotpot_qa`, configuration "distractor", train[:1000] / validation[:1000] |
| offline | 120 questions about 6 worlds for training, 60 about 3 others for tests |
| a world | some 250 sentences about people, and three tables |
| a question | needs 1 to 6 invocations: chains, comparisons, counts, sums and differences |
| return | 0 to 1.0, minus the costs of invocations and turns |

Observation. Main observes the question, and later the reports of its sub-agents. It never observes the results of their
tools. Each invocation of a sub-agent has its own history: its subtask, then the results of its calls. An invocation
reports once and does not act again. It stays in the episode until the end, because its reward depends on main's answer.

Action. Agents call [tools](../tools.md#how-agents-call). A text without a call is the answer of main, or the report of
a sub-agent. Reports have at most 60 words; longer reports are cut with a note.

| agent | tools |
|---|---|
| main | `ask(to, subtask)`, several at once |
| reader | `search(query)` (BM25, five passages), `read(number)` (a passage and its neighbours) |
| analyst | `schema()`, `query(statement)` (sqlite) |
| calculator | `python(code)` |

A sub-agent reports with its sixth action at the latest. If a call cannot be run, its result states the reason. An
answer or report is invalid if it has no words, if the sixth action of a sub-agent is a call, or if the turns run out.

With `candidates=True`, for small models, every action is a letter that selects one of three texts. An action has to
begin with its letter. The three texts are usually: the text of an optimal team; the same call with a wrong argument;
and a call of the wrong tool or specialist, or a wrong answer or report. The seed decides their order. Each prompt
repeats all that the agent needs, so earlier turns are dropped from its history. This form works for embedded questions
only.

Reward. Agents receive individual rewards, all at the end (arXiv:2511.13288, section 3):

| agent | reward |
|---|---|
| main, and the team | R_M = 0.1 format + 0.9 correct, both 0 if main's format is invalid; minus the costs |
| every invocation | R_S = 0.1 format + 0.4 correct + 0.5 expert; 0 if its own format is invalid |

An embedded question has steps, and each step has one value. "In which town is the company that employs Bruno Stivik
based?" has two: the company, Sakel Foundry, and the town, Ropel. A text that names Ropel and a further town names a
second value of the same kind.

- `correct` is 1 if the answer names the right value, names no second value of its kind, and has support. A right answer
  without support counts as wrong.
- An answer has support if, for each step, some sub-agent reported the value and its own tool results showed it. It also
  has support if one sub-agent reported the answer and its own tool results showed the values of all steps.
- `expert` is 1 if the report names the value that its subtask asks for, names no second value of its kind, and the
  sub-agent's own tool results showed it.
- Tool results show a value that a text states if they contain the sentence. They show a value of a table if another
  value in the table would change the result of the query. They show a sum or a difference if they contain it.

For published tasks and your own files, the true facts are not known. In this case `expert` is the share of the report's
names and numbers that the sub-agent's tool results or its subtask contain. Support has
[a simpler rule](../hierarchy.md#a-research-team), too.

The option `expert` replaces both rules for `expert` by the score of an LLM judge or of any other function.

Options, in addition to [those of every environment](README.md#common-properties):

| option | default | effect |
|---|---|---|
| `max_invocations` | 8 | the number of sub-agents that main may ask |
| `cost_per_invocation`, `cost_per_turn` | 0 | costs in main's reward |
| `specialists` | all three | the skills of each, one or several: `["reader", "analyst+calculator"]` |
| `context` | None | main observes only the last `context` words of the reports; None: all |
| `expert` | None | function that scores a report: `expert(prompt, attempt)` returns a text with a number from 0 to 10 |
| `orchestration` | None | weights of further parts of main's reward, see below; None: no such parts |
| `needs` | () | use only embedded questions that need so many invocations, such as `[1, 4]` |
| `candidates` | False | agents choose among three texts by letter, see above |

Orchestration. With `orchestration={"critical_path": 0.5}` main also receives 0.5 times the measure of that name, if its
format is valid. The return is then at most 1 plus the sum of the weights. Questions need known steps. Main asks in
rounds; the sub-agents of a round work in parallel. A step is found if a report names its value.

| measure, from 0 to 1 | definition |
|---|---|
| critical_path | least number of rounds that the question needs / rounds of main; 0 if a step is not found |
| split | steps with a right invocation / the larger of the numbers of steps and invocations |
| aggregation | share of the found steps whose value main uses; 0 if none is found |

An invocation is right for one step if its specialist has the skill for it, and its subtask names the subjects and the
relation. Main uses a value if it names it in a later subtask that needs it, or gives the right answer from it. With
`orchestration` all three are diagnostics of every score, and `env.measure` returns their means; a weight of 0 only
measures. With `candidates=True`, an agent of a task with `orchestration` chooses among four texts. The fourth text of
main asks for all open steps at once. Once the answer is known, this text is "unknown", as the fourth text of sub-agents
always is.

Measured (`env.measure`): five decisions of main on embedded questions. Each figure is a share of right decisions. A
step is open until main has observed a report with its value.

- "spawned when it helped": did main ask when a report could help? Of the invocations that began while a step was open,
  the share that an open step needed. In each turn, each open step that can be asked for needs one.
- "asked the right one": did main choose the right specialist? The share of the invocations of a specialist with the
  skill that the step needs.
- "said what was needed": did texts contain what the reader needs? The share of the subtasks that name the subject of
  their step, and of the reports that name the value which a tool result showed.
- "kept what it was told": did main use the values that were reported to it? The share of right answers among the
  answers after all steps were reported.
- "stopped in time": did main end when it should? Counted are all decisions to end, and the decisions to ask when no
  step was open or main could not ask. The share of right ends: no step was open, or main could not ask.

Main cannot ask if no invocation is left, or no further turn.

Teams. On all embedded questions `script:optimal` receives 1.0 minus its costs. `script:ask_everything` uses every
invocation. It receives the same if costs are 0, the default, and else less. `script:never_ask` receives 0.1 minus the
cost of one turn.

Files. A row of a task file has `question`, `answer` and `corpus`, a path relative to the task file or to the working
folder:

| corpus | passages |
|---|---|
| a JSONL file | one in each line: `text`, and optionally `title` |
| a folder of text files | the lines of the files |

Instead of `corpus` a row may have the fields of HotpotQA and 2WikiMultihopQA (`context`, `supporting_facts`). Rows of
files have no tables, so `specialists=["reader"]` is enough.

Source: "Multi-Agent Deep Research: Training Multi-Agent Systems with M-GRPO", arXiv:2511.13288, for setting and
rewards; worlds and questions are this suite's own. BM25: `bm25s`, arXiv:2407.03618.

Version history: v0, the first.

Example:
    >>> import llm_dec_pomdp
    >>> env = llm_dec_pomdp.make("research-v0")
    >>> observations, _ = env.reset(options={"index": 10})
    >>> observations["agent_0"].splitlines()[0]
    'Question: How many companies are based in the town in which Ralkel Ropes is based?'
    >>> observations, *_ = env.step({"agent_0": 'ask("analyst", "In which town is Ralkel Ropes based?")'})
    >>> env.agents, env.asked("agent_0"), env.asked("agent_9")  # agent_9, the first analyst, has to act next
    (['agent_0', 'agent_9'], False, True)
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Unpack

from llm_dec_pomdp.envs import Facts, Script, TaskError, TaskOptions, Tasks, TaskSource, TextDecPOMDP, Transition
from llm_dec_pomdp.envs.hierarchy.base import LEADER, Hierarchy, parts_of_main, spawned
from llm_dec_pomdp.envs.tools import Answered, Call, Limits, Toolbox, kit
from llm_dec_pomdp.envs.tools.python import python
from llm_dec_pomdp.envs.tools.search import search
from llm_dec_pomdp.envs.tools.sql import sql
from llm_dec_pomdp.registries import nearest
from llm_dec_pomdp.types import Event, Group, Message, Reviewer, Score, TaskItem, Tool, known_means

from .corpus import corpus, from_published, placed
from .decisions import TeamLimits, decision_means
from .orchestration import MEASURES, orchestration
from .questions import Invocation, QuestionState, Used, embedded, facts_of, steps_of
from .scoring import judged, redundancy, truth_of
from .scripts import TEAMS, Scripts, reported
from .worlds import SKILLS

Orders = tuple[tuple[str, str], ...]  # (sub-agent, subtask) of each question of main
MOST = 64  # maximum number of invocations
SUB_TURNS = 6  # maximum number of actions of an invocation; the last one has to be its report
CALLS = 24  # maximum number of calls of each tool by an invocation
REPORT_WORDS, SUBTASK_WORDS = 60, 60
CHARACTERS = 8  # characters per word, on average, at which a text is cut
_TOOLS = {"search": "reader", "sql": "analyst", "python": "calculator"}  # kit -> skill
_DOES = {"reader": "searches texts", "analyst": "queries tables", "calculator": "runs Python"}


class AskTool(NamedTuple):
    """The `ask` tool of the main agent; its state is the tuple of (sub-agent, subtask) pairs."""

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
    """Return the tools for a corpus: `ask` for main, and for sub-agents the tools of their skills."""
    held = corpus(name)
    kits = [search(held.texts), sql(held.script), replace(python(), private=True)]
    users = {
        kit.name: [agent for agent, kind in roles(kinds, most).items() if _TOOLS[kit.name] in kind.split("+")]
        for kit in kits
    }
    bounded = {f.tool.name: Limits(calls=CALLS, seconds=0) for kit in kits for f in kit.functions}
    lead = kit("lead", AskTool(kinds).ask, initial=())
    return Toolbox([lead, *kits], {**bounded, "ask": Limits(calls=most, seconds=0)}, {**users, "lead": [LEADER]})


class Research(Hierarchy[QuestionState]):
    """Environment in which a main agent asks specialists and answers a question. See the module docstring.

    Args:
        max_invocations: The number of sub-agents that main may ask, 1 to 64.
        specialists: The skills of each specialist, joined by "+"; each may be asked `max_invocations` times.
        cost_per_invocation: Cost in main's reward for every sub-agent that it asks, at least 0.
        cost_per_turn: Cost in main's reward for every turn of the episode, at least 0.
        context: The number of words of the reports that main observes, counted from the end; None: all.
        expert: Judge that scores reports in place of the rule, called as `expert(prompt, attempt)`; `scoring.judged`.
        orchestration: Weights of the measures in `orchestration.MEASURES` in main's reward, at least 0 each.
        needs: Numbers of needed invocations, 1 to 6: only embedded questions with these numbers are used; () for all.
        tasks, common: See `Task`; `max_turns` is 32 by default.
    """

    declared = Facts(
        name="research-v0",
        components=("format", "correct", "cost"),
        diagnostics=(
            "right",
            "support",
            "expert",
            "retrieval_hit",
            "redundancy",
            "invocations",
            "valid_subs",
        ),
        score_range=(-math.inf, 1.0),  # set in `facts`, since it depends on max_turns
        joint_reward=False,
        hierarchical=True,
        shares_texts=True,  # main observes reports
        hidden_fields=("answer", "steps"),
        size="max_invocations",
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
        max_invocations: int = 8,
        specialists: Sequence[str] = SKILLS,
        cost_per_invocation: float = 0.0,
        cost_per_turn: float = 0.0,
        context: int | None = None,
        expert: Reviewer | None = None,
        orchestration: Mapping[str, float] | None = None,
        needs: Sequence[int] = (),
        **common: Unpack[TaskOptions],
    ) -> None:
        costs = {"cost_per_invocation": cost_per_invocation, "cost_per_turn": cost_per_turn}
        check_options(max_invocations, context, specialists, costs)
        self.kinds, self.max_invocations, self.context = tuple(specialists), max_invocations, context
        self.cost_per_invocation, self.cost_per_turn = float(cost_per_invocation), float(cost_per_turn)
        self.expert, self.needs = expert, frozenset(needs)
        self.orchestration = check_weights(orchestration or {})
        self.declared = replace(
            self.declared,
            roles=tuple(roles(self.kinds, max_invocations).values()),
            components=(*self.declared.components, *self.orchestration),
            diagnostics=(*self.declared.diagnostics, *(MEASURES if self.orchestration else ())),
            silence_is_lowest=not (cost_per_invocation or cost_per_turn),
        )
        self._folder = Path(tasks).parent if isinstance(tasks, (str, Path)) else Path()
        common.setdefault("max_turns", 32)
        super().__init__(tasks, **common)

    @property
    def facts(self) -> Facts:
        """The facts; the score ranges from minus all costs to 1 plus the weights of `orchestration`."""
        costs = self.max_invocations * self.cost_per_invocation + self.max_turns * self.cost_per_turn
        return replace(self.declared, score_range=(-costs, 1.0 + sum(self.orchestration.values())))

    def script(self, name: str) -> Script:
        """Return a scripted team for embedded questions."""
        if name not in self.declared.scripts:
            return super().script(name)
        teams = Scripts((*embedded(), *self.items), roles(self.kinds, self.max_invocations), self.max_invocations)
        return getattr(teams, name)

    def with_candidates(self) -> TextDecPOMDP:
        """Return the task with agents that choose calls, reports and answers by letter."""
        from .choices import ParallelChoices, ResearchChoices

        return ParallelChoices(self) if self.orchestration else ResearchChoices(self)

    def tools(self, agent: str) -> tuple[Tool, ...]:
        """Return `ask` for main, and for sub-agents the tools of their skills."""
        return self._box(self.items[0]).tools(agent)

    def measure(self, groups: Sequence[Group]) -> Mapping[str, Mapping[str, float]]:
        """Return the shares of right decisions of the main agent, and the means of `orchestration.MEASURES`."""
        limits = TeamLimits(self.kinds, self.max_invocations, self.max_turns)
        finals = [e.final.diagnostics for group in groups for e in group.episodes if e.final is not None]
        measures = known_means([{name: d[name] for name in MEASURES if name in d} for d in finals])
        tables = {"decisions": decision_means(self.items, limits, groups)}
        return tables | ({"measures of orchestration": measures} if measures else {})

    def _box(self, item: TaskItem) -> Toolbox:
        return toolbox(item.fields["corpus"], self.kinds, self.max_invocations)

    # --- tasks --------------------------------------------------------------------------------------------------------

    def prepare(self, items: tuple[TaskItem, ...]) -> tuple[TaskItem, ...]:
        """Resolve the paths of corpora, and select the questions by `needs`.

        Raises:
            ValueError: `orchestration` is set and the steps of a question are not known.
        """
        if self.orchestration and (without := [item.id for item in items if not steps_of(item)]):
            raise ValueError(
                f"task {without[0]!r} has no field 'steps', which orchestration needs; use embedded questions, or "
                "leave out orchestration"
            )
        return tuple(
            replace(item, fields={**item.fields, "corpus": placed(item.fields["corpus"], self._folder)})
            for item in items
            if not self.needs or (steps_of(item) and len(facts_of(item)) in self.needs)
        )

    def problem(self, item: TaskItem) -> str:
        """Return why the corpus of a row cannot be read; "" if it can."""
        try:
            corpus(placed(item.fields["corpus"], self._folder))
        except TaskError as error:
            return f"field 'corpus': {error}"
        return ""

    # --- observations -------------------------------------------------------------------------------------------------

    def initial_state(self, item: TaskItem, seed: int) -> QuestionState:
        """Return the state in which main observes the question."""
        state = QuestionState(item)
        return state._replace(messages=((LEADER, self._prompt(state)),))

    def observations(self, state: QuestionState) -> Mapping[str, str | Message]:
        """Return the observations of the agents that act next."""
        return dict(state.messages)

    def _prompt(self, state: QuestionState) -> Message:
        """Return the prompt of main with the question, the rules, and the reports so far."""
        able = (f"{kind} ({', '.join(_DOES[skill] for skill in kind.split('+'))})" for kind in self.kinds)
        rules = (
            "You ask sub-agents, who know what you write to them and nothing else, and see nothing but their reports: "
            f"{', '.join(able)}. You may ask {self.max_invocations} times. A text without a call is your answer; give "
            "it in a few words."
        )
        blocks = [f"Question: {state.item.prompt}\n{rules}", self._box(state.item).notice(LEADER), self.seen(state)]
        return Message("observation", "\n\n".join(filter(None, blocks)))

    def seen(self, state: QuestionState) -> str:
        """Return the reports that main observes, with `context` their last words."""
        refused = [used.answer for used in state.calls[len(state.calls) - len(state.pending) :] if not used.ran]
        text = "\n".join([*map(reported, state.invocations), *refused])
        return text if self.context is None else last_words(text, self.context)

    def _brief(self, state: QuestionState, work: Invocation) -> Message:
        """Return the first observation of a sub-agent."""
        rules = (
            f"You have {SUB_TURNS} texts. One without a call is your report, in at most {REPORT_WORDS} words. Letters "
            "without a name, gossip and rumours may be wrong."
        )
        return Message(
            "observation", f"Find out: {work.subtask}\n{rules}\n\n{self._box(state.item).notice(work.agent)}"
        )

    def describe(self, state: QuestionState) -> Mapping[str, Any]:
        """Return all invocations, and the calls of main."""
        works = [{**work._asdict(), "calls": [used._asdict() for used in work.calls]} for work in state.invocations]
        return {"invocations": works, "calls": [used._asdict() for used in state.calls]}

    # --- the course of a question -------------------------------------------------------------------------------------

    def transition(self, state: QuestionState, actions: Mapping[str, str], seed: int) -> Transition[QuestionState]:
        """Process the text of main, or the texts of the working sub-agents."""
        now = state._replace(turn=state.turn + 1, messages=())
        return self._work(now, actions) if state.working else self._lead(now, actions[LEADER])

    def _lead(self, state: QuestionState, text: str) -> Transition[QuestionState]:
        """Start the invocations that main asks for, or end with its answer."""
        box = self._box(state.item)
        if not (calls := box.calls(LEADER, text)):
            event = Event("answer" if text.strip() else "stop", LEADER, {"text": text})
            return self.end(state, self.score(state, text, "it said nothing"), (event,))
        if state.turn >= self.max_turns:
            return self._on(state, ())
        tools, answered = box.answer(state.tools, LEADER, calls)
        shown = [answer for answer in answered if not answer.valid]
        events = [*box.events(LEADER, shown)]
        following = state._replace(tools=tools, calls=(*state.calls, *used(answered)))
        for kind, subtask in box.state_of(tools, box.kits[0], LEADER)[len(state.invocations) :]:
            first = 1 + self.kinds.index(kind) * self.max_invocations
            agent = self.possible_agents[first + sum(work.kind == kind for work in following.invocations)]
            work = Invocation(agent, kind, subtask, state.turn)
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
        """Run the calls of working sub-agents; when the last one has reported, main observes the reports."""
        box, events = self._box(state.item), list[Event]()
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
                message = box.message(answered)
                if now.turns == SUB_TURNS - 1:
                    message = message._replace(text=f"{message.text}\n\nYour next text has to be your report.")
                state = state._replace(messages=(*state.messages, (work.agent, message)))
            state = state._replace(invocations=(*state.invocations[:place], now, *state.invocations[place + 1 :]))
        return self._on(state, events) if state.working else self._tell_main(state, events)

    def _reported(self, item: TaskItem, work: Invocation, text: str) -> Invocation:
        """Return an invocation after its report, with its expert score."""
        work = work._replace(report=cut(text, REPORT_WORDS), valid=bool(text.strip()))
        if not work.usable:
            return work
        return work._replace(expert=judged(self.expert, work) if self.expert else truth_of(item).expert(work))

    def _tell_main(self, state: QuestionState, events: Sequence[Event]) -> Transition[QuestionState]:
        """Return the transition after which main observes the reports of all sub-agents."""
        if self.context is not None:  # the prompt repeats all that main needs, so earlier turns are dropped
            return self._on(state._replace(messages=((LEADER, self._prompt(state)),)), events, reset_history=(LEADER,))
        reports = {work.agent: reported(work) for work in state.invocations}
        pairs = zip(state.calls[len(state.calls) - len(state.pending) :], state.pending, strict=True)
        given = [Answered(Call(used.tool), reports.get(agent, used.answer), used.ran, 0.0) for used, agent in pairs]
        return self._on(state._replace(messages=((LEADER, self._box(state.item).message(given)),)), events)

    def _on(
        self, state: QuestionState, events: Sequence[Event], reset_history: Sequence[str] = ()
    ) -> Transition[QuestionState]:
        """Continue the episode, or end it if no turn is left."""
        if state.turn < self.max_turns:
            return self.go_on(state, events, reset_history)
        score = self.score(state, "", f"no answer in {self.max_turns} turns")
        return self.end(state._replace(messages=()), score, events)

    def score(self, state: QuestionState, answer: str, otherwise: str) -> Score:
        """Compute R_M with its diagnostics; `otherwise` is noted as the reason if the answer is empty."""
        truth, works = truth_of(state.item), state.invocations
        valid, right, support = bool(answer.strip()), truth.right(answer), truth.supported(works)
        cost = self.cost_per_invocation * len(works) + self.cost_per_turn * state.turn
        measures = orchestration(state.item, works, right=right) if self.orchestration else {}
        parts = parts_of_main(valid=valid, correct=right and support) | {"cost": 0.0 - cost}
        parts |= {name: weight * measures[name] * valid for name, weight in self.orchestration.items()}
        count = max(1, len(works))
        facts = {
            "right": float(right),
            "support": float(support),
            "expert": sum(work.expert for work in works) / count,
            "retrieval_hit": truth.hits(works),
            "redundancy": redundancy(works),
            "invocations": float(len(works)),
            "valid_subs": sum(work.usable for work in works) / count,
            **measures,
        }
        return Score(sum(parts.values()), parts, facts, {} if valid else {"main": otherwise})


def roles(kinds: Sequence[str], most: int) -> dict[str, str]:
    """Return the role of each agent: main, and each specialist `most` times."""
    names = ["main", *(kind for kind in kinds for _ in range(most))]
    return {f"agent_{place}": name for place, name in enumerate(names)}


def used(answered: Sequence[Answered]) -> tuple[Used, ...]:
    """Return the calls of a text, each with its first argument and its result."""
    first = (str(next(iter((*call.places, *call.arguments.values())), "")) for call, *_ in answered)
    return tuple(Used(a.call.name, argument, a.answer, a.valid) for a, argument in zip(answered, first, strict=True))


def cut(text: str, words: int) -> str:
    """Truncate a text to a number of words; a note at its end marks the truncation."""
    characters = CHARACTERS * words
    kept = " ".join(text[: 4 * characters].split()[:words])[:characters]
    if len(kept) == len(" ".join(text[: 4 * characters].split())) and len(text) <= 4 * characters:
        return text.strip()
    return f"{kept} [cut after {words} words]"


def last_words(text: str, count: int) -> str:
    """Return the last `count` words of a text with their line breaks, at most 100 characters per word on average."""
    text = text[-100 * count :]
    starts = [
        place for place, sign in enumerate(text) if not sign.isspace() and (not place or text[place - 1].isspace())
    ]
    return text[starts[-count] :] if count < len(starts) else text


def check_options(most: int, context: int | None, kinds: Sequence[str], costs: Mapping[str, float]) -> None:
    """Raise ValueError for invalid options; the message names the option and its value."""
    if isinstance(most, bool) or most not in range(1, MOST + 1):
        raise ValueError(f"max_invocations is {most!r}; give an integer from 1 to {MOST}")
    if context is not None and (isinstance(context, bool) or context < 1):
        raise ValueError(f"context is {context!r}; give a number of words, at least 1, or None for all words")
    for name, cost in costs.items():
        if not 0 <= cost < float("inf"):
            raise ValueError(f"{name} is {cost!r}; a cost is a finite number, give at least 0")
    if isinstance(kinds, str) or not kinds or len(set(kinds)) < len(kinds):
        raise ValueError(f"specialists is {kinds!r}; give a list of different skills, such as {list(SKILLS)}")
    if unknown := [skill for kind in kinds for skill in kind.split("+") if skill not in SKILLS]:
        raise ValueError(
            f"specialists has the skill {unknown[0]!r}; {nearest(unknown[0], SKILLS)}; join several by '+'"
        )


def check_weights(weights: Mapping[str, float]) -> dict[str, float]:
    """Return the weights of measures of orchestration.

    Raises:
        ValueError: A measure does not exist, or a weight is negative or not finite.
    """
    if unknown := sorted(set(weights) - set(MEASURES)):
        raise ValueError(f"orchestration has {unknown[0]!r}, which does not exist; {nearest(unknown[0], MEASURES)}")
    for name, weight in weights.items():
        if not 0 <= weight < math.inf:
            raise ValueError(f"the weight {name!r} of orchestration is {weight!r}; give a finite number of at least 0")
    return {name: float(weight) for name, weight in weights.items()}
