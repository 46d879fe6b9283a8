"""A custom engine, which samples with `generate` of transformers.

An engine receives prompts as token ids, and returns token ids with their log-probabilities. It receives the policy
before the first completion and after every change of the weights. Select it with `--load 'engine={kind="generate"}'`.
"""

import torch

from llm_dec_pomdp.agents.engines import Sampled, register
from llm_dec_pomdp.config import Config


class Generate:
    """An engine that samples one completion at a time, from the base model or from one adapter of all agents."""

    class Config(Config):
        """Options of the engine; it has none."""

    def __init__(self, config):
        self.model = None

    def load(self, policy, version):
        self.model = policy.model

    def generate(self, prompts, sampling, stop_ids):
        return [[self.draw(prompt.ids, seed, sampling, stop_ids) for seed in prompt.seeds] for prompt in prompts]

    def draw(self, prompt, seed, sampling, stop_ids):
        torch.manual_seed(seed % 2**63)
        given = torch.tensor([prompt])
        output = self.model.generate(
            given,
            attention_mask=torch.ones_like(given),
            do_sample=True,
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k,
            max_new_tokens=sampling.max_new_tokens,
            eos_token_id=sorted(stop_ids),
            output_logits=True,
            return_dict_in_generate=True,
        )
        ids = output.sequences[0, len(prompt) :].tolist()
        logits = torch.stack(output.logits)[:, 0] / sampling.temperature
        logprobs = logits.log_softmax(-1)[range(len(ids)), ids].tolist()
        return Sampled(ids, logprobs, truncated=ids[-1] not in stop_ids)


register("generate", Generate)
