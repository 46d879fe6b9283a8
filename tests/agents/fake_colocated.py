"""Modules that do what vLLM does in a process, for tests: a model that begins at random, and adapters by number."""

from __future__ import annotations

import copy
import importlib.util
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fake_vllm import truncated_logprobs
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from llm_dec_pomdp.agents.base import Sampling
from llm_dec_pomdp.agents.engines import Prompt
from llm_dec_pomdp.agents.language_model.decoding import sample


class FakeColocated:
    """The modules, and what was asked of them.

    Attributes:
        keeps: Weights with this in their names do not arrive, though nobody says so.
        orders: Of sleep, and of weights.
        can_sleep: Whether the platform can.
    """

    def __init__(self) -> None:
        self.keeps = "nothing"
        self.orders: list[str] = []
        self.can_sleep = True

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        platform = SimpleNamespace(
            is_cpu=lambda: True, device_type="cpu", is_sleep_mode_available=lambda: self.can_sleep
        )
        contents: dict[str, dict[str, Any]] = {
            "vllm": {"LLM": lambda folder, **given: _LLM(self, folder, given), "SamplingParams": SimpleNamespace},
            "vllm.platforms": {"current_platform": platform},
            "vllm.lora": {},
            "vllm.lora.request": {"LoRARequest": _request},
            "vllm.lora.lora_model": {"LoRAModel": SimpleNamespace(from_lora_tensors=self._adapter)},
            "vllm.lora.peft_helper": {"PEFTHelper": SimpleNamespace(from_dict=_helper)},
        }
        for name, content in contents.items():
            module = importlib.util.module_from_spec(ModuleSpec(name, None))
            vars(module).update(content)
            monkeypatch.setitem(sys.modules, name, module)

    def _adapter(
        self, number: int, tensors: Mapping[str, torch.Tensor], helper: Any, **options: Any
    ) -> SimpleNamespace:
        assert options["device"] == "cpu"
        factors: dict[str, torch.Tensor] = {}
        for name, tensor in tensors.items():
            if "lora_B" in name:
                tensor *= helper.scale  # as vLLM does, in place
            factors[name] = torch.zeros_like(tensor) if self.keeps in name else tensor
        return SimpleNamespace(id=number, factors=factors)


def _request(name: str, number: int, path: str) -> SimpleNamespace:
    return SimpleNamespace(lora_name=name, lora_int_id=number, lora_path=path)


def _helper(config: Mapping[str, Any]) -> SimpleNamespace:
    def validate_legal(limits: Any) -> None:
        assert config["r"] <= limits.max_lora_rank

    return SimpleNamespace(scale=config["lora_alpha"] / config["r"], validate_legal=validate_legal)


class _LLM:
    """A model of the configuration in a folder."""

    def __init__(self, fake: FakeColocated, folder: str, given: Mapping[str, Any]) -> None:
        assert given["load_format"] == "dummy"
        assert given["logprobs_mode"] == "processed_logprobs"
        self.fake, self.sleeping = fake, False
        self.model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder), dtype=torch.float32).eval()
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        assert not Path(folder, "model.safetensors").exists()
        self.adapters: dict[int, Any] = {}
        limits = SimpleNamespace(lora_dtype=torch.float32, max_lora_rank=given.get("max_lora_rank"))
        manager = SimpleNamespace(model=self.model, add_adapter=lambda lora: self.adapters.update({lora.id: lora}))
        manager = SimpleNamespace(lora_config=limits, vocab_size=0, _adapter_manager=manager)
        self.worker = SimpleNamespace(model_runner=SimpleNamespace(lora_manager=manager))
        self.llm_engine = SimpleNamespace(remove_lora=self.adapters.pop)

    def sleep(self, level: int) -> None:
        assert level == 1
        self.fake.orders.append("sleep")
        self.sleeping = True

    def wake_up(self) -> None:
        self.fake.orders.append("wake_up")
        self.sleeping = False

    def collective_rpc(self, method: str | Callable[..., None], args: Sequence[Any] = (), kwargs: Any = None) -> None:
        assert not self.sleeping
        if callable(method):
            self.fake.orders.append("adapter")
            method(self.worker, *args)
            return
        assert method == "reload_weights"
        self.fake.orders.append(method)
        state = self.model.state_dict()
        with torch.no_grad():
            for name, tensor in kwargs["weights_iterator"]:
                if self.fake.keeps not in name:
                    state[name].copy_(tensor)

    def reset_prefix_cache(self) -> bool:
        return True

    def generate(
        self, prompts: Sequence[Any], params: Sequence[Any], use_tqdm: bool, lora_request: Sequence[Any]
    ) -> list[SimpleNamespace]:
        assert not self.sleeping
        return [self._drawn(*asked) for asked in zip(prompts, params, lora_request, strict=True)]

    def _drawn(self, asked: Mapping[str, Any], params: Any, lora: Any) -> SimpleNamespace:
        model = self.model if lora is None else self._merged(self.adapters[lora.lora_int_id].factors)
        limits = {"max_new_tokens": params.max_tokens, "top_k": max(0, params.top_k), "stop": tuple(params.stop)}
        sampling = Sampling(temperature=params.temperature, top_p=params.top_p, **limits)
        prompt = Prompt(asked["prompt_token_ids"], [params.seed])

        def raw_text(ids: Sequence[int]) -> str:
            return self.tokenizer.decode(ids, skip_special_tokens=True)

        with torch.no_grad():
            [[drawn]] = sample(model, [prompt], sampling, frozenset(params.stop_token_ids), 0, raw_text)
            logprobs = truncated_logprobs(model, prompt, drawn.ids, sampling)
        text = SimpleNamespace(
            token_ids=drawn.ids,
            logprobs=[{token: SimpleNamespace(logprob=p)} for token, p in zip(drawn.ids, logprobs, strict=True)],
            stop_reason=next((stop for stop in params.stop if stop in raw_text(drawn.ids)), None),
        )
        return SimpleNamespace(outputs=[text], metrics=SimpleNamespace(last_token_ts=time.monotonic()))

    def _merged(self, factors: Mapping[str, torch.Tensor]) -> Any:
        """The model with an adapter added to its weights."""
        model = copy.deepcopy(self.model)
        for name, first in factors.items():
            if "lora_A" in name:
                module = name.removeprefix("base_model.model.").partition(".lora_A")[0]
                model.get_submodule(module).weight.data += factors[name.replace("lora_A", "lora_B")] @ first
        return model
