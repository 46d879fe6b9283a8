"""Environments for verifiers (`vf-eval`, prime-rl): a taskset, and an Env in which every role is an agent.

    from llm_dec_pomdp.integrations.verifiers import write_package

    write_package("tldr-v0", "packages/tldr-v0")     # then: pip install packages/tldr-v0
                                                     #       vf-eval tldr-v0 --no-push ...

verifiers finds an environment as a top-level module. `write_package` writes one, with three lines:

    from llm_dec_pomdp.integrations.verifiers import environment
    Tasks, Team = environment("tldr-v0")
    __all__ = ["Tasks", "Team"]

Each role of the team is an agent config with its name (`--env.summary.model ...`). An agent has one conversation with
its observations and actions; if its history is reset, a new conversation starts. After the episode, every trace has the
return of its agent as the reward "return" (the same for all agents if the reward is joint) and the last infos as
metrics. An action that could not be scored is an error of the episode. Agents chat without tools. They run in a local
process unless the config changes that, since the default runtime of verifiers is a remote sandbox.

With `role`, a package has one agent with tools, while its teammates act by a fixed policy:

    write_package("research-v0", "packages/main", role="main", others="script:optimal")

All rollouts share the toolset, but no state: the actions of a rollout are its `State`, and every call replays the
episode from these in a new environment. The last reply is the agent's last action, and the reward "episode_return" is
its return.

Needs `pip install -e '.[verifiers]'` and, for the chat program of verifiers, uv.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import Iterable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, ClassVar

from pydantic import create_model

from ..envs import TextDecPOMDP, make, spec
from ..envs.tools import written
from ..envs.wrappers import with_protocol
from ..printable import replace_surrogates
from ..seeding import derive
from .libraries import library
from .role import Role

vf: Any = library("verifiers.v1", "verifiers")


def environment(env_id: str, protocol: str = "parallel", **options: Any) -> tuple[type[Any], type[Any]]:
    """Return the taskset and the Env of an environment, which a module exports in its `__all__`.

    Args:
        env_id: The id of the environment, or "module:Class".
        protocol: The communication protocol; see `with_protocol`.
        options: Options of its constructor, except `split`, which is an option of the taskset.

    Raises:
        ImportError: verifiers is missing or too old.
        KeyError: The id or protocol is unknown; the message names the nearest ones.
    """
    env: TextDecPOMDP = with_protocol(make(env_id, split="all", **options), protocol)

    class Tasks(vf.Taskset[vf.Task[vf.TaskData], TasksConfig]):
        """The tasks of the environment; the Env gives the observations."""

        def load(self) -> Iterable[Any]:
            for item in make(env_id, split=self.config.split, **options).items:
                yield vf.Task(vf.TaskData(id=item.id, name=item.id, prompt=item.prompt), self.config.task)

    roles = {
        field_of(role): (vf.AgentConfig, vf.AgentConfig(harness={"id": "null"}, runtime={"type": "subprocess"}))
        for role in env.facts.roles
    }
    model: Any = create_model
    config = model("TeamConfig", __base__=vf.EnvConfig, **roles)

    class Team(Play, vf.Env[config]):
        """The environment with one agent per role."""

        template = env

    return Tasks, Team


class TasksConfig(vf.TasksetConfig):
    """The choice of tasks: `--env.taskset.split test`."""

    split: str = "train"


class Play:
    """The base of every `Team`, which plays an episode."""

    template: ClassVar[TextDecPOMDP]

    async def run(self, task: Any, agents: Any) -> None:
        """Play an episode, and record the return of each agent on its trace.

        Raises:
            RuntimeError: An agent returned no action.
            ValueError: The episode could not be scored.
        """
        env = self.template.fork()
        env.reset(options={"task_id": task.data.id})
        async with AsyncExitStack() as stack:
            conversations: dict[str, list[Any]] = {agent: [] for agent in env.possible_agents}
            paid = dict.fromkeys(env.possible_agents, 0.0)
            infos: dict[str, Any] = {}  # the last infos of each agent
            while env.agents:
                asked = [agent for agent in env.agents if env.asked(agent)]
                for agent in asked:
                    if not any(message.role == "action" for message in env.history(agent)):
                        opened = getattr(agents, field_of(env.role(agent))).interaction(_silent(task))
                        conversations[agent].append(await stack.enter_async_context(opened))
                texts = await asyncio.gather(*(_answer(env, agent, conversations[agent][-1]) for agent in asked))
                actions = dict.fromkeys(env.agents, "") | dict(zip(asked, texts, strict=True))
                _, rewards, _, _, latest = await asyncio.to_thread(env.step, actions)
                infos |= latest
                for agent, reward in rewards.items():
                    paid[agent] += reward
            if any(math.isnan(total) for total in paid.values()):
                raise ValueError(f"task {task.data.id!r} could not be scored; play it again")
            for agent, interactions in conversations.items():
                for interaction in interactions:
                    interaction.trace.record_reward("return", paid[agent])
                    interaction.trace.record_metrics({k: float(v) for k, v in infos[agent].items() if k != "asked"})


def _silent(task: Any) -> Any:
    """Return the task without a prompt, since observations come from the environment."""
    return vf.Task(vf.TaskData(idx=task.data.idx, id=task.data.id, name=task.data.name))


async def _answer(env: TextDecPOMDP, agent: str, interaction: Any) -> str:
    history = env.history(agent)
    since = max((place for place, message in enumerate(history) if message.role == "action"), default=-1) + 1
    segment = await interaction.turn("\n\n".join(message.text for message in history[since:]))
    if segment.terminated:
        errors = interaction.trace.errors
        why = f"{errors[-1].type}: {errors[-1].message}" if errors else interaction.trace.stop_condition
        raise RuntimeError(
            f"{env.role(agent)} returned no action in turn {env.turn} ({why}); check its endpoint and limits"
        )
    return segment.last_reply


def field_of(role: str) -> str:
    """Return the name of a role's agent config: "speaker_1" for "speaker 1"."""
    return re.sub(r"\W", "_", role)


# --- one role with tools ----------------------------------------------------------------------------------------------


class RoleState(vf.State):
    """The actions of a rollout, from which its episode is replayed."""

    task_id: str = ""
    texts: list[str] = []


def role_environment(
    env_id: str, role: str, others: str, *, module: str, protocol: str = "parallel", **options: Any
) -> tuple[type[Any], ...]:
    """Return the taskset, the Env and the toolset of one role, which a module exports.

    Args:
        env_id, protocol, options: See `environment`.
        role, others: See `Role`; `others` is a name.
        module: The name of the module that exports them; the toolset runs it as a program.

    Raises:
        ImportError: verifiers is missing or too old.
        ValueError: There is no such role.
    """
    env: TextDecPOMDP = with_protocol(make(env_id, split="all", **options), protocol)
    Role(env, role, others)

    def played(state: Any) -> tuple[Role, str]:
        """Return the role after the actions of a rollout, and its observation."""
        playing = Role(env, role, others)
        message = playing.reset(derive(0, state.task_id), task_id=state.task_id)
        for text in state.texts:
            message = playing.say(text)
        return playing, message

    class RoleTask(vf.Task[vf.TaskData, RoleState]):
        """A task whose score is the return of the agent."""

        async def setup(self, trace: Any, runtime: Any) -> None:
            trace.state.task_id = self.data.id

        @vf.reward
        async def episode_return(self, trace: Any) -> float:
            playing, _ = played(trace.state)
            playing.say(trace.last_reply)
            total = playing.finish()
            if math.isnan(total):
                raise ValueError(f"task {self.data.id!r} could not be scored; play it again")
            return total

    class Tools(vf.Toolset[vf.SharedToolsetConfig, RoleState]):
        """The tools of the role."""

        TOOL_PREFIX = None

        def register(self, mcp: Any) -> None:
            mcp.list_tools, mcp.call_tool = self._listed, self._called
            self._lock = asyncio.Lock()  # one call at a time, since each replaces the whole state

        async def _listed(self) -> list[Any]:
            types = library("mcp.types", "verifiers")
            tools = Role(env, role, others).tools
            return [types.Tool(name=t.name, description=t.description, input_schema=t.json_schema) for t in tools]

        async def _called(self, name: str, arguments: dict[str, Any], context: Any = None) -> Any:
            async with self._lock:
                return await self._with_state(self._play)(name, arguments)

        async def _play(self, name: str, arguments: dict[str, Any]) -> Any:
            types = library("mcp.types", "verifiers")
            playing, _ = played(self.state)
            text = written(name, arguments)
            message = await asyncio.to_thread(playing.say, text)
            self.state.texts = [*self.state.texts, text]
            return types.CallToolResult(content=[types.TextContent(type="text", text=replace_surrogates(message))])

    class Tasks(vf.Taskset[RoleTask, TasksConfig]):
        """The tasks, each with the first observation of the role."""

        @classmethod
        def toolsets(cls, config: Any) -> list[Any]:
            return [Tools(vf.SharedToolsetConfig())]

        def load(self) -> Iterable[Any]:
            for item in make(env_id, split=self.config.split, **options).items:
                _, prompt = played(RoleState(task_id=item.id))
                yield RoleTask(vf.TaskData(id=item.id, name=item.id, prompt=prompt), self.config.task)

    agent = (vf.AgentConfig, vf.AgentConfig(harness={"id": "null"}, runtime={"type": "subprocess"}))
    create: Any = create_model
    config = create("RoleConfig", __base__=vf.EnvConfig, agent=agent)

    class RoleEnv(vf.Env[config]):
        """The environment with one agent for the role."""

        async def run(self, task: Any, agents: Any) -> None:
            await agents.agent.run(task)

    for exported in (Tasks, RoleEnv, Tools):
        exported.__module__ = module
    return Tasks, RoleEnv, Tools


# --- packages ---------------------------------------------------------------------------------------------------------


def write_package(
    env_id: str, folder: str | Path, protocol: str = "parallel", *, role: str = "", others: str = "", **options: Any
) -> Path:
    """Write an installable package, in which verifiers finds an environment by its id.

    Args:
        env_id, protocol, options: See `environment`; options must be plain values.
        folder: A new folder.
        role, others: For a package of one role with tools; see `role_environment`.

    Returns:
        The folder, for `pip install`.

    Raises:
        FileExistsError: The folder exists.
    """
    spec(env_id).load()
    name = re.sub(r"\W+", "-", env_id).strip("-").lower()
    module = name.replace("-", "_")
    folder = Path(folder)
    folder.mkdir(parents=True)
    given = {"role": role, "others": others, "module": module} if role else {}
    parts = {**given, "protocol": protocol, **options}
    arguments = ", ".join([json.dumps(env_id), *(f"{key}={value!r}" for key, value in parts.items())])
    built, names = ("role_environment", "Tasks, RoleEnv, Tools") if role else ("environment", "Tasks, Team")
    exported = ", ".join(f'"{name}"' for name in names.split(", "))
    (folder / f"{module}.py").write_text(
        f'"""{env_id} of llm_dec_pomdp."""\n\nfrom llm_dec_pomdp.integrations.verifiers import {built}\n\n'
        f"{names} = {built}({arguments})\n__all__ = [{exported}]\n"
        + ('\nif __name__ == "__main__":\n    Tools.run()\n' if role else ""),
        encoding="utf-8",
    )
    (folder / "pyproject.toml").write_text(
        f'[build-system]\nrequires = ["setuptools>=77"]\nbuild-backend = "setuptools.build_meta"\n\n[project]\n'
        f'name = "{name}"\nversion = "0.0.0"\ndependencies = ["llm-dec-pomdp[verifiers]"]\n\n'
        f'[tool.setuptools]\npy-modules = ["{module}"]\n',
        encoding="utf-8",
    )
    return folder
