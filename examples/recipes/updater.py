"""A custom updater, with L2 regularization of all trained weights in the loss."""

from llm_dec_pomdp.algorithms.magrpo import MAGRPO
from llm_dec_pomdp.algorithms.updater import Updater


class TowardsZero(Updater):
    """An updater with L2 regularization in the loss."""

    def loss(self, batch, old):
        loss = super().loss(batch, old)
        share = sum(sample.loss_weight for sample in batch)
        size = sum((p.float() ** 2).sum() for p in self.policy.parameters())
        return loss._replace(value=loss.value + 0.01 * share * size)


class Shrinking(MAGRPO):
    """MAGRPO with L2 regularization."""

    updater = TowardsZero
