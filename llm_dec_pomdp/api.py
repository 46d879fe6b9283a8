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

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .agents.base import Policy, Sampling, Team
from .agents.io.load import MemberConfig, TeamConfig, agents_by_name, assemble_team, read_members
from .agents.io.save import load_weights, read_sampling, read_samplings
from .algorithms.base import Algorithm
from .algorithms.registration import find_algorithm, learns
from .config import ConfigError, build
from .envs.base import TextDecPOMDP, first_rows
from .evaluation import play
from .evaluation.metrics import Summary, earned
from .evaluation.teams import default_model, known_of
from .options import EvaluationConfig
from .printable import Terminal
from .progress import shown
from .registries import nearest
from .rollout import independent
from .storage.runfolder import new_run_folder
from .training import Counters, TrainerConfig, TrainingStep, restore
from .training import train as train_learner
from .training.checkpoint import Checkpoints, find_team
from .training.divergence import describe_learning_rates
from .training.fit import check_compatible
from .training.tracking import Trackers, check_trackers, train_numbers
from .types import Group


def load_team(
    env: TextDecPOMDP,
    model: str | Path | Mapping[str, str | Mapping[str, Any]] = "",
    *,
    weights: str | Path | None = None,
    sampling: Mapping[str, Sampling] | None = None,
    seed: int = 0,
    **options: Any,
) -> Team:
    """Build a team for the agents of an environment, from one model for all roles or a model for each.

        load_team(env, "builtin:tiny")
        load_team(env, {"summary": "builtin:tiny", "elaboration": {"model": "./mine", "sharing": "lora"}})
        load_team(env, "team.toml")

    Args:
        env: Whose agents, under the protocol of your choice (`envs.wrappers.with_protocol`).
        model: "builtin:tiny", "builtin:extractive", "builtin:words", "builtin:table", a folder, a .gguf file, a name on
            the hub, the address of a server, or a script of the environment such as "script:optimal". Or a mapping from
            roles or agents to such names, or to tables with `model` and fields of `agents.io.load.MemberConfig`; or a
            .toml file of members. Left out: that of `evaluation.teams.default_model`.
        weights: Whose weights to take, and whose sampling: what `save_team`, a run or `export` wrote, a checkpoint, or
            the folder of some, of which the newest undamaged one counts.
        sampling: Of single agents, by name or role; the fields that are given take the place of those with which the
            team is trained and measured: `{"agent_0": Sampling(temperature=0.5)}`. Left out, that of `weights`.
        seed: Of first weights that are drawn.
        options: Fields of `agents.options.ModelOptions`: sharing="lora", device="cuda:1", dtype="bfloat16", ...; for
            members, what holds where their own table does not say it.

    Raises:
        TypeError: This is no environment.
        ConfigError: An option, or an agent with a sampling, that does not exist, or a value that it does not take.
        ModelError: A model cannot be loaded, or the members do not play each agent once.
        CheckpointError: The weights are those of another kind of team.
    """
    _check_env(env, "load_team(env)")
    if isinstance(model, Mapping):
        members = _with_defaults(build(TeamConfig, {"members": model}, source="members").members, options)
    elif str(model).endswith(".toml"):
        team_file = read_members(Path(model))
        members = _with_defaults(team_file.members, options)
        weights = team_file.start if weights is None and team_file.start else weights
    elif isinstance(model, (str, Path)):  # pyright: ignore[reportUnnecessaryIsInstance]
        name = str(model) or default_model(env)
        values = {**options, "agents": env.possible_agents, "model": name}
        members = [build(MemberConfig, values, source=f"options of {name}")]
    else:
        raise ConfigError(f"model is {model!r:.80}; give a name, a mapping from roles to names, or a .toml file")
    team = assemble_team(env.possible_agents, members=members, seed=seed, **known_of(env))
    if weights is not None:
        folder = find_team(Path(weights))
        load_weights(folder, team)
        team.sampling = read_sampling(folder)
        sampling = read_samplings(folder) if sampling is None else sampling
    by_name = agents_by_name(env.possible_agents, [env.role(agent) for agent in env.possible_agents])
    for name, change in (sampling or {}).items():
        if name not in by_name:
            raise ConfigError(f"a sampling is for {name!r}, which is no agent or role here; {nearest(name, by_name)}")
        team.samplings |= dict.fromkeys(by_name[name], change)
    return team


def _with_defaults(members: Sequence[MemberConfig], options: dict[str, Any]) -> list[MemberConfig]:
    """Give members the options that they do not set themselves."""
    return [
        build(MemberConfig, {**options, **member.model_dump(exclude_unset=True)}, source=f"options of {member.model}")
        for member in members
    ]


def _check_env(env: object, call: str) -> None:
    if not isinstance(env, TextDecPOMDP):
        raise TypeError(f"env is {env!r:.80}, which is no environment; make one by make('tldr-v0'), and call {call}")


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

    Raises:
        TypeError: This is no environment.
        ConfigError: Less than one task or episode.
    """
    _check_env(env, "collect(policy, env)")
    _check_numbers(items, samples)
    sampling = _sampling_of(policy, sampling)
    return [group for some in independent(env, policy, sampling, seed, items, samples) for group in some]


def _check_numbers(items: int | None, samples: int | None) -> None:
    build(EvaluationConfig, {"items": items, "samples": samples}, source="options")


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
    _check_env(env, "evaluate(policy, env)")
    _check_numbers(items, samples)
    return play.evaluate(policy, env, _sampling_of(policy, sampling), seed, items=items, samples=samples)[1]


def train(
    team: Team,
    env: TextDecPOMDP,
    algorithm: str = "magrpo",
    *,
    steps: int | None = None,
    prompts_per_step: int | None = None,
    group_size: int | None = None,
    sampling: Sampling | None = None,
    seed: int = 0,
    on_step: Callable[[TrainingStep], object] = lambda step: None,
    checkpoints: str | Path | None = None,
    save_every: int | None = None,
    staleness: int | None = None,
    track: str | Sequence[str] = (),
    progress: bool = False,
    **options: Any,
) -> Algorithm:
    """Train a team in place.

    Args:
        team: Who learns.
        env: Its training tasks, under the communication protocol of the team.
        algorithm: A registered learner, or "module:Class".
        steps, prompts_per_step, group_size, save_every, staleness: Of the training, see `options.TrainerConfig`, whose
            defaults hold where they are left out.
        sampling: How texts are drawn, also by the policy of the learner in evaluations; left out, that of the team.
        seed: The same seed on the same kind of machine gives the same run.
        on_step: Called after every update, with what was played and learnt: for logs, curves, evaluations.
        checkpoints: Folder to save to. If it has checkpoints of this training, it goes on from the newest.
        track: Where the numbers of updates also go: "tensorboard" (event files in the folder of the checkpoints, else a
            new one in runs/), "wandb", "mlflow", or several of them.
        progress: Show how far it is, on standard error.
        options: Of the algorithm: learning_rate=6e-4, ...; or num_generations in place of group_size.

    Returns:
        The learner.

    Raises:
        TypeError: This is no team, no environment, or no name of an algorithm.
        ConfigError: An option that does not exist, a value that it does not take, an algorithm that does not learn, or
            not in this environment, or a tracker that is not installed.
        CheckpointError: The folder is that of another training.
        TaskError: See `TextDecPOMDP.try_rows`.
        TrainingError: See `training.train`.
    """
    _check_env(env, "train(team, env)")
    if not isinstance(team, Team):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"team is {team!r:.80}, which is no team; make one by load_team(env)")
    trackers = check_trackers([track] if isinstance(track, str) else track)
    length = {
        "steps": steps,
        "prompts_per_step": prompts_per_step,
        "group_size": group_size,
        "save_every": save_every,
        "staleness": staleness,
        "num_generations": options.pop("num_generations", None),
    }
    training = build(TrainerConfig, {n: v for n, v in length.items() if v is not None}, source="train()")
    team.sampling = sampling = _sampling_of(team, sampling)
    if not isinstance(algorithm, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"algorithm is {algorithm!r:.80}; give the name of a learner, or 'module:Class'")
    if not learns(algorithm):
        raise ConfigError(f"algorithm {algorithm!r} does not learn; `llm-dec-pomdp list` says which do")
    spec = find_algorithm(algorithm)
    config = spec.config(options)
    check_compatible(algorithm, config, env)
    first_rows(env, 1).task.try_rows()
    learner = spec.build(team, sampling, config)
    about = {"algorithm": algorithm, "environment": env.metadata["name"], "seed": seed}
    places, done = None, Counters()
    if checkpoints is not None:
        trained = {**about, "options": config.given(), "sampling": sampling.model_dump()}
        trained |= training.model_dump(include={"prompts_per_step", "group_size"})
        if training.staleness:
            trained["staleness"] = training.staleness
        if team.samplings:
            trained["samplings"] = {a: change.model_dump(exclude_unset=True) for a, change in team.samplings.items()}
        places = Checkpoints(Path(checkpoints), trained, keep=training.keep)
        done = restore(learner, env, places)
    title = f"{algorithm} on {env.metadata['name']}"
    folder = Path(checkpoints) if checkpoints is not None else new_run_folder(f"train-{env.metadata['name']}")
    with (
        Trackers.open(trackers, folder, title, about | config.given()) as sinks,
        shown(Terminal(stderr=True), quiet=not progress) as bars,
        bars.stage(
            f"train {title} ({describe_learning_rates(learner.learning_rates())})", training.steps, done.step
        ) as advance,
    ):

        def note(step: TrainingStep) -> None:
            sinks.log(step.number, train_numbers(step))
            advance(1, f"return {earned(step.return_percent, step.mean_return, env.facts.optimum)}")
            on_step(step)

        train_learner(learner, env, sampling, training, seed, note, checkpoints=places, done=done)
    return learner
