"""A server that keeps the contract of vLLM's, for tests: adapters beside each other, or a whole model."""

from __future__ import annotations

import functools
import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from models import ITEMS, Match
from safetensors.torch import load_file
from servers import Reply, Server

from llm_dec_pomdp.agents.base import Sampling, Team
from llm_dec_pomdp.agents.engines import Prompt
from llm_dec_pomdp.agents.language_model.decoding import sample
from llm_dec_pomdp.agents.language_model.policy import LanguageModel
from llm_dec_pomdp.agents.language_model.stepping import forward
from llm_dec_pomdp.agents.loading import load_team
from llm_dec_pomdp.algorithms.magrpo import MAGRPO, MAGRPOConfig
from llm_dec_pomdp.rollout import Trajectories
from llm_dec_pomdp.types import Score, TaskItem

AGENTS = ("agent_0", "agent_1")
SHORT = Sampling(max_new_tokens=6)


def only_policy(team: Team) -> LanguageModel:
    [policy] = team.policies
    assert isinstance(policy, LanguageModel)
    return policy


def flat(team: Team) -> torch.Tensor:
    """All weights of the one model in a row."""
    return torch.cat([tensor.flatten() for tensor in only_policy(team).state_dict().values()])


def team_of(server: Server, folder: Path | str, sharing: str = "lora", *, train: bool = True, **options: Any) -> Team:
    """Two agents whose texts the server draws."""
    url = server.url.removesuffix("/v1")
    engine = {"kind": "vllm", "url": url, "model": "base", "adapters": str(folder), "tries": 2, **options}
    return load_team(AGENTS, sharing=sharing, engine=engine, train=train)


def truncated_logprobs(model: Any, prompt: Prompt, ids: list[int], sampling: Sampling) -> list[float]:
    """log mu of drawn tokens: at the temperature, after top-k and then top-p, renormalised, as vLLM tells them."""
    whole = torch.tensor([[*prompt.ids, *ids]])
    logits = forward(model, [prompt.adapter], input_ids=whole).logits[0, len(prompt.ids) - 1 : -1].float()
    logprobs, order = (logits / (sampling.temperature or 1.0)).log_softmax(-1).sort(descending=True)
    kept = torch.zeros_like(logprobs, dtype=torch.bool)
    kept[:, : sampling.top_k or None] = True
    mass = torch.where(kept, logprobs.exp(), 0.0)
    mass = mass / mass.sum(-1, keepdim=True)
    mass = torch.where(mass.cumsum(-1) - mass < sampling.top_p, mass, 0.0)
    places = (order == torch.tensor(ids)[:, None]).int().argmax(-1, keepdim=True)
    return (mass / mass.sum(-1, keepdim=True)).gather(1, places).log()[:, 0].tolist()


class Letters(Match):
    """TurnReward the share of one letter, so that random models differ in what they earn."""

    def score(self, item: TaskItem, actions: Mapping[str, str]) -> Score:
        text = "".join(actions.values())
        value = text.count("e") / max(len(text), 1)
        return Score(value, {"match": value})


def trained(team: Team, rate: float) -> tuple[list[str], torch.Tensor]:
    """What was said in three steps of training, and all weights after it."""
    learner = MAGRPO(team, SHORT, MAGRPOConfig(learning_rate=rate))
    texts: list[str] = []
    for step in range(3):
        groups = Trajectories().play(Letters(ITEMS), team, ["t0"], [step], SHORT, 4)
        texts += [c.text for episode in groups[0].episodes for turn in episode.turns for c in turn.actions.values()]
        learner.update(groups)
    return texts, flat(team)


class FakeVLLM:
    """Draws with the adapter that a request names, from its files, or with the whole model that it was given last.

    Attributes:
        loaded: Adapters by name.
        label: Of the whole model.
        keeps: Of the whole model, a part that it does not load, though it says so.
        orders: All but texts, with the name of the adapter or the label.
        sleeping: Whether it has freed its memory; None: it cannot, as one that was started without sleep mode.
    """

    def __init__(self) -> None:
        self.loaded: dict[str, Path] = {}
        self.keeps = "nothing"
        self.orders: list[tuple[str, str]] = []
        self.sleeping: bool | None = None
        self._lock = threading.Lock()
        self.start_anew()

    @functools.cached_property
    def adapted(self) -> LanguageModel:
        return only_policy(load_team(AGENTS, sharing="lora"))

    @functools.cached_property
    def model(self) -> LanguageModel:
        return only_policy(load_team(AGENTS, sharing="shared"))

    def start_anew(self) -> None:
        """As a server that was ended and started."""
        self.loaded.clear()
        self.label = "default"
        vars(self).pop("model", None)

    def answer(self, path: str, body: dict[str, Any]) -> Reply:
        with self._lock, torch.no_grad():
            order = path.rpartition("/")[2].partition("?")[0]
            if order in ("sleep", "wake_up", "is_sleeping"):
                return self._sleep(order, path)
            if self.sleeping:
                return 500, b"its weights are not on the GPU"
            if order == "completions":
                return self._complete(body)
            if order == "weight_info":
                return 200, json.dumps({"weight_version": self.label}).encode()
            self.orders.append((order, body.get("lora_name", self.label)))
            return getattr(self, f"_{order}")(body)

    def _sleep(self, order: str, path: str) -> Reply:
        if self.sleeping is None:
            return 404, b'{"detail": "Not Found"}'
        if order == "is_sleeping":
            return 200, json.dumps({"is_sleeping": self.sleeping}).encode()
        assert order == "wake_up" or path.endswith("/sleep?level=1")
        self.sleeping = order == "sleep"
        self.orders.append((order, self.label))
        return 200, b""

    def _load_lora_adapter(self, body: dict[str, Any]) -> Reply:
        if body["lora_name"] in self.loaded and not body.get("load_inplace"):
            return 400, b"The lora adapter has already been loaded."
        self.loaded[body["lora_name"]] = Path(body["lora_path"])
        return 200, b"ok"

    def _unload_lora_adapter(self, body: dict[str, Any]) -> Reply:
        return (200, b"ok") if self.loaded.pop(body["lora_name"], None) else (404, b"not found")

    def _update_weight_version(self, body: dict[str, Any]) -> Reply:
        self.label = body["new_version"]
        return 200, b'{"success": true}'

    def _collective_rpc(self, body: dict[str, Any]) -> Reply:
        assert body["method"] == "reload_weights"
        tensors = load_file(Path(body["kwargs"]["weights_path"]) / "model.safetensors")
        state = self.model.state_dict()
        self.model.load_state_dict(state | {name: tensors[name] for name in state if self.keeps not in name})
        return 200, b'{"results": [null]}'

    def _reset_prefix_cache(self, body: dict[str, Any]) -> Reply:
        return 200, b'{"success": true}'

    def _complete(self, body: dict[str, Any]) -> Reply:
        adapter, policy = None, None
        if body["model"] != "base":
            if body["model"] not in self.loaded:
                return 404, b"The model does not exist."
            adapter, policy = "agent_0", self.adapted
            tensors = load_file(self.loaded[body["model"]] / "adapter_model.safetensors")
            state = policy.state_dict()
            named = {name.replace(".agent_0.", "."): name for name in state if ".agent_0." in name}
            policy.load_state_dict(state | {named[name]: tensor for name, tensor in tensors.items()})
        policy = policy or self.model
        drawn = {name: body[name] for name in ("temperature", "top_p")}
        sampling = Sampling(**drawn, top_k=max(0, body["top_k"]), max_new_tokens=body["max_tokens"], stop=body["stop"])
        prompt = Prompt(body["prompt"], [body["seed"]], adapter)
        [[drawn]] = sample(policy.model, [prompt], sampling, frozenset(body["stop_token_ids"]), 0, policy.raw_text)
        text = policy.raw_text(drawn.ids)
        reason = next((stop for stop in body["stop"] if stop in text), None)
        choice: dict[str, Any] = {
            "stop_reason": reason,
            "token_ids": drawn.ids,
            "logprobs": {"token_logprobs": truncated_logprobs(policy.model, prompt, drawn.ids, sampling)},
        }
        return 200, json.dumps({"model": body["model"], "choices": [choice]}).encode()
