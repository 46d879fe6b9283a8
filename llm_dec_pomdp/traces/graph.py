"""From an episode to its graph: who was told what, who said what, what came of it, and what caused what.

The order of the events is that of the course of things: at every turn what agents are told, what they say, what
happened beside texts, and what was paid. The time of an event is in seconds of the models: agents of one turn speak in
parallel, turns follow each other. A message has an edge to the next thing that each agent says which has read it, and
to nobody else's. docs/traces.md has every key.

A trace is written down as JSON at once: to build it as dictionaries first takes longer than all the rest.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from json.encoder import encode_basestring_ascii as quoted
from math import isfinite
from typing import Any

from ..seeding import derive
from ..types import Completion, Episode, Event, Score, TaskItem, Turn
from .course import READ, TYPES, course_of, parts_of
from .header import Header, encode

Trace = dict[str, Any]
"""A trace as JSON: keys of the schema, `events` in order, `edges` between them (docs/traces.md)."""
_TOOLS = ("tool_call", "tool_result")


def from_episode(
    episode: Episode, header: Header, item: TaskItem, *, seed: int | None = None, token_ids: bool = False
) -> Trace:
    """An episode as a trace, losslessly, with its texts inline.

    Args:
        episode: As a rollout played it.
        header: What was played, and by whom.
        item: The task.
        seed: That `reset` was given; when left out, what `Trajectories(chance="own")`, `Tree` and `Crossed` give. For
            trajectories of shared chance it is `derive(seed of the task, "env")`.
        token_ids: Keep token ids and log-probabilities too, to train on.
    """
    return json.loads(line_of(episode, header, item, seed=seed, token_ids=token_ids))


def line_of(
    episode: Episode,
    header: Header,
    item: TaskItem,
    *,
    seed: int | None = None,
    token_ids: bool = False,
    folder: str = "",
    instead: Callable[[str | Mapping[str, Any]], str] | None = None,
) -> str:
    """An episode as a trace in JSON, without a line break, as a file has it.

    Args:
        episode, header, item, seed, token_ids: See `from_episode`.
        folder: What stands before the id of the trace.
        instead: Given a content, the field in JSON that stands in its place, a comma in front; None: the content.
    """
    shared, task, as_json = header.of_task(item)
    content = instead or _content
    name = f"{folder}{header.environment}/{header.protocol}/{item.id}/{episode.seed}"
    run = (
        f',"header":{shared[:-1]},"seed":{derive(episode.seed, "env") if seed is None else seed},"text_seed":'
        f'{episode.seed},"share":{_number(episode.share)},"terminated":{"true" if episode.terminated else "false"}}}'
    )
    gaps = [quoted(name), quoted(item.id), run + (instead(task) if instead else f',"content":{as_json}')]
    clock = 0.0
    for turn in episode.turns:
        clock = _fill(gaps, turn, clock, token_ids, content)
    parts = parts_of(course_of(episode), header.roles, header.topology)
    line = [""] * (2 * len(parts) - 1)
    line[::2], line[1::2] = parts, (*gaps, *_sums(episode, clock))
    return "".join(line)


# --- what stands in the gaps of a course ------------------------------------------------------------------------------


def _fill(
    gaps: list[str], turn: Turn, started: float, token_ids: bool, content: Callable[[str | Mapping[str, Any]], str]
) -> float:
    """Add the time of every event of a turn and what of it is no part of the course; when the turn ended."""
    now = _number(started)
    for texts in (turn.told, turn.observations):
        for text in texts.values():
            gaps += (now, content(text))
    for said in turn.actions.values():
        gaps += (_number(started + said.seconds), content(said.text) + _sampled(said, token_ids))
    ended = started + max([said.seconds for said in turn.actions.values()], default=0.0)
    now = _number(ended)
    for event in turn.events:
        if event.kind != READ:
            gaps += (now, content(event.details) + _further(event))
    gaps += (now, _paid(turn, content))
    return ended


def _content(content: str | Mapping[str, Any]) -> str:
    if isinstance(content, str):
        return f',"content":{quoted(content)}'
    fields = [
        f"{quoted(name)}:{quoted(value) if type(value) is str else encode(value)}" for name, value in content.items()
    ]
    return f',"content":{{{",".join(fields)}}}'


def _sampled(said: Completion, token_ids: bool) -> str:
    """What is known of a text beside itself."""
    more = ""
    if said.prompt_ids or said.token_ids:
        more += f',"tokens":{{"prompt":{len(said.prompt_ids)},"sampled":{len(said.token_ids)}}}'
    if said.seconds:
        more += f',"seconds":{_number(said.seconds)}'
    if said.truncated:
        more += ',"truncated":true'
    if token_ids:
        logprobs = ",".join(map(_number, said.logprobs))
        more += f',"prompt_ids":{encode(said.prompt_ids)},"token_ids":{encode(said.token_ids)},"logprobs":[{logprobs}]'
    return more


def _further(event: Event) -> str:
    """The role of who was spawned, the name of a tool."""
    type_ = TYPES.get(event.kind)
    if type_ == "spawn":
        return f',"role":{quoted(event.details.get("role", ""))}'
    return f',"tool":{quoted(event.details.get("tool", "tool"))}' if type_ in _TOOLS else ""


def _paid(turn: Turn, content: Callable[[str | Mapping[str, Any]], str]) -> str:
    """What a turn earned."""
    more = f',"reward":{_number(turn.reward)}'
    if turn.rewards:
        more += f',"rewards":{_numbers(turn.rewards)}'
    if turn.score is not None:
        more += _score(turn.score) + (content(turn.score.notes) if turn.score.notes else "")
    return more


def _sums(episode: Episode, clock: float) -> Sequence[str]:
    """What was earned, tokens that were sampled, seconds, and the score."""
    final, rewards = episode.final, {"team": episode.total}
    if final:
        rewards |= final.components
    paid: dict[str, float] = {}
    for turn in episode.turns:
        for agent, value in turn.rewards.items():
            paid[agent] = paid.get(agent, 0.0) + value
    finite = {name: value for name, value in (rewards | paid).items() if isfinite(value)}
    tokens = sum([len(said.token_ids) for turn in episode.turns for said in turn.actions.values()])
    score = f'"score":{_number(final.total)},' if final and isfinite(final.total) else ""
    return _numbers(finite), str(tokens), _number(clock), score


def _score(score: Score) -> str:
    parts = f'"components":{_numbers(score.components)},"diagnostics":{_numbers(score.diagnostics)}'
    return f',"score":{{"total":{_number(score.total)},{parts}}}'


def _numbers(values: Mapping[str, float]) -> str:
    return f"{{{','.join([f'{quoted(name)}:{_number(value)}' for name, value in values.items()])}}}"


def _number(value: float) -> str:
    """JSON has no word for what is not finite."""
    if type(value) is float:  # which is nearly every one
        return repr(value) if isfinite(value) else "null"
    return encode(value if isfinite(value) else None)
