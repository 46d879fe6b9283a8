"""Give each token its own advantage: later tokens have a higher weight, as with a discount per token."""

from dataclasses import replace

from llm_dec_pomdp.algorithms.magrpo import MAGRPO


class Discounted(MAGRPO):
    """MAGRPO in which the advantage of a token is 1 % smaller for every token that follows it."""

    def credit(self, group):
        for sample in super().credit(group):
            left = reversed(range(len(sample.completion.token_ids)))
            yield replace(sample, tokens=tuple(0.99**k for k in left))
