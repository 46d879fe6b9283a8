"""Give tokens advantages of their own: later tokens count more, as with a reward discounted token by token."""

from dataclasses import replace

from llm_dec_pomdp.algorithms.magrpo import MAGRPO


class Discounted(MAGRPO):
    """MAGRPO in which a token is worth 1 % less for every token that follows it."""

    def credit(self, group):
        for sample in super().credit(group):
            left = reversed(range(len(sample.completion.token_ids)))
            yield replace(sample, tokens=tuple(0.99**k for k in left))
