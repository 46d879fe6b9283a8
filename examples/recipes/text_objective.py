"""A custom policy loss, which clips the weight of a token and keeps its gradient (CISPO, arXiv:2506.13585).

`loss(batch, old)` of an `Updater` returns the loss, in which each sample has its `loss_weight`, metrics, and the
log-probabilities. `old` has the log-probabilities at the start of the step.
"""

from llm_dec_pomdp.algorithms.batches import advantages_of, old_logprobs, texts_of, unpad
from llm_dec_pomdp.algorithms.losses import Loss
from llm_dec_pomdp.algorithms.magrpo import MAGRPO
from llm_dec_pomdp.algorithms.updater import Updater


class ClippedWeights(Updater):
    """An updater that ascends min(rho, 1 + eps) A log pi, without gradient through rho."""

    def loss(self, batch, old):
        logprobs, mask = self.policy.token_logprobs(texts_of(batch), self.temperature)
        rho = (logprobs.detach() - old_logprobs(batch, logprobs, mask, old)).exp()
        advantages = advantages_of(batch, mask, self.options).reshape(len(batch), -1)
        weights = mask.new_tensor([sample.loss_weight for sample in batch])
        kept = rho.clamp(max=1 + self.options.objective.clip_high)
        loss = -((kept * advantages * logprobs * mask).sum(-1) * weights).sum()
        terms = {"loss": loss.item(), "clipped": float(((rho > kept) * mask).sum())}
        return Loss(loss, terms, unpad(logprobs, mask))


class CISPO(MAGRPO):
    """MAGRPO whose tokens keep their gradient for any importance ratio."""

    updater = ClippedWeights
