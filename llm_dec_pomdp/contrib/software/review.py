"""review-v0: An author writes a module, a tester writes tests for it, and a reviewer accepts it or sends it back.

| fact | value |
|---|---|
| agents | agent_0 "author", agent_1 "tester", agent_2 "reviewer" |
| turns | 3: author and tester, the reviewer, and the author again if its module is sent back |
| options | `rewards` "role"; `rewrite_cost` 0.1 of a second module |
| data | modules of the packages of three modules of `modules-v0`: 60 / 20 tasks (`count`: training tasks) |
| files | rows as for `modules-v0`, and `place`, the number of the module, from 0 |
| return | 0 to 1, minus `rewrite_cost` if the module is sent back |

Observation. The agents observe different parts:

| agent | observes |
|---|---|
| author | the specification of the module, and interfaces of modules that it imports; later the words of the reviewer |
| tester | the specification of the module |
| reviewer | the specification, the module, and how many of the tester's tests pass |

Action. The author writes the module, as in `modules-v0`. The tester writes a test in each line, at most 8: a call of a
function with literal arguments, and its value, `rate('white') == 3`. Other lines are left out. No text of the tester is
run: tests are built from the literals. The reviewer writes `REWRITE name` with the name of a function; any other text
accepts the module. A rewritten module replaces the first one, also if it is worse.

Reward. The score of the team is the share of hidden tests of the module that pass in the solution's package, minus
`rewrite_cost` if the module was sent back. The reward of a turn is the change of the score. The tester's tests are
scored on mutants of the module, as `contrib.software.mutants` lists them: a mutant is killed if a test fails on it. The
tests kill nothing if one of them fails on the solution.

| `rewards` | author and reviewer | tester |
|---|---|---|
| "role" | the reward of the team | the share of mutants that its tests kill, after the first turn |
| "joint" | the reward of the team | the reward of the team |

Candidates. With `make(..., candidates=True)` each agent chooses by a letter. The author has six versions of the module.
The tester has all calls of the hidden tests, the first one, the first one with a wrong value, and no test. The reviewer
has acceptance and the first two functions of the module.

Measured (`env.measure`):

| column | value |
|---|---|
| draft %, delivered % | score of the first module, and of the delivered one without cost |
| worth | worth of the reviewer: the return, minus the return of the same texts if the first module is delivered |
| sent back % | share of episodes whose module is sent back |
| of these right % | share of these whose first module passes all tests |
| killed % | share of mutants that the tests kill |

Source: written for this package.

Version history: v0, the first.

Example:
    >>> import llm_dec_pomdp
    >>> env = llm_dec_pomdp.make("review-v0")
    >>> print(env.reset(options={"index": 1})[0]["agent_1"].splitlines()[0])
    You test the module `rates`.
"""

from __future__ import annotations

import ast
import functools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any, Literal, NamedTuple, Unpack, get_args

from llm_dec_pomdp.envs import Facts, Script, Task, TaskOptions, Tasks, TaskSource, Transition, check_int
from llm_dec_pomdp.registries import nearest
from llm_dec_pomdp.sandbox import Job, Limits, Verdict, cached_verdicts
from llm_dec_pomdp.types import Group, Message, Score, TaskItem

from .modules import source_in
from .mutants import of_module
from .packages import class_of, interface, own_rows, specification, stub, unpacked

Rewards = Literal["role", "joint"]
AUTHOR, TESTER, REVIEWER = "agent_0", "agent_1", "agent_2"
LIMITS = Limits(cpu_seconds=4.0, case_seconds=1.0)
TESTS = 8  # maximum number of tests of the tester
ACCEPT = "ACCEPT"
PASSING = ("gold", "alone", "fallback")  # kinds of candidates that pass all tests, so they are not mutants
_REWRITE = re.compile(r"\bREWRITE\s+(\w+)", re.IGNORECASE | re.ASCII)
Test = tuple[str, str]  # a call and its value, both as source


class Module(NamedTuple):
    """The module of a row."""

    package: str
    name: str
    path: str
    source: str  # of the solution
    others: tuple[tuple[str, str], ...]  # (path, source) of the other modules of the solution

    @property
    def functions(self) -> tuple[str, ...]:
        """The names of its functions."""
        return tuple(node.name for node in ast.parse(self.source).body if isinstance(node, ast.FunctionDef))


def module_of(item: TaskItem) -> Module:
    """Return the module of a row."""
    return _module(item.fields["solution"], int(item.fields["place"]))


@functools.lru_cache(maxsize=4096)
def _module(solution: str, place: int) -> Module:
    files = unpacked(solution)
    path, source = files[place]
    package, _, name = path.removesuffix(".py").rpartition("/")
    return Module(package, name, path, source, (*files[:place], *files[place + 1 :]))


@functools.cache
def _sample(count: int) -> tuple[TaskItem, ...]:
    rows: list[TaskItem] = []
    for split, most in (("train", count), ("test", count // 3)):
        packages = [item for item in own_rows("packages_3") if item.split == split]
        for number in range(most):
            item = packages[number % len(packages)]
            place = (number % len(packages) + number // len(packages)) % 3
            rows.append(replace(item, id=f"{item.id}-{place}", fields={**item.fields, "place": str(place)}))
    return tuple(rows)


# --- tests of the tester ----------------------------------------------------------------------------------------------


def read_tests(text: str, functions: Sequence[str]) -> tuple[Test, ...]:
    """Return the tests in a text: lines such as `rate('white') == 3`, with literals only."""
    found: dict[Test, None] = {}
    for line in text.splitlines():
        if len(line) > 500 or not (match := re.match(r"\s*(\w+)\(.*==", line)) or match[1] not in functions:
            continue
        try:
            tree = ast.parse(line.strip(), mode="eval").body
            match tree:
                case ast.Compare(ast.Call(ast.Name(name), arguments, []), [ast.Eq()], [value]) if name in functions:
                    given = ", ".join(repr(ast.literal_eval(argument)) for argument in arguments)
                    found[f"{name}({given})", repr(ast.literal_eval(value))] = None
                case _:
                    pass
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            continue
    return tuple(found)[:TESTS]


def hidden_calls(item: TaskItem) -> tuple[Test, ...]:
    """Return the calls with literals in the hidden tests of the module, and their values."""
    return _hidden_calls(item.fields["test"], module_of(item))


@functools.lru_cache(maxsize=4096)
def _hidden_calls(test: str, module: Module) -> tuple[Test, ...]:
    found: dict[Test, None] = {}
    [tests] = [n for n in ast.parse(test).body if getattr(n, "name", "") == class_of(module.name)]
    for node in ast.walk(tests):
        match node:
            case ast.Call(ast.Attribute(_, "assertEqual"), [ast.Tuple(calls), ast.Tuple(values)]):
                pairs = zip(calls, values, strict=False)
            case ast.Call(ast.Attribute(_, "assertEqual"), [call, value]):
                pairs = [(call, value)]
            case _:
                continue
        for call, value in pairs:
            line = f"{ast.unparse(call)} == {ast.unparse(value)}".removeprefix(f"{module.name}.")
            found |= dict.fromkeys(read_tests(line, module.functions))
    return tuple(found)[:TESTS]


def _test_source(module: Module, tests: Sequence[Test]) -> str:
    lines = [f"import unittest\nfrom {module.package} import {module.name}\n\nclass TestGiven(unittest.TestCase):"]
    for number, (call, value) in enumerate(tests):
        lines += [f"    def test_{number}(self):", f"        self.assertEqual({module.name}.{call}, {value})"]
    return "\n".join(lines) + "\n"


# --- the task ---------------------------------------------------------------------------------------------------------


class State(NamedTuple):
    """The state of `Review`."""

    item: TaskItem
    turn: int = 0
    source: str = ""  # the current module
    draft: float = 0.0  # score of the first module
    score: float = 0.0  # score so far, with the cost
    report: str = ""  # results of the tester's tests, for the reviewer
    words: str = ""  # words of the reviewer
    killed: float = 0.0
    over: bool = False


class Review(Task[State]):
    """Environment with an author, a tester and a reviewer. See the module docstring.

    Args:
        rewards: "role" or "joint".
        rewrite_cost: The cost of a module that is sent back, at least 0.
        count: The number of training tasks, 3 to 180; there are a third as many test tasks.
        tasks, common: See `Task`; `max_turns` is 3 by default.
    """

    declared = Facts(
        name="review-v0",
        roles=("author", "tester", "reviewer"),
        components=("tests", "costs"),
        diagnostics=("draft", "killed", "sent_back"),
        score_range=(-1.0, 1.0),
        turn_range=(-2.0, 1.0),
        best=1.0,
        silence_is_lowest=False,
        joint_reward=False,
        shares_texts=True,
        hidden_fields=("test", "solution"),
        scripts=("gold",),
        judges_code=True,
    )

    def __init__(
        self,
        tasks: Tasks = "sample",
        *,
        rewards: Rewards = "role",
        rewrite_cost: float = 0.1,
        count: int = 60,
        **common: Unpack[TaskOptions],
    ) -> None:
        if rewards not in get_args(Rewards):
            raise ValueError(f"rewards is {rewards!r}; {nearest(rewards, get_args(Rewards))}")
        if isinstance(rewrite_cost, bool) or not isinstance(rewrite_cost, (int, float)) or not 0 <= rewrite_cost <= 1:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"rewrite_cost is {rewrite_cost!r}; give a number from 0 to 1")
        self.rewards, self.rewrite_cost = rewards, float(rewrite_cost)
        sample = functools.partial(_sample, check_int("count", count, 3, 180))
        self.source = TaskSource("review", required=("prompt", "solution", "test", "place"), sample=sample)  # type: ignore[misc]
        self.declared = replace(self.declared, joint_reward=rewards == "joint")
        common.setdefault("max_turns", 3)
        super().__init__(tasks, **common)

    def problem(self, item: TaskItem) -> str:
        """Return why a row has no module; "" if it has one."""
        count = len(unpacked(item.fields["solution"]))
        if not item.fields["place"].isdecimal() or int(item.fields["place"]) >= count:
            return f"field 'place': is {item.fields['place'][:20]!r}; give the number of one of {count} modules, from 0"
        module = module_of(item)
        if f"class {class_of(module.name)}(" not in item.fields["test"]:
            return f"field 'test': has no class {class_of(module.name)}; add the tests of {module.path}"
        return ""

    def initial_state(self, item: TaskItem, seed: int) -> State:
        """Return the state before the first module."""
        return State(item, source=stub(module_of(item).source))

    def observations(self, state: State) -> Mapping[str, str]:
        """Return the specification for author and tester, the module for the reviewer, or its words for the author."""
        if state.over:
            return {}
        module = module_of(state.item)
        specified = specification(module.source)
        if state.turn == 1:
            request = f"Write {ACCEPT}, or REWRITE and the name of a function that is wrong."
            shown = f"Specification:\n\n{specified}\n\nModule:\n\n{state.source.strip()}\n\n{state.report}"
            return {REVIEWER: f"You review the module `{module.name}`. {request}\n\n{shown}"}
        if state.turn > 1:
            return {AUTHOR: f"{state.report}\nReviewer: {state.words}\nWrite the whole module again."}
        used = [f"`{_name(path)}`:\n\n{interface(source)}" for path, source in module.others if _uses(module, path)]
        imported = [f"It may import these modules from `{module.package}`.", *used] if used else []
        write = f"You write the module `{module.name}` of a package. Write its source, without an explanation."
        lines = (
            f"Write a test in each line, at most {TESTS}, such as `{module.functions[0]}(1) == 2`, with literals only."
        )
        return {
            AUTHOR: "\n\n".join([f"{state.item.prompt} {write}", specified, *imported]),
            TESTER: f"You test the module `{module.name}`.\n{lines}\n\n{specified}",
        }

    def transition(self, state: State, actions: Mapping[str, str], seed: int) -> Transition[State]:
        """Score the module and the tests, read the review, or score the second module."""
        module = module_of(state.item)
        if state.turn == 1:
            named = _REWRITE.search(actions[REVIEWER])
            known = bool(named) and named[1] in module.functions  # pyright: ignore[reportOptionalSubscript]
            words = f"REWRITE {named[1]}" if named and known else ""
            cost = self.rewrite_cost if known else 0.0
            state = state._replace(turn=2, words=words, score=state.score - cost, over=not known)
            return self._after(state, -cost, state.draft)
        source = source_in(actions[AUTHOR]) or state.source
        worth = self._tests(state.item, source)
        if state.turn:
            after = state._replace(turn=3, source=source, score=worth - self.rewrite_cost, over=True)
            return self._after(after, after.score - state.score, worth)
        tests = read_tests(actions[TESTER], module.functions)
        [verdict] = self._run(module, [source], tests)
        report = f"{sum(verdict.cases)} of {len(tests)} tests of the tester pass." if tests else "There are no tests."
        killed = self._killed(state.item, tests)
        after = state._replace(turn=1, source=source, draft=worth, score=worth, report=report, killed=killed)
        return self._after(after, worth, worth, tester=killed)

    def _after(self, state: State, reward: float, worth: float, tester: float = 0.0) -> Transition[State]:
        """Return the transition with the score, and the rewards by role."""
        sent = bool(state.words)
        facts = {"draft": state.draft, "killed": state.killed, "sent_back": float(sent)}
        parts = {"tests": worth, "costs": -self.rewrite_cost * sent}
        paid = dict.fromkeys(self.possible_agents, reward) | {TESTER: tester}
        rewards = paid if self.rewards == "role" else None
        score = Score(sum(parts.values()), parts, facts)
        return Transition(state, reward, score, terminated=state.over, rewards=rewards)

    def _tests(self, item: TaskItem, source: str) -> float:
        """Return the share of the hidden tests of the module that pass in the solution's package; NaN if unknown."""
        module = module_of(item)
        files = ((module.path, source), *module.others)
        [verdict] = cached_verdicts([Job("", item.fields["test"], "", modules=files, limits=LIMITS)])
        if verdict.outcome == "infra_error":
            return math.nan
        named = f"{class_of(module.name)}."
        held = [case for name, case in zip(verdict.tests, verdict.cases, strict=True) if name.startswith(named)]
        return sum(held) / len(held) if held else 0.0

    def _run(self, module: Module, sources: Sequence[str], tests: Sequence[Test]) -> list[Verdict]:
        """Run the tester's tests on versions of the module in the package of the solution."""
        check = _test_source(module, tests or [("__doc__", "0")])
        programs = [((module.path, source), *module.others) for source in sources]
        return list(cached_verdicts([Job("", check, "", modules=files, limits=LIMITS) for files in programs]))

    def _killed(self, item: TaskItem, tests: Sequence[Test]) -> float:
        """Return the share of killed mutants: 0 if a test fails on the solution, NaN if the sandbox failed."""
        module = module_of(item)
        kinds = of_module(item.fields["solution"], int(item.fields["place"]))
        mutants = [source for kind, source in kinds.items() if kind not in PASSING]
        if not tests:
            return 0.0
        right, *verdicts = self._run(module, [module.source, *mutants], tests)
        if any(verdict.outcome == "infra_error" for verdict in (right, *verdicts)):
            return math.nan
        return fmean(verdict.outcome != "passed" for verdict in verdicts) if right.outcome == "passed" else 0.0

    def describe(self, state: State) -> Mapping[str, Any]:
        """Return the current module and the score of the first one."""
        return {"source": state.source, "draft": state.draft}

    def measure(self, groups: Sequence[Group]) -> Mapping[str, Mapping[str, float]]:
        """Return the scores of first and delivered modules, the worth of the reviewer and the killed mutants."""
        final = [e.final for group in groups for e in group.episodes if e.final and e.final.scorable]
        if not final:
            return {}
        sent = [score for score in final if score.diagnostics["sent_back"]]
        right = {"of these right %": 100 * fmean(s.diagnostics["draft"] == 1 for s in sent)} if sent else {}
        numbers = {
            "draft %": 100 * fmean(score.diagnostics["draft"] for score in final),
            "delivered %": 100 * fmean(score.components["tests"] for score in final),
            "worth": fmean(score.total - score.diagnostics["draft"] for score in final),
            "sent back %": 100 * len(sent) / len(final),
            **right,
            "killed %": 100 * fmean(score.diagnostics["killed"] for score in final),
        }
        return {"review": numbers}

    # --- candidates and a team without a model ------------------------------------------------------------------------

    def offered_texts(self, item: TaskItem, role: str) -> Mapping[str, str]:
        """Return the candidates of a role by kind; empty for rows that are not embedded."""
        if self._rows_of:
            return {}
        if role == "author":
            return of_module(item.fields["solution"], int(item.fields["place"]))
        if role == "reviewer":
            first, second, *_ = module_of(item).functions
            return {"accept": ACCEPT, "first": f"REWRITE {first}", "second": f"REWRITE {second}"}
        (call, value), *_ = calls = hidden_calls(item)
        return {
            "all": "\n".join(map(" == ".join, calls)),
            "one": f"{call} == {value}",
            "wrong": f"{call} == {[ast.literal_eval(value)]!r}",
            "none": "",
        }

    def script(self, name: str) -> Script:
        """Return the team "gold": the module of the solution, all calls of the hidden tests, and acceptance."""
        if name != "gold":
            return super().script(name)
        known = {
            self.observations(state)[agent]: text
            for item in self.items
            for state in [self.initial_state(item, 0)]
            for agent, text in (
                (AUTHOR, module_of(item).source),
                (TESTER, "\n".join(map(" == ".join, hidden_calls(item)))),
            )
        }

        def say(agent: str, history: Sequence[Message]) -> str:
            if agent == REVIEWER:
                return ACCEPT
            if history[0].text not in known:
                raise ValueError(
                    f'the team "gold" of review-v0 has no text after {history[0].text[:60]!r}; play it on its own tasks'
                )
            return known[history[0].text]

        return say


def _name(path: str) -> str:
    return path.rpartition("/")[2].removesuffix(".py")


def _uses(module: Module, path: str) -> bool:
    """Return whether the module of the solution imports another module of the package."""
    return re.search(rf"^from \w+ import {_name(path)}$", module.source, re.MULTILINE) is not None
