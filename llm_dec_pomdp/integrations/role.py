"""One agent's view of an environment, while its teammates act by fixed policies.

    role = Role(env, "listener", "script:optimal")
    observation = role.reset(task_id="relay/red/0")
    while not role.over:
        observation = role.call("search", {"query": "..."})     # a turn whose action is this call
        observation = role.say("red")                           # a turn with this action
    role.total

Adapters for single-agent libraries with tools use it: `trl.role_environment`, `verifiers.role_environment`.
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
    """A role in an environment. A tool call is the action of a turn, in which teammates act too.

    Args:
        env: The environment, which is copied.
        role: The name of an agent, or a role; the first agent with this role.
        others: The policy of the teammates: a `Policy`, a function of an agent and its history, or a name:
            "script:optimal" for a script of the environment, or "module:function".

    Attributes:
        agent: The agent.
        total: The return of the agent in this episode so far; NaN if a turn could not be scored.

    Raises:
        ValueError: There is no such role.
        KeyError, ImportError, AttributeError: There is no script or function with this name.
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
        """The tools of the agent."""
        return self._env.tools(self.agent)

    @property
    def over(self) -> bool:
        """Whether the episode is over for the agent."""
        return not self._env.asked(self.agent)

    def reset(self, seed: int | None = None, **options: Any) -> str:
        """Start an episode, and play until the agent has to act.

        Args:
            seed: The seed of all chance.
            options: `task_id` or `index`; see `TextDecPOMDP.reset`.

        Returns:
            The agent's first observation.
        """
        self._env.reset(seed=seed, options=options)
        self.total, self._seed = 0.0, seed or 0
        return self._until_asked()

    def say(self, text: str) -> str:
        """Play a turn with this action; return the agent's next observation when it has to act again, or `OVER`."""
        if self.over:
            return OVER
        self._step(text)
        return self._until_asked()

    def call(self, name: str, arguments: dict[str, Any]) -> str:
        """Play a turn whose action is a tool call; see `say`."""
        return self.say(written(name, arguments))

    def finish(self) -> float:
        """Act with empty texts until the episode is over; return the agent's return."""
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
