"""`play`: a person takes a role."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Annotated

import typer

from .console import out, stop, usage
from .options import EnvId, EnvOption, Model, NewTokens, Turns, read_options

if TYPE_CHECKING:
    from ..agents.base import Policy, Request, Sampling
    from ..types import Completion


def play(
    env_id: EnvId,
    role: Annotated[str | None, typer.Option(help="The role you take; the first one when left out.")] = None,
    model: Model = "builtin:tiny",
    task: Annotated[str | None, typer.Option(help="Task id; one at random when left out.")] = None,
    protocol: Annotated[str, typer.Option(help="parallel, centralized, sequential or discussion.")] = "parallel",
    turns: Turns = None,
    env_option: EnvOption = None,
    tokens: NewTokens = 128,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of the task and of the others' texts.")] = None,
) -> None:
    """Take one role yourself; a policy plays the rest. An empty line ends your text.

    Example: [bold]llm-dec-pomdp play tldr-v0 --role elaboration[/]
    """
    from ..agents.base import Sampling, Team
    from ..agents.human import Human
    from ..agents.loading import load_policy, locate
    from ..benchmarks.cell import make_task
    from ..envs.wrappers import with_protocol
    from ..registry import nearest
    from ..rollout import collect

    with usage():
        sampling = Sampling(max_new_tokens=tokens)
        env = with_protocol(make_task(env_id, read_options(env_option), split="all", max_turns=turns), protocol)
        roles = {env.role(agent): agent for agent in env.possible_agents}
        if role is not None and role not in roles:
            stop(f"no role {role!r} in {env_id}; {nearest(role, roles)}")
        env.reset(seed=seed, options={"task_id": task} if task else None)
        mine = roles[role] if role else env.possible_agents[0]
        others = [agent for agent in env.possible_agents if agent != mine]
        if others and not model.startswith(("http://", "https://")):
            locate(model)
        out.print(f"You are [bold]{env.role(mine)}[/] in {env_id}, task {env.item.id}.")
        rest = dict.fromkeys(others, LoadedMeanwhile(lambda: load_policy(model))) if others else {}
        team = Team({mine: Human(_ask_person), **rest})  # in this order: the person does not wait for a model
        try:
            groups = collect(env, team, [env.item.id], [seed or 0], sampling)
        except EOFError:
            stop("the input ended before your text, so nothing was played", code=1)
    episode = groups[0].episodes[0]
    for turn in episode.turns:
        for agent, completion in turn.actions.items():
            if agent != mine:
                out.rule(f"{env.role(agent)} wrote")
                out.print(completion.text, markup=False, highlight=False)
    out.rule("score")
    for turn in episode.turns:
        if turn.score is not None:
            parts = "  ".join(f"{name} {value:.2f}" for name, value in turn.score.components.items())
            out.print(f"{turn.score.total:.2f} of {env.score_range[1]:g}   {parts}", highlight=False)


class LoadedMeanwhile:
    """A policy that is loaded while a person reads and writes.

    Args:
        load: Loads it, in another thread.
    """

    def __init__(self, load: Callable[[], Policy]) -> None:
        self._policy: Future[Policy] = Future()
        threading.Thread(target=self._load, args=[load], daemon=True).start()

    def _load(self, load: Callable[[], Policy]) -> None:
        try:
            self._policy.set_result(load())
        except Exception as error:
            self._policy.set_exception(error)

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        """What the policy answers, once it is there."""
        with out.status("the others write"):
            return self._policy.result().generate(requests, sampling)


def _ask_person(agent: str, observation: str) -> str:
    """Ask in the terminal.

    Raises:
        EOFError: The input has ended.
    """
    out.rule("you are told")
    out.print(observation, markup=False, highlight=False)
    out.rule("your text (an empty line ends it)")
    lines: list[str] = []
    for line in sys.stdin:
        if not line.strip():
            return "\n".join(lines)
        lines.append(line.rstrip("\n"))
    if not lines:
        raise EOFError
    return "\n".join(lines)
