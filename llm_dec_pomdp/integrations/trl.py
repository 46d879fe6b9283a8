"""TRL's GRPOTrainer on an environment, for teams that share their weights.

    from llm_dec_pomdp.integrations.trl import episode_return, rollout_func, team_dataset

    env = llm_dec_pomdp.make("tldr-v0", max_turns=2)
    how = GRPOConfig(shuffle_dataset=False, per_device_train_batch_size=2 * G, num_generations=G, ...)
    GRPOTrainer(model, episode_return, args=how, train_dataset=team_dataset(env), rollout_func=rollout_func(env))

A row of the data set has the first observation of one agent of a task. `rollout_func` plays G episodes of each task
with the trained model. The g-th rows of a task's agents belong to one episode, and each row has the return of that
episode. GRPO's advantage within a prompt then equals the advantage of MAGRPO (arXiv:2508.04652) with joint credit,
shared weights and one advantage for all turns.

If TRL itself samples, for example with vLLM, use `joint_reward(env)`, which forms joint actions afterwards, in
environments of one turn.

All rows of a task must be in one batch: keep `shuffle_dataset=False`, and let `per_device_train_batch_size` be a
multiple of agents x `num_generations`.

One role with tools is trained by TRL's own loop of tool calls, while its teammates act by fixed policies:

    factory = role_environment(env, "listener", "script:optimal")
    GRPOTrainer(model, args=how, train_dataset=role_dataset(env), environment_factory=factory)
"""

from __future__ import annotations

import inspect
import itertools
import keyword
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from ..envs import TextDecPOMDP
from ..seeding import derive
from ..types import Episode, Tool
from .libraries import require
from .one_turn import chat_of, check_joint_reward, check_single_turn, first_observations, team_reward
from .role import Role

if TYPE_CHECKING:
    from datasets import Dataset

    from ..agents.base import Policy
    from ..envs.base import Script

Reward = Callable[..., list[float | None]]
Chat = Sequence[Mapping[str, Any]]
RolloutFunc = Callable[[Sequence[Chat], Any], dict[str, list[Any]]]


def team_dataset(env: TextDecPOMDP) -> Dataset:
    """Return a data set with a row for each agent of each task: `prompt` (a chat), `task_id`, `agent`.

    Rows of one task are adjacent.

    Raises:
        ValueError: Rewards of the environment are individual.
    """
    from datasets import Dataset

    check_joint_reward(env, "TRL")
    rows: list[dict[str, Any]] = []
    for item in env.items:
        texts = first_observations(env, item.id)
        rows += [{"prompt": chat_of(texts[a]), "task_id": item.id, "agent": a} for a in env.possible_agents]
    return Dataset.from_list(rows)


# --- whole episodes ---------------------------------------------------------------------------------------------------


def rollout_func(env: TextDecPOMDP) -> RolloutFunc:
    """Return a `rollout_func` for GRPOTrainer, which plays whole episodes with TRL's temperature, top-p and top-k.

    `max_completion_length` limits the action of a turn. A row has the tokens of its agent: `prompt_ids` has the history
    up to its first action; `completion_ids` has its actions and the observations between them, for which `env_mask` is
    0. `episode_return` is the return of the row's episode.

    Raises:
        ImportError: TRL is missing or too old.
        ValueError: Rewards of the environment are individual, or two tasks have the same first observations. In
            training: the rows of a task are not adjacent, an agent never acted, or its history was reset.
    """
    require("trl")
    check_joint_reward(env, "TRL")
    tasks: dict[tuple[str, ...], str] = {}  # TRL passes only the prompts
    for item in env.items:
        texts = first_observations(env, item.id)
        if (known := tasks.setdefault(tuple(texts[agent] for agent in env.possible_agents), item.id)) != item.id:
            raise ValueError(
                f"tasks {known!r} and {item.id!r} have the same first observations, by which a rollout in TRL finds "
                "its task; leave one of them out"
            )
    policies: dict[int, Any] = {}

    def play(prompts: Sequence[Chat], trainer: Any) -> dict[str, list[Any]]:
        from ..agents.base import Sampling
        from ..agents.language_model.policy import LanguageModel
        from ..rollout import Trajectories

        network = trainer.accelerator.unwrap_model(trainer.model)
        training = network.training
        width = trainer.num_generations if trainer.model.training else trainer.num_generations_eval
        ids = rows_of_tasks([prompt[-1]["content"] for prompt in prompts], tasks, len(env.possible_agents), width)
        policy = policies.setdefault(id(network), LanguageModel(network, trainer.processing_class))
        network.eval()
        sampling = Sampling(
            temperature=trainer.temperature,
            top_p=trainer.top_p,
            top_k=trainer.top_k or 0,
            max_new_tokens=trainer.max_completion_length,
        )
        seeds = [derive(trainer.args.seed, trainer.state.global_step, place) for place in range(len(ids))]
        groups = Trajectories().play(env, policy, ids, seeds, sampling, width)
        network.train(training)
        rows = [row(episode, agent) for group in groups for agent in env.possible_agents for episode in group.episodes]
        return {name: [line[name] for line in rows] for name in rows[0]}

    return play


def row(episode: Episode, agent: str) -> dict[str, Any]:
    """Return the row of one agent of an episode; see `rollout_func`.

    Raises:
        ValueError: The agent never acted, or a later prompt does not begin with its earlier tokens.
    """
    completions = [turn.actions[agent] for turn in episode.turns if agent in turn.actions]
    if not completions:
        raise ValueError(
            f"{agent} never acted in an episode of task {episode.item_id!r}, but TRL needs a completion of every "
            "agent; choose an environment in which all agents act"
        )
    ids, mask, logprobs = list(completions[0].prompt_ids), list[int](), list[float]()
    start = len(ids)
    for number, text in enumerate(completions, 1):
        before = len(ids)
        if list(text.prompt_ids[:before]) != ids:
            raise ValueError(
                f"the prompt of completion {number} of {agent} in task {episode.item_id!r} does not begin with the "
                "tokens before it (the chat template changes earlier texts, or the history was reset), which TRL "
                "requires; set max_turns=1"
            )
        added = text.prompt_ids[before:]
        ids += [*added, *text.token_ids]
        mask += [0] * len(added) + [1] * len(text.token_ids)
        logprobs += [0.0] * len(added) + list(text.logprobs)
    earned = None if math.isnan(episode.total) else episode.total
    texts = {"prompt_ids": ids[:start], "completion_ids": ids[start:], "env_mask": mask, "logprobs": logprobs}
    return {**texts, "episode_return": earned}


def episode_return(
    completions: Sequence[Any], episode_return: Sequence[float | None], **columns: Any
) -> list[float | None]:
    """Return the joint return of each row's episode, or None: the reward function for `rollout_func`."""
    return list(episode_return)


def rows_of_tasks(prompts: Sequence[str], tasks: Mapping[tuple[str, ...], str], agents: int, width: int) -> list[str]:
    """Return the task of each block of prompts. A block has the prompts of all agents of a task, each `width` times.

    Raises:
        ValueError: The prompts do not consist of such blocks.
    """
    ids: list[str] = []
    for start in range(0, len(prompts), agents * width):
        block = prompts[start : start + agents * width]
        task = tasks.get(tuple(block[::width]))
        if task is None or list(block) != [text for text in block[::width] for _ in range(width)]:
            raise ValueError(
                f"the prompts {start} to {start + len(block) - 1} of a batch are not the prompts of a task's {agents} "
                f"agents, each {width} times; set shuffle_dataset=False, use the environment of the data set, and "
                f"set per_device_train_batch_size to a multiple of {agents} x num_generations"
            )
        ids.append(task)
    return ids


# --- completions that TRL samples -------------------------------------------------------------------------------------


def joint_reward(env: TextDecPOMDP) -> Reward:
    """Return the reward function of an environment of one turn, for completions that TRL samples itself.

    Each completion gets the reward of its joint action, or None if that could not be scored. The function raises
    ValueError if the completions of a task's agents are not in the same batch.
    """
    check_single_turn(env, "TRL")

    def reward(
        completions: Sequence[Any], task_id: Sequence[str], agent: Sequence[str], **columns: Any
    ) -> list[float | None]:
        places: dict[str, dict[str, list[int]]] = {}
        for place, (task, who) in enumerate(zip(task_id, agent, strict=True)):
            places.setdefault(task, {}).setdefault(who, []).append(place)
        rewards: list[float | None] = [None] * len(completions)
        for task, of_agents in places.items():
            _refuse_parted(env, task, of_agents)
            for joint in zip(*(of_agents[who] for who in env.possible_agents), strict=True):
                value = team_reward(env, task, [_text(completions[place]) for place in joint])
                for place in joint:
                    rewards[place] = value
        return rewards

    reward.__name__ = "joint_reward"  # the name in TRL's logs
    return reward


def _refuse_parted(env: TextDecPOMDP, task: str, of_agents: Mapping[str, Sequence[int]]) -> None:
    counts = {who: len(of_agents.get(who, ())) for who in env.possible_agents}
    if len(set(counts.values())) > 1:
        raise ValueError(
            f"a batch has different numbers of completions of the agents of task {task!r} ({counts}), so they form no "
            "joint actions; set shuffle_dataset=False and per_device_train_batch_size to a multiple of "
            f"{len(env.possible_agents)} x num_generations"
        )


def _text(completion: Any) -> str:
    """Return the text of a completion, which is a plain text or a chat."""
    return completion if isinstance(completion, str) else completion[-1]["content"]


# --- one role with tools ----------------------------------------------------------------------------------------------

_TYPES: Mapping[str, Any] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "array": list,
    "object": dict,
}
_TAKEN = ("reset", "get_reward", "role")
_SAY = Tool("say", "Say your text of this turn; you are told what follows.", (("text", "What you say."),))


def role_dataset(env: TextDecPOMDP) -> Dataset:
    """Return a data set with a row for each task: `task_id`, and `prompt` (a chat) for `role_environment`."""
    from datasets import Dataset

    return Dataset.from_list([{"prompt": chat_of(""), "task_id": item.id} for item in env.items])


def role_environment(
    env: TextDecPOMDP,
    role: str,
    others: Policy | Script | str,
    *,
    answer: Literal["say", "text"] = "say",
    seed: int = 0,
) -> Callable[[], Any]:
    """Return an `environment_factory` for GRPOTrainer: a role whose tools are methods, with fixed teammates.

    A tool call is a turn of the environment, in which teammates act too. `reset(task_id=...)` returns the agent's first
    observation. With `answer="say"`, the agent acts through a tool `say`, and `get_reward()` is its return. With
    "text", its last message is its action, and `role_return` is the reward function.

    Args:
        env: The environment.
        role, others: See `Role`.
        answer: The way in which the agent gives an action that is not a tool call.
        seed: The seed of chance in all episodes.

    Raises:
        ValueError: There is no such role, or the name of a tool or argument cannot be the name of a method or argument.
    """
    tools = [*Role(env, role, others).tools, *([_SAY] if answer == "say" else [])]
    methods = {tool.name: _method(tool) for tool in tools}
    if wrong := [t.name for t in tools if not t.name.isidentifier() or t.name[0] == "_" or t.name in _TAKEN]:
        raise ValueError(f"the tool {wrong[0]!r} cannot be a method of an environment of TRL; give it another name")
    if len(methods) < len(tools):
        raise ValueError("the environment has its own tool 'say'; give answer='text'")
    scored = {"get_reward": _get_reward} if answer == "say" else {}
    name = re.sub(r"\W", "_", f"{env.metadata['name']}_{role}")  # the name in TRL's logs
    kind, numbers = type(name, (_Playing,), {**methods, **scored}), itertools.count()
    return lambda: kind(Role(env, role, others), derive(seed, next(numbers)))


class _Playing:
    """An environment of TRL, to which tools are added as methods."""

    def __init__(self, role: Role, seed: int) -> None:
        self.role, self._seed, self._episodes = role, seed, 0

    def reset(self, task_id: str | None = None, **columns: Any) -> str:
        """Start an episode of a task; return the agent's first observation."""
        self._episodes += 1
        chosen = {} if task_id is None else {"task_id": task_id}
        return self.role.reset(derive(self._seed, self._episodes), **chosen)


def _get_reward(self: _Playing) -> float | None:
    """Return the agent's return; None if it could not be scored."""
    total = self.role.finish()
    return None if math.isnan(total) else total


def role_return(completions: Sequence[Any], environments: Sequence[Any], **columns: Any) -> list[float | None]:
    """Return the agents' returns, with the last messages as actions: the reward function of `answer="text"`."""
    for completion, playing in zip(completions, environments, strict=True):
        last = completion[-1]
        if last["role"] == "assistant":
            playing.role.say(last.get("content") or "")
    return [_get_reward(playing) for playing in environments]


def _method(tool: Tool) -> Callable[..., str]:
    """Return a method with the signature and Google docstring from which TRL and transformers derive the schema."""
    schema = tool.json_schema
    needed, parameters = schema.get("required", ()), [inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)]
    lines = [" ".join(tool.description.split()) or tool.name, "", "Args:"]
    for name, about in schema.get("properties", {}).items():
        if not name.isidentifier() or keyword.iskeyword(name):
            raise ValueError(f"the argument {name!r} of the tool {tool.name!r} is not a Python identifier; rename it")
        default = inspect.Parameter.empty if name in needed else None
        kind, annotation = inspect.Parameter.POSITIONAL_OR_KEYWORD, _type_of(about)
        parameters.append(inspect.Parameter(name, kind, default=default, annotation=annotation))
        lines.append(f"    {name}: {' '.join(about.get('description', name).split())}")
    ordered = sorted(parameters, key=lambda p: p.default is None)  # arguments with a default come last

    def call(self: _Playing, /, *values: Any, **named: Any) -> str:
        given = {**dict(zip([p.name for p in ordered[1:]], values, strict=False)), **named}
        if tool is _SAY:
            return self.role.say(str(given.get("text", "")))
        return self.role.call(tool.name, {k: v for k, v in given.items() if v is not None or k in needed})

    call.__name__ = call.__qualname__ = tool.name
    call.__doc__ = "\n".join(lines if len(parameters) > 1 else lines[:1])
    call.__annotations__ = {**{p.name: p.annotation for p in ordered[1:]}, "return": str}
    call.__signature__ = inspect.Signature(ordered, return_annotation=str)  # type: ignore[attr-defined]
    return call


def _type_of(about: Mapping[str, Any]) -> Any:
    """Return the Python type of an argument from its schema; str for types that Python cannot express."""
    if choices := about.get("enum"):
        return Literal[tuple(choices)]
    for option in about.get("anyOf", ()):  # such as a number or null
        if option.get("type") != "null":
            return _type_of(option)
    kinds: Any = about.get("type", "object" if "$ref" in about else "string")
    kind = kinds if isinstance(kinds, str) else str(next((option for option in kinds if option != "null"), "string"))
    if kind == "array":
        return list[_type_of(about.get("items", {}))]
    return _TYPES.get(kind, str)
