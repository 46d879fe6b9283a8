"""What controls exchange: pure functions from groups to groups whose texts no longer say what they earned.

Everything that a learner is given stays as it was, other than who earned what. An episode takes all rewards of another
one, turn by turn and past its own end, so that its length says nothing; joint actions of a decision point change places
among themselves. Where agents are paid individually, each takes what an agent of such an episode earned in all: agents
that were called from those that were called, and the others from the others.

Which episodes change places depends on what a learner compares (`Compared`), so that the mean of its gradient is 0:

| compared | whose rewards an episode takes | why |
|---|---|---|
| group | any of its group's, its own too | advantages are centred over the group: each text has mean advantage 0 |
| update | any of the update's, its own too | advantages are centred over the update |
| nothing | one of another task's (of another one's, where there is one task) | what a text earns is independent of it |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from ..seeding import generator
from ..types import Completion, Decision, Episode, Group, Turn
from .samples import called_agents, earned_by

Compared = Literal["group", "update", "nothing"]
_NAME = "shuffled"  # of the draws


def rewards(groups: Sequence[Group], compared: Compared) -> list[Group]:
    """Groups whose rewards have changed places; the seed of the first episode of a group decides.

    Raises:
        ValueError: There is one episode, and nothing to exchange its rewards with.
    """
    played = [group.episodes for group in groups]
    if compared == "group":
        exchanged = [_within(episodes) for episodes in played]
    elif sum(map(len, played)) == 1:
        raise ValueError(
            "an update of one episode has no other whose rewards it could take; give several tasks "
            "(prompts_per_step) or a group size above 1"
        )
    else:
        exchanged = _between(played, with_itself=compared == "update")
    return [
        _with_other_branches(replace(group, episodes=tuple(episodes)))
        for group, episodes in zip(groups, exchanged, strict=True)
    ]


def labels(groups: Sequence[Group]) -> list[Group]:
    """Groups of pairs (preferred, rejected, preferred, ...), in which a coin says of each pair which is preferred."""
    exchanged: list[Group] = []
    for group in groups:
        coins = _random(group.episodes).integers(2, size=len(group.episodes) // 2).tolist()
        pairs = zip(group.episodes[::2], group.episodes[1::2], coins, strict=True)
        episodes = [e for first, second, coin in pairs for e in ((second, first) if coin else (first, second))]
        exchanged.append(replace(group, episodes=tuple(episodes)))
    return exchanged


def texts(groups: Sequence[Group]) -> list[Group]:
    """Groups in which every text is one of another task, said by the same agent at the same turn of as many episodes.

    Where no other task has one, the text has no tokens, and nothing is learnt from it.

    Raises:
        ValueError: There is one task.
    """
    if len(groups) == 1:
        raise ValueError("an update of one task has no other whose texts could be said there; raise prompts_per_step")
    order = _order(_random(groups[0].episodes if groups else ()), len(groups))
    spoken: dict[tuple[int, int, str], dict[int, Completion]] = {}
    for place in order:
        for k, episode in enumerate(groups[place].episodes):
            for t, turn in enumerate(episode.turns):
                for agent, text in turn.actions.items():
                    spoken.setdefault((k, t, agent), {})[place] = text
    rotated: dict[tuple[int, tuple[int, int, str]], Completion] = {}
    for key, by_group in spoken.items():
        places = list(by_group)
        for place, donor in zip(places, [*places[1:], places[0]], strict=True):
            other = by_group[donor] if donor != place else Completion("")
            rotated[place, key] = replace(other, prompt_ids=by_group[place].prompt_ids)

    def with_others(place: int, k: int, episode: Episode) -> Episode:
        turns = [
            replace(turn, actions={agent: rotated[place, (k, t, agent)] for agent in turn.actions})
            for t, turn in enumerate(episode.turns)
        ]
        return replace(episode, turns=tuple(turns))

    return [
        replace(group, episodes=tuple(with_others(place, k, episode) for k, episode in enumerate(group.episodes)))
        for place, group in enumerate(groups)
    ]


def _within(episodes: Sequence[Episode]) -> list[Episode]:
    """The episodes of a group with rewards that change places among them, or among their agents."""
    if any(episode.individual for episode in episodes):
        sides: list[list[float]] = []
        for called in (False, True):
            sums = [earned for *_, earned in _places(episodes, called=called)]
            sides.append([sums[k] for k in _order(_random(episodes, int(not called)), len(sums))])
        return _paid_agents(episodes, *sides)
    order = _order(_random(episodes), len(episodes))
    return [_paid(episode, episodes[donor].rewards) for episode, donor in zip(episodes, order, strict=True)]


def _between(groups: Sequence[Sequence[Episode]], *, with_itself: bool) -> list[list[Episode]]:
    """Groups that take the rewards of one another, or of themselves too; a single one is taken for its episodes."""
    units = list(groups) if len(groups) > 1 else [[episode] for episode in groups[0]] if groups else []
    order = _order(_random([episode for episodes in units for episode in episodes]), len(units))
    donors = dict(enumerate(order)) if with_itself else dict(zip(order, [*order[1:], *order[:1]], strict=True))
    exchanged: list[list[Episode]] = []
    for place, episodes in enumerate(units):
        donor = _within(units[donors[place]]) if with_itself else units[donors[place]]
        if any(episode.individual for episode in donor):
            sides = [[earned for *_, earned in _places(donor, called=called)] for called in (False, True)]
            exchanged.append(_paid_agents(episodes, *sides))
            continue
        exchanged.append([_paid(episode, donor[k % len(donor)].rewards) for k, episode in enumerate(episodes)])
    return (
        exchanged if len(groups) > 1 else [[episode for episodes in exchanged for episode in episodes] for _ in groups]
    )


def _paid(episode: Episode, earned: Sequence[float]) -> Episode:
    """An episode with other rewards; past its end they are those of turns in which nobody is asked."""
    past = 0.0 * earned[-1] if earned else 0.0  # NaN where the other one ended without a score
    by_turn = [*earned, *[past] * (len(episode.turns) - len(earned))]
    turns = [replace(turn, reward=reward) for turn, reward in zip(episode.turns, by_turn, strict=False)]
    return replace(episode, turns=(*turns, *(Turn({}, {}, reward) for reward in by_turn[len(turns) :])))


def _places(episodes: Sequence[Episode], *, called: bool) -> list[tuple[int, str, float]]:
    """Agents that speak, called or not: the place of its episode, its name, and what it earned in all."""
    places: list[tuple[int, str, float]] = []
    for k, episode in enumerate(episodes):
        by_call = called_agents(episode)
        speaking = dict.fromkeys(agent for turn in episode.turns for agent in turn.actions)
        agents = [
            agent for agent in (by_call if called else speaking) if agent in speaking and (agent in by_call) is called
        ]
        places += [(k, agent, earned_by(episode, agent)) for agent in agents]
    return places


def _paid_agents(episodes: Sequence[Episode], main: Sequence[float], called: Sequence[float]) -> list[Episode]:
    """Agents that speak take these sums, one after another, each all of it at its episode's last turn."""
    earned: list[dict[str, float]] = [{} for _ in episodes]
    for given, side in ((main, False), (called, True)):
        for number, (k, agent, _) in enumerate(_places(episodes, called=side)):
            earned[k][agent] = given[number % len(given)] if given else 0.0
    exchanged: list[Episode] = []
    for episode, totals in zip(episodes, earned, strict=True):
        turns = [replace(turn, rewards=dict.fromkeys(totals, 0.0)) for turn in episode.turns[:-1]]
        last = [replace(turn, rewards=totals) for turn in episode.turns[-1:]]
        exchanged.append(replace(episode, turns=(*turns, *last)))
    return exchanged


def _with_other_branches(group: Group) -> Group:
    """A group in which the joint actions of every decision point have changed places."""
    random = _random(group.episodes)
    decisions: list[Decision] = []
    for decision in group.decisions:
        donors = [decision.branches[place] for place in _order(random, len(decision.branches))]
        pairs = zip(decision.branches, donors, strict=True)
        branches = tuple(replace(donor, choice=branch.choice) for branch, donor in pairs)
        decisions.append(replace(decision, branches=branches))
    return replace(group, decisions=tuple(decisions))


def _order(random: np.random.Generator, count: int) -> list[int]:
    """The numbers below `count` in an order that is drawn."""
    order: list[int] = random.permutation(count).tolist()
    return order


def _random(episodes: Sequence[Episode], *labels: int) -> np.random.Generator:
    return generator(episodes[0].seed if episodes else 0, _NAME, *labels)
