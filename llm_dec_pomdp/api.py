"""Load, collect, train and evaluate in Python, in a line each; `llm_dec_pomdp` exports all of them.

    import llm_dec_pomdp

    train_env, test_env = (llm_dec_pomdp.make("tldr-v0", split=split) for split in ("train", "test"))
    team = llm_dec_pomdp.load_team(train_env)
    llm_dec_pomdp.train(team, train_env, "magrpo", steps=40, learning_rate=6e-4)
    print(llm_dec_pomdp.evaluate(team, test_env))

They do what the commands `train` and `eval` do, without files. `training.train` and the modules below it have every
setting.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from .agents.base import Policy, Sampling, Team
from .agents.loading import load_team as load_members
from .algorithms.base import Learner, check_algorithm
from .algorithms.registration import build_algorithm, find_algorithm
from .benchmarks.checks import refuse_misfit
from .benchmarks.metrics import Summary, summarise
from .benchmarks.sections import measure
from .benchmarks.setup import default_model, default_samples, known_of
from .benchmarks.suite import learns
from .config import ConfigError, build
from .envs.base import TextDecPOMDP
from .rollout import independent
from .training import Counters, Step, TrainerConfig, restore
from .training import train as train_learner
from .training.checkpoint import Checkpoints, load_weights, read_sampling
from .types import Group


def load_team(
    env: TextDecPOMDP, model: str = "", *, weights: str | Path | None = None, seed: int = 0, **options: Any
) -> Team:
    """A team for the agents of an environment, in which the same kind of model plays every role.

    Args:
        env: Whose agents, under the protocol of your choice (`envs.wrappers.with_protocol`).
        model: "builtin:tiny", "builtin:words", "builtin:table", a folder, a .gguf file, a name on the hub, or the
            address of a server. Left out: that of `benchmarks.setup.default_model`.
        weights: Folder `team` of a finished run, or a checkpoint, whose weights to take, and whose sampling.
        seed: Of first weights that are drawn.
        options: Fields of `agents.loading.ModelOptions`: sharing="lora", device="cuda:1", dtype="bfloat16", ...

    Raises:
        ConfigError: An option that does not exist, or a value that it does not take.
        ModelError: The model cannot be loaded.
        CheckpointError: The weights are those of another kind of team.
    """
    team = load_members(env.possible_agents, model or default_model(env), seed=seed, **known_of(env), **options)
    if weights is not None:
        load_weights(Path(weights), team)
        team.sampling = read_sampling(Path(weights))
    return team


def collect(
    policy: Policy,
    env: TextDecPOMDP,
    *,
    items: int | None = None,
    samples: int = 1,
    sampling: Sampling | None = None,
    seed: int = 0,
) -> list[Group]:
    """Independent episodes of the environment's tasks.

    Args:
        policy: Who plays: a team, or anything else that answers for all agents.
        env: What is played.
        items: Number of tasks, from the first on; all when left out.
        samples: Episodes of each.
        sampling: How texts are drawn; left out, as in the training of the team (`Team.sampling`).
        seed: Of the texts and of the environment's chance.

    Returns:
        A group for every task, with all texts, token ids, log-probabilities, rewards and events.
    """
    drawn = _sampling_of(policy, sampling)
    return [group for some in independent(env, policy, drawn, seed, items, samples) for group in some]


def _sampling_of(policy: Policy, sampling: Sampling | None) -> Sampling:
    """What was given, or else how the team was trained."""
    return sampling or (policy.sampling if isinstance(policy, Team) else Sampling())


def evaluate(
    policy: Policy,
    env: TextDecPOMDP,
    *,
    items: int | None = None,
    samples: int | None = None,
    sampling: Sampling | None = None,
    seed: int = 0,
) -> Summary:
    """Measure a team as `llm-dec-pomdp eval` does: `collect`, then return, parts and costs with intervals.

    The arguments are those of `collect`, with 100 episodes by default where there is a single task.
    """
    started = time.perf_counter()
    samples = samples or default_samples(env)
    groups = collect(policy, env, items=items, samples=samples, sampling=sampling, seed=seed)
    seconds = time.perf_counter() - started
    summary = summarise(groups, env.score_scale, env.components, seconds)
    return replace(summary, measured=measure(env, groups))


def train(
    team: Team,
    env: TextDecPOMDP,
    algorithm: str = "magrpo",
    *,
    steps: int = 40,
    prompts_per_step: int = 8,
    group_size: int = 4,
    sampling: Sampling | None = None,
    seed: int = 0,
    on_step: Callable[[Step], object] = lambda step: None,
    checkpoints: str | Path | None = None,
    save_every: int = 10,
    **options: Any,
) -> Learner:
    """Train a team in place.

    Args:
        team: Who learns.
        env: Its training tasks, under the communication protocol of the team.
        algorithm: A registered learner, or "module:Class".
        steps: Updates.
        prompts_per_step: Tasks per update.
        group_size: Episodes per task.
        sampling: How texts are drawn, also by the policy of the learner in evaluations; left out, that of the team.
        seed: The same seed on the same kind of machine gives the same run.
        on_step: Called after every update, with what was played and learnt: for logs, curves, evaluations.
        checkpoints: Folder to save to. If it has checkpoints of this training, it goes on from the newest.
        save_every: Updates between them.
        options: Of the algorithm: learning_rate=6e-4, ...

    Returns:
        The learner.

    Raises:
        ConfigError: An option that does not exist, a value that it does not take, or an algorithm that does not learn,
            or not in this environment.
        CheckpointError: The folder is that of another training.
        TrainingError: See `training.train`.
    """
    config = build(
        TrainerConfig,
        {"steps": steps, "prompts_per_step": prompts_per_step, "group_size": group_size, "save_every": save_every},
        source="train()",
    )
    check_algorithm(find_algorithm(algorithm).load(), algorithm)
    team.sampling = sampling = _sampling_of(team, sampling)
    if not learns(algorithm):
        raise ConfigError(f"algorithm {algorithm!r} does not learn; `llm-dec-pomdp list` says which do")
    refuse_misfit(algorithm, options, env)
    learner: Learner = build_algorithm(algorithm, options, team, sampling)
    places, done = None, Counters()
    if checkpoints is not None:
        trained = {"environment": env.metadata["name"], "algorithm": algorithm, "options": options, "seed": seed}
        sizes = {"prompts_per_step": prompts_per_step, "group_size": group_size, "sampling": asdict(sampling)}
        places = Checkpoints(Path(checkpoints), {**trained, **sizes}, keep=config.keep)
        done = restore(learner, env, places)
    train_learner(learner, env, sampling, config, seed, on_step, checkpoints=places, done=done)
    return learner
