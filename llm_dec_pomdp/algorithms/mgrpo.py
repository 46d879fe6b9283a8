"""M-GRPO: group-relative policy optimization of a main agent and the sub-agents that it calls (arXiv:2511.13288).

For a query, K rollouts are played. Rollout k has one trajectory of the main agent with return R_M^(k), and d_k
trajectories of sub-agents, one for each invocation, with returns R_S(o_i^(k)). The environment assigns the rewards; d_k
differs between rollouts. With

    A_M^(k)   = (R_M^(k) - mean_k R_M) / std_k R_M                                                              (main)
    A_S,i^(k) = (R_S(o_i^(k)) - mean R_S) / std R_S,  over the aligned invocations of the same query             (sub)

all completions of a trajectory share its advantage, and each policy ascends the clipped objective of `updater` over its
own samples. Outputs of tools and reports are observations and never trained on. Alignment gives every rollout with
invocations d of them; the paper uses duplicate_drop                                                         (alignment)

| alignment | d_k < d | d_k > d |
|---|---|---|
| duplicate_drop | all, and random duplicates of the rollout's own | d at random, without replacement |
| mask | all, and empty slots, which weigh 0 and are in no mean | d at random, without replacement |
| weight | each weighs d / d_k, the expectation of duplicate_drop | the same |
| none | each weighs 1 | the same |

A rollout without invocations has only empty slots under every alignment. These are the equations of the paper's
sections on advantages and on trajectory alignment; the lines of code that implement them cite their names.

Departures from the paper, each an option:
* The ratio is per token (`ratio="token"`, common practice); "trajectory" is that of a whole trajectory, as printed.
* d is the 0.99 quantile of d_k over the run so far, by kind (`d=None`); the paper takes 8, from preliminary runs.
* There are alignments other than duplicate_drop, baselines by kind of sub-agent or by place in the rollout
  (`group_by`), and advantages that are not divided by the standard deviation (`advantage="mean"`).
* Main agents or sub-agents can be left untrained (`train`).

An agent that no event `spawn` called is a main agent. So without invocations this is MAGRPO with returns of whole
trajectories.

Read `update` and `credit` of `MGRPO`; `updater.py` updates the weights.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ..agents.base import Sampling, Team
from ..seeding import generator
from ..types import Completion, Episode, Group, grouped
from .advantages import Array, Kind, group_advantages, weighted_advantages
from .base import Metrics
from .checks import check_importance
from .learner import PolicyLearner, first_seed
from .options import Alignment, GroupBy, MGRPOConfig
from .samples import Sample, called_agents, check_rewards, earned_by, usable
from .updater import Updater, step_updaters

COVERED = 0.99  # share of the rollouts whose d_k is at most d
MAIN = ""  # the kind of a main agent, which nobody called


@dataclass(frozen=True, slots=True)
class Trajectory:
    """The completions and the return of one agent in one rollout.

    Attributes:
        agent: The agent.
        kind: The role of the sub-agent; "" for a main agent.
        rollout: Index of the episode in its group.
        place: Number of calls before it in this rollout.
        reward: Sum of its rewards over all turns; NaN if it could not be scored.
        texts: Its completions in order.
    """

    agent: str
    kind: str
    rollout: int
    place: int
    reward: float
    texts: tuple[Completion, ...]


class Credited(NamedTuple):
    """A trajectory with its advantage; `weight` is the number of times that it counts."""

    trajectory: Trajectory
    advantage: float
    weight: float


# --- credit: from the groups to samples with advantages ---------------------------------------------------------------


def trajectories_of(episode: Episode, rollout: int = 0) -> list[Trajectory]:
    """Return the trajectories of an episode: those of sub-agents in the order of their calls, then of main agents.

    Agents without completions have none.
    """
    called = called_agents(episode)
    texts: dict[str, list[Completion]] = {}
    for agent, completion in itertools.chain.from_iterable(turn.actions.items() for turn in episode.turns):
        texts.setdefault(agent, []).append(completion)
    trajectories: list[Trajectory] = []
    for place, (agent, event) in enumerate(called.items()):
        if spoken := texts.pop(agent, None):
            kind = event.details.get("role", "sub")
            trajectories.append(Trajectory(agent, kind, rollout, place, earned_by(episode, agent), tuple(spoken)))
    for agent, spoken in texts.items():
        trajectories.append(Trajectory(agent, MAIN, rollout, 0, earned_by(episode, agent), tuple(spoken)))
    return trajectories


def align(counts: Sequence[int], d: int, alignment: Alignment, random: np.random.Generator) -> list[Array]:
    """Compute how many times each invocation of each rollout counts.

    Args:
        counts: d_k of every rollout.
        d: Invocations per rollout after alignment.
        alignment: See the table of this module.
        random: Chooses which invocations are duplicated and dropped.

    Returns:
        An array [d_k] for every rollout.
    """
    weights: list[Array] = []
    for count in counts:
        times = np.ones(count)
        if alignment == "weight" and count:
            times *= d / count
        elif alignment in ("duplicate_drop", "mask") and count > d:  # (alignment)
            times[random.permutation(count)[d:]] = 0.0
        elif alignment == "duplicate_drop" and count:  # (alignment)
            np.add.at(times, random.integers(count, size=d - count), 1.0)
        weights.append(times)
    return weights


def credit_main(trajectories: Sequence[Trajectory], kind: Kind) -> Iterator[Credited]:
    """Return the main trajectories of a group with their advantages.

    The baseline is the mean reward over the trajectories of the same agent in the group.
    """
    for of_agent in grouped(trajectories, lambda t: t.agent).values():
        advantages = group_advantages([t.reward for t in of_agent], kind).tolist()  # (main)
        yield from (Credited(t, advantage, 1.0) for t, advantage in zip(of_agent, advantages, strict=True))


def credit_sub(invocations: Sequence[tuple[Trajectory, float]], group_by: GroupBy, kind: Kind) -> Iterator[Credited]:
    """Return the invocations of a group with their advantages, from pairs of (invocation, weight)."""
    pools = grouped(invocations, lambda pair: {"query": 0, "kind": pair[0].kind, "place": pair[0].place}[group_by])
    for pool in pools.values():
        advantages = weighted_advantages([t.reward for t, _ in pool], [w for _, w in pool], kind).tolist()  # (sub)
        yield from (Credited(t, advantage, w) for (t, w), advantage in zip(pool, advantages, strict=True) if w)


@dataclass
class Running:
    """Counts of each d_k in a run, from which d is estimated.

    Attributes:
        seen: By kind of sub-agent, the number of rollouts with 0, 1, 2, ... invocations.
    """

    seen: dict[str, list[int]] = field(default_factory=dict[str, "list[int]"])

    def count(self, kind: str, counts: Iterable[int]) -> None:
        """Add the d_k of some rollouts."""
        table = self.seen.setdefault(kind, [])
        for count in counts:
            table.extend([0] * (count + 1 - len(table)))
            table[count] += 1

    def quantile(self, kind: str) -> int:
        """Return the smallest d >= 1 with P(d_k <= d) >= 0.99 over the rollouts so far."""
        cumulated = np.cumsum(self.seen[kind])
        return max(1, int(np.argmax(cumulated >= COVERED * cumulated[-1])))


# --- the learner ------------------------------------------------------------------------------------------------------


class MGRPO(PolicyLearner):
    """M-GRPO: trains a main agent and the sub-agents that it calls, each policy on its own trajectories."""

    Config = MGRPOConfig
    config: MGRPOConfig

    def __init__(self, team: Team, sampling: Sampling, config: MGRPOConfig | None = None) -> None:
        super().__init__(team, sampling, config)
        check_importance(team, self.config)
        self.running = Running()

    def trajectories(self, group: Group) -> list[Trajectory]:
        """Return all trajectories of a group, without those of a partner (`Group.partner`)."""
        everything = (t for rollout, episode in enumerate(group.episodes) for t in trajectories_of(episode, rollout))
        return [t for t in everything if t.agent != group.partner]

    def credit(self, groups: Sequence[Group]) -> tuple[list[list[Credited]], Metrics]:
        """Return for each group its trajectories with their advantages, and metrics of the invocations.

        The d_k of these groups are counted first, so d depends on them.

        Raises:
            ValueError: A reward is infinite.
        """
        check_rewards(groups)
        played = [self.trajectories(group) for group in groups]
        kinds = {t.kind: None for trajectories in played for t in trajectories if t.kind != MAIN}
        pairs = list(zip(groups, played, strict=True))
        counts: dict[str, list[list[int]]] = {kind: [] for kind in kinds}  # d_k by kind, group and rollout
        for kind, of_groups in counts.items():
            for group, all_of in pairs:
                of_rollouts = [t.rollout for t in all_of if t.kind == kind]
                of_groups.append([of_rollouts.count(rollout) for rollout in range(len(group.episodes))])
        for kind, of_groups in counts.items():
            self.running.count(kind, itertools.chain.from_iterable(of_groups))
        d = {kind: self.config.d or self.running.quantile(kind) for kind in kinds}
        credited: list[list[Credited]] = []
        subs: list[tuple[Trajectory, float]] = []
        for place, (group, all_of) in enumerate(pairs):
            main = credit_main([t for t in all_of if t.kind == MAIN], self.config.advantage)
            aligned: list[tuple[Trajectory, float]] = []
            for kind in kinds:
                random = generator(group.episodes[0].seed, "alignment", kind)
                weights = align(counts[kind][place], d[kind], self.config.alignment, random)
                of_kind = [t for t in all_of if t.kind == kind]  # rollout by rollout
                aligned += zip(of_kind, np.concatenate(weights).tolist(), strict=True)
            credited.append([*main, *credit_sub(aligned, self.config.group_by, self.config.advantage)])
            subs += aligned
        return credited, _describe(counts, d, subs)

    def samples(self, groups: Sequence[Group], credited: Sequence[Sequence[Credited]]) -> list[Sample]:
        """Return every completion to train on.

        Sub-agents of one kind share weights, so their completions are attributed to the first agent of the kind.
        """
        everything = [(place, credit) for place, of_group in enumerate(credited) for credit in of_group]
        owners = self._owners(t for _, (t, _, _) in everything)
        samples: list[Sample] = []
        for number, (place, (t, advantage, weight)) in enumerate(everything):
            if ("main" if t.kind == MAIN else "sub") in self.config.train:
                owner = owners[t.agent]
                samples += [Sample(owner, text, advantage, weight, place, trajectory=number) for text in t.texts]
        return usable(s for s in samples if s.agent in self.learning)

    def _owners(self, trajectories: Iterable[Trajectory]) -> dict[str, str]:
        """Return for each agent the owner of its completions: itself, or the first sub-agent of its kind.

        Raises:
            ValueError: Invocations of one kind have different policies or adapters.
        """
        kinds = {t.agent: t.kind for t in trajectories}
        weights = {
            agent: group.agents for updater in self.updaters for group in updater.groups for agent in group.agents
        }
        owners: dict[str, str] = {}
        for agent in [agent for agent in self.team.members if agent in kinds]:
            kind = kinds[agent]
            owner = next((a for a in owners if kinds[a] == kind), agent) if kind != MAIN else agent
            if weights.get(agent) != weights.get(owner):
                raise ValueError(
                    f"{owner!r} and {agent!r} are invocations of {kind!r} with different weights, so each would be "
                    "trained only on its own place in the rollout; give them one policy or adapter "
                    "(load_team(..., roles=...))"
                )
            owners[agent] = owners.get(owner, owner)
        return owners

    def update(self, groups: Sequence[Group]) -> Metrics:
        """Compute advantages, and run a step of every policy that has samples.

        Returns:
            The metrics of `MAGRPO.update`, over the policies that stepped; `surprisal_main` and `surprisal_sub` (mean
            of -log p of a token, an estimate of the entropy); and metrics of the invocations, see docs/hierarchy.md.

        Raises:
            ValueError: A reward is infinite, a completion lacks log-probabilities, the temperature is 0, or invocations
                of one kind do not share their weights.
        """
        credited, metrics = self.credit(groups)
        samples = self.samples(groups, credited)
        learners: list[Updater] = [u for u in self.updaters if any(s.agent in u.agents for s in samples)]
        metrics = step_updaters(learners or self.updaters, samples, first_seed(groups)) | metrics
        mains = {t.agent for of_group in credited for t, _, _ in of_group if t.kind == MAIN}
        for name, part in (
            ("surprisal_main", [s for s in samples if s.agent in mains]),
            ("surprisal_sub", [s for s in samples if s.agent not in mains]),
        ):
            logprobs = [logprob for s in part for logprob in s.completion.logprobs]
            metrics[name] = -float(np.mean(logprobs)) if logprobs else 0.0
        return metrics | self.report(samples, groups, learners)

    # --- restarts -----------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the states of the updaters, and the counts of d_k."""
        return {**super().state_dict(), "seen": self.running.seen}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state that `state_dict` returned."""
        super().load_state_dict(state)
        self.running = Running({kind: list(table) for kind, table in state["seen"].items()})


# --- numbers ----------------------------------------------------------------------------------------------------------


def _describe(
    counts: Mapping[str, Sequence[Sequence[int]]], d: Mapping[str, int], subs: Sequence[tuple[Trajectory, float]]
) -> Metrics:
    """Return metrics of the invocations of all groups and kinds; 0 where there are none.

    * `d`: invocations per rollout after alignment;
    * `masked_slots`: share of the K d slots that are empty before duplication;
    * `dropped`: share of the invocations that alignment drops;
    * `sub_reward_mean`, `sub_reward_std`: over all queries, with the weights of the alignment.
    """
    per_rollout = [count for of_groups in counts.values() for count in itertools.chain.from_iterable(of_groups)]
    slots = sum(d[kind] for kind, of_groups in counts.items() for _ in itertools.chain.from_iterable(of_groups))
    weights = np.array([w for t, w in subs if not math.isnan(t.reward)])
    rewards = np.array([t.reward for t, _ in subs if not math.isnan(t.reward)])
    mean = float(np.average(rewards, weights=weights)) if weights.sum() else 0.0
    deviation = float(np.sqrt(np.average((rewards - mean) ** 2, weights=weights))) if weights.sum() else 0.0
    filled = sum(
        min(count, d[kind]) for kind, of_groups in counts.items() for of_group in of_groups for count in of_group
    )
    return {
        "d_mean": float(np.mean(per_rollout)) if per_rollout else 0.0,
        "d_max": float(max(per_rollout, default=0)),
        "d": float(max(d.values(), default=0)),
        "invocations": float(sum(per_rollout)),
        "masked_slots": 1 - filled / slots if slots else 0.0,
        "alignment_weight_max": float(max((w for _, w in subs), default=0.0)),
        "dropped": float(np.mean([w == 0 for _, w in subs])) if subs else 0.0,
        "sub_reward_mean": mean,
        "sub_reward_std": deviation,
    }
