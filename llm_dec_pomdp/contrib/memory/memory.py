"""memory-v0: A writer takes notes of a conversation, and a reader answers a question from these notes.

| fact | value |
|---|---|
| agents | agent_0 "writer", agent_1 "reader" |
| turns | a turn for each piece of the conversation, and one for the question: 21; `max_turns` H = 200 at most |
| offline | 200 / 100 questions (train / test), 5 about each of 60 conversations of 20 pieces |
| options | `notes`, their number, 7 ("core" of BFCL; "archive": 50); `characters` of each, 300; sizes: see below |
| files | rows of `prompt` (the question), `pieces` (a line each), and `answer` (a line for each right one) |
| return | 0 to 1.0: the share of questions that are answered |

Observation. At each turn the writer observes one piece of about 250 characters and the notes so far. Its history is
reset at each turn. In the last turn the reader observes the notes and the question. The writer never observes the
question.

Action. The writer changes the notes by these lines, in order; other lines have no effect:

| line | effect |
|---|---|
| `note: she lives in Oslo` | add a note; if the notes are full, it replaces the oldest one |
| `keep` | add the beginning of the piece as a note |
| `forget: 2` | delete the note with this number |

The reader answers in at most 30 words.

Reward (one float for the team). It is 1 at the end if the reader's text contains a right answer and no wrong answer,
otherwise 0. Answers are found as whole words, in any case and without . , / - _ * ^ ( ), as in BFCL v4. In embedded
rows the other values of the same kind are wrong answers, so a text that lists all towns receives 0. Rows from files and
of BFCL have no wrong answers, so there a reader may list up to 30 words.

What it tests. The writer has to select. A conversation has 8 facts that the question may ask for, and 8 pieces of small
talk. 4 facts occur twice, and the later value is the right one. The notes have room for all facts, but not for all
pieces. The options `facts`, `twice`, `talk` and `conversations` make smaller tasks.

Teams. `script:gold` keeps each of the 8 facts in a few words and receives 1. `choices` are keep and skip for the
writer, and the first accepted answer of each row for the reader.

Measured (`env.measure`):

| column | share of episodes in which |
|---|---|
| told % | the writer observes the answer |
| kept % | the writer keeps the answer in its notes |
| reader was told % | the reader observes the answer |

Traces have events `knows`, `keeps` and `loses`. The viewer uses them to show which agent knew the answer when.

Files. BFCL v4 has 155 questions about 5 people, in 37 conversations. `tasks=memory_rows()` loads them; see
`contrib.calls.published`.

Source: written for this package; the setting follows the memory rows of BFCL v4 (gorilla.cs.berkeley.edu).

Version history: v0, the first.

Example:
    >>> import llm_dec_pomdp
    >>> env = llm_dec_pomdp.make("memory-v0", notes=2)
    >>> _ = env.reset(options={"index": 0})
    >>> observed = env.step({"agent_0": "note: she rows\\nnote: she sings\\nnote: she cooks", "agent_1": ""})[0]
    >>> observed["agent_0"].splitlines()[-3:]
    ['Your notes (2 of 2):', '1. she sings', '2. she cooks']
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any, NamedTuple, Unpack

from llm_dec_pomdp.envs import Facts, Script, Task, TaskOptions, Tasks, TaskSource, Transition, check_int, is_sample
from llm_dec_pomdp.seeding import generator
from llm_dec_pomdp.types import Event, Group, Message, Score, TaskItem

WRITER, READER = "agent_0", "agent_1"
KEEP, SKIP = "keep", "skip"
MOST_WORDS = 30  # maximum number of words of an answer
CONVERSATIONS, QUESTIONS = 60, 5
FEW = 30  # maximum number of notes with which the environment has a vocabulary
_UNKNOWN = "I do not know."
_WRITE = (
    "You keep notes of a conversation for somebody who will be asked about it. Lines `note: ...` and `forget: 2` "
    "change your notes; `keep` notes the piece as it is."
)


class Kind(NamedTuple):
    """A kind of fact that a question may ask for."""

    words: str  # words before the value in a piece and in a note
    question: str
    values: tuple[str, ...]


KINDS = (
    Kind("lives in", "Where does {} live?", ("Oslo", "Rome", "Lima", "Cairo", "Delhi", "Quito")),
    Kind("works as a", "What does {} work as?", ("baker", "pilot", "nurse", "judge", "tailor", "farmer")),
    Kind("plays the", "What does {} play?", ("flute", "drums", "cello", "harp", "organ", "banjo")),
    Kind("has a pet", "What pet does {} have?", ("parrot", "rabbit", "turtle", "hamster", "ferret", "snake")),
    Kind("drives a car that is", "What colour is the car of {}?", ("red", "white", "green", "silver", "black", "blue")),
    Kind("is allergic to", "What is {} allergic to?", ("nuts", "milk", "pollen", "shrimp", "dust", "wheat")),
    Kind("has a sister called", "What is the sister of {} called?", ("Mara", "Nina", "Olga", "Petra", "Rosa", "Tara")),
    Kind("was born in", "In which month was {} born?", ("March", "April", "June", "July", "August", "October")),
)
PEOPLE = tuple("Ada Ben Cora Dan Eva Finn Gwen Hugo Ida Jon Kim Leo".split())
_TALK = tuple(
    "It rained the whole morning, and the tram was late again.|The soup at lunch was far too salty for everybody.|"
    "Somebody had left the window open over the weekend.|The new neighbours were moving their boxes up the stairs.|"
    "We waited for the lift for what felt like an hour.|The radio played the same three songs all day.|"
    "There was a long line in front of the ticket office.|The coffee machine on the second floor is broken.|"
    "A dog barked outside until late in the evening.|The meeting took longer than anybody had planned.".split("|")
)
_LINE = re.compile(r"^[ \t]*(?:(note|forget)[ \t]*:[ \t]*+(.*\S)|(keep))[ \t]*$", re.IGNORECASE | re.MULTILINE)


# --- conversations ----------------------------------------------------------------------------------------------------


def conversation(seed: int, facts: int = 8, twice: int = 4, talk: int = 8) -> tuple[list[str], list[tuple[str, str]]]:
    """Generate the pieces of a conversation, and all (question, answer) pairs about it.

    Args:
        seed: The seed of the conversation.
        facts: The number of kinds of facts, at most 8.
        twice: The number of facts that occur again with another value, which is the right one.
        talk: The number of pieces without a fact.
    """
    draw = generator(seed, "conversation")

    def some(values: Sequence[Any], count: int) -> list[Any]:
        return [values[int(i)] for i in draw.permutation(len(values))[:count]]

    person, kinds = some(PEOPLE, 1)[0], some(KINDS, facts)
    values = {kind: some(kind.values, 2) for kind in kinds}  # the last value is the right one
    left = {kind: values[kind][-2 if kind in kinds[:twice] else -1 :] for kind in kinds}
    pieces = list[str]()
    for kind in some([*[None] * talk, *kinds, *kinds[:twice]], talk + facts + twice):
        fact = (kind, left[kind].pop(0)) if kind else None
        pieces.append(_piece(person, fact, some(_TALK, 4)))
    return pieces, some([(kind.question.format(person), values[kind][-1]) for kind in kinds], facts)


def _piece(person: str, fact: tuple[Kind, str] | None, talk: Sequence[str]) -> str:
    """Return sentences of small talk; a fact replaces the first one."""
    first, *rest = talk
    return " ".join([f"{person} {fact[0].words} {fact[1]}." if fact else first, *rest])


@functools.cache
def _tasks(facts: int, twice: int, talk: int, conversations: int) -> tuple[TaskItem, ...]:
    rows: list[TaskItem] = []
    for number in range(conversations):
        pieces, questions = conversation(number, facts, twice, talk)
        split = "train" if number < conversations * 2 // 3 else "test"
        for place, (question, answer) in enumerate(questions[:QUESTIONS]):
            [wrong] = ({*kind.values} - {answer} for kind in KINDS if answer in kind.values)
            fields = {"pieces": "\n".join(pieces), "answer": answer, "wrong": "\n".join(sorted(wrong))}
            rows.append(TaskItem(f"memory/{number}/{place}", question, split, fields=fields))
    return tuple(rows)


@functools.cache
def _vocabulary(notes: int) -> tuple[str, ...]:
    """Return all words of embedded conversations and questions, and of the texts of environment and scripts."""
    texts = [_WRITE, *_TALK, _UNKNOWN, KEEP, SKIP, "Your notes of a conversation Notes note: forget:"]
    texts += [f"{person} {kind.question.format(person)}" for person in PEOPLE for kind in KINDS]
    texts += [f"{kind.words} {value} {value}. {value};" for kind in KINDS for value in kind.values]
    texts += [f"{number} {number}. ({number} {number}):" for number in range(notes + 1)]
    return tuple(dict.fromkeys(word for text in texts for word in text.split()))


class State(NamedTuple):
    """The state of `Memory`."""

    item: TaskItem
    piece: int = 0  # pieces before this turn
    notes: tuple[str, ...] = ()
    over: bool = False


class Memory(Task[State]):
    """Environment in which a writer takes notes for a reader. See the module docstring.

    Args:
        notes: The number of notes, at least 1.
        characters: Maximum length of a note, at least 1; longer notes are truncated.
        facts, twice, talk: The sizes of each embedded conversation; see `conversation`.
        conversations: The number of embedded conversations, at least 3.
        tasks, common: See `Task`; `max_turns` is 200 by default.
    """

    declared = Facts(
        name="memory-v0",
        roles=("writer", "reader"),
        components=("answered",),
        diagnostics=("notes", "kept"),
        score_range=(0.0, 1.0),
        shares_texts=True,
        hidden_fields=("answer", "wrong"),
        scripts=("gold",),
    )

    def __init__(
        self,
        tasks: Tasks = "sample",
        *,
        notes: int = 7,
        characters: int = 300,
        facts: int = 8,
        twice: int = 4,
        talk: int = 8,
        conversations: int = CONVERSATIONS,
        **common: Unpack[TaskOptions],
    ) -> None:
        self.notes, self.characters = check_int("notes", notes, 1), check_int("characters", characters, 1)
        check_int("facts", facts, 1, len(KINDS))
        sizes = (facts, check_int("twice", twice, 0, facts), check_int("talk", talk, 0))
        sample = functools.partial(_tasks, *sizes, check_int("conversations", conversations, 3))
        self.source = TaskSource("memory", required=("prompt", "pieces", "answer"), sample=sample)  # type: ignore[misc]
        if is_sample(tasks) and self.notes <= FEW:
            self.declared = replace(self.declared, vocabulary=_vocabulary(self.notes))
        common.setdefault("max_turns", 200)
        super().__init__(tasks, **common)

    # --- the task -----------------------------------------------------------------------------------------------------

    def initial_state(self, item: TaskItem, seed: int) -> State:
        """Return the state without notes."""
        return State(item)

    def observations(self, state: State) -> Mapping[str, str | Message]:
        """Return a piece and the notes for the writer, in the last turn the notes and the question for the reader."""
        pieces = _pieces(state.item)
        if state.over:
            return {}
        if state.piece < len(pieces):
            return {WRITER: f"{_WRITE}\n\n{pieces[state.piece]}\n\n{self._listed('Your notes', state.notes)}"}
        return {READER: f"{self._listed('Notes of a conversation', state.notes)}\n\n{state.item.prompt}"}

    def _listed(self, title: str, notes: Sequence[str]) -> str:
        lines = (f"{number}. {note}" for number, note in enumerate(notes, 1))
        return "\n".join([f"{title} ({len(notes)} of {self.notes}):", *lines])

    def transition(self, state: State, actions: Mapping[str, str], seed: int) -> Transition[State]:
        """Change the notes by the writer's text, or score the reader's answer."""
        pieces = _pieces(state.item)
        if state.piece < len(pieces):
            notes = self.written(state.notes, pieces[state.piece], actions[WRITER])
            following = state._replace(piece=state.piece + 1, notes=notes)
            reset_history = frozenset([WRITER] if following.piece < len(pieces) else [])
            events = tuple(self._passed(state, following))
            return Transition(following, 0.0, self._score(following, 0.0), reset_history=reset_history, events=events)
        right, wrong = (state.item.fields.get(name, "").splitlines() for name in ("answer", "wrong"))
        text = actions[READER]
        answered = float(answers(text, right) and not answers(text, wrong))
        following = state._replace(over=True)
        return Transition(following, answered, self._score(following, answered), terminated=True)

    def _passed(self, before: State, after: State) -> Iterator[Event]:
        """Yield events of the answer: the writer observes it, keeps or loses it, and the reader observes it."""
        right, pieces = before.item.fields["answer"].splitlines(), _pieces(before.item)

        def in_notes(state: State) -> str:
            return next((answer for answer in right for note in state.notes if answers(note, [answer], most=None)), "")

        answer_read = next((answer for answer in right if answers(pieces[before.piece], [answer], most=None)), "")
        if answer_read:
            yield Event("knows", WRITER, {"value": answer_read, "from": "conversation"})
        was, now = in_notes(before), in_notes(after)
        if bool(was) != bool(now):
            yield Event("keeps" if now else "loses", WRITER, {"value": now or was})
        if after.piece == len(pieces) and now:  # a `read` event is added by the protocol
            yield Event("knows", READER, {"value": now, "from": "writer"})

    def measure(self, groups: Sequence[Group]) -> Mapping[str, Mapping[str, float]]:
        """Return shares of episodes in %: the writer observed the answer, kept it, and the reader observed it."""
        episodes = [episode for group in groups for episode in group.episodes]
        did = [{(e.kind, e.agent) for turn in episode.turns for e in turn.events} for episode in episodes]
        columns = {"told %": ("knows", WRITER), "kept %": ("keeps", WRITER), "reader was told %": ("knows", READER)}
        return {"answers": {c: 100 * fmean(event in of for of in did) for c, event in columns.items()}} if did else {}

    def written(self, notes: tuple[str, ...], piece: str, text: str) -> tuple[str, ...]:
        """Return the notes after a text of the writer."""
        for verb, what, _ in _LINE.findall(text):
            if verb.lower() == "forget":
                number = int(what[:9]) if what.isascii() and what.isdigit() else 0
                notes = notes[: number - 1] + notes[number:] if 1 <= number <= len(notes) else notes
            else:
                notes = (*notes, (what or piece)[: self.characters])[-self.notes :]
        return notes

    def _score(self, state: State, answered: float) -> Score:
        kept = any(answers(note, state.item.fields["answer"].splitlines(), most=None) for note in state.notes)
        facts = {"notes": float(len(state.notes)), "kept": float(kept)}
        return Score(answered, {"answered": answered}, facts)

    def describe(self, state: State) -> Mapping[str, Any]:
        """Return the notes."""
        return {"notes": list(state.notes)}

    def choices(self, agent: str, history: Sequence[Message] = ()) -> Sequence[str]:
        """Return keep and skip for the writer, the first accepted answer of each row for the reader."""
        if agent == WRITER:
            return KEEP, SKIP
        return tuple(dict.fromkeys(item.fields["answer"].splitlines()[0] for item in self.items))

    # --- teams without a model ----------------------------------------------------------------------------------------

    def script(self, name: str) -> Script:
        """Return the team "gold": a writer that keeps each fact, and a reader that finds facts in the usual words."""
        if name != "gold":
            return super().script(name)
        return lambda agent, history: (_facts if agent == WRITER else _found)(history[-1].text)


def _pieces(item: TaskItem) -> list[str]:
    return [line for line in item.fields["pieces"].splitlines() if line.strip()]


def answers(text: str, right: Sequence[str], most: int | None = MOST_WORDS) -> bool:
    """Return whether a text contains a right answer, by the rule of BFCL v4.

    Args:
        text: The text of an agent.
        right: The answers, each of which is right.
        most: Maximum number of words of the text; None: any number.
    """
    plain = _plain(text)
    if most is not None and len(plain.split()) > most:
        return False
    return any(re.search(rf"\b{re.escape(_plain(answer))}\b", plain) for answer in right if answer.strip())


def _plain(text: str) -> str:
    return re.sub(r"[,./\-_*^()]", "", text).lower().replace("'", '"')


def _facts_in(text: str) -> Iterator[tuple[Kind, str]]:
    for kind in KINDS:
        for value in re.findall(rf"{kind.words} (\w+)", text):
            yield kind, value


def _facts(observation: str) -> str:
    """Return a text that replaces the note by a note with all facts so far, or "skip" if the piece has no fact."""
    piece, _, notes = observation.partition("Your notes (")
    if not (new := dict(_facts_in(piece))):
        return SKIP
    facts = dict(_facts_in(notes)) | new
    return "forget: 1\nnote: " + "; ".join(f"{kind.words} {value}" for kind, value in facts.items())


def _found(observation: str) -> str:
    """Return the answer to the question from the last note that contains it."""
    notes, _, question = observation.rpartition("\n\n")
    pattern = {kind: re.escape(kind.question).replace(r"\{\}", ".*") for kind in KINDS}
    known = [value for kind, value in _facts_in(notes) if re.fullmatch(pattern[kind], question)]
    return known[-1] if known else _UNKNOWN
