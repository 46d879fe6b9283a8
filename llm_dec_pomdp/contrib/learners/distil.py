"""On-policy distillation: each policy is trained on its own completions, towards a teacher's log-probabilities.

The students play episodes. A teacher T gives the log-probability of every token that they sampled, after a context c:
the student's own prompt, or the observations of all agents (a privileged teacher, see `teachers`). A token receives

    r_t = log T(y_t | c, y_<t) - log pi(y_t | h, y_<t),                                                       (reward)

the negative of a one-sample estimate of the reverse KL divergence KL(pi || T). log pi is the one that the sampler
recorded. The expected gradient of an update is minus that of a divergence:

| estimator | advantage of token t | divergence |
|---|---|---|
| token (default) | r_t | sum over tokens of KL(pi(. given h, y_<t), T(. given c, y_<t)), h and y_<t held fixed |
| trajectory | r_t, all later r of the team, r of teammates in the same turn | KL(P_pi, P_T) of whole episodes |

P_pi is the distribution of episodes of the team, and P_T the same with T in place of every policy; the factors of the
environment cancel. The tests compare both rows with autograd on an enumerated problem. The first row is per-token
distillation with discount 0 (Thinking Machines Lab, "On-Policy Distillation", 2025; reverse KL on samples of the
student in GKD, arXiv:2306.13649). The second is the policy gradient of MiniLLM (arXiv:2306.08543, section 2.2) for a
team. For one agent, one turn and one token they are equal. `trajectory` also rewards an action for later histories in
which student and teacher agree, such as a message after which a teammate acts as its teacher does. Its variance grows
with the length of an episode. The updater divides the sum over tokens by their number, as for other learners.

No reward of the environment is used. With a privileged teacher, different contexts c have the same history h. The
minimum over such c is the normalised geometric mean of the teachers, exp(E[log T(. | c) given h]). So a student
prefers actions that no context makes unlikely, and does not learn to collect information that its teacher has.

The control `distil_shuffled` gives the rewards r of an episode to the tokens of another episode. With `token` its
expected gradient is 0.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from llm_dec_pomdp.agents import Policy, Request, Sampling, Team
from llm_dec_pomdp.agents.io.models import server_model
from llm_dec_pomdp.algorithms.base import Metrics
from llm_dec_pomdp.algorithms.learner import PolicyLearner
from llm_dec_pomdp.algorithms.options import UpdaterOptions
from llm_dec_pomdp.algorithms.samples import Sample
from llm_dec_pomdp.config import ConfigError
from llm_dec_pomdp.envs import TextDecPOMDP
from llm_dec_pomdp.envs.wrappers import Centralized
from llm_dec_pomdp.rollout import Rollout, Trajectories
from llm_dec_pomdp.seeding import generator
from llm_dec_pomdp.types import Completion, Episode, Group

from .teachers import Asked, ModelTeacher, ScriptTeacher, ServerTeacher, Teacher, joint_contexts

_SCRIPT = "script:"


class DistilConfig(UpdaterOptions):
    """Options of on-policy distillation: the teacher, and all of `UpdaterOptions`."""

    teacher: str = "script:optimal"
    """Teacher: a script of the environment (for tables); a model as in load_team, such as builtin:table, a folder, a
    .gguf file, or the .toml file of a team, which a teacher with adapters needs; or http://HOST:PORT/v1#NAME, a model
    on a vLLM server."""
    weights: str = ""
    """Folder with the teacher's trained weights: a run, a saved team or a checkpoint."""
    sees: Literal["own", "all"] = "own"
    """Observations that the teacher reads: those of the student (own), or of all agents (all), as a single agent under
    the protocol centralized."""
    epsilon: Annotated[float, Field(gt=0, lt=1)] = 0.01
    """Probability mass that a scripted teacher spreads evenly over all actions."""
    estimator: Literal["token", "trajectory"] = "token"
    """Advantage of a token: its own log-ratio (token), or all log-ratios of the team from this token on (trajectory).
    Only trajectory follows the gradient of the divergence of whole episodes."""

    @model_validator(mode="after")
    def _check_teacher(self) -> DistilConfig:
        script = self.teacher.startswith(_SCRIPT)
        if script and self.sees == "all":
            raise ValueError(
                f"sees is 'all', but {self.teacher} acts on an agent's own history; give a single agent as teacher, or "
                "leave sees out"
            )
        if self.weights and (script or server_model(self.teacher)):
            raise ValueError(f"weights is {self.weights!r}, but {self.teacher} has no weights here; leave weights out")
        if self.objective.ratio != "token":
            raise ValueError(
                f"ratio is {self.objective.ratio!r}, but every token has its own advantage; set ratio to 'token'"
            )
        return self


@dataclass(frozen=True, slots=True, repr=False)
class Scored(Completion):
    """A completion with the teacher's log-probabilities.

    Attributes:
        teacher: log T of each token, in nats; empty if the completion is not scored, and so not trained on.
    """

    teacher: tuple[float, ...] = ()

    @property
    def rewards(self) -> tuple[float, ...]:
        """The reward log T - log pi of each token; see (reward)."""
        return tuple(t - p for t, p in zip(self.teacher, self.logprobs, strict=bool(self.teacher)))


class Distil(PolicyLearner):
    """On-policy distillation: minimises the reverse KL divergence to a teacher on the team's own completions.

    Args:
        team: The students.
        sampling: Sampling of completions; its temperature is also the teacher's.
        config: Options.

    Raises:
        ConfigError: The teacher is a script and a policy is not a table, or the teacher is a server and the temperature
            of an agent is not 1.
    """

    Config = DistilConfig
    config: DistilConfig

    def __init__(self, team: Team, sampling: Sampling, config: DistilConfig | None = None) -> None:
        super().__init__(team, sampling, config)
        self.temperatures = {agent: team.sampling_of(agent, sampling).temperature for agent in team.members}
        others = {agent: t for agent, t in self.temperatures.items() if t != 1 and agent in self.learning}
        if server_model(self.config.teacher) and others:
            raise ConfigError(
                f"the temperature is {others}, but the server {self.config.teacher} scores at temperature 1; set "
                "temperature to 1, or load the teacher in this process"
            )
        members = {agent: team.members[agent] for agent in self.learning}
        writing = [agent for agent, policy in members.items() if not hasattr(policy, "menu")]
        if self.config.teacher.startswith(_SCRIPT) and writing:
            raise ConfigError(
                f"teacher is {self.config.teacher}, which scores whole actions, but {writing[0]} has a "
                f"{type(members[writing[0]]).__name__}, which writes several tokens; train tables (builtin:table), or "
                "give a language model as teacher"
            )
        self._rollout = Lessons(self)

    @classmethod
    def incompatibility(cls, config: Any, env: TextDecPOMDP) -> str:
        """Return the reason why the teacher cannot score actions of the environment, else ""."""
        if why := super().incompatibility(config, env):
            return why
        task = env.task
        if config.sees == "all":
            if env is not task or task.facts.hierarchical or task.single_agent() is not None:
                return (
                    "sees is 'all', which needs a task that `Centralized` plays for a single agent, and students under "
                    "the protocol 'parallel'"
                )
        elif config.teacher.startswith(_SCRIPT):
            name = config.teacher.removeprefix(_SCRIPT)
            if name not in task.facts.scripts:
                return f"there is no {config.teacher}, but {', '.join(task.facts.scripts) or 'no script'}"
            if free := [agent for agent in task.possible_agents if not task.choices(agent)]:
                return f"a script scores listed actions, but {free[0]} writes freely"
        return ""

    @property
    def rollout(self) -> Rollout:
        """The rollout of trajectories that the teacher scores."""
        return self._rollout

    def update(self, groups: Sequence[Group]) -> Metrics:
        """Run a step of every policy on the scored completions.

        Returns:
            The metrics of `Updater.step` and `PolicyLearner.report`; `reverse_kl`, the mean of log pi - log T in nats
            per token; and `labels`, 1 if the teacher may know the right actions, else 0.
        """
        samples = self.samples(groups)
        metrics = self.step(samples, groups) | self.report(samples, groups)
        rewards = [r for s in samples if isinstance(s.completion, Scored) for r in s.completion.rewards]
        metrics["reverse_kl"] = -sum(rewards) / len(rewards) if rewards else 0.0
        return metrics | {"labels": float(self._rollout.labels)}

    def samples(self, groups: Sequence[Group]) -> list[Sample]:
        """Return every scored completion with the advantages of its tokens."""
        return [
            Sample(agent, completion, 1.0, episode.share, place, tokens=tokens)
            for place, group in enumerate(groups)
            for episode in group.episodes
            for turn, advantages in zip(episode.turns, self.advantages(episode), strict=True)
            for agent, tokens in advantages.items()
            if agent in self.learning
            for completion in [turn.actions[agent]]
        ]

    def advantages(self, episode: Episode) -> list[dict[str, tuple[float, ...]]]:
        """Return the advantages of the tokens of scored completions, by turn and agent."""
        scored = [
            {agent: c.rewards for agent, c in turn.actions.items() if isinstance(c, Scored) and c.teacher}
            for turn in episode.turns
        ]
        if self.config.estimator == "token":
            return scored
        later, advantages = 0.0, list[dict[str, tuple[float, ...]]]()
        for turn in reversed(scored):
            total = later + sum(map(sum, turn.values()))
            advantages.append(
                {
                    agent: tuple(total - sum(rewards) + own for own in _sums_to_go(rewards))
                    for agent, rewards in turn.items()
                }
            )
            later = total
        return advantages[::-1]

    def shuffle_rewards(self, groups: Sequence[Group]) -> list[Group]:
        """Return groups in which each completion has the rewards of the same agent and turn in another episode.

        The rewards are repeated or truncated to the number of its tokens. A completion without a counterpart is not
        trained on.
        """
        episodes = [(place, episode) for place, group in enumerate(groups) for episode in group.episodes]
        order = generator(episodes[0][1].seed if episodes else 0, "shuffled").permutation(len(episodes))
        places: list[int] = order.tolist()
        donors = {n: episodes[other][1] for n, other in zip(places, [*places[1:], *places[:1]], strict=True)}
        shuffled: list[list[Episode]] = [[] for _ in groups]
        for number, (place, episode) in enumerate(episodes):
            donor = donors[number] if len(episodes) > 1 else replace(episode, turns=())
            turns = [
                replace(turn, actions={a: _with_rewards_of(c, _there(donor, t, a)) for a, c in turn.actions.items()})
                for t, turn in enumerate(episode.turns)
            ]
            shuffled[place].append(replace(episode, turns=tuple(turns)))
        return [replace(group, episodes=tuple(mine)) for group, mine in zip(groups, shuffled, strict=True)]


def _sums_to_go(rewards: Sequence[float]) -> list[float]:
    return list(itertools.accumulate(reversed(rewards)))[::-1]


def _there(episode: Episode, turn: int, agent: str) -> Completion | None:
    return episode.turns[turn].actions.get(agent) if turn < len(episode.turns) else None


def _with_rewards_of(completion: Completion, donor: Completion | None) -> Completion:
    """Return a scored completion whose rewards are those of the donor."""
    if not isinstance(completion, Scored):
        return completion
    rewards = itertools.cycle(donor.rewards) if isinstance(donor, Scored) and donor.teacher else ()
    return replace(completion, teacher=tuple(p + r for p, r in zip(completion.logprobs, rewards, strict=False)))


# --- rollout ----------------------------------------------------------------------------------------------------------


class Lessons:
    """A rollout of independent trajectories of the students, whose completions are `Scored`.

    The teacher is loaded at the first call.

    Args:
        learner: The learner.
    """

    def __init__(self, learner: Distil) -> None:
        self._learner = learner
        self._teacher: Teacher | None = None

    @property
    def labels(self) -> bool:
        """Whether the teacher may know the right actions."""
        return self._teacher is not None and self._teacher.labels

    def play(
        self,
        env: TextDecPOMDP,
        policy: Policy,
        item_ids: Sequence[str],
        seeds: Sequence[int],
        sampling: Sampling,
        width: int = 1,
    ) -> list[Group]:
        """Play every task and score the completions; see `Rollout`."""
        if self._teacher is None:
            self._teacher = load_teacher(self._learner.config, env, self._learner)
        noting = _Noting(policy)
        groups = Trajectories(chance="own").play(env, noting, item_ids, seeds, sampling, width)
        episodes = [episode for group in groups for episode in group.episodes]
        if self._learner.config.sees == "all":
            asked = [a for episode in episodes for a in joint_contexts(env, episode)]
        else:
            asked = list(noting.asked.values())
        asked = [a for a in asked if a.completion.token_ids and a.agent in self._learner.learning]
        scores = self._teacher.logprobs(asked)
        scored = {id(a.completion): _scored(a.completion, score) for a, score in zip(asked, scores, strict=True)}
        return [
            replace(group, episodes=tuple(_with(episode, scored) for episode in group.episodes)) for group in groups
        ]


class _Noting(Policy):
    """A policy that keeps the history of each completion."""

    def __init__(self, inner: Policy) -> None:
        self._inner = inner
        self.asked: dict[int, Asked] = {}

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        """Answer every request with the inner policy."""
        answers = self._inner.generate(requests, sampling)
        for request, completions in zip(requests, answers, strict=True):
            self.asked |= {id(c): Asked(request.agent, c, request.history) for c in completions}
        return answers


def _scored(completion: Completion, logprobs: tuple[float, ...]) -> Scored:
    known = {field.name: getattr(completion, field.name) for field in fields(Completion)}
    return Scored(**known, teacher=logprobs)


def _with(episode: Episode, scored: Mapping[int, Scored]) -> Episode:
    turns = [
        replace(turn, actions={agent: scored.get(id(c), c) for agent, c in turn.actions.items()})
        for turn in episode.turns
    ]
    return replace(episode, turns=tuple(turns))


def load_teacher(config: DistilConfig, env: TextDecPOMDP, learner: Distil) -> Teacher:
    """Return the teacher of an environment.

    Args:
        config: The options.
        env: The training environment, under the protocol of the students.
        learner: The learner with the students.

    Raises:
        ConfigError, ModelError, CheckpointError: The teacher cannot be loaded, or its token ids differ.
    """
    if config.teacher.startswith(_SCRIPT):
        return ScriptTeacher(env, config.teacher.removeprefix(_SCRIPT), config.epsilon)
    if server := server_model(config.teacher):
        return ServerTeacher(*server, learner.team)
    from llm_dec_pomdp import load_team

    played = Centralized(env.task) if config.sees == "all" else env
    team = load_team(played, config.teacher, weights=config.weights or None)
    learning = {agent: t for agent, t in learner.temperatures.items() if agent in learner.learning}
    return ModelTeacher(team, learner.team, learning)
