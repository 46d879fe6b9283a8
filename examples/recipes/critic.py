"""A custom critic for IAC and MAAC: a small network on token counts, for any policy.

A reading is an agent together with the token ids of its history. The updater chooses the unit of the values, and
`rescale` changes it.
"""

import torch

from llm_dec_pomdp.algorithms.actor_critic import IAC
from llm_dec_pomdp.algorithms.critics import CriticUpdater

BUCKETS = 256


class BagOfTokens:
    """A critic whose value depends on token counts in buckets."""

    def __init__(self):
        torch.manual_seed(0)
        self.network = torch.nn.Sequential(torch.nn.Linear(BUCKETS, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))

    def values(self, readings):
        counts = torch.zeros(len(readings), BUCKETS)
        for row, (_, ids) in enumerate(readings):
            for token in ids:
                counts[row, token % BUCKETS] += 1
        return self.network(counts.log1p())[:, 0]

    def rescale(self, factor, shift):
        with torch.no_grad():
            self.network[-1].weight.mul_(factor)
            self.network[-1].bias.mul_(factor).add_(shift)

    def parameters(self):
        return list(self.network.parameters())

    def state_dict(self):
        return self.network.state_dict()

    def load_state_dict(self, state):
        self.network.load_state_dict(state)


class WithBag(CriticUpdater):
    """An updater of a policy and of a bag-of-tokens critic."""

    def make_critic(self):
        return BagOfTokens()


class BagIAC(IAC):
    """IAC whose critics count tokens."""

    updater = WithBag
