"""The command `play`, in which a person acts for one role."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..agents.base import Policy, Request
from ..config import override
from ..options import Sampling
from ..printable import plain
from .console import out, stop, usage
from .options import EnvId, EnvOption, Model, Turns, configured, from_options, with_options
from .trust import typed

if TYPE_CHECKING:
    from ..types import Completion


@with_options(configured(Sampling, "max_new_tokens"))
def play(
    env_id: EnvId,
    role: Annotated[str | None, typer.Option(help="Your role. Default: the first one.")] = None,
    model: Model = "",
    task: Annotated[str | None, typer.Option(help="Task id. Default: a random task.")] = None,
    protocol: Annotated[
        str, typer.Option(help="Order of the agents: parallel, centralized, sequential or discussion.")
    ] = "parallel",
    turns: Turns = None,
    env_option: EnvOption = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Seed of the random task and of the actions of your teammates.")
    ] = None,
    out_file: Annotated[
        Path | None, typer.Option("--out", help="New file for the trace of the episode, in which you are an agent.")
    ] = None,
    **options: Any,
) -> None:
    """Act for one role yourself; a model acts for the other agents.

    You write the actions of all agents with this role. An empty line ends an action.

    Examples: [bold]llm-dec-pomdp play tldr-v0 --role elaboration[/]
              [bold]llm-dec-pomdp play research-v0 --role reader --model script:optimal --out trace.jsonl[/]
    """
    from ..agents.base import Team
    from ..agents.human import Human
    from ..agents.io.load import MemberConfig, assemble_team, check_model
    from ..agents.io.models import WHOLE_TEAMS
    from ..benchmarks.setup import make_task
    from ..envs.wrappers import with_protocol
    from ..episodes import Header, from_episode, write
    from ..episodes.header import HUMAN
    from ..evaluation.teams import default_model, known_of
    from ..registries import nearest
    from ..rollout import Trajectories
    from ..seeding import derive

    typed(env_id)
    with usage():
        if out_file is not None and out_file.exists():
            stop(f"{str(out_file)!r} exists already; give a new file, or remove it")
        if out_file is not None and not out_file.parent.is_dir():
            stop(f"the folder of {str(out_file)!r} does not exist; create it")
        sampling, of_env = from_options(Sampling, **options), override({}, env_option or [])
        env = with_protocol(make_task(env_id, of_env, split="all", max_turns=turns), protocol)
        roles = [env.role(agent) for agent in env.possible_agents]
        if role is not None and role not in roles:
            stop(f"--role: {env_id} has no role {role!r}; {nearest(role, dict.fromkeys(roles))}")
        env.reset(seed=seed, options={"task_id": task} if task else None)
        taken = role or roles[0]
        mine = [agent for agent in env.possible_agents if env.role(agent) == taken]
        others = [agent for agent in env.possible_agents if agent not in mine]
        model = model or default_model(env)
        if others:
            check_model(model, env.task.facts.scripts)
        out.print("Your role is", plain(taken, "bold"), f"in {env_id}, task {env.item.id}.")
        rest: Mapping[str, Policy] = {}
        if others:
            known: dict[str, Any] = {**known_of(env), "roles": [env.role(agent) for agent in others]}
            sharing = "separate" if model in WHOLE_TEAMS else "shared"
            members = [MemberConfig(agents=others, model=model, sharing=sharing, train=False)]
            rest = dict.fromkeys(others, LoadedMeanwhile(lambda: assemble_team(others, members=members, **known)))
        person = Human(partial(_ask_person, several=len(mine) > 1))
        team = Team({**dict.fromkeys(mine, person), **rest})  # the person first, while the model is being loaded
        try:
            groups = Trajectories().play(env, team, [env.item.id], [seed or 0], sampling)
        except EOFError:
            stop("the input ended before you wrote an action, so nothing was played", code=1)
    episode = groups[0].episodes[0]
    for turn in episode.turns:
        for agent, completion in turn.actions.items():
            if agent not in mine:
                out.rule(f"{env.role(agent)} wrote")
                out.print(completion.text)
    out.rule("score")
    for turn in episode.turns:
        if turn.score is not None:
            parts = "  ".join(f"{name} {value:.2f}" for name, value in turn.score.components.items())
            out.print(f"{turn.score.total:.2f} of {env.facts.score_range[1]:g}   {parts}")
    if out_file is not None:
        models = {agent: HUMAN if agent in mine else model for agent in env.possible_agents}
        of_env |= {"max_turns": turns} if turns else {}
        header = Header.of(env, env_id, options=of_env, protocol=protocol, models=models, sampling=sampling)
        write([from_episode(episode, header, env.item, seed=derive(seed or 0, "env"))], out_file)
        out.print(f"wrote the trace to {out_file}")


class LoadedMeanwhile(Policy):
    """A policy that is loaded in another thread while a person reads and writes."""

    def __init__(self, load: Callable[[], Policy]) -> None:
        self._policy: Future[Policy] = Future()
        threading.Thread(target=self._load, args=[load], daemon=True).start()

    def _load(self, load: Callable[[], Policy]) -> None:
        try:
            self._policy.set_result(load())
        except Exception as error:
            self._policy.set_exception(error)

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        """Return the completions of the policy, after it has been loaded."""
        with out.status("your teammates write"):
            return self._policy.result().generate(requests, sampling)


def _ask_person(agent: str, observation: str, *, several: bool) -> str:
    """Show an observation in the terminal and return the answer; raise EOFError if the input has ended."""
    out.rule(f"{agent} observes" if several else "you observe")
    out.print(observation)
    out.rule("your action (an empty line ends it)")
    lines: list[str] = []
    for line in sys.stdin:
        if not line.strip():
            return "\n".join(lines)
        lines.append(line.rstrip("\n"))
    if not lines:
        raise EOFError
    return "\n".join(lines)
