"""The data types of the package: plain, frozen values.

    TaskItem -> Message -> Completion -> Turn -> Episode -> Group -> learner

Nothing here refers to an environment, a policy or a learner.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

T = TypeVar("T")
KeyT = TypeVar("KeyT", bound=Hashable)


@dataclass(frozen=True, slots=True)
class TaskItem:
    """One row of a task set: the part of the state that reset samples.

    Attributes:
        id: Unique within its task set.
        prompt: The text that all agents observe (post, abstract, programming problem).
        split: "train" or "test"; "none" for rows in neither; "" if a file does not say.
        reference: Gold texts in agent order; empty if unknown. Never part of an observation.
        fields: Further data by name (`test` and `entry_point` for code). Part of an observation only if the environment
            puts it there.
    """

    id: str
    prompt: str
    split: str = ""
    reference: tuple[str, ...] = ()
    fields: Mapping[str, str] = field(default_factory=dict[str, str])


class Scale(NamedTuple):
    """The scores that are 0 % and 100 %."""

    low: float
    high: float

    def percent(self, score: float) -> float:
        """Return a score in %, where `low` is 0 and `high` is 100; not clipped."""
        return 100 * (score - self.low) / (self.high - self.low)


@dataclass(frozen=True, slots=True)
class Score:
    """The value of a joint action: R(s_accessible, a).

    Attributes:
        total: Sum of the components; NaN if scoring failed for a reason outside of the action, such as a lost sandbox.
        components: Reward parts by name, e.g. `structure`; the same names for every action of an environment.
        diagnostics: Numbers that explain the reward and do not add to it.
        notes: Explanations in words (failed asserts, load errors), for people and for feedback. The reward never reads
            them.
    """

    total: float
    components: Mapping[str, float]
    diagnostics: Mapping[str, float] = field(default_factory=dict[str, float])
    notes: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def scorable(self) -> bool:
        """Whether the total is not NaN. Baselines, losses and means leave out actions that have no score."""
        return not math.isnan(self.total)


class Message(NamedTuple):
    """One entry of an agent's history.

    Attributes:
        role: "observation" of the environment, "action" of the agent, or "tool" for the result of a tool call.
        text: The text.
        name: The name of the tool; "" for other roles.
    """

    role: Literal["observation", "action", "tool"]
    text: str
    name: str = ""


class Tool(NamedTuple):
    """A tool that an agent may call.

    Attributes:
        name: The name that calls use.
        description: The description for the model.
        parameters: Name and description of each argument, if all arguments are required strings.
        schema: JSON schema of the arguments, as text; used in place of `parameters`.
    """

    name: str
    description: str
    parameters: tuple[tuple[str, str], ...] = ()
    schema: str = ""

    @property
    def json_schema(self) -> dict[str, Any]:
        """The JSON schema of the arguments object."""
        if self.schema:
            return json.loads(self.schema)
        properties = {name: {"type": "string", "description": what} for name, what in self.parameters}
        return {"type": "object", "properties": properties, "required": list(properties)}


LEFT_OUT = "no call"  # no tool can have this name, since it has a space
NO_CALL = f'<tool_call>{{"name": "{LEFT_OUT}", "arguments": {{}}}}</tool_call>'
"""Action that replaces a tool call. No tool runs, and the agent observes "no result"."""


def conversation(*texts: str) -> tuple[Message, ...]:
    """Return a history of alternating observations and actions, starting with an observation."""
    return tuple(Message("action" if place % 2 else "observation", text) for place, text in enumerate(texts))


class Likelihood(NamedTuple):
    """Log-probabilities of a text after a prefix, as a language model gives them.

    Attributes:
        nats: log p of each token of the text given the prefix and the tokens before it, in nats.
        end: log p that the text ends after its last token, in nats; NaN if the judge does not return it.
        starts: Index of the character of the text at which each token begins.
        cut: Whether the prefix or the text exceeded the model's context, so that only a part of it was read.
    """

    nats: tuple[float, ...] = ()
    end: float = math.nan
    starts: tuple[int, ...] = ()
    cut: bool = False

    @property
    def mean(self) -> float:
        """The value of log p(text | prefix) per token in nats; minus infinity for an empty text."""
        return math.fsum(self.nats) / len(self.nats) if self.nats else -math.inf


Reviewer = Callable[[str, int], str]
"""An expert outside the team: a function from a prompt and the number of the attempt to the expert's text."""


class Excerpt(NamedTuple):
    """The position of the source text (such as a post) within the first observation of an agent.

    Attributes:
        start: The label before the source text; "": no label. An observation may lack the label.
        requests: (role, request) pairs in agent order. The source text ends before the paragraph with the first
            request.
    """

    start: str
    requests: tuple[tuple[str, str], ...]

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles in agent order."""
        return tuple(role for role, _ in self.requests)

    def of(self, observation: str) -> str:
        """Return the source text within an observation; the whole observation if it has no request."""
        ends = [place for _, request in self.requests if (place := observation.find(request)) >= 0]
        text = observation[: min(ends)].rpartition("\n\n")[0] if ends else observation
        before, _, after = text.partition(self.start) if self.start else ("", "", text)
        return (after or before).strip()


class TextJudge(Protocol):
    """A frozen language model that gives log-probabilities of texts."""

    @property
    def name(self) -> str:
        """The model and a hash of its weights; results of different judges are not comparable."""
        ...

    def log_likelihoods(
        self, prefixes: Sequence[str | tuple[Message, ...]], texts: Sequence[str]
    ) -> Sequence[Likelihood]:
        """Return the log-probabilities of each text after its prefix, in order.

        Args:
            prefixes: Plain text, or a history in the model's own chat template.
            texts: The texts, one for each prefix.

        Returns:
            One likelihood per text. Rewards that score parts of a text need `Likelihood.starts`.
        """
        ...


@dataclass(frozen=True, slots=True)
class Event:
    """An occurrence at a turn that is not an observation or action, such as a tool call or an agent that stops.

    Attributes:
        kind: One word: "spawn", "call", "result", "return", "stop", "read", ...
        agent: The agent that acted or was affected: for "spawn" the new agent, for "read" the reader.
        details: Further data by name. For "read", `of` is the agent whose last text is read.
    """

    kind: str
    agent: str
    details: Mapping[str, str] = field(default_factory=dict[str, str])


class Usage(NamedTuple):
    """Token counts of a completion as its server reports them; NaN if it does not.

    Attributes:
        prompt: Tokens of the prompt.
        sampled: Tokens of the completion, including thoughts.
        reasoning: Tokens of the thoughts.
    """

    prompt: float = math.nan
    sampled: float = math.nan
    reasoning: float = math.nan


@dataclass(frozen=True, slots=True)
class Completion:
    """A sampled action, with the tokens and log-probabilities that a learner trains on.

    Attributes:
        text: The action.
        prompt_ids: Token ids of the prompt; empty for policies without tokens.
        token_ids: Sampled token ids, including the end-of-turn token if it was sampled.
        logprobs: log pi(token | before) at the sampling temperature, untruncated, in nats; as long as `token_ids`.
        truncated: True if the token limit ended the text.
        seconds: Wall time from the start of the call to the last token of this completion.
        thought: Private text of a reasoning model before the action, without its tags. Its tokens are among
            `token_ids` and are trained on; `text` does not contain it.
        usage: Token counts of a model on a server, whose token ids are unknown; None if the ids are known.
        thought_ids: How many of `token_ids` belong to the thought and its tags.
    """

    text: str
    prompt_ids: tuple[int, ...] = ()
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    truncated: bool = False
    seconds: float = 0.0
    thought: str = ""
    usage: Usage | None = None
    thought_ids: int = 0

    def __repr__(self) -> str:
        return f"Completion({self.text!r:.80}, {self.sampled_tokens} tokens)"

    @property
    def prompt_tokens(self) -> float:
        """The number of prompt tokens; NaN if a server does not report it."""
        return len(self.prompt_ids) if self.usage is None else self.usage.prompt

    @property
    def sampled_tokens(self) -> float:
        """The number of sampled tokens; NaN if a server does not report it."""
        return len(self.token_ids) if self.usage is None else self.usage.sampled

    @property
    def thought_tokens(self) -> float:
        """The number of sampled tokens of the thought; NaN if a server does not report it."""
        return self.thought_ids if self.usage is None else self.usage.reasoning


@dataclass(frozen=True, slots=True)
class Turn:
    """One step: observation and action of each agent that had to act, and the reward that followed.

    Attributes:
        observations: The last observation of each agent that had to act.
        actions: The action of each of these agents.
        reward: The reward of the team.
        score: The value of the joint action; None if this turn is not scored.
        rewards: Rewards by agent, if they are individual; empty if all agents receive the reward of the team.
        events: Occurrences that are not observations or actions.
        unasked_observations: The last observation of each agent that did not have to act.
    """

    observations: Mapping[str, str]
    actions: Mapping[str, Completion]
    reward: float
    score: Score | None = None
    rewards: Mapping[str, float] = field(default_factory=dict[str, float])
    events: tuple[Event, ...] = ()
    unasked_observations: Mapping[str, str] = field(default_factory=dict[str, str])

    def reward_of(self, agent: str) -> float:
        """Return the reward of an agent: the team's reward if it is joint, else its own (0 if it was not live)."""
        return self.rewards.get(agent, 0.0) if self.rewards else self.reward


@dataclass(frozen=True, slots=True)
class Episode:
    """A whole joint trajectory.

    Attributes:
        item_id: The id of the task.
        seed: The seed of the sampled completions; in a tree and with crossed credit, the seed of the task.
        turns: The turns in order.
        terminated: True if the task ended the episode: it was solved, stopped, or out of turns.
        share: The weight among the episodes of its task: in a tree the probability of its branch, otherwise 1.
    """

    item_id: str
    seed: int
    turns: tuple[Turn, ...]
    terminated: bool
    share: float = 1.0

    def __repr__(self) -> str:
        return f"Episode({self.item_id!r}, {len(self.turns)} turns, return {self.total:.4g})"

    @property
    def rewards(self) -> tuple[float, ...]:
        """The team's reward of every turn."""
        return tuple(turn.reward for turn in self.turns)

    @property
    def individual(self) -> bool:
        """Whether rewards are individual."""
        return any(turn.rewards for turn in self.turns)

    def rewards_of(self, agent: str) -> tuple[float, ...]:
        """Return an agent's reward of every turn; see `Turn.reward_of`."""
        return tuple(turn.reward_of(agent) for turn in self.turns)

    @property
    def total(self) -> float:
        """The undiscounted return; NaN if a turn could not be scored."""
        return sum(self.rewards)

    @property
    def final(self) -> Score | None:
        """The score of the last scored turn; None if no turn was scored."""
        return next((turn.score for turn in reversed(self.turns) if turn.score is not None), None)

    @property
    def last_texts(self) -> dict[str, str]:
        """The last action of every agent, under any protocol."""
        last: dict[str, str] = {}
        for turn in self.turns:
            last |= {agent: completion.text for agent, completion in turn.actions.items()}
        return last

    @property
    def response_seconds(self) -> float:
        """The response time in seconds: the maximum over the agents of a turn, summed over turns."""
        return sum(max((c.seconds for c in turn.actions.values()), default=0.0) for turn in self.turns)


@dataclass(frozen=True, slots=True)
class Branch:
    """A joint action at a decision point, with its rewards.

    Attributes:
        choice: The index of each agent's completion, in the order of `Decision.actions`.
        rewards: The team's reward of this turn and of every later turn; the mean if several continuations were played
            from here. NaN if nothing could be scored.
        individual: Rewards of the same turns by agent, if rewards are individual; otherwise empty.
    """

    choice: tuple[int, ...]
    rewards: tuple[float, ...]
    individual: Mapping[str, tuple[float, ...]] = field(default_factory=dict[str, tuple[float, ...]])

    @classmethod
    def of(cls, choice: tuple[int, ...], turns: Sequence[Turn], agents: Iterable[str]) -> Branch:
        """Return the branch of a joint action, from its turns and the agents that had to act."""
        paid = any(turn.rewards for turn in turns)
        individual = {agent: tuple(turn.reward_of(agent) for turn in turns) for agent in agents} if paid else {}
        return cls(choice, tuple(turn.reward for turn in turns), individual)

    def rewards_of(self, agent: str) -> tuple[float, ...]:
        """Return an agent's rewards: the team's if they are joint, else its own."""
        return self.individual.get(agent, self.rewards)


@dataclass(frozen=True, slots=True)
class Decision:
    """One decision point of a task: the completions sampled there, and the joint actions made of them.

    Attributes:
        turn: t, from 0.
        actions: The completions tried here, by agent. A learner is trained on the first `width`. Further completions
            come from other trajectories of the group or are the empty text; they are used only in the baseline.
        width: The number of completions sampled per agent.
        branches: The joint actions that were tried.
        share: The weight of its completions in a mean: p / q. p is the fraction of the trajectories that pass through
            this point in a tree, and 1 in other rollouts. q is the probability that the rollout chose the point; below
            1 only with message credit and a budget.
    """

    turn: int
    actions: Mapping[str, tuple[Completion, ...]]
    width: int
    branches: tuple[Branch, ...]
    share: float = 1.0


class Cost(NamedTuple):
    """The cost of sampling episodes.

    Attributes:
        generations: Number of sampled completions.
        joint_rewards: Number of scored joint actions.
    """

    generations: int = 0
    joint_rewards: int = 0


@dataclass(frozen=True, slots=True)
class Group:
    """Episodes of the same task, the unit over which a group baseline is taken.

    Attributes:
        item_id: The id of the task.
        episodes: All joint trajectories.
        decisions: Every decision point with all joint actions tried there; empty if only trajectories were played.
        extra: The cost of alternatives that are part of no episode.
        roles: Human-readable name by agent; not stored in recordings.
        parts_per_action: Number of agents' parts in one action, a factor of the token limit; not stored in recordings.
        replaced: Groups of other tasks without signal, which this group replaced (`rollout.replaced`).
        partner: The agent that a partner replaced in all episodes (`training.partners`); "": none. Its completions are
            not trained on.
    """

    item_id: str
    episodes: tuple[Episode, ...]
    decisions: tuple[Decision, ...] = ()
    extra: Cost = field(default_factory=Cost)
    roles: Mapping[str, str] = field(default_factory=dict[str, str], compare=False)
    parts_per_action: int = field(default=1, compare=False)
    replaced: tuple[Group, ...] = ()
    partner: str = ""

    def __repr__(self) -> str:
        return f"Group({self.item_id!r}, {len(self.episodes)} episodes, {len(self.decisions)} decisions)"

    @property
    def cost(self) -> Cost:
        """The generations and joint rewards of this group, without the groups that it replaced.

        A completion or turn that several episodes share counts once.
        """
        turns = {id(turn): turn for episode in self.episodes for turn in episode.turns}.values()
        texts = {id(completion) for turn in turns for completion in turn.actions.values()}
        scored = sum(turn.score is not None for turn in turns)
        return Cost(len(texts) + self.extra.generations, scored + self.extra.joint_rewards)


def all_played(groups: Sequence[Group]) -> list[Group]:
    """Return the groups, followed by the groups without signal that dynamic sampling replaced by them."""
    return [*groups, *(replaced for group in groups for replaced in group.replaced)]


def grouped(things: Iterable[T], key: Callable[[T], KeyT]) -> dict[KeyT, list[T]]:
    """Group values by a key; each list keeps the order of its values."""
    groups: dict[KeyT, list[T]] = {}
    for thing in things:
        groups.setdefault(key(thing), []).append(thing)
    return groups


def known_means(measured: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean of each number over the mappings where it is not NaN; leave out numbers that are always NaN."""
    names = dict.fromkeys(name for numbers in measured for name in numbers)
    by_name = {name: [numbers.get(name, math.nan) for numbers in measured] for name in names}
    known = {name: [value for value in values if not math.isnan(value)] for name, values in by_name.items()}
    return {name: fmean(values) for name, values in known.items() if values}
