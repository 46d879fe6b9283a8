"""modules-v0: A small program whose modules are written by different agents.

| fact | value |
|---|---|
| agents | one for each module (`modules`, 4); two with `form="merge"` |
| turns | 2; `max_turns` for another number |
| data | packages generated from a seed: 60 for training, 20 for testing |
| return | 0 to 1, minus costs |

Observation. Each author reads the topic of the package, the specification of its own module (signatures and
docstrings), the interfaces of the modules that it imports, and which modules import its own. An interface is a
signature and the first sentence of its docstring. So only one author knows the rule of a function, such as a table of
rates. No author reads the code of teammates. From the second turn on an author reads the results of its calls,
messages, and how many tests of its module pass. A single agent reads all specifications.

Action. Python source replaces the whole module: the text if it parses, otherwise the first fenced block that does. Tool
calls edit the module instead: `write_file`, `read_file`, `replace_in_file` and others work on the author's own files,
of which only its module counts. `run_tests` returns the test results of a module, with the author's module as it is now
and the other modules as of the last turn. With `messages=True` a line `to NAME: words` is a message of at most 30
words, one in each turn.

Reward. The score of a turn is the share of tests that pass; tests across modules (`TestTogether`) have half the weight.
A test passes if it passes with the modules of all authors and, for each author, with its module among the modules of
the solution. So an author receives nothing for replacing functions of other modules. The reward of a turn is the change
of the score, minus `call_cost` for each call and `message_cost` for each message. An episode ends when all tests pass.

With `form="merge"` two authors each add a feature to one module, in the same turn and without tools. Their texts are
merged by lines; a conflict scores 0. CooperBench has this form. Its authors report that teams complete a quarter of the
pairs of features, and a single agent half (not measured here).

Options. `modules` 3 to 6; `deep`, how many modules the longest chain of imports has (0: any); `shared`, how many data
types modules share (1 or 2). Rows from files have `prompt`, `solution` (files, `# file: PATH` before each) and `test`.
With `candidates=True` authors choose among versions of their module by a letter (`envs.software.candidates`), in one
turn and without tools; a single agent (protocol "centralized") chooses one module in each turn.

Without skill. Teams of empty texts, or of functions that all raise an error, return one constant (None, True, False, 0,
1, "", [] or {}), or return their first argument, receive 0 %. Tests that such constants pass are left out when a
package is generated. If one author writes its module and the others write nothing, the team receives 0 to 38 % with
three modules and 0 to 23 % with six; most for the first module, which imports no other. A first module that also
replaces the functions of all other modules receives the same.

Measured (`env.measure`): shares of programs that pass all tests and of passed tests, by the number of modules; how
often a change broke tests of a module whose author had changed nothing; messages. With `candidates=True`: the kinds of
candidates, and the schemes of cooperation of modules that import others, in programs that pass. `contributions`
measures how much each module adds.

Source: the question is from arXiv:2508.04652; tasks and reward are this suite's own.

Version history: v0, the first.

Example:
    >>> import llm_dec_pomdp
    >>> env = llm_dec_pomdp.make("modules-v0", split="test", modules=3)
    >>> observations, _ = env.reset(options={"index": 0})
    >>> env.role("agent_0")
    'author 1'
"""

from __future__ import annotations

import ast
import functools
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any, Literal, NamedTuple, Unpack, get_args

from ... import sandbox
from ...registries import UnknownNameError, nearest
from ...sandbox import Job, Limits, Verdict
from ...types import Event, Group, Message, Score, TaskItem, Tool
from .. import fences
from ..base import Script, TextDecPOMDP
from ..coding import analysis
from ..coding.candidates import judged
from ..coding.schemes import scheme_of
from ..facts import Facts
from ..task import Task, TaskOptions, Transition
from ..tasks import Tasks, TaskSource, is_sample
from ..tools import Answered, Call, Kit, Toolbox, ToolState, function
from ..tools.ready import Files, files
from . import merge
from .candidates import OF_MODULES, schemes, texts_of
from .packages import PLANS, TOGETHER, class_of, depth, interface, own_rows, specification, stub, unpacked
from .reward import passed_in_all

Form = Literal["modules", "merge"]
LIMITS = Limits(cpu_seconds=4.0, case_seconds=1.0)
WORDS = 30  # of a message
LONGEST_MESSAGE = 400  # characters
AT_ONCE = 8  # calls of a text
CHARACTERS = 20_000  # of an author's files
_MESSAGE = re.compile(r"^[ \t]*to[ \t]+(\w+)[ \t]*:[ \t]*(\S.*)$", re.IGNORECASE | re.MULTILINE)
_CONFLICT = "What both wrote is in conflict: the same place was changed in different ways."


class State(NamedTuple):
    """The state of `Modules`."""

    item: TaskItem
    tools: ToolState = ToolState()
    turn: int = 0
    passed: frozenset[str] = frozenset()  # tests
    sources: tuple[str, ...] = ()  # of the modules after the last turn
    score: float = 0.0
    spent: float = 0.0
    observations: tuple[tuple[str, Message], ...] = ()


class Modules(Task[State]):
    """Programs by several authors; the module is the manual.

    Args:
        modules: How many modules, 3 to 6; each has an author.
        deep: How many modules the longest chain of imports has; 0 for any.
        shared: Data types that modules share, 1 or 2.
        form: "modules", or "merge": two authors add a feature each to one module.
        candidates: Offer modules to choose among by a letter, on the packages of this suite.
        messages: Authors may write to each other.
        call_cost: Of a call of a tool, at least 0.
        message_cost: Of a message, at least 0.
        tasks, common: See `Task`.
    """

    declared = Facts(
        name="modules-v0",
        components=("tests", "costs"),
        diagnostics=("tests_passed", "tests_total", "all_passed", "conflict", "broken", "messages"),
        score_range=(-1.0, 1.0),
        hidden_fields=("test", "solution"),
        scripts=("gold",),
        judges_code=True,
    )

    def __init__(
        self,
        tasks: Tasks = "sample",
        *,
        modules: int = 4,
        deep: int = 0,
        shared: int = 1,
        form: Form = "modules",
        candidates: bool = False,
        messages: bool = False,
        call_cost: float = 0.0,
        message_cost: float = 0.0,
        **common: Unpack[TaskOptions],
    ) -> None:
        if modules not in PLANS:
            raise ValueError(f"modules is {modules!r}; give a number from 3 to 6")
        depths = sorted({depth(plan) for plan in PLANS[modules]})
        if deep and deep not in depths:
            known = ", ".join(map(str, depths))
            raise ValueError(f"deep is {deep!r}; with {modules} modules there are {known}, and 0 for any")
        if shared not in (1, 2):
            raise ValueError(f"shared is {shared!r}; modules share 1 or 2 data types")
        if form not in get_args(Form):
            raise ValueError(f"form is {form!r}; {nearest(str(form), get_args(Form))}")
        for name, value in {"call_cost": call_cost, "message_cost": message_cost}.items():
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ValueError(f"{name} is {value!r}; it is a price, a number of at least 0")
        if candidates and (form != "modules" or messages or not is_sample(tasks)):
            raise ValueError(
                f"candidates are modules of the packages of this suite, for authors that do not write to each other; "
                f"form is {form!r}, messages {messages}, tasks {tasks!r:.60}: leave these out"
            )
        self.form: Form = form
        self.candidates = candidates
        self.messages = bool(messages)
        self.call_cost, self.message_cost = float(call_cost), float(message_cost)
        count = 2 if form == "merge" else modules
        rows = merge.own_rows if form == "merge" else functools.partial(own_rows, modules, deep, shared)
        required = ("prompt", "test", "first", "second") if form == "merge" else ("prompt", "solution", "test")
        self.source = TaskSource("modules", required=required, sample=rows)  # type: ignore[misc]  # of that size
        low = count * (AT_ONCE * self.call_cost + self.message_cost)
        hidden = ("test",) if form == "merge" else ("test", "solution")
        common.setdefault("max_turns", 1 if form == "merge" or candidates else 2)
        self._dearest = low
        self.declared = replace(
            self.declared,
            roles=tuple(f"author {number}" for number in range(1, count + 1)),
            hidden_fields=hidden,
            shares_texts=self.messages,
            silence_is_lowest=not low,
        )
        kits = [] if form == "merge" or candidates else [files(characters=CHARACTERS, private=True), _tests_kit()]
        self.toolbox = Toolbox(kits)
        super().__init__(tasks, **common)

    # --- rows and facts ----------------------------------------------------------------------------------------------

    @property
    def facts(self) -> Facts:
        """The lowest score is that of the most calls and messages of all turns."""
        low = -self._dearest * self.max_turns
        return replace(self.declared, score_range=(low, 1.0), turn_range=(-1.0 - self._dearest, 1.0), best=1.0)

    def problem(self, item: TaskItem) -> str:
        """Files that are no such package."""
        if problem := analysis.syntax_error(item.fields["test"]):
            return f"field 'test': does not parse ({problem}); correct or remove the row"
        if self.form == "merge":
            return ""
        found = unpacked(item.fields["solution"])
        if len(found) != len(self.possible_agents):
            count = len(self.possible_agents)
            return f"field 'solution': has {len(found)} files, and there are {count} authors; give modules={len(found)}"
        for path, source in found:
            if problem := analysis.syntax_error(source):
                return f"field 'solution': {path} does not parse ({problem}); correct or remove the row"
        return ""

    def unusable(self, item: TaskItem) -> str:
        """See `Task`."""
        return self.problem(item)

    def prepare(self, items: tuple[TaskItem, ...]) -> tuple[TaskItem, ...]:
        """The rows, with the modules of their solutions as references."""
        if self.form == "merge":
            return items
        sources = [tuple(source for _, source in unpacked(item.fields["solution"])) for item in items]
        return tuple(replace(item, reference=texts) for item, texts in zip(items, sources, strict=True))

    def script(self, name: str) -> Script:
        """The team "gold" says the modules of the solution."""
        if name != "gold":
            return super().script(name)
        known = {
            (agent, text): item.reference[place]
            for item in self.items
            if len(item.reference) == len(self.possible_agents)
            for place, agent in enumerate(self.possible_agents)
            for text in [self.introduction(item, place)]
        }
        return functools.partial(recalled, known)

    # --- what authors are told ---------------------------------------------------------------------------------------

    def tools(self, agent: str) -> tuple[Tool, ...]:
        """Files of its own, and `run_tests`."""
        return self.toolbox.tools(agent)

    def initial_state(self, item: TaskItem, seed: int) -> State:
        """Everybody is told the interfaces."""
        told = tuple(
            (agent, Message("observation", self.introduction(item, place)))
            for place, agent in enumerate(self.possible_agents)
        )
        return State(item, observations=told, sources=self._stubs(item))

    def observations(self, state: State) -> Mapping[str, str | Message]:
        """At first the interfaces; then what came of the last turn."""
        return dict(state.observations)

    def introduction(self, item: TaskItem, place: int, written: str = "each written by another author") -> str:
        """What an author is told at first, of its module and how all are written."""
        if self.form == "merge":
            return (
                f"Another author changes the same module at the same time; both changes are merged by lines, and a "
                f"conflict loses both.\n\n{item.prompt}\n\n{item.fields[('first', 'second')[place]]} Write the whole "
                "new module: no explanation."
            )
        found = unpacked(item.fields["solution"])
        names = [_name(path) for path, _ in found]
        path, source = found[place]
        mine = names[place]
        imported = [other for other in names if _imports(source, other)]
        users = [other for other, (_, text) in zip(names, found, strict=True) if _imports(text, mine)]
        parts = [
            f"{item.prompt} Its modules are {', '.join(names)}, {written}.",
            f"You write `{path}`:\n\n{specification(source)}",
        ]
        parts += [f"It imports `{other}`:\n\n{interface(found[names.index(other)][1])}" for other in imported]
        if users:
            parts.append(f"It is imported by {', '.join(users)}.")
        if self.messages:
            others = ", ".join(name for name in names if name != mine)
            parts.append(f"A line `to NAME: words` is a message of at most {WORDS} words to one of {others}.")
        if self.candidates:
            parts.append(OF_MODULES.offer(item, place))
        else:
            parts.append(self.toolbox.notice(f"agent_{place}"))
            parts.append("Source without a call is your whole module: no explanation.")
        return "\n\n".join(parts)

    def choices(self, agent: str, history: Sequence[Message] = ()) -> Sequence[str]:
        """The letters of the candidates, where there are some."""
        return OF_MODULES.choices(history) if self.candidates else ()

    def alone(self) -> TextDecPOMDP | None:
        """One author who chooses a version of every module in turn; without candidates it writes all at once."""
        from .one_author import OneAuthor

        return OneAuthor(self) if self.candidates else None

    # --- a turn ------------------------------------------------------------------------------------------------------

    def transition(self, state: State, actions: Mapping[str, str], seed: int) -> Transition[State]:
        """Take the modules that authors wrote or chose, and run the tests."""
        if self.form == "merge":
            return self._merge(state, actions)
        events: list[Event] = []
        notes: dict[str, list[str]] = {agent: [] for agent in self.possible_agents}
        tools, sources, calls = state.tools, list(state.sources), 0
        for place, agent in enumerate(self.possible_agents):
            text = actions.get(agent, "")
            if self.candidates:
                sources[place] = source_in(OF_MODULES.chosen(state.item, place, text)) or sources[place]
                continue
            tools, answers = self._act(state, tools, place, text)
            calls += len(answers)
            events += self.toolbox.events(agent, answers)
            notes[agent] += [f"{answer.call.name}: {answer.answer}" for answer in answers]
            sources[place] = self._source(tools, state, place)
        sent = self._messages(state.item, actions, notes, events) if self.messages else 0
        cost = self.call_cost * calls + self.message_cost * sent
        return self._after(state, tools, sources, self._verdict(state.item, sources), cost, sent, notes, events)

    def _verdict(self, item: TaskItem, sources: Sequence[str]) -> Verdict:
        """Run the tests with all modules, and with each module among those of the solution."""
        gold = [source for _, source in unpacked(item.fields["solution"])]
        places = range(len(gold))
        programs = [sources, *([*gold[:place], sources[place], *gold[place + 1 :]] for place in places)]
        run = judged if self.candidates else sandbox.default_pool().run
        return passed_in_all(run([_job(item, self._files(item, program)) for program in programs]))

    def _after(
        self,
        state: State,
        tools: ToolState,
        sources: Sequence[str],
        verdict: Verdict,
        cost: float,
        sent: int,
        notes: Mapping[str, list[str]],
        events: list[Event],
    ) -> Transition[State]:
        """The state and the reward after the tests have run."""
        passed = frozenset(name for name, held in zip(verdict.tests, verdict.cases, strict=True) if held)
        worth = math.nan if verdict.outcome == "infra_error" else weighted(verdict)
        broken = self._broken(state, sources, passed)
        events += [Event("broke", agent, {"of": other}) for agent, other in broken]
        if self.form != "merge":
            for place, agent in enumerate(self.possible_agents):
                notes[agent].append(_report(verdict, _name(unpacked(state.item.fields["solution"])[place][0])))
        spent = state.spent + cost
        told = tuple((agent, Message("observation", "\n".join(notes[agent]))) for agent in self.possible_agents)
        over = worth == 1.0
        known = state.score if math.isnan(worth) else worth
        following = State(state.item, tools, state.turn + 1, passed, tuple(sources), known, spent, () if over else told)
        counts = {
            "tests_passed": float(verdict.passed),
            "tests_total": float(verdict.total),
            "all_passed": float(over),
            "broken": float(len(broken)),
            "messages": float(sent),
        }
        score = Score(worth - spent, {"tests": worth, "costs": -spent}, counts, {"detail": "\n".join(verdict.notes)})
        return Transition(following, worth - state.score - cost, score, terminated=over, events=tuple(events))

    def _act(self, state: State, tools: ToolState, place: int, text: str) -> tuple[ToolState, list[Answered]]:
        """Run the calls of a text; or keep it as the module, where it is source."""
        agent = self.possible_agents[place]
        answers: list[Answered] = []
        calls = self.toolbox.calls(agent, text)
        for call in calls[:AT_ONCE]:
            if call.name == "run_tests":
                tools = self._with_program(state, tools, place)
            tools, [answered] = self.toolbox.answer(tools, agent, [call])
            answers.append(answered)
        if not calls and (source := source_in(text)):
            written = Call("write_file", {"path": unpacked(state.item.fields["solution"])[place][0], "text": source})
            tools, _ = self.toolbox.answer(tools, agent, [written])
        return tools, answers

    def _with_program(self, state: State, tools: ToolState, place: int) -> ToolState:
        """The tools, of which `run_tests` has the program as it is for an author: others' modules as they were."""
        sources = [*state.sources]
        sources[place] = self._source(tools, state, place)
        files_now = (("", state.item.fields["test"]), *self._files(state.item, sources))
        kept = tuple(entry for entry in tools.states if entry[0] != _TESTS)
        return tools._replace(states=(*kept, (_TESTS, "", files_now)))

    def _source(self, tools: ToolState, state: State, place: int) -> str:
        """The module of an author; as it was, where it has not written it."""
        path = unpacked(state.item.fields["solution"])[place][0]
        agent = self.possible_agents[place]
        written: Files = next((value for kit, who, value in tools.states if (kit, who) == (_FILES, agent)), ())
        return dict(written).get(path, self._stubs(state.item)[place])

    def _stubs(self, item: TaskItem) -> tuple[str, ...]:
        if self.form == "merge":
            return (item.prompt,)
        return tuple(stub(source) for _, source in unpacked(item.fields["solution"]))

    def _files(self, item: TaskItem, sources: Sequence[str]) -> Files:
        paths = [path for path, _ in unpacked(item.fields["solution"])]
        return tuple(zip(paths, sources, strict=True))

    def _messages(
        self, item: TaskItem, actions: Mapping[str, str], notes: Mapping[str, list[str]], events: list[Event]
    ) -> int:
        """Hand messages on; how many there were."""
        names = [_name(path) for path, _ in unpacked(item.fields["solution"])]
        sent = 0
        for place, agent in enumerate(self.possible_agents):
            found = _MESSAGE.search(actions.get(agent, ""))
            to = found[1].lower() if found else ""
            if found and to in names and to != names[place]:
                reader = self.possible_agents[names.index(to)]
                words = " ".join(found[2].split()[:WORDS])[:LONGEST_MESSAGE]
                notes[reader].append(f"From {names[place]}: {words}")
                events.append(Event("read", reader, {"of": agent}))
                sent += 1
        return sent

    def _broken(self, state: State, sources: Sequence[str], passed: frozenset[str]) -> list[tuple[str, str]]:
        """(who changed a module, whose tests no longer pass though its own module is as it was)."""
        if not state.turn or self.form == "merge":
            return []
        names = [_name(path) for path, _ in unpacked(state.item.fields["solution"])]
        changed = [agent for agent, a, b in zip(self.possible_agents, state.sources, sources, strict=True) if a != b]
        lost = {name.partition(".")[0] for name in state.passed - passed}
        hit = [agent for agent, name in zip(self.possible_agents, names, strict=True) if class_of(name) in lost]
        return [(who, other) for other in hit if other not in changed for who in changed]

    def _merge(self, state: State, actions: Mapping[str, str]) -> Transition[State]:
        texts = [actions.get(agent, "") for agent in self.possible_agents]
        sources = [source_in(text) or state.item.prompt for text in texts]
        whole = merge.merged(state.item.prompt, *sources)
        if whole is None:
            counts = {"conflict": 1.0}
            score = Score(0.0, {"tests": 0.0, "costs": 0.0}, counts, {"detail": _CONFLICT})
            told = tuple((agent, Message("observation", _CONFLICT)) for agent in self.possible_agents)
            following = state._replace(turn=state.turn + 1, score=0.0, observations=told)
            return Transition(following, 0.0 - state.score, score)
        verdict = judge(Job("", state.item.fields["test"], "", modules=((f"{merge.MODULE}.py", whole),), limits=LIMITS))
        failed = "Not all tests passed."
        notes = {agent: [failed] for agent in self.possible_agents}
        return self._after(state, state.tools, (whole,), verdict, 0.0, 0, notes, [])

    def describe(self, state: State) -> Mapping[str, Any]:
        """What every module is now."""
        return {"sources": list(state.sources), "score": state.score}

    # --- what is known of episodes -----------------------------------------------------------------------------------

    def contributions(self, item: TaskItem, texts: Sequence[str]) -> tuple[float, ...]:
        """By author how much the score falls when its module is replaced by stubs; NaN where it could not be judged.

        Args:
            item: A row.
            texts: The source of every module, in order.
        """
        stubs = self._stubs(item)
        without = [[*texts[:place], stubs[place], *texts[place + 1 :]] for place in range(len(texts))]
        verdicts = [self._verdict(item, sources) for sources in (texts, *without)]
        whole, *others = (math.nan if v.outcome == "infra_error" else weighted(v) for v in verdicts)
        return tuple(whole - other for other in others)

    def measure(self, groups: Sequence[Group]) -> Mapping[str, Mapping[str, float]]:
        """Shares of programs and tests that pass, what changes broke, and messages."""
        episodes = [episode for group in groups for episode in group.episodes if episode.final]
        if not episodes:
            return {}
        final = [episode.final.diagnostics for episode in episodes if episode.final]
        events = [event for episode in episodes for turn in episode.turns for event in turn.events]
        name = "merge" if self.form == "merge" else f"{len(self.possible_agents)} modules"
        numbers = {
            "all tests %": 100 * fmean(counts["all_passed"] for counts in final),
            "tests %": 100 * fmean(c["tests_passed"] / c["tests_total"] if c["tests_total"] else 0.0 for c in final),
        }
        if self.form == "merge":
            numbers["conflicts %"] = 100 * fmean(counts["conflict"] for counts in final)
        else:
            numbers["broken"] = sum(event.kind == "broke" for event in events) / len(episodes)
            numbers["messages"] = sum(event.kind == "read" for event in events) / len(episodes)
        if not self.candidates:
            return {name: numbers}
        shares = OF_MODULES.shares(self.items, groups, len(self.possible_agents), self.facts.split)
        return {name: numbers, **shares, **schemes(self._schemes(groups))}

    def _schemes(self, groups: Sequence[Group]) -> list[str]:
        """Of modules that import others, the scheme that is chosen last; "" where a test fails."""
        items, found = {item.id: item for item in self.items}, list[str]()
        for episode, item in ((e, items[group.item_id]) for group in groups for e in group.episodes if e.final):
            right = episode.final is not None and episode.final.diagnostics["all_passed"]
            for place, text in enumerate(texts_of(episode, len(self.possible_agents), self.facts.split)):
                others = _imported(unpacked(item.fields["solution"])[place][1])
                if others:
                    found.append(_scheme(OF_MODULES.chosen(item, place, text), others) if right else "")
        return found


@functools.lru_cache(maxsize=4096)
def _imported(source: str) -> frozenset[str]:
    imports = (node for node in ast.parse(source).body if isinstance(node, ast.ImportFrom))
    return frozenset(alias.name for node in imports for alias in node.names)


@functools.lru_cache(maxsize=4096)
def _scheme(source: str, others: Collection[str]) -> str:
    """The scheme of a module, where it calls functions of others."""

    def is_others(node: ast.AST) -> bool:
        return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in others

    tree = analysis.parse(source)
    return scheme_of(tree, is_others) if tree else ""


# --- tests ------------------------------------------------------------------------------------------------------------

_FILES, _TESTS = 0, 1  # places of the kits


def run_tests(state: Files, module: str) -> tuple[Files, str]:
    """Run the tests of a module with all modules as they are now.

    Args:
        module: Its name, or "all" for all tests.
    """
    (_, test), *program = state
    verdict = judge(Job("", test, "", modules=tuple(program), limits=LIMITS))
    if module != "all" and module not in {_name(path) for path, _ in program}:
        names = ", ".join(_name(path) for path, _ in program)
        raise ValueError(f"there is no module {module!r:.40}; there are {names}")
    return state, _report(verdict, module)


def _tests_kit() -> Kit:
    return Kit("tests", (function(run_tests),), initial=(("", ""), ("nothing.py", "")), bounded=True)


def judge(job: Job) -> Verdict:
    """Judge one program in the pool of this process."""
    return sandbox.default_pool().run([job])[0]


def _job(item: TaskItem, program: Files) -> Job:
    return Job("", item.fields["test"], "", modules=program, limits=LIMITS)


def weighted(verdict: Verdict) -> float:
    """The share of tests that pass, those across modules at half the weight."""
    weights = [0.5 if name.startswith(f"{TOGETHER}.") else 1.0 for name in verdict.tests]
    held = sum(weight for weight, case in zip(weights, verdict.cases, strict=True) if case)
    return held / sum(weights) if weights else 0.0


def _report(verdict: Verdict, module: str) -> str:
    """What tests say, with the first reason."""
    chosen = [
        (name, case)
        for name, case in zip(verdict.tests, verdict.cases, strict=True)
        if module == "all" or name.startswith(f"{class_of(module)}.")
    ]
    reasons = [note for note in verdict.notes if any(note.startswith(f"{name}:") for name, case in chosen if not case)]
    line = f"{sum(case for _, case in chosen)} of {len(chosen)} tests of {module} pass."
    return f"{line} {reasons[0]}" if reasons else line


def _name(path: str) -> str:
    """The name of the module of a path."""
    return path.rpartition("/")[2].removesuffix(".py")


def _imports(source: str, module: str) -> bool:
    """Whether a source imports a module of its package."""
    return re.search(rf"^from \w+ import {re.escape(module)}$", source, re.MULTILINE) is not None


def source_in(text: str) -> str:
    """Return the Python source of a text, without messages; "" where it has no definition that parses.

    It is all of the text where that parses, else the first fenced block that does (`envs.fences`).
    """
    text = text[: 4 * analysis.MAX_SOURCE]

    def source_of(piece: str) -> str:
        return _MESSAGE.sub("", piece).strip() + "\n"

    for piece in (text, *fences.blocks(text, lambda block: analysis.parse(source_of(block)) is not None)):
        source = source_of(piece)
        if re.search(r"^(?:def|class) ", source, re.MULTILINE) and analysis.parse(source):
            return source
    return ""


def recalled(known: Mapping[tuple[str, str], str], agent: str, history: Sequence[Message]) -> str:
    """What the team "gold" says at a first message; raises KeyError for one of another environment."""
    try:
        return known[agent, history[0].text]
    except KeyError:
        raise UnknownNameError(
            f'no module for {agent!r} and the observation {history[0].text[:60]!r}...; the team "gold" knows the tasks '
            "of this environment"
        ) from None
