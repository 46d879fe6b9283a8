"""Checks of cells before anything runs; checks that need torch come last."""

from __future__ import annotations

import json
from collections.abc import Sequence

from ..agents.io.load import MemberConfig, check_members, check_model
from ..agents.io.models import TABLE, WHOLE_TEAMS
from ..agents.principles import read_principles
from ..agents.word_model import NAME as WORDS
from ..algorithms.options import UpdaterOptions, check_warmup
from ..algorithms.registration import learns
from ..config import ConfigError
from ..envs.base import TextDecPOMDP, first_rows
from ..envs.wrappers import with_protocol
from ..training.fit import check_compatible
from ..training.judged import check_judged
from ..training.partners import check_pool
from .setup import build_env, build_task, shows_texts, with_defaults
from .suite import Cell, StageConfig


def check_cells(cells: Sequence[Cell], *, learn: bool = True, executor: str = "local") -> list[Cell]:
    """Make the environments of all cells, look for their models, and load their methods.

    Args:
        cells: The cells.
        learn: Whether learners are trained; then the training environments are made, too.
        executor: Backend for the models.

    Returns:
        The cells, completed by `with_defaults`.

    Raises:
        ConfigError: See `check_methods`, `check_models`, `validated` and `check_stages`.
        KeyError: There is no such environment or method.
        TaskError: See `TextDecPOMDP.try_rows`.
        ValueError: Tasks, an option, a model or a sampling do not exist.
    """
    tasks: dict[str, TextDecPOMDP] = {}
    for cell in cells:
        if _task_key(cell) in tasks:
            continue
        tasks[_task_key(cell)] = build_task(cell, evaluation=True)
        tasks[_task_key(cell)].task.try_rows()
        config = cell.environment
        if learn and (config.eval_tasks is not None or config.split or config.tasks not in ("sample", "hub")):
            first_rows(build_task(cell, evaluation=False), 1).task.try_rows()
    named = ((name, cell) for cell in cells for name in cell.models if name != cell.reward_model)
    for name, key in dict.fromkeys((name, _task_key(cell)) for name, cell in named):
        check_model(name, tasks[key].task.facts.scripts)
    check_models(cells, learn=learn, executor=executor)
    check_methods(cells)
    envs = [with_protocol(tasks[_task_key(cell)], cell.protocol) for cell in cells]
    complete = [validated(cell, env, learn=learn) for cell, env in zip(cells, envs, strict=True)]
    if learn:
        of_stages: dict[str, TextDecPOMDP] = {}
        for cell, env in zip(complete, envs, strict=True):
            check_stages(cell, env, of_stages)
    return complete


def validated(cell: Cell, env: TextDecPOMDP, *, learn: bool = True) -> Cell:
    """Return the cell completed by `with_defaults`, after checking its learners, environment and model together.

    Args:
        cell: The cell.
        env: Its evaluation environment, under its protocol.
        learn: Whether its learners are trained.

    Raises:
        ConfigError: A learner is incompatible with the environment or the model; see `check_compatible`.
        ModelError: The members do not cover every agent exactly once; see `check_members`.
        CheckpointError: A run of the partners has no trained team; see `check_pool`.
    """
    if cell.model.members:
        check_members(env.possible_agents, [env.role(agent) for agent in env.possible_agents], cell.model.members)
    here = [stage for stage in cell.method.stages if not str(stage.environment)]  # see `check_stages` for the others
    for method in (*here, cell.method) if learn and cell.method.learns else ():
        check_compatible(method.name, method.options, env)
    if learn and cell.model.name in WHOLE_TEAMS and not cell.model.members and shows_texts(cell):
        raise ConfigError(
            f"{cell.method.title} trains on texts of other policies, and {cell.model.name} cannot read texts; give "
            "another model, such as builtin:tiny"
        )
    if learn and cell.method.learns and cell.training.judge:
        read_principles(cell.training.judge)
        check_judged(env, cell.training.group_size)
    complete = with_defaults(cell, env)
    if learn and cell.method.learns and cell.training.partners:
        alike = {} if cell.model.members else complete.model.model_dump(include={"name", "sharing", "lora_rank"})
        check_pool(cell.training.partners, env, alike)
    return complete


def check_stages(cell: Cell, env: TextDecPOMDP, known: dict[str, TextDecPOMDP]) -> None:
    """Check that the team of a cell can act in the training environments of all stages, and learn there.

    Args:
        cell: The cell, completed by `with_defaults`.
        env: Its evaluation environment, under its protocol.
        known: Environments of stages that were made before; new ones are added.

    Raises:
        ConfigError: The learner of a stage is incompatible, the team has no member for an agent or a role of a stage,
            or a table or `builtin:words`, which are built for the environment of the run, lack an action or a word.
        TaskError: See `TextDecPOMDP.try_rows`.
    """
    models = {member.model for member in cell.model.members} or {cell.model.name}
    for number, stage in enumerate(cell.method.stages, 1):
        if not str(stage.environment):
            continue
        there = cell.at_stage(stage)
        key = json.dumps([there.environment.model_dump(), cell.protocol], sort_keys=True, default=str)
        if key not in known:
            known[key] = build_env(there, cell.protocol, evaluation=False)
            first_rows(known[key], 1).task.try_rows()
        other, where = known[key], f"stage {number} of {cell.method.title} ({stage.environment})"
        for agent in other.possible_agents:
            if agent not in env.possible_agents:
                raise ConfigError(
                    f"{where} has {agent}, and the run has only {', '.join(env.possible_agents)}, so the team has no "
                    "member for it; give the run the largest team, and earlier stages smaller ones"
                )
            if (role := other.role(agent)) != env.role(agent):
                raise ConfigError(
                    f"{where}: {agent} has the role {role!r}, and in the run {env.role(agent)!r}; a member keeps its "
                    "role, so change another option"
                )
            actions = other.choices(agent)
            if TABLE in models and (not actions or set(actions) - set(env.choices(agent))):
                new = ", ".join(map(repr, sorted(set(actions) - set(env.choices(agent)))[:3])) or "any text"
                raise ConfigError(
                    f"{where} has actions of {agent} that the run does not have ({new}), and {TABLE} chooses among "
                    "those of the run; give the run the largest task, or another model"
                )
        words = set(other.task.facts.vocabulary) - set(env.task.facts.vocabulary)
        if WORDS in models and words:
            raise ConfigError(
                f"{where} has words that the run does not have ({', '.join(sorted(words)[:3])}), and {WORDS} knows "
                "those of the run; give the run the largest task, or another model"
            )
        check_compatible(stage.name, stage.options, other)


def _task_key(cell: Cell) -> str:
    return json.dumps([cell.environment.model_dump(), cell.evaluation.split], sort_keys=True, default=str)


def check_models(cells: Sequence[Cell], *, learn: bool = True, executor: str = "local") -> None:
    """Raise ConfigError for devices that do not exist and for options that contradict each other.

    The arguments are those of `check_cells`. Devices of other machines of a Ray cluster are not checked.
    """
    for cell in cells:
        for place in cell.model.members or [cell.model]:
            trained = learn and cell.method.learns and (not isinstance(place, MemberConfig) or place.train)
            place.check_conflicts(trained=trained, placed=executor != "local")
            if trained and cell.training.staleness and (executor == "local") != bool(place.engine):
                raise ConfigError(
                    f"staleness is {cell.training.staleness}, executor {executor!r} and engine "
                    f"{place.engine.get('kind', 'none')!r}; sampling during updates needs an engine with the executor "
                    "'local', or no engine with 'processes' or 'ray'; change them, or set staleness to 0"
                )
    places = [place for cell in cells for place in cell.model.members or [cell.model]]
    if executor == "torchrun":
        from ..training.workers.torchrun import check_ranks  # loads torch

        check_ranks([place.ranks for place in places])
    for name in dict.fromkeys(name for place in places for name in place.devices):
        check_device(name, executor)


def check_device(name: str, executor: str = "local") -> None:
    """Raise ConfigError for a device that this machine does not have."""
    import torch

    if name == "auto":
        return
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ConfigError(f"device {name!r} does not exist; give auto, cpu, cuda, cuda:1, ...") from None
    if executor == "ray":
        if ":" in name:
            raise ConfigError(f"device {name!r}: Ray assigns the devices of its workers; give cuda, cpu or auto")
        return
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if device.type == "cuda" and (device.index or 0) >= count:
        raise ConfigError(f"device {name!r}: this machine has {count} CUDA devices; give --device cpu or auto")


def check_methods(cells: Sequence[Cell]) -> None:
    """Load the learners of all cells, and check their options against the training.

    Raises:
        ConfigError: A method breaks its contract, a group is too small for its learner, the warmup of the learning rate
            takes all steps, the stages leave no steps for the method, or learnability is set for a stream of tasks.
    """
    for cell in cells:
        if cell.training.learnability and cell.environment.options.get("streaming"):
            raise ConfigError(
                f"training.learnability is {cell.training.learnability}, but every row of a stream is played once; set "
                "it to 0, or leave the option streaming out"
            )
        title, steps, size = cell.method.title, cell.training.steps, cell.training.group_size
        left = steps - sum(stage.steps for stage in cell.method.stages)
        for method in (*cell.method.stages, cell.method):
            if not learns(method.name) and cell.method.stages:
                raise ConfigError(f"{method.name} does not learn, and every stage needs a learner; leave it out")
            options = method.options
            if isinstance(options, UpdaterOptions) and steps:
                try:
                    check_warmup(options, method.steps if isinstance(method, StageConfig) else left)
                except ValueError as error:
                    raise ConfigError(f"options of {method.name}: {error}") from None
            if size < options.least_group_size and steps:
                raise ConfigError(
                    f"group_size is {size}, but {title} compares the episodes of a group and needs at least "
                    f"{options.least_group_size}; give {options.least_group_size} or more (--group-size), or train "
                    "mareinforce, which has no baseline"
                )
        if cell.method.stages and left <= 0:
            raise ConfigError(
                f"{title}: its stages take {steps - left} of {steps} steps, so none is left for {cell.method.name}; "
                "increase training.steps, which includes the steps of all stages"
            )
