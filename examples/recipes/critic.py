"""A critic of another kind for IAC and MAAC: a small network on counts of tokens, beside any policy.

A reading is the agent whose history is read, with the token ids that its policy was given. The updater chooses the unit
of the values; `rescale` changes it.
"""

import torch

from llm_dec_pomdp.algorithms.actor_critic import IAC
from llm_dec_pomdp.algorithms.critics import CriticUpdater

BUCKETS = 256


class BagOfTokens:
    """A value from the counts of tokens, in buckets."""

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
    """Moves a policy, and a bag of tokens beside it."""

    def make_critic(self):
        return BagOfTokens()


class BagIAC(IAC):
    """IAC whose critics count tokens."""

    updater = WithBag
