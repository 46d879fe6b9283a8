"""The rollout contract, and the functions that all rollouts share.

Episodes advance in lockstep. At every turn, the requests of all unfinished episodes go to the policy together, so that
agents, tasks and samples share forward passes. Then all environments step, and rewards are computed concurrently.
Episodes of a group whose histories are equal, token by token, share one request, so that a model reads the prompt once.
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
    """A way to sample episodes of tasks. Every learner has one as `rollout`."""

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
            env: The environment, with its protocol. It is copied, not changed.
            policy: The policy of all agents, usually a `Team`.
            item_ids: Ids of tasks.
            seeds: One seed per task, which determines its episodes.
            sampling: Sampling options; `max_new_tokens` is per agent's part.
            width: The group size G: episodes per task; with crossed credit or trees, completions per agent and decision
                point.

        Returns:
            One group per task, in order.

        Raises:
            ValueError: The rollout is incompatible with the environment, or the episodes of a task start differently.
        """
        ...


class Batch(NamedTuple):
    """The arguments of `Rollout.play`."""

    env: TextDecPOMDP
    policy: Policy
    item_ids: Sequence[str]
    seeds: Sequence[int]
    sampling: Sampling
    width: int


class BatchRollout(ABC):
    """Base class of rollouts: `groups` receives the arguments of `play` as one value."""

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
        """Play every task; see `Rollout`."""
        played = self.groups(Batch(env, policy, item_ids, seeds, sampling, width))
        return [replace(group, parts_per_action=env.facts.parts_per_action) for group in played]

    @abstractmethod
    def groups(self, batch: Batch) -> list[Group]:
        """Return one group per task, in order."""


@dataclass(slots=True)
class RunningEpisode:
    """An episode in progress.

    Attributes:
        env: A copy of the environment.
        group: The index of the task in the batch.
        item_id: The id of the task.
        seed: The seed of the sampled completions.
        turns: The turns so far.
        terminated: True if the task has ended the episode.
        decision_points: Copies of the environment before every turn, for rollouts that try alternatives there.
    """

    env: TextDecPOMDP
    group: int
    item_id: str
    seed: int
    turns: list[Turn] = field(default_factory=list[Turn])
    terminated: bool = False
    decision_points: list[TextDecPOMDP] = field(default_factory=list[TextDecPOMDP])


class Question(NamedTuple):
    """A request for one action of an agent; `ids` are the tokens of its history, see `Request`."""

    group: int
    agent: str
    history: tuple[Message, ...]
    ids: tuple[int, ...]
    tools: tuple[Tool, ...]
    seed: int


class StepResult(NamedTuple):
    """The result of one step of an environment."""

    turn: Turn
    terminated: bool


# --- start -------------------------------------------------------------------------------------------------------


def start_episode(env: TextDecPOMDP, group: int, item_id: str, seed: int, chance: int) -> RunningEpisode:
    """Return an episode at the start of a task; `chance` seeds the environment, `seed` the sampled completions."""
    fork = env.fork()
    fork.reset(seed=derive(chance, "env"), options={"task_id": item_id})
    return RunningEpisode(fork, group, item_id, seed)


def start_groups(batch: Batch, *, shared_chance: bool = True) -> list[RunningEpisode]:
    """Return `width` episodes of every task; episode g of a task has the seed `derive(seed, g)`.

    Raises:
        ValueError: With shared chance, the episodes of a task start differently.
    """
    env = batch.env
    episodes: list[RunningEpisode] = []
    for group, (item_id, task_seed) in enumerate(zip(batch.item_ids, batch.seeds, strict=True)):
        first = ""
        for number in range(batch.width):
            seed = derive(task_seed, number)
            episodes.append(start_episode(env, group, item_id, seed, task_seed if shared_chance else seed))
            state = episodes[-1].env.state() if shared_chance and batch.width > 1 else ""
            first = first or state
            if state != first:
                raise ValueError(
                    f"task {item_id!r} of {env.metadata['name']} started in two different states with the same seed, "
                    "so its episodes cannot be compared; let reset() use only the given seed for chance"
                )
    return episodes


def check_choice(name: str, value: str, kind: Any) -> None:
    """Raise ValueError if a value is not in a `Literal`."""
    if value not in get_args(kind):
        raise ValueError(f"{name} is {value!r}, which does not exist; {nearest(value, get_args(kind))}")


# --- one turn ---------------------------------------------------------------------------------------------------------


def agents_asked(env: TextDecPOMDP) -> list[str]:
    """Return the agents that have to act now."""
    return [agent for agent in env.agents if env.asked(agent)]


def ids_so_far(agent: str, history: Sequence[Message], turns: Sequence[Turn]) -> tuple[int, ...]:
    """Return the token ids of an agent's history up to its last action, as prompted and sampled.

    Return () if the history has no action of the agent. The ids include thoughts, which a policy may drop.
    """
    if not any(message.role == "action" for message in history):
        return ()
    last = next((turn.actions[agent] for turn in reversed(turns) if agent in turn.actions), SILENT)
    return last.prompt_ids + last.token_ids


def question(env: TextDecPOMDP, group: int, agent: str, turns: Sequence[Turn], seed: int) -> Question:
    """Return the request for an agent's next action after these turns."""
    history = env.history(agent)
    return Question(group, agent, history, ids_so_far(agent, history, turns), env.tools(agent), seed)


def ask(policy: Policy, sampling: Sampling, questions: Sequence[Question]) -> list[Completion]:
    """Return one completion per question.

    Equal questions are sampled once. Questions that differ only in their seed share a request.
    """
    seeds: dict[Question, dict[int, None]] = {}  # by question, whose own seed is set to 0
    for question in questions:
        seeds.setdefault(question._replace(seed=0), {})[question.seed] = None
    requests = [Request(q.agent, q.history, tuple(seeds_of), q.ids, q.tools) for q, seeds_of in seeds.items()]
    answers: dict[Question, Completion] = {}
    for question, request, completions in zip(seeds, requests, policy.generate(requests, sampling), strict=True):
        for seed, completion in zip(request.seeds, completions, strict=True):
            answers[question._replace(seed=seed)] = completion
    return [answers[question] for question in questions]


def step_envs(envs: Sequence[TextDecPOMDP], joint_actions: Sequence[Mapping[str, Completion]]) -> list[StepResult]:
    """Step all environments; an agent without a completion acts with the empty text."""
    observations = [
        {agent: env.history(agent)[-1].text for agent in s} for env, s in zip(envs, joint_actions, strict=True)
    ]
    unasked = [observations_of_unasked(env) for env in envs]
    actions = [
        {agent: s.get(agent, SILENT).text for agent in env.agents} for env, s in zip(envs, joint_actions, strict=True)
    ]
    for env, joint in zip(envs, joint_actions, strict=True):
        env.note_thoughts({agent: completion.thought for agent, completion in joint.items() if completion.thought})
    stepped: list[StepResult] = []
    for i, (_, rewards, _, _, _) in enumerate(step_many(envs, actions)):
        after = envs[i].latest.transition
        paid = {} if envs[i].facts.joint_reward else rewards
        turn = Turn(observations[i], joint_actions[i], after.reward, after.score, paid, after.events, unasked[i])
        stepped.append(StepResult(turn, after.terminated))
    return stepped


def observations_of_unasked(env: TextDecPOMDP) -> dict[str, str]:
    """Return the last observations of agents that do not have to act."""
    texts = {agent: m.text if isinstance(m, Message) else m for agent, m in env.latest.observations.items()}
    return {agent: text for agent, text in texts.items() if text and not env.asked(agent)}


# --- trajectories in lockstep ----------------------------------------------------------------------------------------


def unfinished(episodes: Sequence[RunningEpisode]) -> list[RunningEpisode]:
    """Return the episodes that have not ended."""
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
    """Return finished episodes as one group per task."""
    played: list[list[Episode]] = [[] for _ in item_ids]
    for e in episodes:
        played[e.group].append(Episode(e.item_id, e.seed, tuple(e.turns), e.terminated))
    roles = {agent: env.role(agent) for env in [e.env for e in episodes[:1]] for agent in env.possible_agents}
    return [Group(item_id, tuple(mine), roles=roles) for item_id, mine in zip(item_ids, played, strict=True)]
