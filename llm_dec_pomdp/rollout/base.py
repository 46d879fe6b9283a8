"""The rollout contract, and what all ways to play share.

Everything advances in lockstep: at every turn the requests of all unfinished episodes go to the policy together, so
that agents, tasks and samples share forward passes; then all environments step, with rewards judged concurrently.
Episodes of a group whose histories are equal, token by token, share one request, so a model reads the prompt once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol, get_args

from ..agents.base import Policy, Request, Sampling
from ..envs.base import TextDecPOMDP, step_many
from ..registries import nearest
from ..seeding import derive
from ..types import Completion, Episode, Group, Message, Tool, Turn

SILENT = Completion("")


class Rollout(Protocol):
    """A way to play tasks; a learner's `rollout` is one."""

    def play(
        self,
        env: TextDecPOMDP,
        policy: Policy,
        item_ids: Sequence[str],
        seeds: Sequence[int],
        sampling: Sampling,
        width: int = 1,
    ) -> list[Group]:
        """Play every task.

        Args:
            env: The environment (under its protocol); it is copied, and not changed.
            policy: Speaks for all agents.
            item_ids: Ids of tasks.
            seeds: One per task, which decides everything in its episodes.
            sampling: How texts are drawn; `max_new_tokens` is per agent's part.
            width: G, the episodes per task; where texts are crossed or turns branch, the texts per agent and decision
                point.

        Returns:
            One group per task, in order.

        Raises:
            ValueError: The environment cannot be played in this way, or its episodes do not begin alike.
        """
        ...


class Batch(NamedTuple):
    """Tasks that are played together: the arguments of `Rollout.play`."""

    env: TextDecPOMDP
    policy: Policy
    item_ids: Sequence[str]
    seeds: Sequence[int]
    sampling: Sampling
    width: int


class BatchRollout(ABC):
    """Base class of the rollouts of this package: `groups` receives the arguments of `play` as one value."""

    __slots__ = ()

    def play(
        self,
        env: TextDecPOMDP,
        policy: Policy,
        item_ids: Sequence[str],
        seeds: Sequence[int],
        sampling: Sampling,
        width: int = 1,
    ) -> list[Group]:
        """See `Rollout`."""
        played = self.groups(Batch(env, policy, item_ids, seeds, sampling, width))
        return [replace(group, parts_per_action=env.facts.parts_per_action) for group in played]

    @abstractmethod
    def groups(self, batch: Batch) -> list[Group]:
        """One group per task, in order."""


@dataclass(slots=True)
class RunningEpisode:
    """An episode in progress.

    Attributes:
        env: Its own copy of the environment.
        group: Place of its task among all that are played.
        item_id: Its task.
        seed: Seed of its texts.
        turns: The turns so far.
        terminated: The task has ended it.
        decision_points: Copies of the environment before every turn, for rollouts that return to them.
    """

    env: TextDecPOMDP
    group: int
    item_id: str
    seed: int
    turns: list[Turn] = field(default_factory=list[Turn])
    terminated: bool = False
    decision_points: list[TextDecPOMDP] = field(default_factory=list[TextDecPOMDP])


class Question(NamedTuple):
    """One text that an agent is asked for; `ids` are the tokens of its history, see `Request`."""

    group: int
    agent: str
    history: tuple[Message, ...]
    ids: tuple[int, ...]
    tools: tuple[Tool, ...]
    seed: int


class Stepped(NamedTuple):
    """What one step of an environment gave."""

    turn: Turn
    terminated: bool


# --- beginnings -------------------------------------------------------------------------------------------------------


def begin(env: TextDecPOMDP, group: int, item_id: str, seed: int, chance: int) -> RunningEpisode:
    """A copy of the environment at the start of a task; `chance` is its seed, and `seed` that of the texts."""
    fork = env.fork()
    fork.reset(seed=derive(chance, "env"), options={"task_id": item_id})
    return RunningEpisode(fork, group, item_id, seed)


def begin_groups(batch: Batch, *, shared_chance: bool = True) -> list[RunningEpisode]:
    """`width` episodes of every task; episode g of a task has the seed `derive(seed, g)`.

    Raises:
        ValueError: With shared chance, the episodes of a task do not begin alike.
    """
    env = batch.env
    episodes: list[RunningEpisode] = []
    for group, (item_id, task_seed) in enumerate(zip(batch.item_ids, batch.seeds, strict=True)):
        first = ""
        for number in range(batch.width):
            seed = derive(task_seed, number)
            episodes.append(begin(env, group, item_id, seed, task_seed if shared_chance else seed))
            state = episodes[-1].env.state() if shared_chance and batch.width > 1 else ""
            first = first or state
            if state != first:
                raise ValueError(
                    f"task {item_id!r} of {env.metadata['name']} began in two ways with the same seed, so its episodes "
                    "cannot be compared; let reset() draw only from the seed that it is given"
                )
    return episodes


def refuse_unknown(name: str, value: str, kind: Any) -> None:
    """Refuse a value that is not among those of a `Literal`."""
    if value not in get_args(kind):
        raise ValueError(f"{name} is {value!r}, which does not exist; {nearest(value, get_args(kind))}")


# --- one turn ---------------------------------------------------------------------------------------------------------


def agents_asked(env: TextDecPOMDP) -> list[str]:
    """The agents that have to answer now."""
    return [agent for agent in env.agents if env.asked(agent)]


def ids_so_far(agent: str, history: Sequence[Message], turns: Sequence[Turn]) -> tuple[int, ...]:
    """Return the token ids of an agent's history up to its last text, as they were shown and sampled.

    Empty where the history has no text of the agent, and where the last one has a thought: the history holds the
    answer alone, so its prompt is rendered from the texts, as the model's template does.
    """
    if not any(message.role == "action" for message in history):
        return ()
    last = next((turn.actions[agent] for turn in reversed(turns) if agent in turn.actions), SILENT)
    return () if last.thought else last.prompt_ids + last.token_ids


def question(env: TextDecPOMDP, group: int, agent: str, turns: Sequence[Turn], seed: int) -> Question:
    """What an agent is asked now, after these turns."""
    history = env.history(agent)
    return Question(group, agent, history, ids_so_far(agent, history, turns), env.tools(agent), seed)


def ask(policy: Policy, sampling: Sampling, questions: Sequence[Question]) -> list[Completion]:
    """One text for each question; equal questions are drawn once, and those that differ by seed share a request."""
    seeds: dict[Question, dict[int, None]] = {}  # by what is asked, whose own seed is left out
    for question in questions:
        seeds.setdefault(question._replace(seed=0), {})[question.seed] = None
    requests = [Request(q.agent, q.history, tuple(seeds_of), q.ids, q.tools) for q, seeds_of in seeds.items()]
    answers: dict[Question, Completion] = {}
    for question, request, completions in zip(seeds, requests, policy.generate(requests, sampling), strict=True):
        for seed, completion in zip(request.seeds, completions, strict=True):
            answers[question._replace(seed=seed)] = completion
    return [answers[question] for question in questions]


def step_envs(envs: Sequence[TextDecPOMDP], joint_actions: Sequence[Mapping[str, Completion]]) -> list[Stepped]:
    """Step all environments; agents without a text say the empty text."""
    observations = [
        {agent: env.history(agent)[-1].text for agent in s} for env, s in zip(envs, joint_actions, strict=True)
    ]
    unasked = [observations_of_unasked(env) for env in envs]
    actions = [
        {agent: s.get(agent, SILENT).text for agent in env.agents} for env, s in zip(envs, joint_actions, strict=True)
    ]
    stepped: list[Stepped] = []
    for i, (_, rewards, _, _, _) in enumerate(step_many(envs, actions)):
        after = envs[i].latest.transition
        paid = {} if envs[i].facts.joint_reward else rewards
        turn = Turn(observations[i], joint_actions[i], after.reward, after.score, paid, after.events, unasked[i])
        stepped.append(Stepped(turn, after.terminated))
    return stepped


def observations_of_unasked(env: TextDecPOMDP) -> dict[str, str]:
    """What agents that are not asked were told by the last reset or step."""
    texts = {agent: m.text if isinstance(m, Message) else m for agent, m in env.latest.observations.items()}
    return {agent: text for agent, text in texts.items() if text and not env.asked(agent)}


# --- trajectories side by side ----------------------------------------------------------------------------------------


def unfinished(episodes: Sequence[RunningEpisode]) -> list[RunningEpisode]:
    """The episodes that have not ended."""
    return [episode for episode in episodes if episode.env.agents]


def advance(episodes: Sequence[RunningEpisode], policy: Policy, sampling: Sampling) -> None:
    """Play one turn of unfinished episodes."""
    questions: list[tuple[int, Question]] = []
    for i, episode in enumerate(episodes):
        env = episode.env
        for agent in agents_asked(env):
            seed = derive(episode.seed, agent, env.turn)
            questions.append((i, question(env, episode.group, agent, episode.turns, seed)))
    joint_actions: list[dict[str, Completion]] = [{} for _ in episodes]
    answers = ask(policy, sampling, [asked for _, asked in questions])
    for (i, asked), completion in zip(questions, answers, strict=True):
        joint_actions[i][asked.agent] = completion
    for episode, stepped in zip(episodes, step_envs([e.env for e in episodes], joint_actions), strict=True):
        episode.turns.append(stepped.turn)
        episode.terminated = stepped.terminated


def in_groups(item_ids: Sequence[str], episodes: Sequence[RunningEpisode]) -> list[Group]:
    """Finished episodes, by task."""
    played: list[list[Episode]] = [[] for _ in item_ids]
    for e in episodes:
        played[e.group].append(Episode(e.item_id, e.seed, tuple(e.turns), e.terminated))
    roles = {agent: env.role(agent) for env in [e.env for e in episodes[:1]] for agent in env.possible_agents}
    return [Group(item_id, tuple(mine), roles=roles) for item_id, mine in zip(item_ids, played, strict=True)]
