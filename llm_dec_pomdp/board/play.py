"""Play a suite with a team and write the submission."""

from __future__ import annotations

import dataclasses
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from ..__about__ import __version__
from ..agents.base import Policy, Request, Sampling, Team
from ..agents.partners import Silent, replace_members
from ..config import build
from ..envs.base import TextDecPOMDP
from ..episodes import Header, Trace, from_episode
from ..rollout.base import advance, start_episode, unfinished
from ..seeding import derive
from ..storage.files import Draft, replace, replace_json
from ..storage.reading import find_json, read_bytes
from ..types import Completion, Episode
from .measure import measure
from .submission import SUBMISSION, Kind, Submission, TaskResult, file_of, packed
from .suite import BoardError, BoardSuite, BoardTask, Planned, Protocol, members_of

_TEAM = "team.json"
_AT_ONCE = 32  # episodes that are played in parallel


class Entrant(NamedTuple):
    """A team for one task.

    Attributes:
        env: The environment of the task, under the protocol of the team.
        protocol: This protocol.
        team: The team of its agents.
        sampling: Sampling options; the suite sets the token limit.
        trained_on: Environment on whose reward the team was trained; "" for none.
        weights: Number of updates of the training.
        partner: Another team, whose members play in turn with this team in further episodes.
        partner_name: Its name.
    """

    env: TextDecPOMDP
    protocol: Protocol
    team: Team
    sampling: Sampling
    trained_on: str = ""
    weights: int = 0
    partner: Team | None = None
    partner_name: str = ""


class _Cut(Policy):
    """A policy whose texts are cut at a number of characters, for models whose tokens are long."""

    def __init__(self, policy: Policy, characters: int) -> None:
        self._policy, self._characters = policy, characters

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        """Answer every request; cut the thought and the text of a completion to the limit for both together."""

        def cut(completion: Completion) -> Completion:
            thought = completion.thought[: self._characters]
            return dataclasses.replace(
                completion, thought=thought, text=completion.text[: self._characters - len(thought)]
            )

        return [[cut(completion) for completion in of] for of in self._policy.generate(requests, sampling)]


def run(
    suite: BoardSuite,
    tasks: Sequence[BoardTask],
    enter: Callable[[BoardTask], Entrant],
    place: Path,
    *,
    name: str,
    kind: Kind,
    model: str,
    method: str,
    note: str = "",
    report: Callable[[str], object] = lambda line: None,
) -> Submission:
    """Play tasks of a suite and write the submission.

    Finished tasks are kept in the folder `place.part` until the submission is complete, so that a call with the same
    arguments resumes a run that was stopped.

    Args:
        suite: The suite.
        tasks: Tasks of the suite that are played, in its order.
        enter: A function that returns the team of a task.
        place: Folder of the submission; it must not exist.
        name, kind, model, method, note: See `Submission`.
        report: A function that is called with a line of text after each task.

    Raises:
        BoardError: The folder exists, an episode cannot be scored, or `place.part` belongs to another team.
        ConfigError: A name or the note has an unusual character or is too long.
    """
    if place.exists():
        raise BoardError(f"{str(place)!r} exists already; give a new folder, or remove it")
    team = {"suite": suite.name, "digest": suite.digest, "version": __version__}
    team |= {"name": name, "kind": kind, "model": model, "method": method, "note": note}
    part = place.with_name(f"{place.name}.part")
    if (there := find_json(part / _TEAM, dict[str, str]) or team) != team:
        raise BoardError(f"{str(part)!r} has finished tasks of another team, {there}; remove it, or finish that run")
    part.mkdir(parents=True, exist_ok=True)
    replace_json(part / _TEAM, team)
    results: list[TaskResult] = []
    for task in tasks:
        result = find_json(part / f"{task.environment}.json", TaskResult)
        if result is None:
            result = _play_task(suite, task, enter(task), model, part)
            replace_json(part / f"{task.environment}.json", result.model_dump())
        results.append(result)
        report(f"{task.environment}: return {result.statistics['return'].mean:.1f} %, {result.seconds:.0f} s")
    submission = build(Submission, {**team, "tasks": results}, source="options")
    with Draft(place) as draft:
        for path in sorted(part.glob("*.xz")):
            if path.name.split(".")[0] in [result.environment for result in results]:
                draft.write(path.name, [read_bytes(path)])
        draft.write_json(SUBMISSION, submission.model_dump())
        draft.publish()
    shutil.rmtree(part)
    return submission


def _play_task(suite: BoardSuite, task: BoardTask, entrant: Entrant, model: str, part: Path) -> TaskResult:
    """Play a task and write its traces into a folder."""
    started = time.perf_counter()
    plan = suite.plan(task)
    traces = _played(task, entrant, plan, model)
    changed: dict[str, list[tuple[Planned, Trace]]] = {}
    if planned := suite.plan_changed(task, entrant.env):
        for change in ("silent", *(["partner"] if entrant.partner else [])):
            changed[change] = list(zip(planned, _played(task, entrant, planned, model, change), strict=True))
    seconds = time.perf_counter() - started
    replace(part / file_of(task.environment), packed(traces))
    for change, pairs in changed.items():
        replace(part / file_of(task.environment, change), packed(trace for _, trace in pairs))
    found = measure(entrant.env, plan, traces, changed)
    return TaskResult(
        environment=task.environment,
        protocol=entrant.protocol,
        trained_on=entrant.trained_on,
        partner=entrant.partner_name if "partner" in changed else "",
        returns=found.returns,
        statistics=found.statistics,
        seconds=round(seconds, 1),
    )


def _played(
    task: BoardTask, entrant: Entrant, plan: Sequence[Planned], model: str, change: str = "silent"
) -> list[Trace]:
    """Return the traces of planned episodes, in order."""
    env = entrant.env
    sampling = entrant.sampling.model_copy(update={"max_new_tokens": task.max_new_tokens})
    header = Header.of(
        env,
        task.environment,
        options=task.options,
        protocol=entrant.protocol,
        models=model,
        weights=entrant.weights,
        sampling=sampling,
    )
    items = {item.id: item for item in env.items}
    traces: dict[Planned, Trace] = {}
    for member in dict.fromkeys(planned.changed for planned in plan):
        agents = members_of(env)[member] if member else []
        if entrant.partner and change == "partner":
            others: dict[str, Policy] = {agent: entrant.partner.members[agent] for agent in agents}
        else:
            others = {agent: Silent(entrant.team.members[agent]) for agent in agents}
        team = replace_members(entrant.team, others)
        some = [planned for planned in plan if planned.changed == member]
        for first in range(0, len(some), _AT_ONCE):
            chunk, policy = some[first : first + _AT_ONCE], _Cut(team, task.characters(env))
            running = [start_episode(env, task.items.index(p.item_id), p.item_id, p.seed, p.seed) for p in chunk]
            while left := unfinished(running):
                advance(left, policy, sampling.for_parts(env.facts.parts_per_action))
            for planned, e in zip(chunk, running, strict=True):
                episode = Episode(e.item_id, e.seed, tuple(e.turns), e.terminated)
                traces[planned] = from_episode(episode, header, items[e.item_id])
    return [traces[planned] for planned in plan]


class Bound(NamedTuple):
    """Upper bounds of a task's episodes, including those with a silent member and excluding those with a partner team.

    Attributes:
        texts: Number of texts.
        sampled: Number of sampled tokens.
        prompt: Number of prompt tokens, if a token has at least three characters and no tool result is longer than a
            text.
    """

    texts: int
    sampled: int
    prompt: int


def bound(suite: BoardSuite, task: BoardTask, protocol: Protocol) -> Bound:
    """Return upper bounds of the cost of a task: every agent acts at every turn with a text of maximum length."""
    env = task.env(protocol)
    planned = [*suite.plan(task), *suite.plan_changed(task, env)]
    texts = sampled = prompt = 0
    for p in planned:
        fork = env.fork()
        fork.reset(seed=derive(p.seed, "env"), options={"task_id": p.item_id})
        first = max(len(fork.history(agent)[-1].text) for agent in fork.agents if fork.asked(agent)) // 3
        agents, turns = len(env.possible_agents), env.max_turns
        texts += agents * turns
        sampled += agents * turns * task.tokens(env)
        prompt += agents * sum(first + turn * agents * task.tokens(env) for turn in range(turns))
    return Bound(texts, sampled, prompt)
