"""Episodes as plain text, for people and language models that compare them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from ..types import Episode, grouped


def transcript(episode: Episode, roles: Mapping[str, str] | None = None) -> tuple[str, str]:
    """Return the task and the actions of an episode as texts, without rewards and scores.

    Args:
        episode: The episode.
        roles: Human-readable name by agent. Default: the name of the agent.

    Returns:
        The first observations, where the first lines that all agents share occur once; and the actions of all turns,
        each after the name of its agent, with the observations of later turns.
    """
    names = roles or {}
    first, *later = episode.turns
    acts = [f"{names.get(a, a)} acts: {c.text}" for a, c in first.actions.items()]
    for turn in later:
        acts += _observed(turn.observations, names)
        acts += [f"{names.get(a, a)} acts: {c.text}" for a, c in turn.actions.items()]
    columns = zip(*(text.split("\n") for text in first.observations.values()), strict=False)
    shared = [lines[0] for lines in itertools.takewhile(lambda lines: len(set(lines)) == 1, columns)]
    rest = {agent: "\n".join(text.split("\n")[len(shared) :]) for agent, text in first.observations.items()}
    return "\n".join([*shared, *_observed(rest, names)]).strip(), "\n".join(acts)


def _observed(observations: Mapping[str, str], names: Mapping[str, str]) -> list[str]:
    """Return a paragraph for each different observation, with the names of the agents that observe it."""
    by_text = grouped((agent for agent, text in observations.items() if text.strip()), lambda a: observations[a])
    return [
        f"{', '.join(names.get(a, a) for a in agents)} observe{'s' * (len(agents) == 1)}: {text.strip()}"
        for text, agents in by_text.items()
    ]
