# pyright: basic
"""MAGRPO (arXiv:2508.04652, Algorithm 1) in one file: sampling, credit, update and evaluation in plain torch.

    python examples/magrpo_in_one_file.py               # less than two minutes on one CPU core
    python examples/magrpo_in_one_file.py --shuffle     # the shuffled-reward control, which does not learn

Test return on seeds 0, 1 and 2: from 0.5 to 1.5, 1.9 and 1.6 of 2.98. Shuffled-reward control: 0.6, 0.5 and 0.6.

The team has one language model and one optimizer per agent. An update has four steps:

1. Play G episodes of each of a few tasks with the current models (`play`).
2. Compute the return from every turn on, and compare it with the returns of the same task (`group_advantages`).
3. Give every agent of an episode the advantage of that episode. There is no critic.
4. Let each agent ascend the clipped objective on its own completions (`update`).

One update equals one of `llm_dec_pomdp.algorithms.magrpo.MAGRPO` with its default options
(`tests/algorithms/test_one_file.py`). That class adds what this file leaves out: other baselines, other kinds of
credit, individual rewards, rewards that could not be scored, and batches that adapt to the memory of a device.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

import llm_dec_pomdp
from llm_dec_pomdp.agents.io.models import load_model

TASKS_PER_UPDATE = 4
GROUP_SIZE = 8  # G, the episodes per task
MAX_NEW_TOKENS = 32  # of a completion
GAMMA = 1.0  # discount between turns
LEARNING_RATE = 5e-4  # of AdamW; about 1e-5 where all weights of a larger model are trained
CLIP = 0.2  # epsilon of the clipped objective
EPOCHS = 1  # passes over the completions of an update; the clip takes effect from the second pass on
MAX_GRAD_NORM = 1.0


class Completion(NamedTuple):
    """A sampled action of one agent.

    Attributes:
        prompt: Token ids of the agent's history.
        ids: Sampled token ids, with the end token unless the token limit was reached.
        logprobs: log pi_old(token | history, earlier tokens) of each sampled token, recorded while sampling.
    """

    prompt: tuple[int, ...]
    ids: list[int]
    logprobs: list[float]


@dataclass
class Episode:
    """One joint trajectory: a copy of the environment, the completions by agent, and the joint reward of each turn."""

    env: Any
    turns: list[dict[str, Completion]] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)


# --- the language model: sampling, and log-probabilities with gradient ------------------------------------------------


def read_prompts(model: Any, prompts: Sequence[tuple[int, ...]]) -> tuple[torch.Tensor, Any, torch.Tensor]:
    """Read each different prompt once; the completions of a group share its keys and values.

    Returns:
        For each of N prompts of at most P tokens: logits of the next token [N, V], a cache of keys and values with N
        rows, and the attention mask [N, P]. Prompts are padded on the left, so that all end in the last column.
    """
    unique = list(dict.fromkeys(prompts))
    width = max(map(len, unique))
    ids = torch.tensor([[0] * (width - len(prompt)) + list(prompt) for prompt in unique], device=model.device)
    mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in unique], device=model.device)
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    out = model(input_ids=ids, attention_mask=mask, position_ids=positions, use_cache=True, logits_to_keep=1)
    rows = torch.tensor([unique.index(prompt) for prompt in prompts], device=model.device)
    cache = {name: value for name, value in out.items() if name != "logits"}  # its name depends on transformers
    next(iter(cache.values())).batch_select_indices(rows)
    return out.logits[rows, -1], cache, mask[rows]


@torch.no_grad()
def generate(model: Any, prompts: Sequence[tuple[int, ...]], end: int) -> list[Completion]:
    """Sample a completion for each prompt, at temperature 1, token by token until the token `end` or the limit."""
    completions = [Completion(prompt, [], []) for prompt in prompts]
    running = torch.ones(len(prompts), dtype=torch.bool, device=model.device)
    logits, cache, mask = read_prompts(model, prompts)
    for _ in range(MAX_NEW_TOKENS):
        logprobs = logits.log_softmax(-1)
        tokens = torch.multinomial(logprobs.exp(), 1)  # a ~ pi(. | h), [N, 1]
        chosen = logprobs.gather(1, tokens)
        for n in running.nonzero()[:, 0].tolist():
            completions[n].ids.append(int(tokens[n]))
            completions[n].logprobs.append(float(chosen[n]))
        running &= tokens[:, 0] != end
        if not running.any():
            break
        mask = torch.cat([mask, torch.ones_like(tokens)], 1)
        out = model(input_ids=tokens, attention_mask=mask, position_ids=mask.sum(1, keepdim=True) - 1, **cache)
        logits = out.logits[:, 0]
    return completions


def token_logprobs(model: Any, completions: Sequence[Completion]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return log pi of the sampled tokens [N, L] with gradient, and a mask [N, L] that is 0 on padding."""
    logits, cache, prompt_mask = read_prompts(model, [completion.prompt for completion in completions])
    ids, mask = padded([c.ids for c in completions], model), padded([[1] * len(c.ids) for c in completions], model)
    logits = logits[:, None]
    if ids.shape[1] > 1:  # the prompt predicts the first token, and each token the next one
        attended = torch.cat([prompt_mask, mask[:, :-1]], 1)
        positions = (attended.cumsum(1) - 1)[:, prompt_mask.shape[1] :]
        read = model(input_ids=ids[:, :-1], attention_mask=attended, position_ids=positions, **cache)
        logits = torch.cat([logits, read.logits], 1)
    return logits.log_softmax(-1).gather(2, ids[..., None])[..., 0], mask


def padded(rows: Sequence[Sequence[float]], model: Any) -> torch.Tensor:
    """Return rows of different lengths as one tensor [N, L] with zeros on the right."""
    return torch.tensor([[*row, *[0] * (max(map(len, rows)) - len(row))] for row in rows], device=model.device)


# --- Algorithm 1 ------------------------------------------------------------------------------------------------------


def play(env: Any, models: dict[str, Any], tokenizer: Any, tasks: Sequence[str], size: int) -> list[list[Episode]]:
    """Play `size` episodes of each task, and return a group for each task; agents sample from their own histories."""
    groups = []
    for task in tasks:
        env.reset(seed=int(torch.randint(2**31, ())), options={"task_id": task})
        groups.append([Episode(env.fork()) for _ in range(size)])  # all episodes of a group begin in the same state
    while running := [episode for group in groups for episode in group if episode.env.agents]:
        for episode in running:
            episode.turns.append({})
        for agent, model in models.items():
            asked = [e for e in running if agent in e.env.agents and e.env.asked(agent)]
            prompts = []
            for episode in asked:  # h_{i,t}: the observations and actions of agent i up to turn t
                history = episode.env.history(agent)
                chat = [{"role": "assistant" if m.role == "action" else "user", "content": m.text} for m in history]
                text = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
                prompts.append(tuple(tokenizer(text, add_special_tokens=False).input_ids))
            completions = generate(model, prompts, tokenizer.eos_token_id) if asked else []
            for episode, completion in zip(asked, completions, strict=True):
                episode.turns[-1][agent] = completion
        for episode in running:
            ids = {agent: completion.ids for agent, completion in episode.turns[-1].items()}
            texts = {a: tokenizer.decode(ids.get(a, []), skip_special_tokens=True).strip() for a in episode.env.agents}
            _, rewards, *_ = episode.env.step(texts)
            episode.rewards.append(next(iter(rewards.values())))  # r_t: the same for all agents
    return groups


def group_advantages(group: Sequence[Episode]) -> torch.Tensor:
    """Return A_t^(g) of each episode at each turn [G, T]; an episode that has ended has return 0."""
    returns = torch.zeros(len(group), max(len(episode.rewards) for episode in group) + 1, dtype=torch.float64)
    for g, episode in enumerate(group):
        for t in reversed(range(len(episode.rewards))):
            returns[g, t] = episode.rewards[t] + GAMMA * returns[g, t + 1]  # (return) R_t = sum gamma^(tau - t) r_tau
    baseline, spread = returns.mean(0), returns.std(0, correction=0)  # over the G episodes, turn by turn
    spread[returns.amax(0) - returns.amin(0) < 1e-12] = torch.inf  # equal returns: every advantage is 0
    return ((returns - baseline) / spread)[:, :-1]  # (advantage) A_t^(g) = (R_t^(g) - mean_g R_t) / std_g R_t


def update(model: Any, optimizer: Any, samples: Sequence[tuple[Completion, float]]) -> tuple[float, float]:
    """Train one agent on its own completions, each with its advantage; return loss and gradient norm of the last pass.

    Completions with advantage 0 have no gradient. They only count in the token mean.
    """
    tokens = sum(len(completion.ids) for completion, _ in samples)
    samples = [(completion, advantage) for completion, advantage in samples if advantage]
    loss = norm = torch.zeros(())
    for _ in range(EPOCHS if samples else 0):
        logprobs, mask = token_logprobs(model, [completion for completion, _ in samples])
        old = padded([completion.logprobs for completion, _ in samples], model)
        advantages = logprobs.new_tensor([advantage for _, advantage in samples])[:, None]  # [N, 1]
        rho = ((logprobs - old) * mask).exp()  # (ratio) pi(a | h) / pi_old(a | h), per token; 1 in the first pass
        clipped = rho.clamp(1 - CLIP, 1 + CLIP)
        objective = torch.minimum(rho * advantages, clipped * advantages)  # (objective) min(rho A, clip(rho) A)
        loss = -(objective * mask).sum() / tokens  # (token mean) over all sampled tokens of the agent
        optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_GRAD_NORM)
        optimizer.step()
    return loss.item(), norm.item()


def train_step(
    models: dict[str, Any], optimizers: dict[str, Any], groups: Sequence[Sequence[Episode]], shuffle: bool = False
) -> dict[str, tuple[float, float]]:
    """Give credit to all completions of the groups and update every agent once; return what `update` returns."""
    samples: dict[str, list[tuple[Completion, float]]] = {agent: [] for agent in models}
    for group in groups:
        advantages = group_advantages(group)
        if shuffle:  # rewards no longer depend on the completions: each episode takes those of a random one
            advantages = advantages[torch.randperm(len(group))]
        for episode, of_episode in zip(group, advantages.tolist(), strict=True):
            for turn, advantage in zip(episode.turns, of_episode, strict=False):
                for agent, completion in turn.items():
                    samples[agent].append((completion, advantage))  # all agents share the advantage
    return {agent: update(models[agent], optimizers[agent], of_agent) for agent, of_agent in samples.items()}


# --- the run ----------------------------------------------------------------------------------------------------------


def mean_return(groups: Sequence[Sequence[Episode]]) -> float:
    """Return the mean undiscounted return over all episodes."""
    totals = [sum(episode.rewards) for group in groups for episode in group]
    return sum(totals) / len(totals)


def main() -> None:
    """Train a team, and print the training return of every update and the test return now and then."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", default="tldr-v0", help="an environment whose agents share one reward")
    parser.add_argument("--model", default="builtin:tiny", help="a model with a chat template that ends turns with EOS")
    parser.add_argument("--updates", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--shuffle", action="store_true", help="run the shuffled-reward control")
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    train_env, test_env = (llm_dec_pomdp.make(args.env, split=split) for split in ("train", "test"))
    if not train_env.facts.joint_reward:
        parser.error(f"{args.env} rewards agents individually; choose an environment with a joint reward")
    models: dict[str, Any] = {}
    for agent in train_env.possible_agents:  # the agents begin with equal weights, and share none
        models[agent], tokenizer = load_model(args.model, trained=True)
    optimizers = {a: torch.optim.AdamW(m.parameters(), LEARNING_RATE, weight_decay=0) for a, m in models.items()}
    train_tasks, test_tasks = ([item.id for item in env.items] for env in (train_env, test_env))

    for number in range(args.updates + 1):
        if number % 10 == 0 or number == args.updates:
            test = mean_return(play(test_env, models, tokenizer, test_tasks, 1))
            print(f"after {number:3} updates: test return {test:.2f} of {test_env.facts.max_return:g}", flush=True)
        if number < args.updates:
            tasks = [train_tasks[place] for place in torch.randperm(len(train_tasks))[:TASKS_PER_UPDATE].tolist()]
            groups = play(train_env, models, tokenizer, tasks, GROUP_SIZE)
            train_step(models, optimizers, groups, args.shuffle)
            print(f"update {number + 1:3}: training return {mean_return(groups):.2f}", flush=True)


if __name__ == "__main__":
    main()
