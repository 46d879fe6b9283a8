"""Timings of training steps, updates and sampling: this package, comlrl, and plain loops of torch and transformers."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import tiny
import torch
from memory import limit
from sides import Peer, Timer, alternate, row

import llm_dec_pomdp
from llm_dec_pomdp.agents.base import Sampling, Team
from llm_dec_pomdp.agents.engines import Prompt
from llm_dec_pomdp.agents.io.models import load_model
from llm_dec_pomdp.agents.language_model.decoding import sample
from llm_dec_pomdp.agents.language_model.policy import LanguageModel
from llm_dec_pomdp.algorithms.batches import set_weights
from llm_dec_pomdp.algorithms.options import UpdaterOptions
from llm_dec_pomdp.algorithms.registration import build_algorithm
from llm_dec_pomdp.algorithms.samples import Sample
from llm_dec_pomdp.algorithms.updater import Updater, updaters_of
from llm_dec_pomdp.envs.facts import Facts
from llm_dec_pomdp.envs.tasks import TaskSource
from llm_dec_pomdp.envs.text_task import TextTask
from llm_dec_pomdp.rollout import Trajectories
from llm_dec_pomdp.seeding import derive
from llm_dec_pomdp.types import Completion, Score, TaskItem

AGENTS = ("agent_0", "agent_1")
UPDATES = 4  # one after the other, as in training: a single update after a pause takes longer


class Letters(TextTask):
    """Task whose reward is the share of one letter in the actions of the team."""

    declared = Facts(name="letters-v0", roles=("first", "second"), components=("letters",), score_range=(0.0, 1.0))
    source = TaskSource("letters", "none", {"train": "train"})

    def observe(self, item: TaskItem, agent: str) -> str:
        """Return the prompt."""
        return item.prompt

    def score(self, item: TaskItem, actions: Mapping[str, str]) -> Score:
        """Return the share of the letter e."""
        value = tiny.letters(tuple(actions.values()))
        return Score(value, {"letters": value})


class LettersAlone(Letters):
    """The same task for one agent."""

    declared = replace(Letters.declared, roles=("first",))


def letters_env(prompts: int, agents: int = 2) -> Letters:
    """Return the environment with some prompts."""
    return (LettersAlone, Letters)[agents - 1](
        [TaskItem(f"p{i}", text) for i, text in enumerate(tiny.prompts(prompts))]
    )


# --- whole training steps ---------------------------------------------------------------------------------------------


GROUP = 4


def our_steps(learner: str, prompts: int, new_tokens: int, **options: Any) -> Callable[[], None]:
    """Return a function that runs `UPDATES` rollouts and updates of two agents with a model each."""
    env = letters_env(prompts)
    team = Team({agent: LanguageModel(tiny.model(seed), tiny.tokenizer()) for seed, agent in enumerate(AGENTS, 1)})
    sampling = Sampling(temperature=1.0, top_k=50, max_new_tokens=new_tokens)
    algorithm = build_algorithm(learner, {"learning_rate": 1e-3, **options}, team, sampling)
    ids = [item.id for item in env.items]

    def steps() -> None:
        for _ in range(UPDATES):
            seeds = [derive(algorithm.updaters[0].updates, i) for i in range(prompts)]
            metrics = algorithm.update(Trajectories().play(env, team, ids, seeds, sampling, GROUP))
            _check_tokens(metrics["tokens"] * len(AGENTS), prompts * GROUP * len(AGENTS) * new_tokens)

    return steps


def training_step(
    peer: Peer, timer: Timer, runs: int, *, prompts: int, new_tokens: int, target: float, learner: str = "magrpo"
) -> Any:
    """Return seconds per prompt of rollout and update of two agents with a model each; critics have separate models."""
    steps = our_steps(learner, prompts, new_tokens, **({} if learner == "magrpo" else {"body": "own"}))

    def other() -> float:
        asked = {"prompts": prompts, "group": GROUP, "new_tokens": new_tokens, "updates": UPDATES, "learner": learner}
        found = peer.ask("train", **asked)
        _check_tokens(found["tokens"], prompts * GROUP * len(AGENTS) * new_tokens * UPDATES)
        return found["seconds"]

    found = alternate(runs, ours=lambda: timer(steps), peer=other)
    numbers = {f"{name}_s_per_prompt": seconds / prompts / UPDATES for name, seconds in found.items()}
    return row(found["peer"] / found["ours"], target, **numbers)


def critic_step(timer: Timer, runs: int, learner: str, body: str) -> Any:
    """Compare a step of an actor-critic learner and of MAGRPO on the same number of samples, 8 prompts, 64 tokens."""
    sides = {"magrpo": our_steps("magrpo", 8, 64), learner: our_steps(learner, 8, 64, body=body)}
    found = alternate(runs, **{name: functools.partial(timer, steps) for name, steps in sides.items()})
    numbers = {f"{name}_s_per_prompt": seconds / 8 / UPDATES for name, seconds in found.items()}
    return limit(found[learner] / found["magrpo"], 1.5, **numbers)


def _check_tokens(found: float, wanted: int) -> None:
    if found != wanted:
        raise RuntimeError(f"{found} tokens were sampled and {wanted} were to be compared")


# --- updates ----------------------------------------------------------------------------------------------------------


def make_samples(prompt: torch.Tensor, completions: torch.Tensor) -> list[Sample]:
    """Return completions of one prompt with advantages that sum to 0."""
    advantages = torch.linspace(-1, 1, len(completions)).tolist()
    ids = tuple(prompt.tolist())
    texts = [Completion("x", ids, tuple(row), (0.0,) * len(row)) for row in completions.tolist()]
    samples = [Sample("agent_0", text, a) for text, a in zip(texts, advantages, strict=True)]
    return [replace(s, index=i) for i, s in enumerate(set_weights(samples, UpdaterOptions()))]


def our_update(updater: Updater, samples: list[Sample]) -> None:
    """Compute loss and gradient as the updater does in a step."""
    updater._old.clear()
    updater.gradient(samples, (), updater.options.micro_batch)


def bare_update(network: Any, prompt: torch.Tensor, completions: torch.Tensor) -> None:
    """Run a plain loop: all sequences in full, padded to one batch, one forward and one backward pass."""
    advantages = torch.linspace(-1, 1, len(completions))
    ids = torch.cat([prompt.expand(len(completions), -1), completions], dim=1)
    length = completions.shape[1]
    logits = network(input_ids=ids, use_cache=False, logits_to_keep=length + 1).logits[:, :-1]
    logprobs = logits.log_softmax(-1).gather(-1, completions[..., None])[..., 0]
    rho = (logprobs - logprobs.detach()).exp()
    a = advantages[:, None]
    loss = -torch.minimum(rho * a, rho.clamp(0.8, 1.2) * a).mean()
    loss.backward()


class Updates:
    """The same update by this package and by a plain loop, each with its own model."""

    def __init__(self, network: Any, prompt_tokens: int, group: int, new_tokens: int, vocabulary: int) -> None:
        self.prompt = tiny.token_ids(1, prompt_tokens, vocabulary, seed=1)[0]
        self.completions = tiny.token_ids(group, new_tokens, vocabulary, seed=2)
        self.samples = make_samples(self.prompt, self.completions)
        self.bare_network = copy.deepcopy(network)
        self.policy = LanguageModel(network, tiny.tokenizer())
        [self.updater] = updaters_of(Team({"agent_0": self.policy}), 1.0, UpdaterOptions())

    def ours(self) -> None:
        """Run the update of this package."""
        our_update(self.updater, self.samples)

    def bare(self) -> None:
        """Run the plain loop."""
        bare_update(self.bare_network, self.prompt, self.completions)

    def clear(self) -> None:
        """Set both gradients to zero, and keep their buffers."""
        self.policy.model.zero_grad(set_to_none=False)
        self.bare_network.zero_grad(set_to_none=False)

    def difference(self) -> float:
        """Return the largest difference of the two gradients, relative to their largest entry."""
        self.clear()
        self.ours()
        self.bare()
        mine = [p.grad for p in self.policy.model.parameters()]
        theirs = [p.grad for p in self.bare_network.parameters()]
        return max(float((a - b).abs().max() / max(b.abs().max(), 1e-12)) for a, b in zip(mine, theirs, strict=True))


def wide_update(peer: Peer, timer: Timer, runs: int) -> dict[str, Any]:
    """Measure loss and backward pass with a vocabulary of 32k."""
    vocabulary, group, new_tokens, prompt_tokens = 32768, 4, 256, 40
    both = Updates(tiny.model(1, vocabulary=vocabulary), prompt_tokens, group, new_tokens, vocabulary)
    difference = both.difference()
    request = {"vocabulary": vocabulary, "group": group, "new_tokens": new_tokens, "prompt_tokens": prompt_tokens}
    request["returns"] = [0.0, 1.0, 2.0, 3.0]
    found = alternate(
        runs,
        ours=lambda: timer(both.ours),
        bare=lambda: timer(both.bare),
        peer=lambda: peer.ask("update", **request)["seconds"],
    )
    numbers = {f"{name}_s": seconds for name, seconds in found.items()} | {"gradient_difference": difference}
    return {
        "update_32k_vs_peer": row(found["peer"] / found["ours"], 6.0, **numbers),
        "update_32k_vs_bare": row(found["bare"] / found["ours"], 1 / 1.1, **numbers),
    }


def shared_prompt_update(timer: Timer, runs: int) -> Any:
    """Measure loss and backward pass of 8 completions of 64 tokens with the same prompt of 200 tokens."""
    vocabulary = 2048
    both = Updates(tiny.model(1, hidden=256, layers=4, vocabulary=vocabulary), 200, 8, 64, vocabulary)
    difference = both.difference()
    if difference > 1e-3:
        raise RuntimeError(f"the gradients differ by {difference:.1e} of their largest entry")
    found = alternate(runs, ours=lambda: timer(both.ours), bare=lambda: timer(both.bare))
    return row(
        found["bare"] / found["ours"],
        2.0,
        ours_s=found["ours"],
        bare_s=found["bare"],
        gradient_difference=difference,
    )


# --- generation -------------------------------------------------------------------------------------------------------


def generation(file: str, timer: Timer, runs: int) -> Any:
    """Compare sampling: 8 prompts of 100 tokens, 4 completions of 64 tokens each, top-p 0.9, without an end token."""
    network, tokenizer = load_model(file, device="cpu", dtype="float32")
    network.eval()
    posts = "\n".join(item.prompt for item in llm_dec_pomdp.make("tldr-v0").items[:24])
    ids = torch.tensor(tokenizer(posts)["input_ids"][:800]).view(8, 100)
    sampling = Sampling(temperature=1.0, top_p=0.9, max_new_tokens=64)
    prompts = [Prompt(row, tuple(derive(i, g) for g in range(4))) for i, row in enumerate(ids.tolist())]
    settings = {"do_sample": True, "temperature": 1.0, "top_p": 0.9, "top_k": 0, "max_new_tokens": 64}

    def ours() -> None:
        found = sample(network, prompts, sampling, frozenset(), tokenizer.pad_token_id or 0)
        _check_tokens(sum(len(text.ids) for texts in found for text in texts), 32 * 64)

    def bare() -> None:
        with torch.no_grad():
            found = network.generate(
                input_ids=ids.repeat_interleave(4, dim=0),
                attention_mask=torch.ones(32, 100, dtype=torch.long),
                **settings,
            )
        _check_tokens(found[:, 100:].numel(), 32 * 64)

    network.generation_config.eos_token_id = None
    network.generation_config.pad_token_id = tokenizer.pad_token_id or 0
    found = alternate(runs, ours=lambda: timer(ours), bare=lambda: timer(bare))
    return row(found["bare"] / found["ours"], 1.7, ours_s=found["ours"], generate_s=found["bare"])


ROWS = (
    "step_64_tokens_8_prompts",
    "step_256_tokens_1_prompt",
    "update_32k",
    "generation_135m",
    "update_shared_prompt",
    "iac_step",
    "maac_step",
    "iac_shared_against_magrpo",
    "iac_own_against_magrpo",
    "maac_against_magrpo",
)


def rows(peer: Peer, timer: Timer, runs: int, file: str | None) -> dict[str, Callable[[], dict[str, Any]]]:
    """Return the function that measures each row; `update_32k` gives two rows."""
    steps = functools.partial(training_step, peer, timer, runs)
    skipped = {"skipped": "give the weights of a 135 M model with --model FILE.gguf"}
    works = (
        lambda: steps(prompts=8, new_tokens=64, target=8.0),
        lambda: steps(prompts=1, new_tokens=256, target=2.0),
        lambda: wide_update(peer, timer, runs),
        lambda: generation(file, timer, runs) if file else skipped,
        lambda: shared_prompt_update(timer, runs),
        lambda: steps(prompts=8, new_tokens=64, target=5.0, learner="iac"),
        lambda: steps(prompts=8, new_tokens=64, target=5.0, learner="maac"),
        lambda: critic_step(timer, runs, "iac", "shared"),
        lambda: critic_step(timer, runs, "iac", "own"),
        lambda: critic_step(timer, runs, "maac", "own"),
    )
    return dict(zip(ROWS, works, strict=True))
