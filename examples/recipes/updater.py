"""Change how weights move: all trained weights are pulled towards 0, as part of the loss."""

from llm_dec_pomdp.algorithms.magrpo import MAGRPO
from llm_dec_pomdp.algorithms.updater import Updater


class TowardsZero(Updater):
    """Pulls all trained weights towards 0, as part of the loss."""

    def loss(self, batch, old):
        loss = super().loss(batch, old)
        share = sum(sample.loss_weight for sample in batch)
        size = sum((p.float() ** 2).sum() for p in self.policy.parameters())
        return loss._replace(value=loss.value + 0.01 * share * size)


class Shrinking(MAGRPO):
    """MAGRPO whose weights are pulled towards 0."""

    updater = TowardsZero
