"""classeval-v0: A Python class whose methods are written by different agents.

| fact | value |
|---|---|
| agents | `n_agents` authors (2); a tester with `tester=True`, a reviewer with `reviewer=True` |
| turns | 1; `max_turns` for more, with rewards as in `envs.turn_rewards` |
| data | `FudanSELab/ClassEval`, 100 classes, train [20:] / test [:20]; 82 are used |
| offline | 43 classes written for this suite, 33 train / 10 test |
| return | 0 to 4.0 |

Observation. All authors read the class with its docstring, its constructor and other given code, and the signatures of
all methods. No author reads the code of its teammates. A single agent, the tester and the reviewer read all docstrings.

| `assign` | who writes a method | docstrings that an author reads |
|---|---|---|
| `"given"` | one author; methods that call each other or share a field are separated | of its own methods |
| `"chosen"` | any author that chooses to write it | of all methods |

Action. Any text with functions. Only the definition of a method counts, from `def` to the end of its body, as in
coophumaneval-v0. Prose, imports, constants, classes and helper functions around it are dropped. The decorators of the
skeleton replace those of the action.

Reward (one float for the team):

| component | range | rule |
|---|---|---|
| form | 0..0.8 | share of methods that parse, are written once, by their author, with the skeleton's parameters |
| tests | 0..1.2 | share of tests that pass |
| weakest | 0..2.0 | share of passed tests among those that need a method of an author; the smallest over authors |

Only methods that count for `form` are part of the tested class. All other methods raise NotImplementedError.

- A test passes if it passes in several classes. One has the methods of all authors. For each author there is another
  one, which is the solution with the methods of this author.
- A test needs a method if it fails for the solution with this method returning None.
- A test does not count if it passes when all methods raise NotImplementedError, or all return None, True, False, 0, ""
  or [].

Tests are `unittest` classes. They run one by one in the code sandbox, separately from the class (docs/sandbox.md).

Turns. From the second turn on, authors read the results of their methods. The option `feedback` selects them:

| `feedback` | authors read |
|---|---|
| `"none"` | nothing |
| `"passed"` | whether all tests passed |
| `"level_passed"` | problems of form in their own methods, and the number of passed tests of the class |
| `"level_feedback"` | the same, and the reasons of up to `feedback_tests` failed tests of their own methods |

The tester writes asserts. It and the authors read which of them failed. The reviewer acts in every other turn: it reads
all method bodies and writes a message to each author.

Protocols. They correspond to the three strategies of ClassEval. The table shows the published results in %, with greedy
decoding: class success (all tests pass) / method success.

| model | holistic: `single` | incremental: `sequential` | compositional: `concat` |
|---|---|---|---|
| GPT-4-Turbo | 38 / 67.5 | 33 / 63.5 | 27 / 62.7 |
| DeepSeek-Coder-6.7B | 27 / 57.2 | 18 / 47.6 | 17 / 49.6 |
| SantaCoder-1.1B | 0 / 0.6 | 10 / 30.3 | 0 / 18.9 |

The published numbers are not directly comparable. In ClassEval every author reads all docstrings. Class success of this
environment is stricter, because a test has to pass in all the classes that the reward describes.

Degenerate strategies. The table shows the return in % of 4.0 with `assign="given"`: the mean over classes, and in
brackets the highest. If the two authors differ, the mean is over both orders.

| first author | second author | 43 embedded classes | 12 published test classes |
|---|---|---|---|
| nothing, or the whole class | the same | 0 | 0 |
| stubs: None, True, False, 0, "", [], first argument | the same | 20 (20) | 20 (20) |
| its methods as in the solution | nothing | 14 (29) | 16 (33) |
| its methods as in the solution | stubs, the best kind | 25 (48) | 30 (50) |
| its methods as in the solution | methods that raise ValueError | 27 (53) | 26 (39) |
| its methods as in the solution | the best guess | 31 (67) | 33 (100) |
| the solution of all methods, hidden in one of its own | calls of this method | 25 (46) | 29 (100) |

A guess is a method of one line (a constant, an argument, a read or write of a field). The best of up to 60 guesses is
selected by the tests. A guess solves ClassEval_19, because its given constructor shows what the getter returns. The
last row needs a first author that has memorised the class. With `assign="chosen"` authors divide the work as they like,
so one author may write almost all of it.

Rows. 18 of the 100 published classes are left out:

| rows | reason |
|---|---|
| 12 rows | need libraries that are not in the standard library |
| ClassEval_17 | expects an event of 2024 to be in the future |
| ClassEval_48 | expects the host name of its author's machine |
| ClassEval_50 | expects that a read-only file cannot be written, but root can write it |
| ClassEval_0 | all tests pass if all methods return True, or if all return False |
| ClassEval_5, ClassEval_22 | the skeletons do not parse as a class |

ClassEval_20 and ClassEval_36 compare times of day to the second. Their tests therefore start in the first half of a
second.

Candidates. With `make(..., candidates=True)` each of two authors chooses one of six versions of its methods by a letter
(`envs.wrappers.Choices`), on 17 embedded classes:

- the solution;
- the solution with an error;
- empty methods;
- methods with other parameters;
- methods that do the work of teammates themselves;
- methods that do this work only if the methods of teammates fail.

Measured (`env.measure`): class and method success; with `assign="chosen"` coverage and overlap.

Source: ClassEval, arXiv:2308.01861 (MIT): data, strategies; the reward is this suite's own.

Version history: v0, the first.

Example:
    >>> import llm_dec_pomdp
    >>> env = llm_dec_pomdp.make("classeval-v0", split="test")
    >>> observations, _ = env.reset(options={"index": 0})
    >>> observations["agent_0"].splitlines()[0]
    'class Matrix:'
"""

from __future__ import annotations

import ast
import json
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Literal, NamedTuple, Unpack, get_args

from llm_dec_pomdp.envs import Facts, TaskError, Tasks, TaskSource, TextOptions, TextState, TextTask, Transition
from llm_dec_pomdp.envs.coding import analysis
from llm_dec_pomdp.registries import nearest
from llm_dec_pomdp.sandbox import Job, Verdict, cached_verdicts
from llm_dec_pomdp.types import Group, Score, TaskItem

from . import reward
from .classes import AUDIT, REQUIRED, candidates, converted, left_out, own_rows
from .program import MODULE, Spec, Written, assembled, dealt, gold_of, in_order, key_of, signatures, spec_of, written

Assign = Literal["given", "chosen"]
Feedback = Literal["none", "passed", "level_passed", "level_feedback"]
MOST_ASSERTS = 20  # maximum number of the tester's asserts that are run
LONGEST_REVIEW = 1000  # maximum length of a review for one author, in characters
_ONLY = "Write only complete functions with `self`: no explanation, no code fences, no tests."


class TurnResult(NamedTuple):
    """The methods of a turn, and the verdict on the asserts of the tester."""

    written: Written
    verdict: Verdict | None = None  # on the tester's asserts
    asserts: tuple[str, ...] = ()


class ClassEval(TextTask):
    """Environment in which several authors write one class. See the module docstring.

    Args:
        n_agents: The number of authors; rows with fewer methods are left out.
        assign: "given": each method has one author; "chosen": authors choose their methods.
        tester: Add an agent that writes asserts.
        reviewer: Add an agent that reads all bodies in every other turn; needs at least 3 turns.
        feedback: The results that authors observe from the second turn on.
        feedback_tests: The number of failed tests that "level_feedback" explains.
        tasks, common: See `TextTask`.
    """

    declared = Facts(
        name="classeval-v0",
        components=reward.COMPONENTS,
        diagnostics=reward.DIAGNOSTICS,
        score_range=(0.0, 4.0),
        hidden_fields=("test", "solution"),
        judges_code=True,
    )
    source = TaskSource(
        "classeval",
        "FudanSELab/ClassEval",
        {"train": "test[20:]", "test": "test[:20]"},
        REQUIRED,
        sample=own_rows,
        convert=converted,
    )

    def __init__(
        self,
        tasks: Tasks = "sample",
        *,
        n_agents: int = 2,
        assign: Assign = "given",
        tester: bool = False,
        reviewer: bool = False,
        feedback: Feedback = "level_feedback",
        feedback_tests: int = 1,
        **common: Unpack[TextOptions],
    ) -> None:
        if isinstance(n_agents, bool) or not isinstance(n_agents, int) or n_agents < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"n_agents is {n_agents!r}; it is a number of authors, give an integer of at least 1")
        for name, value, offered in (("assign", assign, get_args(Assign)), ("feedback", feedback, get_args(Feedback))):
            if value not in offered:
                raise ValueError(f"{name} is {value!r}; {nearest(str(value), offered)}")
        if feedback_tests < 0:
            raise ValueError(f"feedback_tests is {feedback_tests}; it is a number of tests, give at least 0")
        if reviewer and common.get("max_turns", 3) < 3:
            raise ValueError(
                f"max_turns is {common.get('max_turns')}, and a reviewer acts in the second turn; give at least 3"
            )
        if reviewer and common.get("turn_reward", "final") != "final":
            raise ValueError(
                f"turn_reward is {common.get('turn_reward')!r}, and turns of a reviewer have no score; give 'final'"
            )
        if reviewer:
            common.setdefault("max_turns", 3)
        self.n_authors, self.assign, self.feedback, self.feedback_tests = n_agents, assign, feedback, feedback_tests
        authors = tuple(f"author {number}" for number in range(1, n_agents + 1))
        roles = (*authors, *(["tester"] if tester else []), *(["reviewer"] if reviewer else []))
        self.declared = replace(self.declared, roles=roles, shares_texts=reviewer)
        super().__init__(tasks, **common)
        self.authors = self.possible_agents[:n_agents]
        self.tester = f"agent_{roles.index('tester')}" if tester else ""
        self.reviewer = f"agent_{roles.index('reviewer')}" if reviewer else ""

    # --- rows ---------------------------------------------------------------------------------------------------------

    def problem(self, item: TaskItem) -> str:
        """Return why a row is invalid; "" if it is valid or left out."""
        if item.id in AUDIT:
            return ""
        try:
            value = json.loads(item.fields["methods"])
        except ValueError as error:
            return f"field 'methods': is no JSON ({error}); give an object of methods and their test classes"
        if not isinstance(value, dict) or not value:
            return (
                f"field 'methods': is {item.fields['methods']!r:.60}; give an object of methods and their test classes"
            )
        spec = spec_of(item)
        for name, source in {"solution": spec.solution, "test": spec.test, "prompt": item.prompt}.items():
            if problem := analysis.syntax_error(source):
                return f"field {name!r}: does not parse ({problem}); correct or remove the row"
        for name, source in {"solution": spec.solution, "prompt": item.prompt}.items():
            known = signatures(source, spec.class_name, spec.names)[1]
            if missing := [method for method in spec.names if method not in known]:
                return f"field {name!r}: {missing[0]!r} is no method of {spec.class_name!r}; correct the row"
        return ""

    def prepare(self, items: tuple[TaskItem, ...]) -> tuple[TaskItem, ...]:
        """Return the rows with at least as many methods as authors, each with its reference."""
        fitting = [item for item in items if not left_out(item)]
        fitting = [item for item in fitting if len(spec_of(item).names) >= self.n_authors]
        if not fitting:
            raise TaskError(
                f"n_agents is {self.n_authors}, and none of {len(items)} rows is a class with so many methods that "
                "needs only the standard library; give fewer authors, or other rows"
            )
        return tuple(replace(item, reference=self._reference(item)) for item in fitting)

    def _reference(self, item: TaskItem) -> tuple[str, ...]:
        spec = spec_of(item)
        gold, owners = gold_of(spec.solution, spec.class_name), dealt(key_of(spec), self.n_authors)
        texts = ["\n".join(gold[m] for m in spec.names if owners[m] == author) for author in range(self.n_authors)]
        return (*texts, *[""] * (len(self.declared.roles) - self.n_authors))

    def try_rows(self) -> None:
        """Run the tests on the solutions of the user's own rows.

        Raises:
            TaskError: A solution fails; the message names the row and the reason.
        """
        if self._rows_of in ("", "hub"):
            return
        jobs = [reward.job(spec, gold_of(spec.solution, spec.class_name)) for spec in map(spec_of, self.items)]
        for item, verdict in zip(self.items, cached_verdicts(jobs), strict=True):
            if verdict.outcome != "passed":
                note = next(iter(verdict.notes), verdict.outcome)
                raise TaskError(
                    f"{self._rows_of}, task {item.id!r}, field 'solution': fails its tests ({note!r:.200}); correct or "
                    "remove the row"
                )

    # --- observations -------------------------------------------------------------------------------------------------

    def observe(self, item: TaskItem, agent: str) -> str:
        """Return the skeleton with the docstrings that the agent may read, and the request; "" for the reviewer."""
        if agent == self.reviewer:
            return ""
        spec = spec_of(item)
        if agent == self.tester:
            return (
                f"{item.prompt.strip()}\n\nAuthors write the methods of `{spec.class_name}`. Write asserts that the "
                "docstrings demand, each in a line: statements, then `assert`, separated by `;`. Each is run by itself."
            )
        author = self.authors.index(agent)
        if self.assign == "chosen":
            return (
                f"{item.prompt.strip()}\n\nYou are author {author + 1} of {self.n_authors}. Write some of the methods; "
                "the other authors, whose code you do not see, write the remaining ones. A method that several authors "
                f"write counts for none of them. {_ONLY}"
            )
        common, with_docstring = signatures(item.prompt, spec.class_name, spec.names)
        mine = "\n\n".join(with_docstring[method] for method in self._mine(spec, author))
        return (
            f"{common}\n\nWrite these methods of `{spec.class_name}`:\n\n{mine}\n\nYour teammates know the docstrings "
            f"of the other methods, and write them: call these where they help, and do not define them. {_ONLY}"
        )

    def _mine(self, spec: Spec, author: int) -> list[str]:
        return [method for method, owner in dealt(key_of(spec), self.n_authors).items() if owner == author]

    def offered_texts(self, item: TaskItem, role: str) -> Mapping[str, str]:
        """Return the candidates of an author by kind; empty unless there are two authors with given methods."""
        if role not in self.declared.roles[: self.n_authors] or self.n_authors != 2 or self.assign != "given":
            return {}
        return candidates().get(item.id, ({}, {}))[self.declared.roles.index(role)]

    # --- reward -------------------------------------------------------------------------------------------------------

    def written(self, item: TaskItem, actions: Mapping[str, str]) -> Written:
        """Return the methods in the texts of the authors."""
        spec = spec_of(item)
        texts = [actions.get(agent, "") for agent in self.authors]
        texts = [text[: 4 * analysis.MAX_SOURCE] for text in texts]
        return written(spec, texts, None if self.assign == "chosen" else dealt(key_of(spec), self.n_authors))

    def score(self, item: TaskItem, actions: Mapping[str, str]) -> Score:
        """Compute the reward, see `contrib.software.reward`."""
        return reward.score(spec_of(item), self.written(item, actions), self.n_authors)

    # --- turns --------------------------------------------------------------------------------------------------------

    def transition(self, state: TextState, actions: Mapping[str, str], seed: int) -> Transition[TextState]:
        """Score the texts of the authors, or deliver the text of the reviewer in its turn."""
        if self.reviewer and self.reviewer in actions:
            return self._reviewed(state, actions[self.reviewer])
        after = super().transition(state, actions, seed)
        if self.reviewer and after.state.observations:
            waiting = tuple(
                (f"{_WAITING}{agent}", text) for agent, text in after.state.observations if agent != self.reviewer
            )
            shown = (self.reviewer, self._shown(state.item, actions, state.turn))
            after = replace(after, state=after.state._replace(observations=(shown, *waiting)))
        return after

    def observations(self, state: TextState) -> Mapping[str, str]:
        """Return the observations of the next turn; in the reviewer's turn no other agent has one."""
        return {agent: text for agent, text in state.observations if text and not agent.startswith(_WAITING)}

    def _shown(self, item: TaskItem, actions: Mapping[str, str], turn: int) -> str:
        bodies = self.written(item, actions).bodies
        first = f"{item.prompt.strip()}\n\n" if turn == 0 else ""
        roles = " and ".join(f"[{self.role(agent)}]" for agent in self.authors)
        return (
            f"{first}The methods that the authors wrote:\n\n" + "\n".join(bodies.values()) + "\nWrite one paragraph to "
            f"each author on what to correct, each below a line with its name: {roles}."
        )

    def _reviewed(self, state: TextState, text: str) -> Transition[TextState]:
        roles = "|".join(re.escape(self.role(agent)) for agent in self.authors)
        pieces = re.split(rf"(?im)^[ \t]*\[({roles})\][ \t]*:?", text)
        notes = dict(zip([name.lower() for name in pieces[1::2]], pieces[2::2], strict=True))
        told: list[tuple[str, str]] = []
        for name, message in state.observations:
            agent = name.removeprefix(_WAITING)
            if agent != self.reviewer:
                note = notes.get(self.role(agent), "").strip()[:LONGEST_REVIEW]
                told.append((agent, f"The reviewer: {note}\n\n{message}" if note else message))
        following = state._replace(observations=tuple(told), turn=state.turn + 1)
        return Transition(following, 0.0)

    def respond(self, item: TaskItem, actions: Mapping[str, str], score: Score) -> Mapping[str, str]:
        """Return the results of each author's methods, and of the tester's asserts."""
        spec, found = spec_of(item), self._tested(item, actions)
        told = {agent: self._feedback(spec, found, agent, score) for agent in self.authors}
        if self.tester:
            told[self.tester] = f"{_outcomes(found)}\n\nWrite all asserts again."
        return told

    def _feedback(self, spec: Spec, found: TurnResult, agent: str, score: Score) -> str:
        author = self.authors.index(agent)
        lines: list[str] = []
        if self.feedback == "passed":
            lines = ["All tests passed." if score.diagnostics["class_right"] else "Not all tests passed."]
        elif self.feedback != "none":
            lines = [*self._levels(spec, found.written, author, score)]
        if self.tester and found.verdict:
            lines.append(_outcomes(found))
        mine = _listed(self._mine(spec, author)) if self.assign == "given" else "your methods"
        return "\n".join([*(f"- {line}" for line in lines), "", f"Write the complete new version of {mine}. {_ONLY}"])

    def _levels(self, spec: Spec, found: Written, author: int, score: Score) -> list[str]:
        lines: list[str] = []
        for method in found.of(author):
            if method not in found.bodies:
                lines.append(f"`{method}` is missing.")
            elif method in found.copies:
                lines.append(f"`{method}` was defined more than once.")
            elif problem := analysis.syntax_error(found.bodies[method]):
                lines.append(f"`{method}` has a syntax error, {problem}.")
            elif not found.is_right(spec, method):
                lines.append(f"`{method}` has other parameters than in the skeleton.")
        foreign = in_order({method for method, who in found.foreign if who == author}, spec)
        lines += [f"`{method}` is not yours to write." for method in foreign]
        if score.notes["outcome"] == "not run":
            return [*lines, "The class was not tested, since the methods of all authors make none yet."]
        passed, total = (int(score.diagnostics[f"tests_{name}"]) for name in ("passed", "total"))
        lines.append(f"{passed} of {total} tests of the class passed.")
        if self.feedback == "level_feedback":
            mine = {spec.methods[method] for method in found.of(author)}
            failed = [line for line in score.notes["detail"].splitlines() if line.partition(".")[0] in mine]
            lines += failed[: self.feedback_tests]
        return lines

    # --- the tester ---------------------------------------------------------------------------------------------------

    def _tested(self, item: TaskItem, actions: Mapping[str, str]) -> TurnResult:
        spec, found = spec_of(item), self.written(item, actions)
        asserts = _asserts(actions.get(self.tester, "")) if self.tester else ()
        if not asserts:
            return TurnResult(found)
        check = f"import unittest\nfrom solution import {spec.class_name}\n\n\nclass Asserts(unittest.TestCase):\n"
        for number, line in enumerate(asserts, 1):
            check += f"    def test_{number:02d}(self):\n" + textwrap.indent(line, " " * 8) + "\n"
        program = ((MODULE, assembled(spec, found.right(spec))),)
        [verdict] = cached_verdicts([Job("", check, "", modules=program, limits=reward.LIMITS)])
        return TurnResult(found, verdict, asserts)

    def measure(self, groups: Sequence[Group]) -> Mapping[str, Mapping[str, float]]:
        """Return class and method success in %; if authors choose, also coverage and overlap of their methods."""
        final = [e.final.diagnostics for group in groups for e in group.episodes if e.final]
        if not final:
            return {}
        names = {"class_right": "class success %", "methods_right": "method success %"}
        if self.assign == "chosen":
            names |= {"coverage": "coverage %", "overlap": "overlap %"}
        return {"software": {column: 100 * fmean(d[name] for d in final) for name, column in names.items()}}


_WAITING = "later: "  # prefix of an agent whose observation waits for the review


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _asserts(text: str) -> tuple[str, ...]:
    """Return the lines of a text that are statements with an assert."""
    found: list[str] = []
    for line in text[: analysis.MAX_SOURCE].splitlines():
        tree = analysis.parse(line.strip()) if "assert" in line else None
        if tree and any(isinstance(node, ast.Assert) for node in tree.body):
            found.append(ast.unparse(tree))
    return tuple(found[:MOST_ASSERTS])


def _outcomes(found: TurnResult) -> str:
    if found.verdict is None:
        return "No assert of the tester was run."
    failed = [line for line, held in zip(found.asserts, found.verdict.cases, strict=True) if not held]
    listed = "".join("\n    " + line.replace("\n", "; ") for line in failed)
    return f"{len(failed)} of {len(found.asserts)} asserts of the tester failed.{listed}"
