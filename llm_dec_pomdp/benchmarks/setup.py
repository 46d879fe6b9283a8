"""Build the environments and the team that a cell names."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from ..agents.base import Team
from ..agents.io.load import MemberConfig, assemble_team, load_team
from ..agents.io.models import TABLE, load_policy
from ..agents.remote import Expert
from ..algorithms.registration import find_algorithm
from ..config import ConfigError, named_model
from ..envs.base import TextDecPOMDP, first_rows
from ..envs.registration import make
from ..envs.wrappers import LearnedReward, with_protocol
from ..evaluation.play import default_samples
from ..evaluation.teams import default_model, known_of
from ..seeding import derive
from ..user_code import is_of_user
from .suite import Cell

_OPTIONS = {"max_turns": "turns", "fields": "field"}  # of the command line


def shows_texts(cell: Cell) -> bool:
    """Whether a learner of the cell shows its policies the texts of others, which a table cannot be."""
    return any(find_algorithm(method.name).load().shows_texts for method in (*cell.method.stages, cell.method))


def with_defaults(cell: Cell, env: TextDecPOMDP) -> Cell:
    """The cell with what it leaves to its environment: the model, and the episodes per task.

    Args:
        cell: As a suite or options describe it.
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
    """The same as `build_task`, under a protocol."""
    return with_protocol(build_task(cell, evaluation=evaluation), protocol)


def build_task(cell: Cell, *, evaluation: bool) -> TextDecPOMDP:
    """The training or the evaluation environment of a cell.

    Raises:
        TaskError: Tasks that cannot be used; a stream in an evaluation that does not say how many of them.
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
    """Make an environment with options that a user wrote.

    Args:
        env_id: A registered id or "module:Class".
        options: Of its constructor, by name.
        arguments: Those that have options of their own; None means the constructor's default.

    Raises:
        ConfigError: An option that is also in `arguments`, or a value that the constructor refuses.
        KeyError: Unknown id; the message names the nearest ones.
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
            f"{env_id} cannot be made with {listed}: {error}; its manual says what they take (llm-dec-pomdp list "
            f"{env_id})"
        ) from error


def bind_base(env: TextDecPOMDP, team: Team, model: str) -> None:
    """Let the model below a team's adapters judge.

    Raises:
        ConfigError: The team has no adapters on a model of this process.
    """
    from ..agents.judges import ModelJudge  # loads torch
    from ..agents.language_model.policy import LanguageModel

    bases = [policy.base() for policy in team.members.values() if isinstance(policy, LanguageModel)]
    if env.facts.judge is None or not bases or bases[0] is None:
        raise ConfigError(
            "judge is 'base', the model below a team's adapters, and this team has none in this process; give "
            "sharing=lora with the local executor, or the name of a model"
        )
    env.facts.judge.bind(ModelJudge(bases[0], model, agent=env.possible_agents[0]))


def build_team(
    cell: Cell, env: TextDecPOMDP, *others: TextDecPOMDP, train: bool = True, load: Callable[..., Team] = load_team
) -> Team:
    """The team that a cell names, for the agents of an environment; scripted members know the tasks of `others` too.

    Without `train` no weights are trainable, so that on CUDA all of them are bfloat16. `load` loads the models.
    """
    model, agents = cell.model, env.possible_agents
    members = model.members or [MemberConfig(agents=agents, model=model.name, train=train, **model.options())]
    seed = derive(cell.seed, "team")
    return assemble_team(agents, members=members, seed=seed, load=load, **known_of(env, *others))
