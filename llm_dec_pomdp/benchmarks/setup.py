"""Construction of the environments and the team of a cell."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..agents.base import Team
from ..agents.io.load import MemberConfig, assemble_team, load_team
from ..agents.io.models import TABLE, load_policy
from ..agents.io.save import load_weights
from ..agents.remote import Expert
from ..algorithms.registration import find_algorithm
from ..config import ConfigError, named_model
from ..envs.base import TextDecPOMDP, first_rows
from ..envs.registration import make
from ..envs.wrappers import LearnedReward, with_protocol
from ..episodes import read, to_episode
from ..evaluation.play import default_samples
from ..evaluation.teams import default_model, known_of
from ..seeding import derive
from ..types import Group
from ..user_code import is_of_user
from .suite import Cell, cell_of

_OPTIONS = {"max_turns": "turns", "fields": "field"}  # arguments and their command-line options


def shows_texts(cell: Cell) -> bool:
    """Return whether a learner of the cell trains policies on given texts; tables do not support this."""
    return any(find_algorithm(method.name).load().shows_texts for method in (*cell.method.stages, cell.method))


def with_defaults(cell: Cell, env: TextDecPOMDP) -> Cell:
    """Return the cell with the defaults of its environment for the model and the episodes per task.

    Args:
        cell: The cell, as a suite or options describe it.
        env: Its evaluation environment, under its protocol.
    """
    model, evaluation = cell.model, cell.evaluation
    if not (model.name or model.members):
        name = default_model(env, shows_texts=shows_texts(cell))
        different = len({tuple(env.choices(agent)) for agent in env.possible_agents}) > 1
        apart = {"sharing": "separate"} if name == TABLE and different else {}
        model = model.model_copy(update={"name": name, **apart})
    if evaluation.samples is None:
        evaluation = evaluation.model_copy(update={"samples": default_samples(env)})
    return dataclasses.replace(cell, model=model, evaluation=evaluation)


def build_env(cell: Cell, protocol: str, *, evaluation: bool) -> TextDecPOMDP:
    """Return the environment of `build_task` under a protocol."""
    return with_protocol(build_task(cell, evaluation=evaluation), protocol)


def build_task(cell: Cell, *, evaluation: bool) -> TextDecPOMDP:
    """Return the training or the evaluation environment of a cell, without a protocol.

    Raises:
        TaskError: The tasks cannot be used, or an evaluation on a stream has no number of tasks.
    """
    config = cell.environment
    tasks, split = config.tasks, config.split or ("train" if config.eval_tasks is None else "all")
    if evaluation:
        tasks, split = (tasks, cell.evaluation.split) if config.eval_tasks is None else (config.eval_tasks, "all")
    rest = dict(config.options)
    learnt = named_model(rest.get("reward"))
    if learnt is not None:
        del rest["reward"]
    options = {key: Expert(load_policy(m)) if (m := named_model(o)) else o for key, o in rest.items()}
    if config.fields:
        options["fields"] = config.fields
    task = make_task(config.id, options, tasks=tasks, split=split, max_turns=config.max_turns)
    task = first_rows(task, cell.evaluation.items) if evaluation else task
    if learnt is None:
        return task
    from .reward_models import LearnedScore  # loads torch

    return LearnedReward(task, LearnedScore(learnt, len(task.possible_agents), task.facts.vocabulary))


def make_task(env_id: str, options: Mapping[str, Any], **arguments: Any) -> Any:
    """Make an environment with the options of a user.

    Args:
        env_id: A registered id or "module:Class".
        options: Arguments of the constructor, by name.
        arguments: Arguments that have their own command-line options; None means the default of the constructor.

    Raises:
        ConfigError: An option is also in `arguments`, or the constructor refuses a value.
        KeyError: The id is unknown; the message suggests similar ones.
    """
    for name in options:
        if name in arguments or name == "max_cycles":
            option = {"max_cycles": "max_turns"}.get(name, name)
            raise ConfigError(
                f"option {name} = {options[name]!r} of {env_id}: give it as --{_OPTIONS.get(option, option)}, or as "
                f"`{option}` in a suite"
            )
    try:
        return make(env_id, **{name: value for name, value in arguments.items() if value is not None}, **options)
    except TypeError as error:
        if is_of_user(error):
            raise
        listed = ", ".join(f"{name} = {value!r}" for name, value in options.items()) or "no options"
        raise ConfigError(
            f"{env_id} cannot be made with {listed}: {error}; its page describes the options (llm-dec-pomdp list "
            f"{env_id})"
        ) from error


def bind_base(env: TextDecPOMDP, team: Team, model: str) -> None:
    """Use the base model of a team with adapters as the LLM judge of an environment.

    Raises:
        ConfigError: The team has no adapters on a base model in this process.
    """
    from ..agents.judges import ModelJudge  # loads torch
    from ..agents.language_model.policy import LanguageModel

    bases = [policy.base() for policy in team.members.values() if isinstance(policy, LanguageModel)]
    if env.facts.judge is None or not bases or bases[0] is None:
        raise ConfigError(
            "judge is 'base', the base model of a team with adapters, and this team has none in this process; give "
            "sharing=lora with the local executor, or the name of a model"
        )
    env.facts.judge.bind(ModelJudge(bases[0], model, agent=env.possible_agents[0]))


def build_team(
    cell: Cell, env: TextDecPOMDP, *others: TextDecPOMDP, train: bool = True, load: Callable[..., Team] = load_team
) -> Team:
    """Return the team of a cell.

    Args:
        cell: The cell.
        env: The environment whose agents the team has.
        others: Further environments, whose tasks scripted members know, too.
        train: Whether weights are trainable. If not, all weights are bfloat16 on CUDA.
        load: Function that loads the models, with the arguments of `load_team`.
    """
    model, agents = cell.model, env.possible_agents
    members = model.members or [MemberConfig(agents=agents, model=model.name, train=train, **model.options())]
    return assemble_team(
        agents,
        members=members,
        seed=derive(cell.seed, "team"),
        load=load,
        saved=functools.cache(load_saved),
        recorded=lambda file: [Group(str(file), tuple(map(to_episode, read(file))))],
        **known_of(env, *others),
    )


def load_saved(folder: Path, trained: bool) -> Team:
    """Return the team in a folder of weights, for the environment in which it was trained.

    Args:
        folder: A result of `find_team`.
        trained: False: the team before its training, with the same initial weights.

    Raises:
        CheckpointError: The team does not name its cell, or the weights belong to another kind of team.
    """
    cell = cell_of(folder)
    env = build_env(cell, cell.protocol, evaluation=True)
    team = build_team(with_defaults(cell, env), env)
    if weights := str(folder) if trained else cell.model.start:
        load_weights(Path(weights), team)
    return team
