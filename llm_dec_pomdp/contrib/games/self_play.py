"""Exploitability of the players of a small game: best responses by enumeration."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from llm_dec_pomdp.envs import Script, Task
from llm_dec_pomdp.seeding import generator
from llm_dec_pomdp.types import Group, Message

History = tuple[Message, ...]
Strategy = Callable[[str, History], Mapping[str, float]]  # (agent, its history) -> probability of each text


class _Node(NamedTuple):
    """A position: its state, the histories, and its probability if the responder chooses the actions to it."""

    state: Any
    histories: Mapping[str, History]
    chance: float


def exploitability(task: Task[Any], strategy: Strategy) -> float:
    """Compute the mean over agents of the gain by a best response to all other agents; 0 in an equilibrium.

    All tasks are equally likely. The result is exact for games with perfect recall and without chance after the start.

    Args:
        task: A game with individual rewards.
        strategy: The strategy of all agents.

    Returns:
        The exploitability, at least 0, in the unit of the reward.
    """
    starts = [_node(task, task.initial_state(item, 0), {}, 1 / len(task.items)) for item in task.items]
    agents = task.possible_agents
    return sum(_best(task, strategy, a, starts) - value(task, strategy, a) for a in agents) / len(agents)


def value(task: Task[Any], strategy: Strategy, agent: str) -> float:
    """Compute the expected return of an agent if all agents play a strategy; exact as `exploitability` is."""
    starts = [_node(task, task.initial_state(item, 0), {}, 1 / len(task.items)) for item in task.items]
    total = 0.0
    while starts:
        earned, starts = _play(task, strategy, agent, starts, None)
        total += earned
    return total


def frequencies(groups: Sequence[Group]) -> Strategy:
    """Return the observed strategy: the share of each text after each history; the empty text after other histories."""
    counts: dict[tuple[str, History], Counter[str]] = {}
    for episode in (episode for group in groups for episode in group.episodes):
        histories: dict[str, History] = {}
        for turn in episode.turns:
            for agent, text in {**turn.unasked_observations, **turn.observations}.items():
                histories[agent] = (*histories.get(agent, ()), Message("observation", text))
            for agent, completion in turn.actions.items():
                counts.setdefault((agent, histories[agent]), Counter())[completion.text] += 1
                histories[agent] = (*histories[agent], Message("action", completion.text))

    def shares(agent: str, history: History) -> Mapping[str, float]:
        count = counts.get((agent, history), Counter({"": 1}))
        return {text: times / count.total() for text, times in count.items()}

    return shares


def drawn(strategy: Strategy) -> Script:
    """Return a team that samples its texts from a strategy, with its own random generator."""
    random = generator(0, "strategy")

    def say(agent: str, history: Sequence[Message]) -> str:
        texts = strategy(agent, tuple(history))
        return str(random.choice(list(texts), p=list(texts.values())))

    return say


def _best(task: Task[Any], strategy: Strategy, agent: str, nodes: Sequence[_Node]) -> float:
    """Compute the return of a best response from positions of an agent, weighted by their probabilities."""
    waiting = [node for node in nodes if agent not in task.observations(node.state)]
    earned, following = _play(task, strategy, agent, waiting, None) if waiting else (0.0, [])
    total = earned + (_best(task, strategy, agent, following) if following else 0.0)
    alike: dict[History, list[_Node]] = {}  # information sets of the agent
    for node in nodes:
        if agent in task.observations(node.state):
            alike.setdefault(node.histories[agent], []).append(node)
    for history, same in alike.items():
        after = [_play(task, strategy, agent, same, text) for text in task.choices(agent, history)]
        total += max(paid + (_best(task, strategy, agent, rest) if rest else 0.0) for paid, rest in after)
    return total


def _play(
    task: Task[Any], strategy: Strategy, agent: str, nodes: Sequence[_Node], text: str | None
) -> tuple[float, list[_Node]]:
    """Play one turn from positions of an agent.

    Args:
        task: The game.
        strategy: The strategy of all agents.
        agent: The agent whose reward is summed.
        nodes: The positions.
        text: The action of the agent; None: it plays the strategy.

    Returns:
        The expected reward of the agent, and the positions that continue.
    """
    earned, following = 0.0, list[_Node]()
    for node in nodes:
        asked = list(task.observations(node.state))
        played = [{text: 1.0} if a == agent and text is not None else strategy(a, node.histories[a]) for a in asked]
        for texts in itertools.product(*(shares.items() for shares in played)):
            chance = node.chance
            for _, share in texts:
                chance *= share
            actions = {a: chosen for a, (chosen, _) in zip(asked, texts, strict=True)}
            after = task.transition(node.state, actions, 0)
            earned += chance * (after.rewards or {}).get(agent, after.reward)
            if not after.terminated and chance:
                spoken = {a: (*node.histories[a], Message("action", actions[a])) for a in asked}
                following.append(_node(task, after.state, {**node.histories, **spoken}, chance))
    return earned, following


def _node(task: Task[Any], state: Any, histories: Mapping[str, History], chance: float) -> _Node:
    observations = {
        agent: (*histories.get(agent, ()), text if isinstance(text, Message) else Message("observation", text))
        for agent, text in task.observations(state).items()
    }
    return _Node(state, {**histories, **observations}, chance)
