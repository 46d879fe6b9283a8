"""One agent's view of an environment, while the rest of its team plays by fixed policies.

    role = Role(env, "listener", "script:optimal")
    told = role.reset(task_id="relay/red/0")
    while not role.over:
        told = role.call("search", {"query": "..."})     # a turn whose text is this call
        told = role.say("red")                           # a turn with this text
    role.total

It is what libraries for single agents with tools are given: `trl.role_environment`, `verifiers.role_environment`.
"""

from __future__ import annotations

import importlib
from typing import Any

from ..agents.base import Policy, Request, Sampling
from ..envs import TextDecPOMDP
from ..envs.base import Script
from ..envs.tools import written
from ..registries import nearest
from ..seeding import derive
from ..types import Tool

OVER = "The episode is over."
SCRIPT = "script:"


class Role:
    """A role; a call is the text of a turn, in which the others write too.

    Args:
        env: It is copied.
        role: An agent, or its role; the first of several.
        others: Who writes the texts of the other agents: a policy, a function of an agent and its history, or the name
            of one: "script:optimal" of the environment's scripts, or "module:function".

    Attributes:
        agent: Whose view it is.
        total: What the agent was paid in this episode so far; NaN where a turn could not be scored.

    Raises:
        ValueError: There is no such role.
        KeyError, ImportError, AttributeError: There is no script or function of this name.
    """

    def __init__(self, env: TextDecPOMDP, role: str, others: Policy | Script | str) -> None:
        agents = [agent for agent in env.possible_agents if role in (agent, env.role(agent))]
        if not agents:
            known = [*dict.fromkeys(env.facts.roles), *env.possible_agents]
            raise ValueError(f"{env.metadata['name']} has no role {role!r:.60}; {nearest(role, known)}")
        self.agent, self.total = agents[0], 0.0
        self._env, self._others, self._seed = env.fork(), _named(env, others), 0

    @property
    def tools(self) -> tuple[Tool, ...]:
        """What the agent may call."""
        return self._env.tools(self.agent)

    @property
    def over(self) -> bool:
        """The agent is asked no more."""
        return not self._env.asked(self.agent)

    def reset(self, seed: int | None = None, **options: Any) -> str:
        """Begin an episode; what the agent is told when it is asked first.

        Args:
            seed: Of all chance.
            options: `task_id` or `index`; see `TextDecPOMDP.reset`.
        """
        self._env.reset(seed=seed, options=options)
        self.total, self._seed = 0.0, seed or 0
        return self._until_asked()

    def say(self, text: str) -> str:
        """Play a turn with this text; what the agent is told when it is asked again, or `OVER`."""
        if self.over:
            return OVER
        self._step(text)
        return self._until_asked()

    def call(self, name: str, arguments: dict[str, Any]) -> str:
        """Play a turn in which the agent calls a tool; see `say`."""
        return self.say(written(name, arguments))

    def finish(self) -> float:
        """Say nothing more until the episode is over; what the agent was paid."""
        while not self.over:
            self.say("")
        return self.total

    def _until_asked(self) -> str:
        env = self._env
        while env.agents and not env.asked(self.agent):
            self._step("")
        if not env.agents:
            return OVER
        history = env.history(self.agent)
        since = max((place for place, message in enumerate(history) if message.role == "action"), default=-1) + 1
        return "\n\n".join(message.text for message in history[since:])

    def _step(self, text: str) -> None:
        env = self._env
        texts = {agent: self._text(agent) if env.asked(agent) else "" for agent in env.agents if agent != self.agent}
        if self.agent in env.agents:
            texts[self.agent] = text
        _, rewards, *_ = env.step(texts)
        self.total += rewards.get(self.agent, 0.0)

    def _text(self, agent: str) -> str:
        env = self._env
        if not isinstance(self._others, Policy):
            return self._others(agent, env.history(agent))
        seeds = (derive(self._seed, "others", env.turn, agent),)
        request = Request(agent, env.history(agent), seeds, tools=env.tools(agent))
        return self._others.generate([request], Sampling())[0][0].text


def _named(env: TextDecPOMDP, others: Policy | Script | str) -> Policy | Script:
    if not isinstance(others, str):
        return others
    if others.startswith(SCRIPT):
        return env.script(others.removeprefix(SCRIPT))
    module, _, name = others.partition(":")
    return getattr(importlib.import_module(module), name)
