"""Verification of submissions: every text is played again, and everything that follows from the texts is compared.

A valid submission shows that its texts receive these rewards and statistics on exactly the tasks of the suite. It does
not show who wrote the texts, nor the numbers in `measure.REPORTED`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ..envs.base import TextDecPOMDP
from ..envs.tasks import item_as_json
from ..episodes import Trace
from ..episodes.header import digest, plain_text
from ..rollout import replay
from ..seeding import derive
from ..storage.reading import FileError, is_there
from .measure import measure
from .submission import Measure, Submission, TaskResult, file_of, read, read_traces
from .suite import BoardError, BoardSuite, BoardTask, Planned, load, members_of

_DIGITS = 1e-9  # by which statistics may differ, since libraries round differently on other machines
_AT_ONCE = 4  # episodes with generated code that are replayed in parallel


def verify(folder: Path) -> Submission:
    """Replay a submission and compare it with the suite, rewards, observations and statistics.

    Args:
        folder: Folder of the submission.

    Returns:
        The verified submission.

    Raises:
        BoardError: The submission is invalid; the message names the first difference.
    """
    submission = read(folder)
    suite = load(submission.suite)
    if submission.digest != suite.digest:
        raise BoardError(
            f"the submission belongs to another version of {suite.name}: its digest is {submission.digest:.12}, and "
            f"that of this package is {suite.digest:.12}; run the team on the suite of this package"
        )
    order = [task.environment for task in suite.tasks]
    given = [result.environment for result in submission.tasks]
    if given != [name for name in order if name in given]:
        raise BoardError(f"the tasks are {given}, which is not the order of {suite.name}: {order}")
    for result in submission.tasks:
        try:
            _verify_task(folder, suite, suite.task(result.environment), result)
        except BoardError as error:
            raise BoardError(f"{result.environment}: {error}") from None
    return submission


def _verify_task(folder: Path, suite: BoardSuite, task: BoardTask, result: TaskResult) -> None:
    if result.protocol != task.protocol(result.protocol):
        raise BoardError(f"the protocol {result.protocol!r} does not apply; play it as {task.protocol('parallel')!r}")
    env = task.env(result.protocol)
    plan = suite.plan(task)
    traces = _replayed(folder, task, env, result, plan)
    changed = {
        change: list(zip(planned, _replayed(folder, task, env, result, planned, change), strict=True))
        for change in ("silent", *(["partner"] if result.partner else []))
        if (planned := suite.plan_changed(task, env))
    }
    again = measure(env, plan, traces, changed)
    there, here = (_numbers(found.returns, found.statistics) for found in (result, again))
    for name in dict.fromkeys((*there, *here)):
        a, b = there.get(name), here.get(name)
        if a is None or b is None or not math.isclose(a, b, rel_tol=_DIGITS, abs_tol=_DIGITS):
            raise BoardError(f"{name}: the submission has {a}, replay gives {b}")


def _numbers(returns: Sequence[float], statistics: Mapping[str, Measure]) -> dict[str, float]:
    """Return the known numbers of results by name."""
    numbers = {f"returns.{number}": value for number, value in enumerate(returns)}
    fields = {f"statistics.{name}": measure.model_dump() for name, measure in statistics.items()}
    return numbers | {f"{n}.{field}": v for n, of in fields.items() for field, v in of.items() if v is not None}


def _replayed(
    folder: Path, task: BoardTask, env: TextDecPOMDP, result: TaskResult, plan: Sequence[Planned], change: str = ""
) -> list[Trace]:
    """Return the traces of a file, each replayed without a difference."""
    path = folder / file_of(task.environment, change)
    if not is_there(path):
        raise BoardError(f"{path.name} is missing")
    rows = {item.id: digest(plain_text(item_as_json(item))) for item in env.items}

    def check_one(numbered: tuple[int, Trace]) -> None:
        number, trace = numbered
        planned, where = plan[number], f"{path.name}, episode {number + 1}"
        wanted = {
            "environment": {"id": task.environment, "options": task.options},
            "protocol": result.protocol,
            "max_turns": env.max_turns,
            "task": {"id": planned.item_id, "digest": rows[planned.item_id]},
            "text_seed": planned.seed,
            "seed": derive(planned.seed, "env"),
            "share": 1.0,
        }
        try:
            header = trace["events"][0]["header"]
            found = {name: header[name] for name in wanted}
        except (LookupError, TypeError):
            raise BoardError(f"{where}: it is no trace of this package; write submissions with `board run`") from None
        for name, value in wanted.items():
            if found[name] != value:
                raise BoardError(
                    f"{where}, header.{name}: it is {found[name]!r:.120}, and the suite has {value!r:.120}"
                )
        try:
            difference = replay(trace, env)
        except FileError as error:
            difference = str(error)
        silent = planned.changed if change == "silent" else ""
        if problem := difference or next(_problems_of_texts(trace, task, env, silent), ""):
            raise BoardError(f"{where}, {problem}")

    traces = list(read_traces(path))
    with ThreadPoolExecutor(_AT_ONCE if env.facts.judges_code else 1) as threads:
        for _ in threads.map(check_one, enumerate(traces[: len(plan)])):
            pass
    if len(traces) != len(plan):
        raise BoardError(f"{path.name}: it has {len(traces)} episodes, and the suite has {len(plan)}")
    return traces


def _problems_of_texts(trace: Trace, task: BoardTask, env: TextDecPOMDP, silent: str) -> Iterator[str]:
    """Yield the texts that exceed a limit, and texts of the silent member."""
    quiet = members_of(env)[silent] if silent else []
    for event in trace["events"]:
        if event["type"] != "message" or event["agent"] not in env.possible_agents:
            continue
        length = len(event["content"]) + len(event.get("thought", ""))
        if length > task.characters(env):
            yield f"event {event['id']!r}: the text has {length} characters, and the limit is {task.characters(env)}"
        sampled = event.get("usage", event.get("tokens", {})).get("sampled") or 0
        if sampled > task.tokens(env):
            yield f"event {event['id']!r}: the text has {sampled} tokens, and the limit is {task.tokens(env)}"
        if event["agent"] in quiet and event["content"]:
            yield f"event {event['id']!r}: {silent} writes {event['content']!r:.40}, and it must be silent"
