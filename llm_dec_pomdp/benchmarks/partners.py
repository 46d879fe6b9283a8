"""Cells that evaluate trained teams with other partners: cross-play, faulty members and other team sizes.

Each is an ordinary evaluation: its members are those of saved teams (`agents.io.load.SavedMember`), some of them with a
fault. So it has its own folder, resumes, and keeps traces like any other cell.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from ..agents.base import Team
from ..agents.io.load import SAY, MemberConfig, SavedMember
from ..agents.io.models import TABLE
from ..agents.partners import Fault, replace_members
from ..agents.scripted import Scripted
from ..agents.word_model import NAME as WORDS
from ..config import ConfigError
from ..envs.base import TextDecPOMDP
from ..evaluation import play
from ..evaluation.crossplay import Composition, compositions, roles_of
from ..options import Sampling, TrainerConfig
from ..training.checkpoint import cells_of, differences, find_team
from ..types import grouped
from .setup import build_env
from .suite import Cell, MethodConfig, ModelConfig, cell_of

INTACT = "intact"
MOST_TEXTS = 64  # maximum number of actions of a role that a search for an adversary tries
_SEARCHED = 20  # episodes for each action
_SHARE = 0.5  # share of silent or noisy texts, in faults that are not permanent


@dataclass(frozen=True)
class SavedTeam:
    """A trained team on disk.

    Attributes:
        name: Its name in tables.
        folder: Folder of its weights.
        cell: The cell that trained it.
        agents: Its agents with their roles.
    """

    name: str
    folder: Path
    cell: Cell
    agents: Mapping[str, str]

    def member(self, agent: str, source: str = "", *, trained: bool = True, fault: Fault | None = None) -> MemberConfig:
        """Return the member of this team that plays an agent.

        Args:
            agent: The agent in the evaluation.
            source: The agent in this team; "": the same name.
            trained: False: the member as it was before training.
            fault: A fault of the member.
        """
        name = source or agent
        model = str(SavedMember(self.folder, source if source != agent else "", trained))
        sampling = Sampling(**self.cell.sampling_of(name, self.agents[name]).model_dump())
        return MemberConfig(agents=[agent], model=model, fault=fault, sampling=sampling)


def team_folders(runs: Sequence[Path]) -> list[Path]:
    """Return the folders of weights of runs; a run with several trained teams, such as a benchmark, gives all of them.

    Raises:
        CheckpointError: A folder has no trained team.
    """
    folders: list[Path] = []
    for run in runs:
        several = [cell for cell in cells_of(run.absolute()) if (cell / "team").is_dir()]
        folders += [find_team(place) for place in (several if len(several) > 1 else [run.absolute()])]
    return folders


def read_teams(folders: Sequence[Path]) -> list[SavedTeam]:
    """Return the teams in folders of weights; this makes their environments, which may be code of a user.

    Raises:
        CheckpointError: A team does not name its cell.
    """
    teams: list[SavedTeam] = []
    for name, folder in zip(_names(folders), folders, strict=True):
        cell = cell_of(folder)
        env = build_env(cell, cell.protocol, evaluation=True)
        teams.append(SavedTeam(name, folder, cell, {agent: env.role(agent) for agent in env.possible_agents}))
    return teams


def _names(folders: Sequence[Path]) -> list[str]:
    """Return a short name for each folder of weights: its run, its cell if runs repeat, or its path."""
    cells = [folder.parent if folder.name == "team" else folder for folder in folders]
    for shortened in (
        [cell.parent.parent.name if cell.parent.name == "cells" else cell.name for cell in cells],
        [cell.name for cell in cells],
    ):
        if len(set(shortened)) == len(folders):
            return shortened
    return [str(folder) for folder in folders]


def check_partners(teams: Sequence[SavedTeam]) -> None:
    """Check that teams can be crossed, before anything is loaded.

    Raises:
        ConfigError: There is one team, a team is given twice, or the teams differ in environment, protocol or roles,
            or have other weights although they name the same model.
    """
    first = teams[0]
    if len(teams) < 2:
        raise ConfigError(
            f"{str(first.folder)!r} is the only team; cross-play needs at least two, e.g. runs with other seeds"
        )
    for number, team in enumerate(teams):
        if team.folder in [earlier.folder for earlier in teams[:number]]:
            raise ConfigError(f"{str(team.folder)!r} is given twice; give each team once")
        there, here = ({"protocol": t.cell.protocol, **_environment(t.cell)} for t in (first, team))
        if lines := differences(there, here):
            raise ConfigError(
                f"{team.name!r} was not trained on the same environment and protocol as {first.name!r} (there -> "
                f"here): {'; '.join(lines)}; give runs that differ in their seed or learner only"
            )
        if first.agents != team.agents:
            raise ConfigError(
                f"{team.name!r} has the roles {', '.join(team.agents.values())}, but {first.name!r} has "
                f"{', '.join(first.agents.values())}; give teams with the same roles"
            )
        ours, theirs = (t.cell.without()["model"] for t in (first, team))
        if ours == theirs and (lines := differences(_weights(first.folder), _weights(team.folder))):
            raise ConfigError(
                f"the weights in {str(team.folder)!r} belong to another model than those in {str(first.folder)!r}, "
                f"although both runs name the same ({lines[0]}); give the weights that the run has saved"
            )


def _environment(cell: Cell) -> dict[str, object]:
    """Return the fields of an environment that teams must share: all except names and tasks."""
    return cell.environment.model_dump(include={"id", "max_turns", "options"})


def _weights(folder: Path) -> dict[str, list[str]]:
    """Return the names of the tensors in each file of weights, without loading them."""
    from safetensors import safe_open

    found: dict[str, list[str]] = {}
    for path in sorted(folder.glob("*/*.safetensors")):
        with cast("Any", safe_open)(path, "np") as file:
            found[str(path.relative_to(folder))] = sorted(cast("list[str]", file.keys()))
    return found


def check_roles(team: SavedTeam, env: TextDecPOMDP) -> None:
    """Raise ConfigError if a team cannot play an environment because the roles differ."""
    there = {agent: env.role(agent) for agent in env.possible_agents}
    if there != team.agents:
        raise ConfigError(
            f"{env.metadata['name']} has the roles {', '.join(there.values())}, but {team.name!r} was trained for "
            f"{', '.join(team.agents.values())}; give an environment with the same agents and roles"
        )


def evaluation_cell(base: Cell, label: str, members: Sequence[MemberConfig]) -> Cell:
    """Return the cell that evaluates some members as `base` describes, without training."""
    evaluation = base.evaluation.model_copy(update={"every": 0, "timing": 0})
    return dataclasses.replace(
        base,
        environment=base.environment.model_copy(update={"protocol": base.protocol}),
        method=MethodConfig(name="concat", label=label),
        model=ModelConfig(name=base.model.name, members=list(members)),
        training=TrainerConfig(steps=0),
        evaluation=evaluation,
    ).loaded()


def crossplay_cells(teams: Sequence[SavedTeam], base: Cell, env: TextDecPOMDP) -> dict[Composition, Cell]:
    """Return the cell of every composition of `evaluation.crossplay.compositions`.

    Args:
        teams: The teams.
        base: Environment, sampling, tasks and seed of the evaluation.
        env: Its environment.
    """
    roles = roles_of(env)
    cells: dict[Composition, Cell] = {}
    for sources in compositions(len(roles), len(teams)):
        members = [
            teams[i].member(agent) for agents, i in zip(roles.values(), sources, strict=True) for agent in agents
        ]
        cells[sources] = evaluation_cell(base, _label(sources, list(roles)), members)
    return cells


def _label(sources: Composition, roles: Sequence[str]) -> str:
    """Return the name of a composition, such as "team 1" or "reader of team 2 in team 1"."""
    if len(set(sources)) == 1:
        return f"team {sources[0] + 1}"
    role = next(r for r in range(len(sources)) if len({*sources[:r], *sources[r + 1 :]}) == 1)
    return f"{roles[role]} of team {sources[role] + 1} in team {sources[role - 1] + 1}"


# --- changes of one team ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Change:
    """One member of a team that is changed.

    Attributes:
        name: The change, such as "silent".
        role: The role of the changed member.
        cell: The evaluation of the changed team.
    """

    name: str
    role: str
    cell: Cell


def intact_cell(team: SavedTeam, base: Cell) -> Cell:
    """Return the cell that evaluates a team as it is."""
    return evaluation_cell(base, INTACT, [team.member(agent) for agent in team.agents])


def earlier_checkpoint(team: SavedTeam) -> Path | None:
    """Return the oldest kept checkpoint of a run before its last update; None if there is none."""
    steps = {int(p.name.removeprefix("step-")): p for p in team.folder.parent.glob("checkpoints/step-*")}
    older = {step: path for step, path in steps.items() if step < team.cell.training.steps}
    return older[min(older)] if older else None


def scripts_of(base: Cell, env: TextDecPOMDP) -> Sequence[str]:
    """Return the scripts that can act: without messages of a protocol, and "gold" only if all tasks have references."""
    known = all(item.reference for item in env.items)
    return [name for name in env.task.facts.scripts if base.protocol == "parallel" and (known or name != "gold")]


def changes_of(
    team: SavedTeam,
    base: Cell,
    env: TextDecPOMDP,
    traces: Path,
    tokens: Mapping[str, float],
    adversaries: Mapping[str, str],
) -> list[Change]:
    """Return all changes of single members of a team to measure.

    Args:
        team: The team.
        base: Environment, sampling, tasks and seed of the evaluation.
        env: Its environment.
        traces: The traces of the intact team.
        tokens: Mean number of tokens of an action of the intact team, by role. A late member has half of them; there is
            none if an action has fewer than 2 tokens.
        adversaries: Model of the adversary by role, without roles that have none.
    """
    found: list[Change] = []
    earlier = earlier_checkpoint(team)
    for role, agents in roles_of(env).items():
        others = [team.member(agent) for agent in team.agents if agent not in agents]
        changed: dict[str, list[MemberConfig]] = {
            "untrained": [team.member(agent, trained=False) for agent in agents],
        }
        if earlier is not None:
            older = dataclasses.replace(team, folder=earlier)
            changed[f"after {int(earlier.name.removeprefix('step-'))} updates"] = [
                older.member(agent) for agent in agents
            ]
        scripts = {f"script:{name}": f"script:{name}" for name in scripts_of(base, env)}
        scripts |= {"adversary": adversaries[role]} if role in adversaries else {}
        changed |= {name: [MemberConfig(agents=agents, model=model)] for name, model in scripts.items()}
        faults = {
            "silent": Fault(kind="silent"),
            f"silent {_SHARE:.0%}": Fault(kind="silent", share=_SHARE),
            f"noisy {_SHARE:.0%}": Fault(kind="noisy", share=_SHARE, traces=str(traces)),
        }
        if tokens[role] >= 2:
            faults["late"] = Fault(kind="late", tokens=int(tokens[role] / 2))
        changed |= {name: [team.member(agent, fault=fault) for agent in agents] for name, fault in faults.items()}
        found += [
            Change(name, role, evaluation_cell(base, f"{role} {name}", [*members, *others]))
            for name, members in changed.items()
        ]
    return found


def find_adversary(team: Team, env: TextDecPOMDP, agents: Sequence[str], seed: int) -> str:
    """Return the model of the member that lowers the return most.

    It is the script "adversary" of the environment. If there is none, it is a member that always writes the same text.
    The text is the one with the lowest return among its list of actions and the empty text, tried in some episodes with
    other seeds than the evaluation. So the measured loss is a lower bound of the harm that an adversary can do.

    Args:
        team: The intact team.
        env: The environment, under its protocol.
        agents: The agents of the changed role.
        seed: Seed of the search.

    Raises:
        ConfigError: The environment has no such script, and the role has no list of at most `MOST_TEXTS` actions.
    """
    if "adversary" in env.task.facts.scripts:
        return "script:adversary"
    texts = env.choices(agents[0])
    if not 0 < len(texts) <= MOST_TEXTS:
        number = f"{len(texts)} possible actions" if texts else "no list of actions"
        raise ConfigError(
            f"{env.metadata['name']} has no script 'adversary', and {env.role(agents[0])!r} has {number}; a search "
            f"needs a list of at most {MOST_TEXTS}"
        )

    def value(text: str) -> float:
        other = replace_members(team, dict.fromkeys(agents, Scripted(lambda agent, history: text)))
        number = _SEARCHED if len(env.items) == 1 else 1
        summary = play.evaluate(other, env, team.sampling, seed, items=_SEARCHED, samples=number)[1]
        return summary.return_percent.mean

    return SAY + min(["", *texts], key=value)


# --- other sizes ------------------------------------------------------------------------------------------------------


def size_cells(team: SavedTeam, base: Cell, sizes: Sequence[int]) -> dict[int, tuple[Cell, Cell]]:
    """Return the cells of a team in environments of other sizes, by size: with trained members, and untrained ones.

    The agents of a kind of role get the policies of this kind in the trained team in order, repeatedly if there are
    more agents than policies. The kind of "speaker 3" is "speaker".

    Raises:
        ConfigError: The environment has no size, a size is given twice, the team has no role of a kind, or a table
            has other actions in that size.
        ValueError: The environment refuses a size.
    """
    env = build_env(base, base.protocol, evaluation=True)
    option = env.task.facts.size
    if not option:
        raise ConfigError(
            f"{base.environment.id} has no option for its number of agents, so --sizes does not apply; leave it out"
        )
    if len(set(sizes)) < len(sizes):
        raise ConfigError(f"--sizes is {','.join(map(str, sizes))}, which has a size twice; give each size once")
    found: dict[int, tuple[Cell, Cell]] = {}
    for size in sizes:
        options = {**base.environment.options, option: size}
        other = dataclasses.replace(base, environment=base.environment.model_copy(update={"options": options}))
        sized = build_env(other, base.protocol, evaluation=True)
        sources = _sources(team, sized, size)
        if TABLE in team.cell.models or WORDS in team.cell.models:
            _check_same_actions(team, env, sized, sources, size)
        cells = [
            evaluation_cell(other, label, [team.member(a, source, trained=trained) for a, source in sources.items()])
            for label, trained in ((f"size {size}", True), (f"size {size} untrained", False))
        ]
        found[size] = (cells[0], cells[1])
    return found


def _sources(team: SavedTeam, env: TextDecPOMDP, size: int) -> dict[str, str]:
    """Return, for every agent of an environment of another size, the agent of the trained team that plays it."""
    by_kind = grouped(team.agents, lambda agent: kind_of(team.agents[agent]))
    sources: dict[str, str] = {}
    for kind, agents in grouped(env.possible_agents, lambda agent: kind_of(env.role(agent))).items():
        if kind not in by_kind:
            raise ConfigError(
                f"{env.metadata['name']} of size {size} has the role {kind!r}, but {team.name!r} was trained with "
                f"{', '.join(by_kind)}; give sizes with the same kinds of roles"
            )
        sources |= dict(zip(agents, itertools.cycle(by_kind[kind])))
    return sources


def kind_of(role: str) -> str:
    """Return a role without its number: "speaker" for "speaker 3"."""
    return re.sub(r" \d+$", "", role)


def _check_same_actions(
    team: SavedTeam, trained: TextDecPOMDP, env: TextDecPOMDP, sources: Mapping[str, str], size: int
) -> None:
    """Raise ConfigError if a policy with a fixed list of actions or words would need another list in this size."""
    for agent, source in sources.items():
        if tuple(env.choices(agent)) != tuple(trained.choices(source)):
            raise ConfigError(
                f"{team.cell.model.name} of {team.name!r} has the actions of {trained.role(source)!r} as it was "
                f"trained, which are other ones in size {size}; train a language model, or leave this size out"
            )
    if env.task.facts.vocabulary != trained.task.facts.vocabulary:
        raise ConfigError(
            f"{team.cell.model.name} of {team.name!r} has the words of the environment as it was trained, which are "
            f"other ones in size {size}; train a language model, or leave this size out"
        )
