"""A custom preference loss, which pulls gaps towards a fixed value (IPO, arXiv:2310.12036).

`objective(gaps)` receives the sum of the agents' log-ratios of every pair. It returns losses and negative derivatives.
"""

from llm_dec_pomdp.algorithms.madpo import MADPO


class IPO(MADPO):
    """Identity preference optimization of a team: (gap - 1 / (2 beta))^2."""

    def objective(self, gaps):
        off = gaps - 1 / (2 * self.config.beta)
        return off**2, -2 * off
