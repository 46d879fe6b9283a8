"""Base of the planning tasks: turns of messages and acts, their costs, and the form for a single agent.

Each agent first observes its private knowledge. At every turn all agents act at once. A text is a message to the
teammates, or an act (`BOOK`, `PROPOSE`, ...) that the task parses. In the first turn only messages count. So no team
can do better than to share all knowledge in the first turn, and then to act like a single agent that observes
everything. `KnowsAll` (`single_agent()`) is this single agent. Each task finds the length of its shortest plan by
search (`optimal_turns`):

    optimum = 1 - turn_cost * optimal_turns               of a team
    optimum = 1 - turn_cost * (optimal_turns - 1)         of a single agent

The turn that settles the task is not charged, and a team spends one more turn on messages. A message has at most
`LIMIT` words.
"""

from __future__ import annotations

import copy
import functools
import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Unpack, cast, get_args

from llm_dec_pomdp.envs import Facts, Script, Task, TaskOptions, Tasks, TaskSource, TextDecPOMDP, Transition, check_int
from llm_dec_pomdp.registries import nearest
from llm_dec_pomdp.seeding import derive
from llm_dec_pomdp.types import Group, Message, Scale, Score, TaskItem, Tool

if TYPE_CHECKING:
    from typing import Self

Words = Literal["fixed", "paraphrased"]
LIMIT = 40  # longest message, in words
LONGEST = 600  # longest message, in characters
VARIANTS = 3  # paraphrases of each introduction
TELL = "TELL"  # replaced by all private knowledge of its author
DECLARED = Facts(
    name="planning",
    components=("plan", "turns", "words"),
    diagnostics=("turns_played", "words_said"),
    score_range=(-1.0, 1.0),
    shares_texts=True,
    scripts=("optimal", "tells_all", "silent"),
)  # declaration that the tasks share
NOTHING = "-"  # shown to teammates in place of a text without a letter or a digit
COUNTS = {"train": 3, "test": 1}  # proportion of training and test tasks
LABELS = f"You know: knows: Turns left: {TELL} {NOTHING}"  # words of the vocabulary of every task
_LEFT = "Turns left:"
_KNOWN = "You know:"
_WORDS_FIRST = (
    f"A message has at most {LIMIT} words, {TELL} stands for all that you know, and the first turn is for words."
)
_EARLY = "The first turn is for words: what is done in it does not count."


class State(NamedTuple):
    """The state of a planning task."""

    item: TaskItem
    wording: int = 0  # seed of the paraphrases
    plan: Any = ()  # effect of the acts so far, an immutable value
    heard: tuple[tuple[str, str], ...] = ()  # next observation of each agent
    turns: int = 0  # turns so far
    charged: int = 0  # turns and acts that cost `turn_cost`
    words: int = 0  # words of all messages
    worth: float = 0.0  # reward of the agreed plan
    over: bool = False  # whether a plan is agreed on


class ActResult(NamedTuple):
    """The result of the acts of a turn."""

    plan: Any
    answers: Mapping[str, str]  # observation of the result, by agent
    worth: float | None = None  # reward of the plan, in [0, 1]; None while no plan is agreed on
    wrong: tuple[str, ...] = ()  # agents whose acts cost `turn_cost` in addition


class DialogueOptions(TaskOptions, total=False):
    """Options that all planning tasks share; see `Dialogue`."""

    turn_cost: float
    word_cost: float
    words: Words
    count: int


class Dialogue(Task[State]):
    """Abstract base of the planning tasks. A task implements the abstract methods below.

    Args:
        tasks: "sample": generated tasks of the given size. Rows of your own have the fields in `row_fields`.
        turn_cost: Cost of each turn without an agreement, at least 0.
        word_cost: Cost of each word of a message, at least 0. Above 0 the optimum is not known.
        words: Wording of the task: "fixed", or sentences that the seed chooses ("paraphrased").
        count: Number of training tasks; there are a third as many test tasks, from other seeds.
        common: See `Task`.
    """

    most_wrong: ClassVar[int] = 0  # maximum number of acts of a turn that cost `turn_cost` in addition
    first = 1  # number of turns at the start in which acts do not count
    alone_in_it = False  # True for a single agent, whose messages nobody observes

    def __init__(
        self,
        tasks: Tasks = "sample",
        *,
        turn_cost: float = 0.05,
        word_cost: float = 0.0,
        words: Words = "fixed",
        count: int = 300,
        **common: Unpack[TaskOptions],
    ) -> None:
        for name, value in {"turn_cost": turn_cost, "word_cost": word_cost}.items():
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ValueError(f"{name} is {value!r}; a cost is a finite number, give at least 0")
        if words not in get_args(Words):
            raise ValueError(f"words is {words!r}; {nearest(words, get_args(Words))}")
        check_int("count", count, 3)
        self.turn_cost, self.word_cost, self.words = float(turn_cost), float(word_cost), words
        self.source = TaskSource(  # type: ignore[misc]  # embedded rows are generated in this size
            self.declared.name.partition("-")[0],
            required=("prompt", *self.row_fields),
            sample=functools.partial(sample_instances, self.sample_instance, self.size(), count),
        )
        self._known: tuple[int, tuple[TaskItem, ...], Facts] | None = None  # cached facts, with their H and tasks
        super().__init__(tasks, **common)

    # --- abstract methods ---------------------------------------------------------------------------------------------

    row_fields: ClassVar[tuple[str, ...]]
    sample_instance: ClassVar[Callable[..., TaskItem]]  # (*size, split, number) -> row

    @abstractmethod
    def size(self) -> tuple[int, ...]:
        """Return the size of the tasks, the first arguments of `sample_instance`."""

    @abstractmethod
    def optimal_turns(self, item: TaskItem) -> int:
        """Return the number of turns in which a single agent that observes everything reaches a plan of reward 1."""

    @abstractmethod
    def knows(self, item: TaskItem, agent: str) -> str:
        """Return the private knowledge of an agent, in the words of a message."""

    @abstractmethod
    def introduction(self, item: TaskItem, agent: str, variant: int) -> str:
        """Return the description of the task and of the agent's acts, in one of `VARIANTS` wordings."""

    @abstractmethod
    def read(self, item: TaskItem, agent: str, text: str) -> tuple[Any, str]:
        """Parse a text.

        Returns:
            The act, or None for a message; and a note to the author about a format error, or "".
        """

    @abstractmethod
    def act(self, item: TaskItem, plan: Any, acts: Mapping[str, Any]) -> ActResult:
        """Return the result of the acts of a turn."""

    # --- facts --------------------------------------------------------------------------------------------------------

    @property
    def facts(self) -> Facts:
        """The facts; the optimum is known if words are free and turns suffice. An episode without agreement has 0 %."""
        if self._known is None or self._known[0] != self.max_turns or self._known[1] is not self.items:
            self._known = self.max_turns, self.items, self._facts()
        return self._known[2]

    def _facts(self) -> Facts:
        turns = [self.first + self.optimal_turns(item) for item in self.items]
        best = fmean(1 - self.turn_cost * (count - 1) for count in turns)
        most = self.turn_cost * (1 + self.most_wrong), self.word_cost * LIMIT * len(self.possible_agents)
        low = -sum(most) * self.max_turns
        return replace(
            self.declared,
            score_range=(low, 1.0),
            turn_range=(-sum(most), 1.0),
            optimum=best if not self.word_cost and max(turns) <= self.max_turns else None,
            scale=Scale(-self.turn_cost * self.max_turns, best),
            silence_is_lowest=not (self.most_wrong or self.word_cost),
        )

    def single_agent(self) -> TextDecPOMDP:
        """Return the task for a single agent that observes everything and acts for all agents."""
        return KnowsAll(self)

    def for_single_agent(self) -> Self:
        """Return a copy in which acts count in the first turn, and nobody observes messages."""
        twin = copy.copy(self)
        twin.first, twin.alone_in_it, twin._known = 0, True, None
        return twin

    def single_agent_choices(self, history: Sequence[Message] = ()) -> Sequence[str]:
        """Return the actions of a single agent: the acts of all agents."""
        item, found = self.items[0], dict[str, None]()
        for agent in self.possible_agents:
            texts = self.choices(agent, history)
            found |= dict.fromkeys(text for text in texts if self.read(item, agent, text)[0] is not None)
        return list(found)

    # --- the task -----------------------------------------------------------------------------------------------------

    def initial_state(self, item: TaskItem, seed: int) -> State:
        """Return the state before the first turn."""
        return State(item, seed)

    def observations(self, state: State) -> Mapping[str, str]:
        """Return at first the task and private knowledge, later teammates' messages and the result of the last text."""
        if state.over or state.turns >= self.max_turns:
            return {}
        left = f"{_LEFT} {self.max_turns - state.turns}"
        if state.turns:
            return {agent: f"{text}\n{left}" if text else left for agent, text in state.heard}
        return {agent: f"{self._introduced(state, agent)}\n{left}" for agent in self.possible_agents}

    def _introduced(self, state: State, agent: str) -> str:
        return f"{self.explained(state, agent)} {_WORDS_FIRST}\n{_KNOWN} {self.knows(state.item, agent)}"

    def explained(self, state: State, agent: str) -> str:
        """Return the task in words; if paraphrased, the seed chooses the wording."""
        variant = derive(state.wording, agent) % VARIANTS if self.words == "paraphrased" else 0
        return f"{state.item.prompt} {self.introduction(state.item, agent, variant)}"

    def transition(self, state: State, actions: Mapping[str, str], seed: int) -> Transition[State]:
        """Parse all texts, apply the acts, and deliver the messages."""
        acts: dict[str, Any] = {}
        messages: dict[str, str] = {}
        notes: dict[str, str] = {}
        words = dict.fromkeys(actions, 0)
        for agent, text in actions.items():
            act, note = self.read(state.item, agent, text)
            if act is not None and state.turns < self.first:
                act, note, text = None, _EARLY, ""
            if act is not None:
                acts[agent] = act
            elif not self.alone_in_it:
                messages[agent], count = self._message(state.item, agent, text)
                words[agent] = min(count, LIMIT)
                note = note or (f"Your message has {count} words; {LIMIT} were heard." if count > LIMIT else "")
            notes[agent] = note
        acted = self.act(state.item, state.plan, acts) if acts else ActResult(state.plan, {})
        charged = (acted.worth is None) + len(acted.wrong)
        written = sum(words.values())
        state = State(
            state.item,
            state.wording,
            acted.plan,
            tuple((agent, self._hears(agent, messages, notes, acted.answers)) for agent in actions),
            state.turns + 1,
            state.charged + charged,
            state.words + written,
            acted.worth or 0.0,
            acted.worth is not None,
        )
        reward = (acted.worth or 0.0) - self.turn_cost * charged - self.word_cost * written
        rewards = None
        if not self.declared.joint_reward:
            shared = (acted.worth or 0.0) - self.turn_cost * (acted.worth is None)
            own = {a: self.turn_cost * (a in acted.wrong) + self.word_cost * count for a, count in words.items()}
            rewards = {agent: shared - len(own) * cost for agent, cost in own.items()}
        return Transition(state, reward, self._score(state), terminated=state.over, rewards=rewards)

    def _message(self, item: TaskItem, agent: str, text: str) -> tuple[str, int]:
        """Return the part of a text that teammates observe, and the number of its words."""
        if text.strip() == TELL:
            text = self.knows(item, agent)
        words = text.split()
        if not any(map(str.isalnum, text)):
            return NOTHING, 0
        return " ".join(words[:LIMIT])[:LONGEST], len(words)

    def _hears(
        self, agent: str, messages: Mapping[str, str], notes: Mapping[str, str], answers: Mapping[str, str]
    ) -> str:
        lines = [f"{self.named(other)}: {text}" for other, text in messages.items() if other != agent]
        return "\n".join(filter(None, [*lines, notes[agent], answers.get(agent, "")]))

    def named(self, agent: str) -> str:
        """Return the role of an agent, capitalised."""
        return self.role(agent).capitalize()

    def role(self, agent: str) -> str:
        """Return the role of an agent. It is read from `declared`, since `facts` would enumerate the tasks."""
        return self.declared.roles[self.possible_agents.index(agent)]

    def _score(self, state: State) -> Score:
        parts = {
            "plan": state.worth,
            "turns": -self.turn_cost * state.charged,
            "words": -self.word_cost * state.words,
        }
        counts = {"turns_played": float(state.turns), "words_said": float(state.words)}
        return Score(sum(parts.values()), parts, counts)

    def describe(self, state: State) -> Mapping[str, Any]:
        """Return the private knowledge of each agent, and the plan so far."""
        known = {agent: self.knows(state.item, agent) for agent in self.possible_agents}
        return {"known": known, "plan": state.plan}

    def measure(self, groups: Sequence[Group]) -> Mapping[str, Mapping[str, float]]:
        """Return mean turns and words, and the % of episodes with an agreement and with the best agreement."""
        final = [e.final for group in groups for e in group.episodes if e.final]
        if not final:
            return {}
        numbers = {
            "turns": fmean(score.diagnostics["turns_played"] for score in final),
            "words": fmean(score.diagnostics["words_said"] for score in final),
            "settled %": 100 * fmean(score.components["plan"] > 0 for score in final),
            "best %": 100 * fmean(score.components["plan"] >= 1 for score in final),
        }
        return {"dialogue": numbers}

    # --- teams without a model ----------------------------------------------------------------------------------------

    @abstractmethod
    def plays(self, agent: str, private: str, heard: Mapping[str, str], turn: int, observations: Sequence[str]) -> str:
        """Return the text of an agent of the optimal team after the first turn.

        Args:
            agent: The agent.
            private: Its private knowledge.
            heard: Messages of each teammate so far, joined; "" if it sent none.
            turn: The number of turns so far, at least 1.
            observations: All observations of the agent, in order.
        """

    def script(self, name: str) -> Script:
        """Return a team: "optimal" shares the needed knowledge, "tells_all" all knowledge, and "silent" none."""
        if name not in self.declared.scripts:
            return super().script(name)

        def say(agent: str, history: Sequence[Message]) -> str:
            observations = [message.text for message in history if message.role == "observation"]
            private = "\n".join(_lines_after(_KNOWN, observations[0]))
            if not private:
                name_of = self.metadata["name"]
                raise ValueError(
                    f"{agent} of {name_of} has the first observation {observations[0]!r:.60} without its knowledge; "
                    "play the team on its own environment"
                )
            if len(observations) == 1:
                return {"tells_all": TELL, "silent": NOTHING}.get(name, self.opening(agent))
            heard = {
                other: " ".join(
                    line for text in observations[1:] for line in _lines_after(f"{self.named(other)}:", text)
                )
                for other in self.possible_agents
                if other != agent
            }
            return self.plays(agent, private, heard, len(observations) - 1, observations)

        return say

    def opening(self, agent: str) -> str:
        """Return the first text of an agent of the optimal team. Default: all its private knowledge."""
        return TELL


class KnowsAll(Task[State]):
    """A planning task for a single agent, which observes everything and acts for all. Acts count in the first turn.

    Args:
        team: The task of the team.
    """

    def __init__(self, team: Dialogue) -> None:
        self.team = team.for_single_agent()
        name = f"{team.metadata['name']}/alone"
        self.metadata = {**team.metadata, "name": name}
        self.declared = replace(team.declared, name=name, roles=("planner",), shares_texts=False, scripts=("optimal",))
        TextDecPOMDP.__init__(self, 1, team.max_turns, team.render_mode)  # the rows are the team's

    @property
    def facts(self) -> Facts:
        """The facts of the team's task, with the optimum of a single agent."""
        known, declared = self.team.facts, self.declared
        return replace(known, name=declared.name, roles=declared.roles, shares_texts=False, scripts=declared.scripts)

    @property
    def max_turns(self) -> int:
        """The turn limit of the team's task."""
        return self.team.max_turns

    @max_turns.setter
    def max_turns(self, value: int) -> None:
        self.team.max_turns = value

    @property
    def items(self) -> tuple[TaskItem, ...]:
        """The tasks."""
        return self.team.items

    def with_items(self, items: Sequence[TaskItem]) -> TextDecPOMDP:
        """Return a copy with other tasks."""
        twin = copy.copy(self)
        twin.team = cast("Dialogue", self.team.with_items(items))
        return twin

    def initial_state(self, item: TaskItem, seed: int) -> State:
        """Return the initial state of the team's task."""
        return self.team.initial_state(item, seed)

    def observations(self, state: State) -> Mapping[str, str]:
        """Return at first the knowledge of all agents, later the results of the last text."""
        observations = self.team.observations(state)
        if not observations:
            return {}
        lines = [line for text in observations.values() for line in text.split("\n")]
        if not state.turns:
            members = self.team.possible_agents
            roles = {self.team.role(m).partition(" ")[0]: m for m in reversed(members)}
            explained = [self.team.explained(state, m) for m in reversed(roles.values())]
            known = [f"{self.team.named(m)} knows: {self.team.knows(state.item, m)}" for m in members]
            return {self.possible_agents[0]: "\n".join([*explained, "You act for all, at once.", *known, lines[-1]])}
        shown = [*dict.fromkeys(line for line in lines if line != lines[-1]), lines[-1]]
        return {self.possible_agents[0]: "\n".join(shown)}

    def transition(self, state: State, actions: Mapping[str, str], seed: int) -> Transition[State]:
        """Apply the text as the action of every agent of the team; each agent performs the acts that it can."""
        [text] = actions.values()
        return self.team.transition(state, dict.fromkeys(self.team.possible_agents, text), seed)

    def describe(self, state: State) -> Mapping[str, Any]:
        """Return the description of the team's task."""
        return self.team.describe(state)

    def measure(self, groups: Sequence[Group]) -> Mapping[str, Mapping[str, float]]:
        """Return the measures of the team's task."""
        return self.team.measure(groups)

    def choices(self, agent: str, history: Sequence[Message] = ()) -> Sequence[str]:
        """Return the acts of all agents of the team."""
        return self.team.single_agent_choices(history)

    def tools(self, agent: str) -> tuple[Tool, ...]:
        """Return the tools of all agents of the team."""
        return tuple(tool for member in self.team.possible_agents for tool in self.team.tools(member))

    def script(self, name: str) -> Script:
        """Return the team "optimal", which plays the shortest plan."""
        if name != "optimal":
            return super().script(name)

        def say(agent: str, history: Sequence[Message]) -> str:
            observations = [message.text for message in history if message.role == "observation"]
            heard = {
                m: " ".join(_lines_after(f"{self.team.named(m)} knows:", observations[0]))
                for m in self.team.possible_agents
            }
            if not all(heard.values()):
                raise ValueError(
                    f"the player of {self.metadata['name']} has the first observation {observations[0]!r:.60} without "
                    "the knowledge of all; play the script on its own environment"
                )
            texts = [self.team.plays(m, heard[m], heard, len(observations), observations) for m in heard]
            return "\n".join(t for t in dict.fromkeys(texts) if t != NOTHING) or NOTHING

        return say


@functools.cache
def sample_instances(sample: Callable[..., TaskItem], size: tuple[int, ...], training: int) -> tuple[TaskItem, ...]:
    """Generate the tasks of a size: `training` for training, a third as many for testing, each with its own seed."""
    numbers = {split: training * share // 3 for split, share in COUNTS.items()}
    return tuple(sample(*size, split, n) for split, count in numbers.items() for n in range(count))


def check_length(text: str, what: str) -> None:
    """Raise ValueError if a text has more words than a message may have."""
    if (count := len(text.split())) > LIMIT:
        raise ValueError(f"{what} has {count} words, and a message at most {LIMIT}; make it smaller")


def _lines_after(label: str, text: str) -> list[str]:
    """Return the remainder of each line that begins with a label; lines without a message are left out."""
    rest = (line[len(label) :].strip() for line in text.split("\n") if line.startswith(label))
    return [line for line in rest if line != NOTHING]
