"""Another loss of preferences: gaps are pulled towards a fixed distance (IPO, arXiv:2310.12036).

`objective(gaps)` receives the sum of the agents' log-ratios of every pair, and returns losses and negative derivatives.
"""

from llm_dec_pomdp.algorithms.madpo import MADPO


class IPO(MADPO):
    """Identity preference optimisation of a team: (gap - 1 / (2 beta))^2."""

    def objective(self, gaps):
        off = gaps - 1 / (2 * self.config.beta)
        return off**2, -2 * off
