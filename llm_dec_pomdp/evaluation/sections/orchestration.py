"""Statistics of the traces of teams whose agents observe each other's messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...envs.base import TextDecPOMDP
from ...episodes import Header, from_episode, stats
from ...types import Group, known_means
from . import Section, Seeds, means

_SHARES = ("utilisation", "overhead", "redundancy")  # shown in %


class Orchestration(Section):
    """The table of means over the episodes that have a statistic; see `llm_dec_pomdp.episodes.stats`."""

    title = "Orchestration"
    note = (
        "Outcome: reward and score. Efficiency: seconds of all events added up, divided by the seconds from the first "
        "to the last event (parallelism); tokens, seconds, tool calls and messages. Coordination: share of agents "
        "whose events lead to the result (utilisation), of tokens outside of scored actions (overhead), of messages "
        "that nearly repeat another one (redundancy). Robustness: later messages that repeat a wrong claim, per wrong "
        "report or injected text (amplification). After arXiv:2605.02801, Table 13."
    )
    digits = 2

    def measure(self, env: TextDecPOMDP, groups: Sequence[Group]) -> Mapping[str, float]:
        """Return the statistics if agents observe each other's messages; else {}."""
        known = env.facts
        if not (known.shares_texts or known.hierarchical) or known.parts_per_action > 1:
            return {}
        items, header = {item.id: item for item in env.items}, Header.of(env)
        episodes = [episode for group in groups for episode in group.episodes]
        return known_means([stats(from_episode(episode, header, items[episode.item_id])) for episode in episodes])

    def show(self, seeds: Seeds) -> Mapping[str, float]:
        """Return the means over seeds, with shares in %."""
        known = means(seeds).items()
        return {f"{name} %" if name in _SHARES else name: 100 * v if name in _SHARES else v for name, v in known}
