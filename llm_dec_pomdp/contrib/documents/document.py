"""document-v0: Writers with private notes write the sections of a document, and an editor sends sections back.

| fact | value |
|---|---|
| agents | `writers` n = 3 (2 to 8): agent_0 "writer 1", ..., and the last agent "editor" |
| turns | 3 (`max_turns`): writers and editor act alternately, writers first |
| options | `facts` of a section, 3 (1 to 4); `foreign` notes of a writer, 1 (at most `facts`) |
| data | 60 / 20 tasks (`count`: training tasks), generated from different seeds |
| files | rows of `prompt`, `outline`: `bridge: colour, month`, and `notes`: `2: The bridge is painted red.` |
| return | at most 1.0, for every row; 0 for empty sections |

Observation. The agents observe different parts of the knowledge:

| agent | observes |
|---|---|
| all | the outline: the facts of every section, in order |
| writer | its notes on its own section and on one other section; when it revises, the words of the editor |
| editor | all sections, and no notes |

A note on another section is newer than the notes of the writer of that section. A fact of a section may be known only
to another writer, its own writer may have an old value, or both know the same value. No writer observes the section of
another writer.

Action. The text of a writer is its whole section. For each section that the editor sends back, it writes the name of
the section, a colon and a note: `bridge: Leave out the tower.` The note ends before the next such name, and at most 60
words reach the writer. A text without a note accepts the document, which ends the episode. Only writers of returned
sections act again.

Reward (one float for the team). The score of a document is the sum of these parts, each a share of all facts:

| part | value |
|---|---|
| facts | facts whose newest value the document states |
| wrong | - facts for which it states another value |
| duplicates | - facts of which it states a value more than once |
| order | - facts that would have to move so that all stand in the order of the outline |
| length | - words above 12 for each fact of a section, as a share of all such words; at most 1 |

The reward of a turn is the change of the score. A text states a fact by a value, such as `red`, after the name of a
section's subject. Until the first such name the text is about the subject of its section. Negation is not read.

What it tests. A writer does not know all facts of its section. A writer that reports a note on another section gains
nothing or lowers the score, unless the editor passes the note on and both writers revise. So three decisions have to
change together.

| team | plays | mean return |
|---|---|---|
| `script:optimal` | all notes; the editor sends corrections; writers follow them | 1.0 |
| `script:own` | notes on the own section; the editor accepts | 0.69 |
| `script:everything` | all notes; the editor accepts | 0.59 |

The figures are for the training tasks with the defaults. If the editor accepts the drafts, the best candidates have a
mean return of 0.74 (enumeration of all drafts of 12 tasks).

Candidates. With `make(..., candidates=True)` each agent chooses among three texts by a letter. A writer has: its notes
on its own section, all its notes, and the first note; when it revises: its section unchanged, its section with the
corrections, and all its notes. The editor has: acceptance, corrections, and the wish for shorter sections.

Measured (`env.measure`): each part of the score in %, and how many sections were sent back.

Source: written for this package.

Version history: v0, the first.

Example:
    >>> import llm_dec_pomdp
    >>> env = llm_dec_pomdp.make("document-v0", writers=2, facts=1)
    >>> print(env.reset(options={"index": 0})[0]["agent_0"].splitlines()[-2])
    - The tower opened in July.
    >>> observations, *_ = env.step({"agent_0": "The tower opened in July.", "agent_1": "", "agent_2": ""})
    >>> print(observations["agent_2"].splitlines()[4:6])
    ['harbour:', 'The tower opened in July.']
"""

from __future__ import annotations

import functools
import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any, NamedTuple, Unpack

from llm_dec_pomdp.envs import Facts, Script, Task, TaskOptions, Tasks, TaskSource, TextDecPOMDP, Transition, check_int
from llm_dec_pomdp.seeding import generator
from llm_dec_pomdp.types import Group, Message, Scale, Score, TaskItem

WORDS = 12  # words of a section for each of its facts
NOTE = 60  # words of the editor that reach a writer
SHOWN = 200  # words of a section that the editor observes
ACCEPT = "ACCEPT"
SUBJECTS = tuple("bridge tower harbour museum station market theatre garden".split())
KINDS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "material": ("is built of", ("stone", "brick", "steel", "timber", "marble", "granite")),
    "colour": ("is painted", ("red", "white", "green", "blue", "yellow", "grey")),
    "architect": ("was designed by", ("Mara", "Nina", "Olga", "Petra", "Rosa", "Tara")),
    "month": ("opened in", ("March", "April", "June", "July", "August", "October")),
}
COUNTS = {"train": 3, "test": 1}  # proportion of training and test tasks
_PARTS = ("facts", "wrong", "duplicates", "order", "length")
_KIND_OF = {value.lower(): kind for kind, (_, values) in KINDS.items() for value in values}
_VALUE_OF = {value.lower(): value for _, values in KINDS.values() for value in values}
_WORD = re.compile(rf"\b(?:({'|'.join(SUBJECTS)})|({'|'.join(_KIND_OF)}))\b", re.IGNORECASE | re.ASCII)
_LABEL = re.compile(rf"\b({'|'.join(SUBJECTS)})[ \t]*:", re.IGNORECASE | re.ASCII)
_OWN, _FOREIGN = "Your notes on it:", "Your notes on another section, newer than those of its writer:"
_SENT_BACK = "The editor sends your section back:"
Fact = tuple[str, str]  # (subject, kind)
Stated = tuple[str, str, str]  # (subject, kind, value)


# --- texts ------------------------------------------------------------------------------------------------------------


def sentence(stated: Stated) -> str:
    """Return a statement in words, such as "The bridge is painted red."."""
    subject, kind, value = stated
    return f"The {subject} {KINDS[kind][0]} {value}."


def statements(text: str, subject: str = "") -> list[Stated]:
    """Return the statements of a text, in order.

    Args:
        text: The text.
        subject: The subject of values before the first name of a subject; "" to leave them out.
    """
    found: list[Stated] = []
    for named, value in _WORD.findall(text):
        subject = named.lower() or subject
        if value and subject:
            found.append((subject, _KIND_OF[value.lower()], _VALUE_OF[value.lower()]))
    return found


def corrections(outline: Mapping[str, Sequence[str]], sections: Mapping[str, str]) -> str:
    """Return the text of an editor that sends misplaced statements to their sections, or accepts if there is none."""
    lines: dict[str, list[str]] = {subject: [] for subject in outline}
    for place, text in sections.items():
        for stated in dict.fromkeys(statements(text, place)):
            if stated[0] != place and stated[0] in lines:
                lines[stated[0]].append(f"State only this value: {sentence(stated)}")
                lines[place].append(f"Leave out the {stated[0]}.")
    return (
        " ".join(f"{subject}: {' '.join(dict.fromkeys(words))}" for subject, words in lines.items() if words) or ACCEPT
    )


def revised(kinds: Sequence[str], subject: str, section: str, note: str) -> str:
    """Return a section with the values of a note, in the order of the outline, without other subjects."""
    values = {
        kind: value for about, kind, value in [*statements(section, subject), *statements(note)] if about == subject
    }
    return " ".join(sentence((subject, kind, values[kind])) for kind in kinds if kind in values)


# --- rows -------------------------------------------------------------------------------------------------------------


class Plan(NamedTuple):
    """The outline and the notes of a row."""

    outline: Mapping[str, tuple[str, ...]]  # kinds by subject, in order
    notes: tuple[tuple[Stated, ...], ...]  # by writer; notes on its own section first

    @property
    def subjects(self) -> tuple[str, ...]:
        """The subjects in order; each writer has the section with its number."""
        return tuple(self.outline)

    @property
    def facts(self) -> tuple[Fact, ...]:
        """The facts of the document, in order."""
        return tuple((subject, kind) for subject, kinds in self.outline.items() for kind in kinds)

    def newest(self) -> dict[Fact, str]:
        """Return the newest value of each fact: the value in a note on another section if there is such a note."""
        own = {
            (s, k): v for place, notes in zip(self.subjects, self.notes, strict=True) for s, k, v in notes if s == place
        }
        other = {
            (s, k): v for place, notes in zip(self.subjects, self.notes, strict=True) for s, k, v in notes if s != place
        }
        return own | other


@functools.lru_cache(maxsize=4096)
def plan_of(outline: str, notes: str) -> Plan:
    """Return the parsed fields of a row.

    Raises:
        ValueError: A line is not of the form that the module docstring shows.
    """
    kinds: dict[str, tuple[str, ...]] = {}
    for line in filter(str.strip, outline.splitlines()):
        subject, _, named = (part.strip() for part in line.partition(":"))
        kinds[subject] = tuple(name.strip() for name in named.split(","))
        if subject not in SUBJECTS or not set(kinds[subject]) <= KINDS.keys():
            raise ValueError(f"field 'outline': {line[:60]!r} is no line such as 'bridge: colour, month'")
    by_writer: list[list[Stated]] = [[] for _ in kinds]
    for line in filter(str.strip, notes.splitlines()):
        number, _, text = line.partition(":")
        stated = statements(text)
        if not number.strip().isdecimal() or not 1 <= int(number) <= len(kinds) or len(stated) != 1:
            raise ValueError(f"field 'notes': {line[:60]!r} is no line such as '2: The bridge is painted red.'")
        by_writer[int(number) - 1] += stated
    ordered = (sorted(of, key=lambda s, p=place: s[0] != p) for place, of in zip(kinds, by_writer, strict=True))
    return Plan(kinds, tuple(map(tuple, ordered)))


def sample_row(writers: int, facts: int, foreign: int, split: str, number: int) -> TaskItem:
    """Sample a row: each writer has notes on the facts of its section, and `foreign` notes on another section.

    For a foreign note, the writer of that section knows no value, an old value or the same value, with equal
    probability.
    """
    random = generator(0, "document", writers, facts, foreign, split, number)

    def some(values: Sequence[str], count: int) -> list[str]:
        return [values[int(i)] for i in random.permutation(len(values))[:count]]

    subjects, kinds = some(SUBJECTS, writers), some(tuple(KINDS), facts)
    own = [{kind: some(KINDS[kind][1], 1)[0] for kind in kinds} for _ in subjects]
    newer: list[list[Stated]] = []
    shift = 1 + int(random.integers(writers - 1))
    for place in range(writers):
        about = (place + shift) % writers
        newer.append([])
        for kind in some(kinds, foreign):
            value = own[about].pop(kind)
            newer[-1].append((subjects[about], kind, value))
            old = [None, value, *some([other for other in KINDS[kind][1] if other != value], 1)][
                int(random.integers(3))
            ]
            own[about] |= {kind: old} if old else {}
    notes = [
        f"{place + 1}: {sentence(stated)}"
        for place, subject in enumerate(subjects)
        for stated in [*((subject, kind, own[place][kind]) for kind in kinds if kind in own[place]), *newer[place]]
    ]
    fields = {"outline": "\n".join(f"{s}: {', '.join(kinds)}" for s in subjects), "notes": "\n".join(notes)}
    return TaskItem(f"{split}-{number}", "Write a short guide to the sights of a town.", split, fields=fields)


@functools.cache
def _sample(writers: int, facts: int, foreign: int, count: int) -> tuple[TaskItem, ...]:
    numbers = {split: count * share // COUNTS["train"] for split, share in COUNTS.items()}
    return tuple(sample_row(writers, facts, foreign, split, n) for split, of in numbers.items() for n in range(of))


# --- the task ---------------------------------------------------------------------------------------------------------


class State(NamedTuple):
    """The state of `Document`."""

    item: TaskItem
    sections: tuple[str, ...]
    returned: tuple[str, ...]  # words of the editor for each writer; "" if its section was not sent back
    editing: bool = False  # whether the editor acts next
    sent_back: int = 0  # sections sent back so far
    score: float = 0.0
    over: bool = False


class Document(Task[State]):
    """Environment in which writers and an editor write a document. See the module docstring.

    Args:
        writers: The number of writers n, 2 to 8; each has a section.
        facts: The number of facts of each section, 1 to 4.
        foreign: The number of notes of each writer on another section, 0 to `facts`.
        count: The number of generated training tasks, at least 3; there are a third as many test tasks.
        tasks, common: See `Task`; `max_turns` is 3 by default.
    """

    declared = Facts(
        name="document-v0",
        components=_PARTS,
        diagnostics=("sent_back",),
        score_range=(-4.0, 1.0),
        turn_range=(-5.0, 5.0),
        scale=Scale(0.0, 1.0),
        optimum=1.0,
        silence_is_lowest=False,
        shares_texts=True,
        scripts=("optimal", "own", "everything"),
    )

    def __init__(
        self,
        tasks: Tasks = "sample",
        *,
        writers: int = 3,
        facts: int = 3,
        foreign: int = 1,
        count: int = 60,
        **common: Unpack[TaskOptions],
    ) -> None:
        check_int("writers", writers, 2, len(SUBJECTS))
        check_int("foreign", foreign, 0, check_int("facts", facts, 1, len(KINDS)))
        sample = functools.partial(_sample, writers, facts, foreign, check_int("count", count, 3))
        self.source = TaskSource("document", required=("prompt", "outline", "notes"), sample=sample)  # type: ignore[misc]
        self.declared = replace(self.declared, roles=(*(f"writer {n + 1}" for n in range(writers)), "editor"))
        common.setdefault("max_turns", 3)
        super().__init__(tasks, **common)

    @property
    def facts(self) -> Facts:
        """The facts; the optimum is 1 if the sections can be sent back, and otherwise unknown."""
        return replace(self.declared, optimum=1.0 if self.max_turns >= 3 else None)

    @property
    def editor(self) -> str:
        """The agent that edits."""
        return self.possible_agents[-1]

    def problem(self, item: TaskItem) -> str:
        """Return why a row does not describe a document for these writers; "" if it does."""
        try:
            plan = _plan(item)
        except ValueError as error:
            return str(error)
        if len(plan.subjects) != len(self.possible_agents) - 1:
            return f"field 'outline': has {len(plan.subjects)} sections; give writers={len(plan.subjects)}"
        if unknown := [fact for fact in plan.facts if fact not in plan.newest()]:
            return f"field 'notes': no note states the {unknown[0][1]} of the {unknown[0][0]}; add one"
        return ""

    def initial_state(self, item: TaskItem, seed: int) -> State:
        """Return the state with empty sections."""
        nothing = ("",) * (len(self.possible_agents) - 1)
        return State(item, nothing, nothing)

    def observations(self, state: State) -> Mapping[str, str]:
        """Return all sections for the editor, or the notes or the editor's words for each writer that acts."""
        if state.over:
            return {}
        plan = _plan(state.item)
        titled = (f"{n}. {subject}: {', '.join(kinds)}" for n, (subject, kinds) in enumerate(plan.outline.items(), 1))
        outline = "\n".join([f"{state.item.prompt} The outline, with a writer for each section:", *titled])
        if state.editing:
            shown = (f"{s}:\n{' '.join(t.split()[:SHOWN])}" for s, t in zip(plan.subjects, state.sections, strict=True))
            request = (
                f"Send sections back by notes such as `{plan.subjects[0]}: Leave out the colour.`, or write {ACCEPT}."
            )
            return {self.editor: "\n\n".join([f"You are the editor. {outline}", *shown, request])}
        if state.sent_back:
            words = zip(self.possible_agents, state.returned, strict=False)
            return {agent: f"{_SENT_BACK} {text}\nWrite the whole section again." for agent, text in words if text}
        return {
            agent: f"{outline}\n{self._task_of(plan, place)}" for place, agent in enumerate(self.possible_agents[:-1])
        }

    def _task_of(self, plan: Plan, place: int) -> str:
        """Return the section and the notes of a writer, in words."""
        subject = plan.subjects[place]
        own, other = (
            [f"- {sentence(s)}" for s in plan.notes[place] if (s[0] == subject) is mine] for mine in (True, False)
        )
        most = WORDS * len(plan.outline[subject])
        request = f"Write only the text of your section, in at most {most} words."
        foreign = [_FOREIGN, *other] if other else []
        return "\n".join([f"You write section {place + 1}, {subject}. {_OWN}", *own, *foreign, request])

    def transition(self, state: State, actions: Mapping[str, str], seed: int) -> Transition[State]:
        """Replace the sections of the writers that acted, or send sections back."""
        plan = _plan(state.item)
        if state.editing:
            _, *labelled = _LABEL.split(actions[self.editor])
            words = dict(zip(map(str.lower, labelled[::2]), labelled[1::2], strict=True))
            returned = tuple(" ".join(words.get(subject, "").split()[:NOTE]) for subject in plan.subjects)
            count = sum(map(bool, returned))
            state = state._replace(returned=returned, editing=False, sent_back=state.sent_back + count, over=not count)
            return Transition(state, 0.0, score(state), terminated=state.over)
        texts = zip(self.possible_agents, state.sections, strict=False)
        state = state._replace(sections=tuple(actions.get(agent, text) for agent, text in texts), editing=True)
        after = score(state)
        return Transition(state._replace(score=after.total), after.total - state.score, after)

    def describe(self, state: State) -> Mapping[str, Any]:
        """Return the sections."""
        return {"sections": list(state.sections)}

    def measure(self, groups: Sequence[Group]) -> Mapping[str, Mapping[str, float]]:
        """Return the parts of the score in %, and the number of sections that were sent back per episode."""
        final = [episode.final for group in groups for episode in group.episodes if episode.final]
        if not final:
            return {}
        parts = {f"{name} %": 100 * fmean(abs(s.components[name]) for s in final) for name in _PARTS}
        return {"document": {**parts, "sent back": fmean(s.diagnostics["sent_back"] for s in final)}}

    def with_candidates(self) -> TextDecPOMDP:
        """Return the task with agents that choose among three texts; see the module docstring."""
        from .choices import DocumentChoices  # imported here, since it imports this module

        return DocumentChoices(self)

    # --- teams without a model ----------------------------------------------------------------------------------------

    def script(self, name: str) -> Script:
        """Return one of three teams; see the module docstring."""
        if name not in self.declared.scripts:
            return super().script(name)

        def say(agent: str, history: Sequence[Message]) -> str:
            outline = read_outline(history[0].text)
            if agent == self.editor:
                return corrections(outline, read_sections(history[-1].text)) if name == "optimal" else ACCEPT
            subject, notes = read_notes(history[0].text)
            if len(history) > 1:
                return revised(outline[subject], subject, history[-2].text, history[-1].text)
            return " ".join(sentence(stated) for stated in notes if name != "own" or stated[0] == subject)

        return say


def score(state: State) -> Score:
    """Return the score of the document; see the module docstring."""
    plan = _plan(state.item)
    places, newest = {fact: n for n, fact in enumerate(plan.facts)}, plan.newest()
    found: dict[Fact, list[str]] = {}
    for subject, text in zip(plan.subjects, state.sections, strict=True):
        for about, kind, value in statements(text, subject):
            if (about, kind) in places:
                found.setdefault((about, kind), []).append(value)
    room = {subject: WORDS * len(kinds) for subject, kinds in plan.outline.items()}
    over = sum(max(0, len(t.split()) - room[s]) for s, t in zip(plan.subjects, state.sections, strict=True))
    count = len(places)
    parts = {
        "facts": sum(newest[fact] in values for fact, values in found.items()) / count,
        "wrong": -sum(set(values) != {newest[fact]} for fact, values in found.items()) / count,
        "duplicates": -sum(len(set(values)) < len(values) for values in found.values()) / count,
        "order": -(len(found) - _longest_rise([places[fact] for fact in found])) / count,
        "length": -min(1.0, over / sum(room.values())),
    }
    return Score(sum(parts.values()), parts, {"sent_back": float(state.sent_back)})


def _longest_rise(numbers: Sequence[int]) -> int:
    """Return the length of the longest increasing subsequence."""
    ends: list[int] = []
    for number in numbers:
        ends[(place := bisect_left(ends, number)) : place + 1] = [number]
    return len(ends)


def _plan(item: TaskItem) -> Plan:
    return plan_of(item.fields["outline"], item.fields["notes"])


# --- observations, read by scripts ------------------------------------------------------------------------------------


def read_outline(observation: str) -> dict[str, tuple[str, ...]]:
    """Return the kinds of facts by subject, from the first observation of a writer or one of the editor.

    Raises:
        ValueError: The observation has no outline.
    """
    found = re.findall(rf"^\d\. ({'|'.join(SUBJECTS)}): (.*)$", observation, re.MULTILINE)
    if not found:
        raise ValueError(
            f"the scripts of document-v0 need an observation with an outline, not {observation[:60]!r}; play them on "
            "their own environment, without drafts"
        )
    return {subject: tuple(kinds.split(", ")) for subject, kinds in found}


def read_notes(observation: str) -> tuple[str, list[Stated]]:
    """Return the subject of a writer's section, and its notes, from its first observation."""
    subject = re.findall(r"^You write section \d, (\w+)\.", observation, re.MULTILINE)[0]
    return subject, [
        stated for line in re.findall(r"^- (.*)$", observation, re.MULTILINE) for stated in statements(line)
    ]


def read_sections(observation: str) -> dict[str, str]:
    """Return the sections by subject, from an observation of the editor."""
    return dict(re.findall(rf"^({'|'.join(SUBJECTS)}):\n(.*)$", observation, re.MULTILINE))
