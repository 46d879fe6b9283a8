# pyright: basic
"""The policy of a causal language model of transformers: sampling, and log-probabilities for training.

One policy may have several agents, with the same weights or with one LoRA adapter per agent on a shared base. In both
cases their requests share one batch.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from ...config import ConfigError
from ...registries import UnknownNameError
from ...types import Completion, Message, Tool
from ..base import LEARNING_RATE, Request, Sampling, WeightFile
from ..engines import Engine, Prompt, Sampled
from ..engines.own import OwnLoop
from ..io.save import check_shapes
from ..oom import BatchSize
from ..thoughts import History, Thinking, Thoughts
from .attention import avoid_plans
from .base import ModelPolicy
from .critic import HeadCritic
from .decoding import left_padded, prefill
from .logprobs import chunked_logprobs, has_plain_head
from .names import BASE, adapter_of, without_adapter
from .packing import check_packable, check_packing, pack
from .positions import before_switch, crosses, rotate_by_text, switch_of
from .prompts import Prompts, PromptTooLongError, check_tokenizer, fitted, stop_ids
from .recomputing import recomputed
from .stepping import forward
from .vocabulary import bias_over_tokens, over_tokens, tokenless_ids

_PRETRAINED = 10_000_000  # a model with at least this number of weights counts as pretrained
_steps = 0  # steps of all optimizers, since a fused optimizer does not change the versions of tensors


def _count_step(*args: Any) -> None:
    global _steps
    _steps += 1


register_optimizer_step_post_hook(_count_step)

__all__ = ["LanguageModel", "PromptTooLongError"]


class LanguageModel(ModelPolicy):
    """A causal language model as a policy.

    Args:
        model: A causal language model, or a peft model with one adapter per agent.
        tokenizer: Its tokenizer; its chat template is used if it has one.
        adapters: Adapter name by agent; None if all agents use the same weights.
        batch_rows, chat_template_kwargs, thinking, history: See `RunOptions`.
        truncate_prompts, gradient_checkpointing, packed: See `RunOptions`.
            With gradient checkpointing, samples do not share the forward pass of their prompt.
        compute_dtype: Mixed precision: the type of products; None: the type of the weights.
        engine: The engine that samples; None: the model itself.

    Raises:
        ValueError: The tokenizer has no end-of-sequence token or more tokens than the model; the chat template has no
            such variables; the model has adapters although `adapters` is None; adapters cannot be mixed; or
            completions cannot be packed.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        adapters: Mapping[str, str] | None = None,
        batch_rows: int = 64,
        chat_template_kwargs: Mapping[str, Any] | None = None,
        thinking: Thinking = "auto",
        history: History = "drop",
        compute_dtype: torch.dtype | None = None,
        truncate_prompts: bool = False,
        gradient_checkpointing: bool = False,
        packed: bool = False,
        engine: Engine | None = None,
    ) -> None:
        avoid_plans(model.device)
        self.model = model.eval()  # no dropout, so that training and sampling use the same distribution
        self.tokenizer = tokenizer
        self.adapters = dict(adapters) if adapters is not None else None
        if adapters is None:
            _refuse_unassigned_adapters(model)
        else:
            from .adapters import mix_adapters  # loads peft

            model.mixed_rows = mix_adapters(model)
        self.batch_rows = BatchSize("batch_rows", batch_rows)
        self.compute_dtype = compute_dtype
        self.truncate_prompts = truncate_prompts
        self.gradient_checkpointing, self.packed = gradient_checkpointing, packed
        if packed:
            check_packable(model)
        self.switch = switch_of(model)
        if self.switch is not None:
            rotate_by_text(model, self.switch)
        check_tokenizer(model, tokenizer)
        self.prompts = Prompts(tokenizer, stop_ids(model, tokenizer), chat_template_kwargs or {})
        self.stop_ids = self.prompts.stop_ids
        self._thoughts = Thoughts(tokenizer, thinking)
        self.history: History = history
        self.tokenless = tokenless_ids(model, tokenizer, self.stop_ids)
        self.pad_id = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else min(self.stop_ids)
        self.engine: Engine = engine or OwnLoop(self)
        self._loaded = SimpleNamespace(weights=None)  # policy and version of the weights in the engine
        if packed and model.device.type != "meta":
            check_packing(self)

    @property
    def version(self) -> int:
        """Return the version of the trainable weights, which grows when an optimizer or an assignment changes them."""
        steps = _steps if self.source is None else 0  # a rollout copy has no optimizer
        return steps + sum(parameter._version for parameter in self.parameters())

    # --- acting ---------------------------------------------------------------------------------------------------

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        """Answer all requests with the current weights.

        Raises:
            ConfigError: A stop string contains a special token and other characters.
            PromptTooLongError: A prompt does not fit into the context.
        """
        stop_ids = self.stop_ids | self.prompts.stop_tokens(sampling.stop)
        prompts = [
            Prompt(self.encode(r.history, sampling.max_new_tokens, r.ids, r.tools), r.seeds, self._adapter(r.agent))
            for r in requests
        ]
        if self._loaded.weights != (weights := (id(self), self.version)):
            self.engine.load(self, weights[1])
            self._loaded.weights = weights
        drawn = self.engine.generate(prompts, sampling, stop_ids)
        return [
            [self._completion(tuple(prompt.ids), sequence, sampling.stop) for sequence in sequences]
            for prompt, sequences in zip(prompts, drawn, strict=True)
        ]

    def rollout_copy(self) -> LanguageModel:
        """Return a copy of the trained weights for the same engine; see `Policy`."""
        if not self.sampled_elsewhere or next(iter(self.parameters()), None) is None:
            return cast("LanguageModel", super().rollout_copy())
        if getattr(self.engine, "offloads", False):
            raise ConfigError(
                "the engine's sleep is true, but with training.staleness above 0 it samples during updates; leave one "
                "of them out"
            )
        twin = copy.deepcopy(self)
        twin.engine, twin._loaded, twin.source = self.engine, self._loaded, self
        return twin

    def offload(self) -> None:
        """Free memory of the engine; see `Policy`."""
        if (offload := getattr(self.engine, "offload", None)) is not None:
            offload()

    def _completion(self, prompt: tuple[int, ...], s: Sampled, stop: Sequence[str]) -> Completion:
        text = self._thoughts.text([i for i in s.ids if i != self.prompts.end])
        end = min((place for string in stop if (place := text.find(string)) >= 0), default=len(text))
        thought, answer = self._thoughts.split(text[:end], prompt)
        count = self._thoughts.count(s.ids, thought)
        text = answer.strip()
        return Completion(
            text, prompt, tuple(s.ids), tuple(s.logprobs), s.truncated, s.seconds, thought, thought_ids=count
        )

    def encode(
        self,
        history: Sequence[Message],
        new_tokens: int = 0,
        ids: Sequence[int] = (),
        tools: Sequence[Tool] = (),
    ) -> list[int]:
        """Return the token ids of an agent's history as a prompt for its next action; `ids` as in `Request`.

        Raises:
            PromptTooLongError: It does not fit into the context together with `new_tokens`, or the positions of a
                model with LongRoPE would change within the completion.
        """
        known = self._known(ids)
        prompt = self.prompts.encode(history, known, tools)
        prompt = fitted(prompt, new_tokens, self.model, history, truncate=self.truncate_prompts)
        return before_switch(prompt, new_tokens, self.switch, truncate=self.truncate_prompts)

    def to_completion(self, request: Request, text: str, limit: int, thought: str = "") -> Completion:
        """Return a given text as a completion, as the chat template writes it in an agent's turn; see `Policy`."""
        thought, answer, whole = self._thoughts.given(text, thought)
        prompt, ids = self.prompts.answer(request.history, whole, self._known(request.ids), request.tools)
        prompt = fitted(prompt, limit, self.model, request.history, truncate=self.truncate_prompts)
        kept = tuple(ids[:limit])
        count = self._thoughts.count(kept, thought)
        cut = len(ids) > limit
        return Completion(answer, tuple(prompt), kept, (0.0,) * len(kept), cut, thought=thought, thought_ids=count)

    def _known(self, ids: Sequence[int]) -> Sequence[int]:
        """Return the ids of earlier turns that a prompt reuses: none if they show a thought that is dropped."""
        return () if self.history == "drop" and self._thoughts.shown(ids) else ids

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of sampled ids, without special tokens and surrounding space."""
        return self.raw_text(ids).strip()

    def raw_text(self, ids: Sequence[int]) -> str:
        """Return the text of sampled ids, without special tokens and the end token."""
        return self.tokenizer.decode([i for i in ids if i != self.prompts.end], skip_special_tokens=True)

    def _adapter(self, agent: str) -> str | None:
        if self.adapters is None:
            return None
        if agent not in self.adapters:
            raise UnknownNameError(f"no adapter for {agent!r}; this model has adapters for {sorted(self.adapters)}")
        return self.adapters[agent]

    # --- learning -------------------------------------------------------------------------------------------------

    def parameters(self) -> Iterable[torch.nn.Parameter]:
        """Return the trainable parameters."""
        return (parameter for _, parameter in self._named())

    def _named(self) -> Iterable[tuple[str, torch.nn.Parameter]]:
        """Return the trainable parameters with their names, without adapters of critics on the same model."""
        critics = self.model.mixed_rows.critics if self.adapters is not None else ()
        return ((n, p) for n, p in self.model.named_parameters() if p.requires_grad and adapter_of(n) not in critics)

    def parameters_of(self, agent: str) -> Iterable[torch.nn.Parameter]:
        """Return the trainable parameters that an agent uses: all except other agents' adapters."""
        usable = (None, self._adapter(agent))
        return (p for name, p in self._named() if usable[1] is None or adapter_of(name) in usable)

    @property
    def default_learning_rate(self) -> float:
        """Return 1e-5 if all weights of a pretrained model are trained, since 5e-4 would damage them; else 5e-4."""
        whole = any(adapter_of(name) is None for name, _ in self._named())
        return 1e-5 if whole and sum(p.numel() for p in self.model.parameters()) >= _PRETRAINED else LEARNING_RATE

    def critic(self, groups: Sequence[Sequence[str]], *, separate: bool) -> HeadCritic:
        """Return a critic on this model, or with its own network; see `Policy`."""
        return HeadCritic(self, groups, separate=separate)

    @property
    def sampled_elsewhere(self) -> bool:
        """Return whether an engine other than the model itself samples."""
        return not isinstance(self.engine, OwnLoop)

    @property
    def rollout_copy_differs(self) -> bool:
        """Return True for other engines (other kernels) and below 32 bits (rounding depends on the batch)."""
        if self.sampled_elsewhere:
            return True
        rounded = self.compute_dtype is not None or torch.is_autocast_enabled(self.device.type)
        return rounded or any(parameter.dtype.itemsize < 4 for parameter in self.model.parameters())

    def token_logprobs(
        self, samples: Sequence[tuple[str, Completion]], temperature: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return log-probabilities [N, L] and mask [N, L]; see `Policy`."""
        states, ids, mask = self._states(samples, body=self._plain_head)
        rows = mask.bool()
        if self._plain_head:
            head = self.model.get_output_embeddings()
            bias = bias_over_tokens(head, self.tokenless)
            hidden = states[rows].to(self.compute_dtype or states.dtype)
            sampled_logprobs = chunked_logprobs(hidden, head.weight, bias, ids[rows], temperature or 1.0)
        else:
            logits = over_tokens(states[rows].float() / (temperature or 1.0), self.tokenless)
            sampled_logprobs = logits.gather(-1, ids[rows][:, None])[:, 0] - logits.logsumexp(-1)
        logprobs = sampled_logprobs.new_zeros(mask.shape)
        logprobs[rows] = sampled_logprobs
        return logprobs, mask

    @property
    def knows_entropy(self) -> bool:
        """Return True."""
        return True

    def token_logprobs_and_entropies(
        self, samples: Sequence[tuple[str, Completion]], temperature: float
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return log-probabilities, entropies and mask [N, L]; see `Policy`. All logits are in memory at once."""
        logits, ids, mask = self._states(samples, body=False)
        logprobs = over_tokens(logits.float() / (temperature or 1.0), self.tokenless).log_softmax(-1)
        entropies = -(logprobs.exp() * logprobs).sum(-1)
        return logprobs.gather(-1, ids[..., None])[..., 0] * mask, entropies, mask

    def hidden_states(self, samples: Sequence[tuple[str, Completion]]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the last hidden states [N, L, H] from which sampled tokens were predicted, and the mask [N, L].

        They have a gradient. The first sampled token is predicted from the state of the last token of the prompt.
        """
        states, _, mask = self._states(samples, body=True)
        return states, mask

    @functools.cached_property
    def _plain_head(self) -> bool:
        """Return whether the logits are just the output layer of the last hidden state."""
        return has_plain_head(self.model, None if self.adapters is None else BASE)

    def base(self) -> LanguageModel | None:
        """Return a policy of the base model below the adapters, which shares memory; None without adapters."""
        if self.adapters is None:
            return None
        adapters = dict.fromkeys(self.adapters, BASE)
        return LanguageModel(self.model, self.tokenizer, adapters=adapters, compute_dtype=self.compute_dtype)

    def __deepcopy__(self, memo: dict[int, Any]) -> LanguageModel:
        """Return a copy that shares all tensors that are not trained, such as the base; the copy samples itself."""
        trained = {id(parameter) for parameter in self.parameters()}
        tensors = itertools.chain(self.model.parameters(), self.model.buffers())
        memo |= {id(tensor): tensor for tensor in tensors if id(tensor) not in trained}
        memo[id(self.tokenizer)] = self.tokenizer
        memo[id(self)] = twin = object.__new__(type(self))
        memo[id(self.engine)] = OwnLoop(twin)
        vars(twin).update(copy.deepcopy(vars(self), memo))
        return twin

    def _states(
        self, samples: Sequence[tuple[str, Completion]], *, body: bool
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return logits of sampled tokens [N, L, V] (with `body` hidden states [N, L, H]), ids [N, L], mask [N, L]."""
        texts = [c.token_ids for _, c in samples]
        length = max(map(len, texts))
        ids = torch.tensor([[*text, *[self.pad_id] * (length - len(text))] for text in texts], device=self.device)
        mask = torch.tensor([[1] * len(t) + [0] * (length - len(t)) for t in texts], device=self.device)
        whole = self.gradient_checkpointing and torch.is_grad_enabled()
        whole = whole or any(crosses(self.switch, len(c.prompt_ids), len(c.token_ids)) for _, c in samples)
        with self.precision():
            states = (self._from_whole_texts if whole else self._from_shared_prompts)(samples, ids, mask, body=body)
        return states, ids, mask.float()

    def _from_shared_prompts(
        self, samples: Sequence[tuple[str, Completion]], ids: torch.Tensor, mask: torch.Tensor, *, body: bool
    ) -> torch.Tensor:
        """Return the states of `_states`; a prompt is computed once, with gradient, and expanded to its samples."""
        rows = {(agent if self.adapters else "", c.prompt_ids): agent for agent, c in samples}
        prompts = [Prompt(list(prompt), (), self._adapter(agent)) for (_, prompt), agent in rows.items()]
        row_of = {key: row for row, key in enumerate(rows)}
        index = torch.tensor([row_of[agent if self.adapters else "", c.prompt_ids] for agent, c in samples])
        index = index.to(ids.device)
        first, cache, prompt_mask = prefill(self.model, prompts, ids.device, self.pad_id, body=body)
        if self.packed and ids.shape[1] > 1:
            packed = pack(ids[:, :-1], mask[:, 1:], index, prompt_mask, self.pad_id)
            read = forward(
                self.model,
                [prompt.adapter for prompt in prompts],
                body=body,
                input_ids=packed.ids,
                attention_mask=packed.mask,
                position_ids=packed.positions,
                cache=cache,
            )
            outputs = read.last_hidden_state if body else read.logits
            later = outputs.new_zeros(*mask[:, 1:].shape, outputs.shape[-1])
            later[mask[:, 1:].bool()] = outputs[packed.row, packed.column]
            return torch.cat([first[index][:, None], later], dim=1)
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
            position_ids=prompt_mask.sum(1, keepdim=True) + (mask[:, :-1].cumsum(1) - 1).clamp(min=0),
            cache=cache,
        )
        return torch.cat([states, output.last_hidden_state if body else output.logits], dim=1)

    def _from_whole_texts(
        self, samples: Sequence[tuple[str, Completion]], ids: torch.Tensor, mask: torch.Tensor, *, body: bool
    ) -> torch.Tensor:
        """Return the states of `_states`; every sample has its own prompt, as gradient checkpointing needs."""
        prompts, prompt_mask = left_padded([c.prompt_ids for _, c in samples], ids.device, self.pad_id)
        attended = torch.cat([prompt_mask, mask[:, :-1]], dim=1)
        again = self.gradient_checkpointing and torch.is_grad_enabled()
        with recomputed(self.model) if again else contextlib.nullcontext():
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
        """Return the trainable tensors by name."""
        return {name: p.detach() for name, p in self._named()}

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        """Copy tensors into the trainable parameters; see `Policy`."""
        tensors = self.state_dict()
        check_shapes({name: tensor.shape for name, tensor in tensors.items()}, state)
        with torch.no_grad():
            for name, tensor in tensors.items():
                tensor.copy_(state[name])

    @property
    def portable(self) -> bool:
        """Return True: transformers and peft can load the files."""
        return True

    def weight_files(self, agents: Sequence[str]) -> dict[str, WeightFile]:
        """Return files of transformers for all weights, or of peft for each agent's adapter; see `Policy`."""
        names = [name for name, p in self.model.named_parameters() if p.requires_grad]
        if self.adapters is None:
            configs = {"config.json": self.model.config, "generation_config.json": self.model.generation_config}
            plain = {name: json.loads(config.to_json_string()) for name, config in configs.items()}
            return {agents[0]: WeightFile("model.safetensors", {name: name for name in names}, plain)}
        files: dict[str, WeightFile] = {}
        owners = {self.adapters[agent]: agent for agent in reversed(agents)}  # the first agent of each adapter
        for adapter, agent in reversed(owners.items()):
            tensors = {without_adapter(name): name for name in names if adapter_of(name) == adapter}
            config = {**self.model.peft_config[adapter].to_dict(), "inference_mode": True, "task_type": "CAUSAL_LM"}
            files[agent] = WeightFile("adapter_model.safetensors", tensors, {"adapter_config.json": config})
        return files


def _refuse_unassigned_adapters(model: Any) -> None:
    names = sorted(getattr(model, "peft_config", ()))
    if names:
        raise ValueError(
            f"the model has adapters ({', '.join(names)}), but no agent uses one; give adapters={{agent: {names[0]!r}, "
            "...} for all agents, or the model that merge_and_unload() returns"
        )
