# pyright: basic
"""Training for unknown partners: in a share of the groups, a partner from a pool replaces one trained member.

All episodes of a group have the same partner, so that the returns that a learner compares have the same teammates. The
replaced member is chosen at random, then an entry of the pool (`options.PartnersConfig`), then weights of this entry:

| entry | partner |
|---|---|
| `self` | weights at the start, or after `every`, 2 `every`, ... updates (arXiv:2110.08176), or the `last` of them |
| `frozen` | the member's weights at the start |
| `silent`, `noisy`, `late` | the member with its current weights and a fault, see `agents.partners` |
| folder of a run | the same agent of the team that was trained there |

Only the remaining members are trained on these groups. Completions of a partner have no tokens, and all learners leave
completions without tokens out of losses and critics. `Group.partner` names the replaced agent, so that the returns of
its partner are in no baseline of this agent. A critic of joint histories (`maac`) reads the texts of the partner.

The pool is saved with every checkpoint. So a resumed run has the same partners, even if a run of the pool has changed.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, get_args

from ..agents.base import Policy, Request, Sampling, Team
from ..agents.io.save import folder_of, load_weights, read_saved
from ..agents.partners import Fault, Frozen, replace_members
from ..algorithms.base import Algorithm, LearnerWrapper, Metrics
from ..algorithms.registration import algorithms, find_algorithm
from ..algorithms.staged import Staged
from ..config import ConfigError
from ..envs.base import TextDecPOMDP
from ..envs.wrappers import with_protocol
from ..options import PartnersConfig
from ..registries import nearest
from ..rollout import Demonstrations, Preferences, Rollout, Trajectories
from ..seeding import generator
from ..types import Completion, Group
from .checkpoint import find_team

FAULTS = get_args(Fault.model_fields["kind"].annotation)
SELF, FROZEN = "self", "frozen"
NAMES = (SELF, FROZEN, *FAULTS)
Weights = list[dict[str, Any]]  # tensors by name of each trainable policy, in the order of `Team.trainable`


def check_pool(config: PartnersConfig, env: TextDecPOMDP, model: Mapping[str, Any] | None = None) -> None:
    """Check the runs of a pool before any model is loaded.

    Args:
        config: The options.
        env: The training environment, under the protocol of the team.
        model: Options of the team's model; None: not compared.

    Raises:
        ConfigError: An entry is neither a name nor a folder; or the team of a run has another environment, protocol,
            model, or other agents.
        CheckpointError: A folder has no trained team, or several.
    """
    for entry in (entry for entry in config.pool if entry not in NAMES):
        if not Path(entry).is_dir():
            raise ConfigError(
                f"partners.pool has {entry!r}, which is neither a folder nor a kind of partner; {nearest(entry, NAMES)}"
            )
        folder = find_team(Path(entry))
        saved, different = read_saved(folder), ""
        environment, method = saved.get("environment", {}), saved.get("method", {}).get("name", "")
        there = environment if isinstance(environment, str) else environment.get("id", "")
        here = env.task.metadata["name"]
        names, agents = {path.name for path in folder.glob("*/")}, {folder_of(agent) for agent in env.possible_agents}
        if there and there != here and ":" not in there:
            different = f"was trained on {there}, and this run trains on {here}"
        elif method in algorithms and isinstance(environment, Mapping):
            protocol = environment.get("protocol") or find_algorithm(method).protocol
            if type(with_protocol(env.task, protocol)) is not type(env):
                different = f"has the protocol {protocol!r}, and this run has another one"
        if not different and names - agents:
            different = f"has agents {sorted(names)}, and {here} has the roles {_roles(env)}"
        for name, value in (model or {}).items():
            if not different and name in saved.get("model", {}) and saved["model"][name] != value:
                different = f"has the model option {name} = {saved['model'][name]!r}, and this run has {value!r}"
        if different:
            raise ConfigError(
                f"partners.pool: the team in {entry!r} {different}; give runs with the environment, protocol and model "
                "of this run"
            )


def _roles(env: TextDecPOMDP) -> str:
    return ", ".join(f"{agent} ({env.role(agent)})" for agent in env.possible_agents)


class Choice(NamedTuple):
    """The partner of a group: the replaced agent, the index of the pool's entry, and of the entry's weights."""

    agent: str
    entry: int
    weights: int


class WithPartners(LearnerWrapper):
    """A learner whose team has a partner in a share of the groups.

    Args:
        learner: The learner.
        partners: The pool and the share.

    Attributes:
        pool: For each entry of the pool, the weights of its teams; none for faults.
        updates: Number of updates so far.

    Raises:
        ConfigError: The learner does not sample episodes with its team, or fewer than two members are trained.
        CheckpointError: The weights of a run are incompatible with the team.
    """

    def __init__(self, learner: Algorithm, partners: PartnersConfig) -> None:
        super().__init__(learner)
        self.partners, self.updates = partners, 0
        trainable = self.team.trainable
        self.replaceable = [agent for agent, policy in self.team.members.items() if policy in trainable]
        stages = [stage.learner for stage in learner.stages] if isinstance(learner, Staged) else [learner]
        if all(stage.policy is not stage.team or _shows_texts(stage.rollout) for stage in stages):
            raise ConfigError(
                f"{type(learner).__name__} is trained on given texts or with a policy of its own, so no partner acts "
                "in its episodes; leave partners out, or choose a learner that samples with its team"
            )
        if len(self.replaceable) < 2:
            raise ConfigError(
                f"a partner replaces one trained member, and the team trains only {len(self.replaceable)} "
                f"({', '.join(self.replaceable)}), so nothing would be trained; leave partners out, or train more "
                "members"
            )
        keeps_weights = not set(partners.pool) <= set(FAULTS)
        copies = {id(policy): copy.deepcopy(policy) for policy in trainable if keeps_weights}
        members = {agent: copies.get(id(policy), policy) for agent, policy in self.team.members.items()}
        self._others = replace_members(self.team, members)
        start = _weights(self.team)
        self.pool: list[list[Weights]] = []
        for entry in partners.pool:
            if entry in NAMES:
                self.pool.append([] if entry in FAULTS else [start])
            else:
                load_weights(find_team(Path(entry)), self._others)
                self.pool.append([_weights(self._others)])

    # --- playing ------------------------------------------------------------------------------------------------------

    @property
    def rollout(self) -> Rollout:
        """The rollout of the learner, with partners; without them in a stage that trains on given texts."""
        inner = self.learner.rollout
        return inner if _shows_texts(inner) else Partnered(inner, self)

    def choose(self, seed: int) -> Choice | None:
        """Return the partner of the group with this seed; None for the team itself."""
        random = generator(seed, "partner")
        if random.random() >= self.partners.share:
            return None
        agent, entry = (int(random.integers(len(options))) for options in (self.replaceable, self.pool))
        return Choice(self.replaceable[agent], entry, int(random.integers(len(self.pool[entry]) or 1)))

    def partner(self, chosen: Choice, recorded: Sequence[Group]) -> Policy:
        """Return the policy of a partner, which is valid until the next call of this method.

        Args:
            chosen: The partner.
            recorded: Episodes of the team itself, for the fault "noisy".
        """
        entry = self.partners.pool[chosen.entry]
        if entry in FAULTS:
            return Fault.model_validate({"kind": entry}).of(self.team.members[chosen.agent], recorded)
        place = self.team.trainable.index(self.team.members[chosen.agent])
        policy = self._others.members[chosen.agent]
        policy.load_state_dict(self.pool[chosen.entry][chosen.weights][place])
        return policy

    # --- learning -----------------------------------------------------------------------------------------------------

    def update(self, groups: Sequence[Group]) -> Metrics:
        """Run an update of the learner; the metric `partners` is the share of the groups that have a partner."""
        metrics = self.learner.update(groups)
        self.updates += 1
        if self.updates % self.partners.every == 0 and SELF in self.partners.pool:
            place = self.partners.pool.index(SELF)
            self.pool[place] = [*self.pool[place], _weights(self.team)][-(self.partners.last or 0) :]
        return {**metrics, "partners": sum(bool(group.partner) for group in groups) / max(len(groups), 1)}

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the learner, the number of updates, and the weights of the pool."""
        return {"learner": super().state_dict(), "updates": self.updates, "pool": self.pool}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state that `state_dict` returned."""
        self.updates, self.pool = state["updates"], state["pool"]
        super().load_state_dict(state["learner"])


@dataclass(frozen=True, slots=True)
class Partnered:
    """Another rollout, whose groups have the partners that `WithPartners.choose` returns.

    Attributes:
        inner: The rollout that plays the groups.
        learner: The learner with the pool.
    """

    inner: Rollout
    learner: WithPartners

    def play(
        self,
        env: TextDecPOMDP,
        policy: Policy,
        item_ids: Sequence[str],
        seeds: Sequence[int],
        sampling: Sampling,
        width: int = 1,
    ) -> list[Group]:
        """Play every task; see `Rollout`. Groups without a partner are the same as those of `inner`."""
        places: dict[Choice | None, list[int]] = {None: []}
        for place, seed in enumerate(seeds):
            places.setdefault(self.learner.choose(seed), []).append(place)
        groups: dict[int, Group] = {}
        for chosen, mine in places.items():
            tasks, of_tasks = [item_ids[place] for place in mine], [seeds[place] for place in mine]
            if chosen is None:
                own = self.inner.play(env, policy, tasks, of_tasks, sampling, width) if mine else []
                groups |= zip(mine, own, strict=True)
                continue
            recorded = [groups[place] for place in places[None]]
            if self.learner.partners.pool[chosen.entry] == "noisy" and not recorded:
                recorded = Trajectories().play(env, policy, item_ids, seeds, sampling)
            partner = _TextsOnly(self.learner.partner(chosen, recorded))
            team = replace_members(self.learner.team, {chosen.agent: partner})
            for place, group in zip(mine, self.inner.play(env, team, tasks, of_tasks, sampling, width), strict=True):
                groups[place] = _with_partner(group, chosen.agent)
        return [groups[place] for place in range(len(seeds))]


class _TextsOnly(Frozen):
    """A policy whose completions have no tokens, so that nothing is trained on them."""

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        """Answer every request."""
        answers = super().generate(requests, sampling)
        return [[Completion(c.text, seconds=c.seconds, thought=c.thought) for c in answer] for answer in answers]


def _with_partner(group: Group, agent: str) -> Group:
    return replace(group, partner=agent, replaced=tuple(_with_partner(other, agent) for other in group.replaced))


def _shows_texts(rollout: Rollout) -> bool:
    """Return whether a rollout plays given texts, which the team only tokenizes."""
    return isinstance(rollout, (Demonstrations, Preferences))


def _weights(team: Team) -> Weights:
    """Return copies of the trainable weights on the CPU."""
    return [
        {name: tensor.detach().cpu().clone() for name, tensor in policy.state_dict().items()}
        for policy in team.trainable
    ]
