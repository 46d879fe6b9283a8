# pyright: basic
"""A policy that is a causal language model of transformers: sampling, and log-probabilities to train on.

One policy may play several agents: all with the same weights, or each with a LoRA adapter of its own on a shared base;
either way their requests share one batch.
"""

from __future__ import annotations

import functools
import itertools
import json
import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch

from ..types import Completion
from .base import Request, Sampling, WeightFile
from .decoding import Prompt, Sampled, left_padded, prefill, sample_together
from .head import chunked_logprobs
from .layers import plain
from .recomputing import recomputed
from .stepping import forward, shape

_FACTOR = re.compile(r"(\.lora_[AB])\.([^.]+)")
_LARGE = 1000.0  # a logit that no model takes for a small one, and that every type of number holds


class PromptTooLongError(ValueError):
    """A prompt and its completion do not fit into the model's context."""


class LanguageModel:
    """A causal language model as a policy.

    Args:
        model: A causal language model, or a peft model with one adapter per agent.
        tokenizer: Its tokenizer; the chat template is used where there is one.
        adapters: Adapter name by agent; None when all agents use the same weights.
        batch_rows: Sequences sampled at once.
        truncate_prompts: Keep the end of a prompt that is too long for the context, instead of refusing it.
        gradient_checkpointing: Let an update keep the input of every layer alone and compute the rest again: much less
            memory, and more time, since prompts are then not shared by their samples either.

    Raises:
        ValueError: The tokenizer has no end-of-sequence token, or more tokens than the model; or the model has adapters
            and `adapters` does not say whose, or adapters of a kind that cannot be mixed.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        adapters: Mapping[str, str] | None = None,
        batch_rows: int = 64,
        truncate_prompts: bool = False,
        gradient_checkpointing: bool = False,
    ) -> None:
        self.model = model.eval()  # dropout off: what is trained on is what was sampled from
        self.tokenizer = tokenizer
        self.adapters = dict(adapters) if adapters is not None else None
        if adapters is None:
            _refuse_unassigned_adapters(model)
        else:
            from .adapters import mix_adapters  # loads peft

            model.mixed_rows = mix_adapters(model)
        self.batch_rows = batch_rows
        self.truncate_prompts = truncate_prompts
        self.gradient_checkpointing = gradient_checkpointing
        _refuse_foreign_tokenizer(model, tokenizer)
        self.stop_ids = _stop_ids(model, tokenizer)
        self.pad_id = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else min(self.stop_ids)

    @functools.cached_property
    def processor_load(self) -> int:
        """How many parameters work on the processor: what its cores are divided by. 0 on an accelerator."""
        parameters = list(self.model.parameters())
        return sum(p.numel() for p in parameters) if parameters[0].device.type == "cpu" else 0

    # --- acting ---------------------------------------------------------------------------------------------------

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        """Answer all requests; prompts of similar length are sampled together."""
        return self.generate_together([self], [requests], sampling)[0]

    @functools.cached_property
    def kin(self) -> Hashable | None:
        """What policies have in common that can answer together: small models of one shape. None: answers alone."""
        form = shape(self.model) if type(self) is LanguageModel else None
        return form and (form, self.stop_ids, self.pad_id, self.batch_rows)

    @staticmethod
    def generate_together(
        policies: Sequence[LanguageModel], requests: Sequence[Sequence[Request]], sampling: Sampling
    ) -> list[list[list[Completion]]]:
        """Answer the requests to each of several policies of the same `kin`, which sample as one where they can."""
        prompts = [
            [Prompt(p.encode(r.history, sampling.max_new_tokens), r.seeds, p._adapter(r.agent)) for r in asked]
            for p, asked in zip(policies, requests, strict=True)
        ]
        answers: list[list[list[Completion]]] = [[[] for _ in asked] for asked in requests]
        batches = [p._batches(asked) for p, asked in zip(policies, prompts, strict=True)]
        for together in _equally_large(batches, prompts):
            models = [policies[number].model for number, _ in together]
            asked = [[prompts[number][i] for i in batch] for number, batch in together]
            sampled = sample_together(models, asked, sampling, policies[0].stop_ids, policies[0].pad_id)
            for (number, batch), found in zip(together, sampled, strict=True):
                for i, sequences in zip(batch, found, strict=True):
                    answers[number][i] = policies[number]._completions(prompts[number][i], sequences)
        return answers

    def _completions(self, prompt: Prompt, sequences: Sequence[Sampled]) -> list[Completion]:
        ids = tuple(prompt.ids)
        return [
            Completion(
                text=self.decode(s.ids),
                prompt_ids=ids,
                token_ids=tuple(s.ids),
                logprobs=tuple(s.logprobs),
                truncated=s.truncated,
                seconds=s.seconds,
            )
            for s in sequences
        ]

    def encode(self, history: Sequence[str], new_tokens: int = 0) -> list[int]:
        """Token ids of an agent's history, ready for its next text.

        Raises:
            PromptTooLongError: It does not fit into the context together with `new_tokens`.
        """
        if self.tokenizer.chat_template:
            turns = [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(history)]
            text = self.tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
            ids = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        else:
            ids = self.tokenizer("\n\n".join(history) + "\n\n")["input_ids"]
        limit = getattr(self.model.config, "max_position_embeddings", None)
        if limit is not None and len(ids) + new_tokens > limit:
            if self.truncate_prompts and new_tokens < limit:
                return list(ids[-(limit - new_tokens) :])
            raise PromptTooLongError(
                f"a prompt of {len(ids)} tokens and up to {new_tokens} new ones exceed the model's context of {limit}; "
                f"shorten the task (it begins {history[0][:60]!r}), lower max_new_tokens, take another model, or keep "
                "only the end of long prompts with truncate_prompts=true"
            )
        return list(ids)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of sampled ids, without special tokens."""
        return self.tokenizer.decode(ids, skip_special_tokens=True).strip()

    def _adapter(self, agent: str) -> str | None:
        if self.adapters is None:
            return None
        if agent not in self.adapters:
            raise KeyError(f"no adapter for {agent!r}; this model has adapters for {sorted(self.adapters)}")
        return self.adapters[agent]

    def _batches(self, prompts: Sequence[Prompt]) -> list[list[int]]:
        """Indices of prompts, sorted by length, cut into batches of about `batch_rows` sequences."""
        batches: list[list[int]] = []
        rows = self.batch_rows
        for i in sorted(range(len(prompts)), key=lambda i: len(prompts[i].ids)):
            copies = len(prompts[i].seeds)
            if rows + copies > self.batch_rows:
                batches.append([])
                rows = 0
            batches[-1].append(i)
            rows += copies
        return batches

    # --- learning -------------------------------------------------------------------------------------------------

    def parameters(self) -> Iterable[torch.nn.Parameter]:
        """The trainable parameters."""
        return (parameter for parameter in self.model.parameters() if parameter.requires_grad)

    def parameters_of(self, agent: str) -> Iterable[torch.nn.Parameter]:
        """The trainable parameters that an agent uses: all but those of other agents' adapters."""
        usable = (None, self._adapter(agent))
        named = self.model.named_parameters()
        return (p for name, p in named if p.requires_grad and (usable[1] is None or _adapter_of(name) in usable))

    @property
    def sampler_differs(self) -> bool:
        """Less than 32 bits round by the shape of the batch, which is another one in an update; `MismatchedPolicy`."""
        parameters = list(self.model.parameters())
        return torch.is_autocast_enabled(parameters[0].device.type) or any(p.dtype.itemsize < 4 for p in parameters)

    def token_logprobs(
        self, samples: Sequence[tuple[str, Completion]], temperature: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """log pi of the sampled tokens [N, L] and the mask [N, L]; see `TrainablePolicy`."""
        states, ids, mask = self._states(samples, body=self._plain_head)
        rows = mask.bool()
        if self._plain_head:
            head = self.model.get_output_embeddings()
            found = chunked_logprobs(states[rows], head.weight, head.bias, ids[rows], temperature or 1.0)
        else:
            logits = states[rows].float() / (temperature or 1.0)
            found = logits.gather(-1, ids[rows][:, None])[:, 0] - logits.logsumexp(-1)
        logprobs = found.new_zeros(mask.shape)
        logprobs[rows] = found
        return logprobs, mask

    def token_logprobs_and_entropies(
        self, samples: Sequence[tuple[str, Completion]], temperature: float
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The same with the entropy of every token's distribution [N, L], in nats; see `EntropyPolicy`.

        Holds the logits of all tokens.
        """
        logits, ids, mask = self._states(samples, body=False)
        logprobs = (logits.float() / (temperature or 1.0)).log_softmax(-1)
        entropies = -(logprobs.exp() * logprobs).sum(-1)
        return logprobs.gather(-1, ids[..., None])[..., 0] * mask, entropies, mask

    @functools.cached_property
    def _plain_head(self) -> bool:
        """Logits are the output layer of the last hidden state, and nothing else.

        Some families scale or cap them, and the layer may have adapters. It is tried on noise in the place of the last
        hidden state, so large that a cap would show.
        """
        head = self.model.get_output_embeddings()
        network = self.model if self.adapters is None else self.model.get_base_model()
        if not plain(head) or network.base_model is network:
            return False
        drawn = torch.Generator().manual_seed(0)
        noise: list[torch.Tensor] = []

        def disturb(module: Any, inputs: Any, output: Any) -> Any:
            hidden = torch.randn(output.last_hidden_state.shape, generator=drawn).to(output.last_hidden_state)
            hidden *= _LARGE / head(hidden).abs().max()
            noise.append(hidden)
            output.last_hidden_state = hidden
            return output

        hook = network.base_model.register_forward_hook(disturb)
        try:
            with torch.no_grad():
                ids = torch.arange(4, device=head.weight.device)[None] % head.weight.shape[0]
                found = forward(self.model, [None if self.adapters is None else "__base__"], input_ids=ids).logits
                wanted = [head(hidden).to(found.dtype) for hidden in noise]
        finally:
            hook.remove()
        tolerance = 2 * torch.finfo(head.weight.dtype).eps * _LARGE
        return len(wanted) == 1 and bool((found - wanted[0]).abs().max() <= tolerance)

    def base(self) -> LanguageModel | None:
        """The model below the adapters, as a policy that cannot be trained; None when there are no adapters."""
        if self.adapters is None:
            return None
        return _Base(self.model, self.tokenizer, adapters=dict.fromkeys(self.adapters, "__base__"))

    def _states(
        self, samples: Sequence[tuple[str, Completion]], *, body: bool
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """For every sampled token what it was predicted from, its id [N, L], and the mask [N, L].

        What it was predicted from are logits [N, L, V], with `body` the last hidden state [N, L, H].
        """
        device = next(self.model.parameters()).device
        length = max(len(c.token_ids) for _, c in samples)
        ids = torch.full((len(samples), length), self.pad_id)
        mask = torch.zeros_like(ids)
        for row, (_, completion) in enumerate(samples):
            ids[row, : len(completion.token_ids)] = torch.tensor(completion.token_ids)
            mask[row, : len(completion.token_ids)] = 1
        ids, mask = ids.to(device), mask.to(device)
        whole = self.gradient_checkpointing and torch.is_grad_enabled()
        states = (self._from_whole_texts if whole else self._from_shared_prompts)(samples, ids, mask, body=body)
        return states, ids, mask.float()

    def _from_shared_prompts(
        self, samples: Sequence[tuple[str, Completion]], ids: torch.Tensor, mask: torch.Tensor, *, body: bool
    ) -> torch.Tensor:
        """What tokens were predicted from: samples with the same prompt share it.

        Its keys and values are computed once, with gradient, and expanded to the samples, which is exact.
        """
        rows = {(agent if self.adapters else "", c.prompt_ids): agent for agent, c in samples}
        prompts = [Prompt(list(prompt), (), self._adapter(agent)) for (_, prompt), agent in rows.items()]
        row_of = {key: row for row, key in enumerate(rows)}
        index = torch.tensor([row_of[agent if self.adapters else "", c.prompt_ids] for agent, c in samples])
        index = index.to(ids.device)
        first, cache, prompt_mask = prefill(self.model, prompts, ids.device, self.pad_id, body=body)
        cache.batch_select_indices(index)
        prompt_mask = prompt_mask[index]
        states = first[index][:, None]
        length = ids.shape[1]
        if length == 1:
            return states
        output = forward(
            self.model,
            [self._adapter(agent) for agent, _ in samples],
            body=body,
            input_ids=ids[:, :-1],
            attention_mask=torch.cat([prompt_mask, mask[:, :-1]], dim=1),
            position_ids=prompt_mask.sum(1, keepdim=True) + torch.arange(length - 1, device=ids.device),
            past_key_values=cache,
        )
        return torch.cat([states, output.last_hidden_state if body else output.logits], dim=1)

    def _from_whole_texts(
        self, samples: Sequence[tuple[str, Completion]], ids: torch.Tensor, mask: torch.Tensor, *, body: bool
    ) -> torch.Tensor:
        """The same from every sample in full, with gradient checkpointing."""
        prompts, prompt_mask = left_padded([c.prompt_ids for _, c in samples], ids.device, self.pad_id)
        attended = torch.cat([prompt_mask, mask[:, :-1]], dim=1)
        with recomputed(self.model):
            output = forward(
                self.model,
                [self._adapter(agent) for agent, _ in samples],
                body=body,
                input_ids=torch.cat([prompts, ids[:, :-1]], dim=1),
                attention_mask=attended,
                position_ids=(attended.cumsum(1) - 1).clamp(min=0),
                use_cache=False,
                **({} if body else {"logits_to_keep": ids.shape[1]}),
            )
        return (output.last_hidden_state if body else output.logits)[:, -ids.shape[1] :]

    def state_dict(self) -> dict[str, torch.Tensor]:
        """The trainable tensors by name."""
        return {name: p.detach() for name, p in self.model.named_parameters() if p.requires_grad}

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        """Copy tensors into the trainable parameters.

        Raises:
            ValueError: Missing, unexpected or differently shaped tensors, by name.
        """
        own = self.state_dict()
        wrong = [f"{name} is missing" for name in own.keys() - state.keys()]
        wrong += [f"{name} is unexpected" for name in state.keys() - own.keys()]
        wrong += [
            f"{name} has shape {tuple(state[name].shape)}, not {tuple(own[name].shape)}"
            for name in own.keys() & state.keys()
            if own[name].shape != state[name].shape
        ]
        if wrong:
            shown = "; ".join(sorted(wrong)[:5])
            raise ValueError(f"the weights do not fit this model, {len(wrong)} tensors differ: {shown}")
        with torch.no_grad():
            for name, tensor in own.items():
                tensor.copy_(state[name])

    def weight_files(self, agents: Sequence[str]) -> dict[str, WeightFile]:
        """A folder of transformers for all weights, or one of peft for each agent's adapter; see `PortablePolicy`."""
        names = list(self.state_dict())
        if self.adapters is None:
            configs = {"config.json": self.model.config, "generation_config.json": self.model.generation_config}
            plain = {name: json.loads(config.to_json_string()) for name, config in configs.items()}
            return {agents[0]: WeightFile("model.safetensors", {name: name for name in names}, plain)}
        files: dict[str, WeightFile] = {}
        for agent in agents:
            adapter = self.adapters[agent]
            tensors = {_without_adapter(name): name for name in names if _adapter_of(name) == adapter}
            config = {**self.model.peft_config[adapter].to_dict(), "inference_mode": True}
            files[agent] = WeightFile("adapter_model.safetensors", tensors, {"adapter_config.json": config})
        return files


def _equally_large(
    batches: Sequence[Sequence[list[int]]], prompts: Sequence[Sequence[Prompt]]
) -> Iterator[list[tuple[int, list[int]]]]:
    """(policy, batch) pairs to sample as one: the n-th batches of all policies with as many sequences."""
    for nth in itertools.zip_longest(*batches):
        alike: dict[int, list[tuple[int, list[int]]]] = {}
        for number, batch in enumerate(nth):
            if batch is not None:
                copies = sum(len(prompts[number][i].seeds) for i in batch)
                alike.setdefault(copies, []).append((number, batch))
        yield from alike.values()


def _adapter_of(name: str) -> str | None:
    """Whose tensor this is: peft puts the adapter's name, which has no dot, behind that of the factor."""
    found = _FACTOR.search(name)
    return found[2] if found else None


def _without_adapter(name: str) -> str:
    """peft's name of a tensor in a file, where the name of the adapter is left out."""
    return _FACTOR.sub(r"\1", name, count=1)


class _Base(LanguageModel):
    """A model with its adapters switched off: shares all memory, and has nothing to train or to save."""

    def parameters(self) -> Iterable[torch.nn.Parameter]:
        """None."""
        return ()

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Nothing."""
        return {}


def _refuse_unassigned_adapters(model: Any) -> None:
    names = sorted(getattr(model, "peft_config", ()))
    if names:
        raise ValueError(
            f"the model has adapters ({', '.join(names)}), and no agent is said to use one; give "
            f"adapters={{agent: {names[0]!r}, ...}} for all agents, or the model that merge_and_unload() returns"
        )


def _refuse_foreign_tokenizer(model: Any, tokenizer: Any) -> None:
    rows = model.get_input_embeddings().weight.shape[0]
    if len(tokenizer) > rows:
        raise ValueError(
            f"the tokenizer has {len(tokenizer)} tokens and {getattr(model.config, 'name_or_path', '') or 'the model'} "
            f"only {rows}, so they do not belong together; load the tokenizer that was saved with the model"
        )


def _stop_ids(model: Any, tokenizer: Any) -> frozenset[int]:
    """Every token that ends a turn: the tokenizer's end of sequence and those of the generation config."""
    configured = getattr(model.generation_config, "eos_token_id", None)
    listed = configured if isinstance(configured, (list, tuple)) else [configured]
    found = {i for i in (*listed, tokenizer.eos_token_id) if i is not None}
    if not found:
        raise ValueError(
            f"the tokenizer of {getattr(model.config, 'name_or_path', 'this model')!r} has no end-of-sequence token, "
            "so no text would ever end; set tokenizer.eos_token"
        )
    return frozenset(found)
