"""Environments as tasks of Inspect (`inspect eval`): roles are Inspect's model roles, the score is the return.

    inspect eval llm_dec_pomdp/team -T env=tldr-v1 --model openai/gpt-5 --model-role summary=openai/gpt-5-mini

    inspect eval llm_dec_pomdp/board1 -T environment=tldr-v1 --model openai/gpt-5

`team` is the task of any environment, and `board1` that of the leaderboard's suite.

A role without `--model-role` is played by `--model`. The name of a model role is the name of the role in the
environment, with "_" in place of spaces: "speaker 1" is `speaker_1`.

Each sample is an episode of a test row. Its score is the return of the team, with the seed of an evaluation of this
package; `--epochs 3` plays every row with three seeds. An episode that cannot be scored is an error of the sample. The
metadata of a sample has the trace of its episode, and `traces` returns those of a log:

    from llm_dec_pomdp.episodes import write
    from llm_dec_pomdp.integrations.inspect_tasks import traces
    write(traces("logs/2026-01-01.eval"), Path("traces.jsonl"))      # then: llm-dec-pomdp trace replay traces.jsonl

Needs `pip install -e '.[inspect]'`.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..agents.base import Policy, Request, Sampling, definitions
from ..agents.tool_calls import content_and_calls, messages_of
from ..board.suite import load
from ..envs import TextDecPOMDP, make
from ..envs.wrappers import with_protocol
from ..episodes import Header, Trace, from_episode
from ..rollout.base import advance, start_episode, unfinished
from ..seeding import derive
from ..types import Completion, Episode, Usage
from .libraries import library

inspect_ai: Any = library("inspect_ai", "inspect")
models: Any = library("inspect_ai.model", "inspect")
scorers: Any = library("inspect_ai.scorer", "inspect")
dataset: Any = library("inspect_ai.dataset", "inspect")
solvers: Any = library("inspect_ai.solver", "inspect")
tools: Any = library("inspect_ai.tool", "inspect")
logs: Any = library("inspect_ai.log", "inspect")
to_thread: Any = library("anyio.to_thread", "inspect")
from_thread: Any = library("anyio.from_thread", "inspect")


@inspect_ai.task
def team(
    env: str,
    protocol: str = "parallel",
    split: str = "test",
    seed: int = 0,
    max_new_tokens: int | None = None,
    options: dict[str, Any] | None = None,
) -> Any:
    """Return the task of an environment.

    Args:
        env: Id of the environment.
        protocol: Communication protocol; see `with_protocol`.
        split: Split whose rows are played.
        seed: Seed of the evaluation.
        max_new_tokens: Token limit of an agent's text; a single agent has it for each part that it writes. Default:
            Inspect's, see `--max-tokens`.
        options: Options of the environment's constructor.

    Raises:
        KeyError: The id or protocol is unknown; the message names the nearest ones.
    """
    options = options or {}
    made = with_protocol(make(env, split=split, **options), protocol)
    game = Game(made, env, Header.of(made, env, options=options, protocol=protocol), max_new_tokens)
    return task_of([game], [Row(env, item.id, derive(derive(seed, "evaluation", item.id), 0)) for item in made.items])


@inspect_ai.task
def board1(environment: str = "", protocol: str = "parallel") -> Any:
    """Return the task of the leaderboard's suite `board-1`, with the rows, seeds and limits of `board run`.

    The metric has the mean return of each environment. The suite's episodes with a silent member are left out.

    Args:
        environment: One environment of the suite; "": all of them.
        protocol: Protocol of the team: parallel, sequential, discussion, or centralized for a single agent.

    Raises:
        UnknownNameError: The suite has no such environment.
        BoardError: Suites have no such protocol, or the rows of this installation differ from those of the suite.
    """
    suite = load("board-1")
    games: list[Game] = []
    rows: list[Row] = []
    for task in [suite.task(environment)] if environment else suite.tasks:
        played = task.protocol(protocol)
        env = task.env(played)
        header = Header.of(env, task.environment, options=task.options, protocol=played)
        games.append(Game(env, task.environment, header, task.max_new_tokens))
        rows += [Row(task.environment, planned.item_id, planned.seed) for planned in suite.plan(task)]
    means = scorers.grouped(scorers.mean(), "environment", all=False)
    return task_of(games, rows, metrics=[means])


class Game(NamedTuple):
    """An environment whose rows are samples.

    Attributes:
        env: The environment under its protocol.
        env_id: Its id.
        header: Header of its traces.
        max_new_tokens: Token limit of an agent's text; None: Inspect's.
    """

    env: TextDecPOMDP
    env_id: str
    header: Header
    max_new_tokens: int | None


class Row(NamedTuple):
    """A sample.

    Attributes:
        env_id: Id of the environment.
        item_id: Id of the row.
        seed: Seed of the episode; a later epoch n has `derive(seed, n)`.
    """

    env_id: str
    item_id: str
    seed: int


def task_of(games: Sequence[Game], rows: Sequence[Row], **options: Any) -> Any:
    """Return the task of rows.

    Args:
        games: Environments.
        rows: The samples.
        options: Further arguments of `inspect_ai.Task`.
    """
    by_id = {game.env_id: game for game in games}
    prompts = {(game.env_id, item.id): item.prompt for game in games for item in game.env.items}

    @solvers.solver
    def episode() -> Any:
        async def solve(state: Any, generate: Any) -> Any:
            game = by_id[state.metadata["environment"]]
            seed = state.metadata["seed"] if state.epoch == 1 else derive(state.metadata["seed"], state.epoch)
            playing = {agent: models.get_model(role=role_of(game.env, agent)) for agent in game.env.possible_agents}
            trace, total = await to_thread.run_sync(_played, game, state.metadata["row"], seed, playing)
            state.metadata |= {"trace": trace, "return": total}
            return state

        return solve

    samples = [
        dataset.Sample(
            id=f"{number} {env_id} {item_id}",
            input=prompts[env_id, item_id],
            metadata={"environment": env_id, "row": item_id, "seed": seed},
        )
        for number, (env_id, item_id, seed) in enumerate(rows, 1)
    ]
    return inspect_ai.Task(dataset=samples, solver=episode(), scorer=team_return(), **options)


@scorers.scorer(metrics=[scorers.mean(), scorers.stderr()])
def team_return() -> Any:
    """Return the scorer whose value is the return of the episode."""

    async def score(state: Any, target: Any) -> Any:
        return scorers.Score(value=state.metadata["return"])

    return score


def role_of(env: TextDecPOMDP, agent: str) -> str:
    """Return the name of an agent's model role: "speaker_1" for the role "speaker 1"."""
    return re.sub(r"\W", "_", env.role(agent))


def traces(log: str | Path) -> Iterator[Trace]:
    """Yield the traces of the finished samples of a log."""
    samples: list[Any] = logs.read_eval_log(str(log)).samples or []
    yield from (sample.metadata["trace"] for sample in samples if "trace" in sample.metadata)


def _played(game: Game, row: str, seed: int, playing: Mapping[str, Any]) -> tuple[Trace, float]:
    """Play an episode in this thread, and return its trace and its return.

    Raises:
        ValueError: The episode could not be scored.
    """
    running = start_episode(game.env, 0, row, seed, seed)
    limit = game.max_new_tokens and game.max_new_tokens * game.env.facts.parts_per_action
    policy = _Models(playing, limit)
    while unfinished([running]):
        advance([running], policy, Sampling())
    played = Episode(row, seed, tuple(running.turns), running.terminated)
    if math.isnan(played.total):
        raise ValueError(f"row {row!r} of {game.env_id} could not be scored; play it again")
    header = dataclasses.replace(
        game.header, players={a: p._replace(model=str(playing[a])) for a, p in game.header.players.items()}
    )
    item = next(item for item in game.env.items if item.id == row)
    return from_episode(played, header, item), played.total


class _Models(Policy):
    """A policy that queries models of Inspect, from a thread that Inspect's event loop has started.

    Args:
        playing: The model of each agent.
        max_new_tokens: Token limit of a text; None: Inspect's.
    """

    def __init__(self, playing: Mapping[str, Any], max_new_tokens: int | None) -> None:
        self._playing = playing
        self._config = models.GenerateConfig(max_tokens=max_new_tokens)

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        """Return a completion for each seed; all are sampled in parallel."""
        return from_thread.run(self._answer, requests)

    async def _answer(self, requests: Sequence[Request]) -> list[list[Completion]]:
        async def completions(request: Request) -> list[Completion]:
            return list(await asyncio.gather(*(self._ask(request) for _ in request.seeds)))

        return list(await asyncio.gather(*map(completions, requests)))

    async def _ask(self, request: Request) -> Completion:
        output = await self._playing[request.agent].generate(
            [_message(message) for message in messages_of(request.history)],
            tools=[tools.ToolInfo.model_validate(tool["function"]) for tool in definitions(request.tools)],
            config=self._config,
        )
        said, truncated = output.message, output.stop_reason == "max_tokens"
        calls: list[dict[str, Any]] = [
            {"function": {"name": call.function, "arguments": json.dumps(call.arguments)}}
            for call in said.tool_calls or ()
        ]
        content, written = content_and_calls({"content": said.text, "tool_calls": calls}, truncated=truncated)
        parts: list[Any] = [] if isinstance(said.content, str) else said.content
        counts = [getattr(output.usage, f"{kind}_tokens", None) for kind in ("input", "output", "reasoning")]
        return Completion(
            "\n".join(filter(None, [content, *written])),
            truncated=truncated,
            thought="\n".join(part.reasoning for part in parts if part.type == "reasoning"),
            usage=Usage(*(math.nan if count is None else count for count in counts)),
            seconds=output.time or 0.0,
        )


def _message(message: Mapping[str, Any]) -> Any:
    """Return a message of OpenAI's interface as one of Inspect."""
    match message["role"]:
        case "user":
            return models.ChatMessageUser(content=message["content"])
        case "tool":
            return models.ChatMessageTool(content=message["content"], tool_call_id=message["tool_call_id"])
        case _:
            calls = [
                tools.ToolCall(
                    id=call["id"],
                    function=call["function"]["name"],
                    arguments=json.loads(call["function"]["arguments"]),
                )
                for call in message.get("tool_calls", ())
            ]
            return models.ChatMessageAssistant(content=message["content"] or "", tool_calls=calls or None)
