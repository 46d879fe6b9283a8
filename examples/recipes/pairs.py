"""Choose the pairs of MADPO: the shorter of two episodes with equal returns is preferred."""

from llm_dec_pomdp.algorithms.madpo import MADPO


def words(episode):
    return sum(len(completion.text.split()) for turn in episode.turns for completion in turn.actions.values())


class ShortestOfTheBest(MADPO):
    """MADPO on the shortest and the longest of the episodes with the highest return."""

    def preferred(self, group):
        most = max((episode.total for episode in group.episodes), default=0.0)
        best = sorted((e for e in group.episodes if e.total == most), key=words)
        return [(best[0], best[-1], self.learning)] if best and words(best[0]) < words(best[-1]) else []
