"""Functions to load, train and evaluate teams and to collect episodes; `llm_dec_pomdp` exports all of them.

    import llm_dec_pomdp

    train_env, test_env = (llm_dec_pomdp.make("tldr-v0", split=split) for split in ("train", "test"))
    team = llm_dec_pomdp.load_team(train_env)
    llm_dec_pomdp.train(team, train_env, "magrpo", steps=40, learning_rate=6e-4)
    print(llm_dec_pomdp.evaluate(team, test_env))

`train` and `evaluate` do the same as the commands `train` and `eval`, without files. `training.train` has more
settings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .agents.base import Policy, Sampling, Team
from .agents.io.load import MemberConfig, TeamConfig, agents_by_name, assemble_team, read_members
from .agents.io.save import load_weights, read_sampling, read_samplings
from .agents.principles import ComparingJudge, load_principles
from .algorithms.base import Algorithm
from .algorithms.registration import find_algorithm, learns
from .config import ConfigError, build
from .envs.base import TextDecPOMDP, first_rows
from .evaluation import play
from .evaluation.metrics import Summary, earned
from .evaluation.teams import default_model, known_of
from .options import EvaluationConfig, PartnersConfig
from .printable import Terminal
from .progress import shown
from .registries import nearest
from .rollout import independent
from .storage.runfolder import new_run_folder
from .training import Counters, Rollback, TrainerConfig, TrainingStep, restore
from .training import train as train_learner
from .training.checkpoint import Checkpoints, find_team
from .training.divergence import describe_learning_rates
from .training.fit import check_compatible
from .training.judged import WithJudge, check_judged
from .training.partners import WithPartners, check_pool
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
    """Load a team for the agents of an environment, with one model for all roles or one model per role.

        load_team(env, "builtin:tiny")
        load_team(env, {"summary": "builtin:tiny", "elaboration": {"model": "./mine", "sharing": "lora"}})
        load_team(env, "team.toml")

    Args:
        env: The environment, with its protocol (`envs.wrappers.with_protocol`).
        model: One of these:

            * a name: "builtin:tiny", "builtin:extractive", "builtin:words", "builtin:table", a folder, a .gguf file, a
              name on the hub, the address of a server, or a script of the environment such as "script:optimal";
            * a mapping from roles or agents to names, or to tables with `model` and fields of
              `agents.io.load.MemberConfig`;
            * a .toml file of members;
            * "" (default): the model of `evaluation.teams.default_model`.
        weights: The source of weights and of sampling options: a folder that `save_team`, a run or `export` wrote, a
            checkpoint, or a folder of checkpoints, of which the newest undamaged one is loaded.
        sampling: Sampling options of single agents, by name or role. Given fields override the team's sampling in
            training and evaluation: `{"agent_0": Sampling(temperature=0.5)}`. Default: as in `weights`.
        seed: The seed of randomly initialized weights.
        options: Fields of `agents.options.ModelOptions`: sharing="lora", device="cuda:1", dtype="bfloat16", ...; with
            several members, defaults that the table of a member overrides.

    Returns:
        The team.

    Raises:
        TypeError: `env` is not an environment.
        ConfigError: An option or an agent does not exist, or a value is invalid.
        ModelError: A model cannot be loaded, or the members do not play each agent exactly once.
        CheckpointError: The weights belong to another kind of team.
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
            raise ConfigError(f"sampling has {name!r}, which is not an agent or role; {nearest(name, by_name)}")
        team.samplings |= dict.fromkeys(by_name[name], change)
    return team


def _with_defaults(members: Sequence[MemberConfig], options: dict[str, Any]) -> list[MemberConfig]:
    """Return members with `options` as defaults."""
    return [
        build(MemberConfig, {**options, **member.model_dump(exclude_unset=True)}, source=f"options of {member.model}")
        for member in members
    ]


def _check_env(env: object, call: str) -> None:
    if not isinstance(env, TextDecPOMDP):
        raise TypeError(f"env is {env!r:.80}, not an environment; make one with make('tldr-v0') and call {call}")


def collect(
    policy: Policy,
    env: TextDecPOMDP,
    *,
    items: int | None = None,
    samples: int = 1,
    sampling: Sampling | None = None,
    seed: int = 0,
) -> list[Group]:
    """Collect independent episodes of the environment's tasks.

    Args:
        policy: The policy of all agents, usually a team.
        env: The environment.
        items: Number of tasks, starting with the first; None: all.
        samples: Number of episodes per task.
        sampling: Sampling options; None: those of the team (`Team.sampling`).
        seed: The seed of completions and of the environment's chance.

    Returns:
        One group per task, with all actions, token ids, log-probabilities, rewards and events.

    Raises:
        TypeError: `env` is not an environment.
        ConfigError: `items` or `samples` is below 1.
    """
    _check_env(env, "collect(policy, env)")
    _check_numbers(items, samples)
    sampling = _sampling_of(policy, sampling)
    return [group for some in independent(env, policy, sampling, seed, items, samples) for group in some]


def _check_numbers(items: int | None, samples: int | None) -> None:
    build(EvaluationConfig, {"items": items, "samples": samples}, source="options")


def _sampling_of(policy: Policy, sampling: Sampling | None) -> Sampling:
    """Return the given sampling options, or those of the team."""
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
    """Evaluate a team as `llm-dec-pomdp eval` does: collect episodes and summarize them.

    Args:
        policy, env, items, sampling, seed: See `collect`.
        samples: Number of episodes per task; None: 1, or 100 if there is a single task.

    Returns:
        The return in %, the reward components and the costs, with confidence intervals.

    Raises:
        TypeError, ConfigError: See `collect`.
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
    learnability: float | None = None,
    on_divergence: str | None = None,
    partners: PartnersConfig | Mapping[str, Any] | None = None,
    judge: str | ComparingJudge | None = None,
    judge_model: str | None = None,
    track: str | Sequence[str] = (),
    progress: bool = False,
    **options: Any,
) -> Algorithm:
    """Train a team in place.

    Args:
        team: The team, whose weights change.
        env: The training tasks, with the communication protocol of the team.
        algorithm: A registered learner, or "module:Class".
        steps, prompts_per_step, group_size, save_every, staleness, learnability, on_divergence: Fields of
            `options.TrainerConfig`; None: their defaults. on_divergence="rollback" needs `checkpoints`, and may repeat
            steps.
        sampling: Sampling options, which the team keeps for evaluations; None: those of the team.
        seed: The seed. The same seed on the same kind of machine gives the same run.
        on_step: A function that is called after every update with its results, for logs, curves or evaluations.
        checkpoints: A folder for checkpoints. If it has checkpoints of this training, training resumes from the newest.
        partners: Partners that replace members in some groups, as `options.PartnersConfig` or its fields:
            `{"pool": "self", "share": 0.5}`; see `training.partners`. None: no partners.
        judge, judge_model: A judge whose ranking of each group is the reward, see `training.judged`: "principles:FILE"
            with the name of a model, or your own object with the methods of `ComparingJudge`. None: the reward of the
            environment.
        track: Trackers that also receive the metrics of updates: "tensorboard" (event files in the folder of
            checkpoints, else in a new folder in runs/), "wandb", "mlflow", or several of them.
        progress: Show progress on standard error.
        options: Options of the algorithm: learning_rate=6e-4, ...; or num_generations in place of group_size.

    Returns:
        The learner.

    Raises:
        TypeError: `team` is not a team, `env` is not an environment, or `algorithm` is not a name.
        ConfigError: An option does not exist or has an invalid value, the algorithm does not learn or does not apply to
            this environment, or a tracker is not installed.
        CheckpointError: The folder has checkpoints of another training, or a run of the partners has no such team.
        TaskError: See `TextDecPOMDP.try_rows`.
        TrainingError: See `training.train`.
    """
    _check_env(env, "train(team, env)")
    if not isinstance(team, Team):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"team is {team!r:.80}, not a team; make one with load_team(env)")
    trackers = check_trackers([track] if isinstance(track, str) else track)
    length = {
        "steps": steps,
        "prompts_per_step": prompts_per_step,
        "group_size": group_size,
        "save_every": save_every,
        "staleness": staleness,
        "learnability": learnability,
        "on_divergence": on_divergence,
        "partners": partners,
        "judge": judge if isinstance(judge, str) else None,
        "judge_model": judge_model,
        "num_generations": options.pop("num_generations", None),
    }
    training = build(TrainerConfig, {n: v for n, v in length.items() if v is not None}, source="train()")
    team.sampling = sampling = _sampling_of(team, sampling)
    if not isinstance(algorithm, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"algorithm is {algorithm!r:.80}; give the name of a learner, or 'module:Class'")
    if not learns(algorithm):
        raise ConfigError(f"algorithm {algorithm!r} does not learn; see the learners in `llm-dec-pomdp list`")
    spec = find_algorithm(algorithm)
    config = spec.config(options)
    check_compatible(algorithm, config, env)
    if training.partners:
        check_pool(training.partners, env)
    if judge:
        check_judged(env, training.group_size)
    if training.judge:
        judge = load_principles(training.judge, training.judge_model)
    first_rows(env, 1).task.try_rows()
    learner = spec.build(team, sampling, config)
    trained_learner = WithPartners(learner, training.partners) if training.partners else learner
    if judge and not isinstance(judge, str):
        trained_learner = WithJudge(trained_learner, judge)
    about = {"algorithm": algorithm, "environment": env.metadata["name"], "seed": seed}
    places, done = None, Counters()
    if checkpoints is not None:
        trained = {**about, "options": config.given(), "sampling": sampling.model_dump()}
        trained |= training.model_dump(include={"prompts_per_step", "group_size"})
        if training.staleness:
            trained["staleness"] = training.staleness
        if training.learnability:
            trained["learnability"] = training.learnability
        if training.on_divergence != "warn":
            trained["on_divergence"] = training.on_divergence
        if training.partners:
            trained["partners"] = training.partners.model_dump()
        if training.judge:
            trained |= training.model_dump(include={"judge", "judge_model"})
        if team.samplings:
            trained["samplings"] = {a: change.model_dump(exclude_unset=True) for a, change in team.samplings.items()}
        places = Checkpoints(Path(checkpoints), trained, keep=training.keep)
        done = restore(trained_learner, env, places)
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

        def back(rollback: Rollback) -> None:
            advance(rollback.to + 1 - rollback.at, "")

        places_and_progress: dict[str, Any] = {"checkpoints": places, "done": done, "on_rollback": back}
        train_learner(trained_learner, env, sampling, training, seed, note, **places_and_progress)
    return learner
