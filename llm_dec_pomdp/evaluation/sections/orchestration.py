"""How a team whose members hear each other works together: the statistics of its traces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...envs.base import TextDecPOMDP
from ...episodes import Header, from_episode, stats
from ...types import Group, known_means
from . import Section, Seeds, means

_SHARES = ("utilisation", "overhead", "redundancy")  # shown in %


class Orchestration(Section):
    """Means over the episodes in which there is something to count; see `llm_dec_pomdp.episodes.stats`."""

    title = "Orchestration"
    note = (
        "Outcome: reward and score. Efficiency: the seconds of all that was done one after the other by the seconds "
        "that it took (parallelism), tokens, seconds, tool calls and messages. Coordination: agents whose work leads "
        "to the result (utilisation), tokens that are no part of a scored action (overhead), messages that nearly "
        "repeat another (redundancy). Robustness: later messages that carry a wrong claim, by the reports "
        "that first had one (amplification). After arXiv:2605.02801, Table 13."
    )
    digits = 2

    def measure(self, env: TextDecPOMDP, groups: Sequence[Group]) -> Mapping[str, float]:
        """Of teams whose members speak to each other; {} for the others."""
        known = env.facts
        if not (known.shares_texts or known.hierarchical) or known.parts_per_action > 1:
            return {}
        items, header = {item.id: item for item in env.items}, Header.of(env)
        episodes = [episode for group in groups for episode in group.episodes]
        return known_means([stats(from_episode(episode, header, items[episode.item_id])) for episode in episodes])

    def show(self, seeds: Seeds) -> Mapping[str, float]:
        """Shares in %."""
        known = means(seeds).items()
        return {f"{name} %" if name in _SHARES else name: 100 * v if name in _SHARES else v for name, v in known}
