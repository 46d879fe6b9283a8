"""Shuffled-reward controls: learners without a learning signal, as a reference for real learners.

`NAME_shuffled` is the control of the learner NAME. It has the rollouts, the size of advantages and the number of
updates of the learner, but before each update rewards are shuffled between episodes. An improvement of such a team
cannot come from the reward.

An episode receives all rewards of another episode, turn by turn and past its own end, so that its length carries no
signal. The joint actions of a decision point exchange their rewards. With individual rewards, each agent receives the
sum of the rewards of an agent of another episode: sub-agents that of a sub-agent, main agents that of a main agent.

The baseline of the learner (`BaselineScope`) determines which episodes may exchange rewards, so that the mean of the
gradient is 0:

| baseline_scope | an episode receives the rewards of | reason |
|---|---|---|
| group | any episode of its group, possibly its own | advantages are centred over the group |
| update | any episode of the update, possibly its own | advantages are centred over the update |
| nothing | an episode of another task (with one task: another episode) | rewards do not depend on the completion |
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from ..seeding import generator
from ..types import Completion, Decision, Episode, Group, Turn
from .samples import called_agents, earned_by

BaselineScope = Literal["group", "update", "nothing"]


class ShuffledRewardControl:
    """Mix-in, placed before a learner class: shuffles the rewards before each update."""

    def update(self: Any, groups: Sequence[Group]) -> dict[str, float]:
        """Update as the learner does, on groups with shuffled rewards."""
        learner: Any = super()
        return learner.update(self.shuffle_rewards(groups))


@functools.cache
def shuffled_reward_control(kind: Any) -> Any:
    """Return the control of a class of learners; it takes the same options."""
    about = f"The shuffled-reward control of {kind.__name__}."
    bases = (ShuffledRewardControl, kind)
    return type(kind)(f"Shuffled{kind.__name__}", bases, {"__doc__": about, "__module__": __name__})


def shuffle_rewards(groups: Sequence[Group], scope: BaselineScope) -> list[Group]:
    """Return groups with shuffled rewards. The order follows from the seed of a group's first episode.

    Raises:
        ValueError: There is only one episode, so no rewards can be swapped.
    """
    played = [group.episodes for group in groups]
    if scope == "group":
        exchanged = [_within(episodes) for episodes in played]
    elif sum(map(len, played)) == 1:
        raise ValueError(
            "the update has only one episode, so its rewards cannot be shuffled; set prompts_per_step or group_size "
            "above 1"
        )
    else:
        exchanged = _between(played, with_itself=scope == "update")
    shuffled: list[Group] = []
    for group, episodes in zip(groups, exchanged, strict=True):
        random = _random(episodes)
        decisions: list[Decision] = []
        for decision in group.decisions:
            donors = [decision.branches[place] for place in _order(random, len(decision.branches))]
            pairs = zip(decision.branches, donors, strict=True)
            branches = tuple(replace(donor, choice=branch.choice) for branch, donor in pairs)
            decisions.append(replace(decision, branches=branches))
        shuffled.append(replace(group, episodes=tuple(episodes), decisions=tuple(decisions)))
    return shuffled


def shuffle_labels(groups: Sequence[Group]) -> list[Group]:
    """Return groups of pairs (preferred, rejected, preferred, ...) in which the order of each pair is random."""
    shuffled: list[Group] = []
    for group in groups:
        coins = _random(group.episodes).integers(2, size=len(group.episodes) // 2).tolist()
        pairs = zip(group.episodes[::2], group.episodes[1::2], coins, strict=True)
        episodes = [e for first, second, coin in pairs for e in ((second, first) if coin else (first, second))]
        shuffled.append(replace(group, episodes=tuple(episodes)))
    return shuffled


def shuffle_texts(groups: Sequence[Group]) -> list[Group]:
    """Replace every completion by the one of another task with the same agent, turn and index of the episode.

    A completion without such a counterpart loses its tokens, so that nothing is trained on it.

    Raises:
        ValueError: There is only one task.
    """
    if len(groups) == 1:
        raise ValueError("the update has only one task, so no texts can be swapped; set prompts_per_step above 1")
    order = _order(_random(groups[0].episodes if groups else ()), len(groups))
    texts: dict[tuple[int, int, str], dict[int, Completion]] = {}
    for place in order:
        for k, episode in enumerate(groups[place].episodes):
            for t, turn in enumerate(episode.turns):
                for agent, text in turn.actions.items():
                    texts.setdefault((k, t, agent), {})[place] = text
    rotated: dict[tuple[int, tuple[int, int, str]], Completion] = {}
    for key, by_group in texts.items():
        places = list(by_group)
        for place, donor in zip(places, [*places[1:], places[0]], strict=True):
            other = by_group[donor] if donor != place else Completion("")
            rotated[place, key] = replace(other, prompt_ids=by_group[place].prompt_ids)
    shuffled: list[Group] = []
    for place, group in enumerate(groups):
        episodes: list[Episode] = []
        for k, episode in enumerate(group.episodes):
            turns = [
                replace(turn, actions={agent: rotated[place, (k, t, agent)] for agent in turn.actions})
                for t, turn in enumerate(episode.turns)
            ]
            episodes.append(replace(episode, turns=tuple(turns)))
        shuffled.append(replace(group, episodes=tuple(episodes)))
    return shuffled


def _within(episodes: Sequence[Episode]) -> list[Episode]:
    """Shuffle rewards among the episodes of a group, or among their agents where rewards are individual."""
    if any(episode.individual for episode in episodes):
        sides: list[list[float]] = []
        for called in (False, True):
            sums = [total for *_, total in _totals(episodes, called=called)]
            sides.append([sums[k] for k in _order(_random(episodes, int(not called)), len(sums))])
        return _with_totals(episodes, *sides)
    order = _order(_random(episodes), len(episodes))
    return [_with_rewards(episode, episodes[donor].rewards) for episode, donor in zip(episodes, order, strict=True)]


def _between(groups: Sequence[Sequence[Episode]], *, with_itself: bool) -> list[list[Episode]]:
    """Return for each group its episodes with the rewards of another group, or of any group if `with_itself`.

    If there is a single group, its episodes exchange rewards as if each was a group.
    """
    units = list(groups) if len(groups) > 1 else [[episode] for episode in groups[0]] if groups else []
    order = _order(_random([episode for episodes in units for episode in episodes]), len(units))
    donors = dict(enumerate(order)) if with_itself else dict(zip(order, [*order[1:], *order[:1]], strict=True))
    exchanged: list[list[Episode]] = []
    for place, episodes in enumerate(units):
        donor = _within(units[donors[place]]) if with_itself else units[donors[place]]
        if any(episode.individual for episode in donor):
            sides = [[total for *_, total in _totals(donor, called=called)] for called in (False, True)]
            exchanged.append(_with_totals(episodes, *sides))
        else:
            exchanged.append([_with_rewards(e, donor[k % len(donor)].rewards) for k, e in enumerate(episodes)])
    if len(groups) > 1:
        return exchanged
    return [[episode for episodes in exchanged for episode in episodes] for _ in groups]


def _with_rewards(episode: Episode, rewards: Sequence[float]) -> Episode:
    """Replace the rewards of an episode; those past its end become turns without actions."""
    past = 0.0 * rewards[-1] if rewards else 0.0  # NaN where the donor ended without a score
    by_turn = [*rewards, *[past] * (len(episode.turns) - len(rewards))]
    turns = [replace(turn, reward=reward) for turn, reward in zip(episode.turns, by_turn, strict=False)]
    return replace(episode, turns=(*turns, *(Turn({}, {}, reward) for reward in by_turn[len(turns) :])))


def _totals(episodes: Sequence[Episode], *, called: bool) -> list[tuple[int, str, float]]:
    """Return (index of the episode, agent, sum of its rewards) of the sub-agents (`called`) or main agents."""
    totals: list[tuple[int, str, float]] = []
    for k, episode in enumerate(episodes):
        by_call = called_agents(episode)
        acting = dict.fromkeys(agent for turn in episode.turns for agent in turn.actions)
        agents = [
            agent for agent in (by_call if called else acting) if agent in acting and (agent in by_call) is called
        ]
        totals += [(k, agent, earned_by(episode, agent)) for agent in agents]
    return totals


def _with_totals(episodes: Sequence[Episode], main: Sequence[float], called: Sequence[float]) -> list[Episode]:
    """Return the episodes with these sums as rewards of the acting agents, in order, each at the last turn."""
    earned: list[dict[str, float]] = [{} for _ in episodes]
    for given, side in ((main, False), (called, True)):
        for number, (k, agent, _) in enumerate(_totals(episodes, called=side)):
            earned[k][agent] = given[number % len(given)] if given else 0.0
    exchanged: list[Episode] = []
    for episode, totals in zip(episodes, earned, strict=True):
        turns = [replace(turn, rewards=dict.fromkeys(totals, 0.0)) for turn in episode.turns[:-1]]
        last = [replace(turn, rewards=totals) for turn in episode.turns[-1:]]
        exchanged.append(replace(episode, turns=(*turns, *last)))
    return exchanged


def _order(random: np.random.Generator, count: int) -> list[int]:
    order: list[int] = random.permutation(count).tolist()
    return order


def _random(episodes: Sequence[Episode], *labels: int) -> np.random.Generator:
    return generator(episodes[0].seed if episodes else 0, "shuffled", *labels)
