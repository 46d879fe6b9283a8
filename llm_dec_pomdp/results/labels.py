"""Preferences of a person or a judge between episodes of a run, in a file of pairs that `madpo` reads.

`Labels` chooses pairs of different episodes of each task, in an order that follows from a seed, without their returns.
Every answer replaces the file atomically, so a killed process loses no answer, and a later one resumes. A row is

    {"task": id, "pair": id, "answer": "a", "first": "chosen", "chosen": {agent: texts}, "rejected": {agent: texts}}

with the seeds of the environment's chance as `seeds`. `answer` is "a" (the text shown first), "b", "tie" or "skip";
ties and skipped pairs have no `chosen` and `rejected`. Tasks without a preference have a row {"task": id}, so that
training on all tasks of the run accepts the file.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..agents.principles import ComparingJudge, Comparison
from ..episodes import read_whole, to_episode
from ..rollout.recorded import Recorded, files_of, recorded_episode
from ..rollout.transcripts import transcript
from ..seeding import derive, generator
from ..storage.files import replace
from ..storage.reading import iterate_lines, parse

_AT_ONCE = 8  # pairs in one call of a judge
ANSWERS = ("a", "b", "tie", "skip")


class ShownPair(NamedTuple):
    """A pair of episodes as it is shown, without returns.

    Attributes:
        id: A hash of both episodes.
        task: The id of the task.
        asked: The task, as in the first observations of the agents.
        texts: The transcripts, in the order in which they are shown.
        episodes: The episodes, in the same order.
    """

    id: str
    task: str
    asked: str
    texts: tuple[str, str]
    episodes: tuple[Recorded, Recorded]


class LabelError(ValueError):
    """Labels that cannot be given or read; the message names the remedy."""


class Labels:
    """The pairs of a run, and the answers so far.

    Args:
        source: Folder of a run, or a file of traces with their texts.
        place: The file of answers; it is read if it exists, and replaced by every answer.
        per_task: Maximum number of pairs of a task.
        seed: Seed of the choice and of the order.

    Attributes:
        pairs: All pairs, in the order in which they are shown.
        answers: Answers by the id of the pair, in the order in which they were given.

    Raises:
        LabelError: The source has no two different episodes of a task, or the file has answers of other pairs.
    """

    def __init__(self, source: str, place: Path, per_task: int = 1, seed: int = 0) -> None:
        self.place = place
        self._tasks: dict[str, list[tuple[str, str, Recorded]]] = {}  # by task: the task, a transcript, the episode
        for file in files_of(source):
            for trace in read_whole(file):
                players = trace["events"][0]["header"]["players"]
                recorded = recorded_episode(trace)
                written = transcript(to_episode(trace), {agent: player["role"] for agent, player in players.items()})
                self._tasks.setdefault(recorded.task, []).append((*written, recorded))
        self.pairs = list(self._chosen(per_task, seed))
        if not self.pairs:
            raise LabelError(
                f"{source!r} has no two different episodes of a task; give the folder of a run or a file of traces "
                "with several episodes of each task (eval --samples 8)"
            )
        self.answers: dict[str, str] = {}
        self._written: bytes | None = None
        if place.exists():
            self._written = place.read_bytes()
            for number, line in iterate_lines(place):
                match parse(line, "the row"):
                    case {"pair": str(name), "answer": answer} if answer in ANSWERS:
                        self.answers[name] = answer
                    case {"task": _, **others} if not others:
                        pass
                    case _:
                        raise LabelError(
                            f"{str(place)!r}, row {number}: it is not an answer of `label`, and the file would be "
                            "replaced; give a new file with --out"
                        )
            if strange := set(self.answers) - {pair.id for pair in self.pairs}:
                raise LabelError(
                    f"{str(place)!r} has {len(strange)} answers for pairs that are not chosen now; give the same run, "
                    "--pairs and --seed, or a new file with --out"
                )

    def _chosen(self, per_task: int, seed: int) -> Iterator[ShownPair]:
        """Yield the pairs of all tasks in random order, each in random order."""
        found: list[ShownPair] = []
        for task, played in self._tasks.items():
            distinct = {(asked, text): (asked, text, episode) for asked, text, episode in played}
            different = [(a, b) for a, b in itertools.combinations(distinct.values(), 2) if a[0] == b[0]]
            random = generator(seed, "pairs to label", task)
            places: list[int] = random.permutation(len(different))[:per_task].tolist()
            for a, b in (different[place] for place in places):
                a, b = (a, b) if random.random() < 0.5 else (b, a)
                name = hashlib.sha256(json.dumps([task, a[1], b[1]]).encode()).hexdigest()[:16]
                found.append(ShownPair(name, task, a[0], (a[1], b[1]), (a[2], b[2])))
        for place in generator(seed, "order of pairs").permutation(len(found)).tolist():
            yield found[place]

    def next(self) -> ShownPair | None:
        """Return the first pair without an answer; None if all have one."""
        return next((pair for pair in self.pairs if pair.id not in self.answers), None)

    def answer(self, answers: Mapping[str, str]) -> None:
        """Record answers by the id of the pair, and write the file."""
        self.answers |= answers
        self._write()

    def back(self) -> bool:
        """Forget the last answer and write the file; return whether there was one."""
        if not self.answers:
            return False
        self.answers.popitem()
        self._write()
        return True

    def counts(self) -> Counter[str]:
        """Return the number of pairs with each answer."""
        return Counter(self.answers.values())

    def _write(self) -> None:
        """Write all answers.

        Raises:
            LabelError: Another process has changed the file since it was read or written here.
        """
        if (self.place.read_bytes() if self.place.exists() else None) != self._written:
            raise LabelError(
                f"{str(self.place)!r} was changed by another process, so the last answer was not saved; close the "
                "other process and start again"
            )
        by_id = {pair.id: pair for pair in self.pairs}
        rows = [_row(by_id[name], answer) for name, answer in self.answers.items()]
        preferred = {row["task"] for row in rows if "chosen" in row}
        rows += [{"task": task} for task in self._tasks if task not in preferred]
        replace(self.place, "".join(f"{json.dumps(row)}\n" for row in rows).encode())
        self._written = self.place.read_bytes()


def judge_pairs(labels: Labels, judge: ComparingJudge) -> dict[str, float]:
    """Let a judge answer all pairs without an answer; equal scores are a tie. Return the metrics of the judge."""
    left = [pair for pair in labels.pairs if pair.id not in labels.answers]
    for first in range(0, len(left), _AT_ONCE):
        some = left[first : first + _AT_ONCE]
        scores = judge.scores([Comparison(pair.asked, pair.texts, derive(0, "label", pair.id)) for pair in some])
        answers = ["tie" if a == b else "a" if a > b else "b" for a, b in scores]
        labels.answer({pair.id: answer for pair, answer in zip(some, answers, strict=True)})
    return judge.measured()


def _row(pair: ShownPair, answer: str) -> Mapping[str, Any]:
    row: dict[str, Any] = {"task": pair.task, "pair": pair.id, "answer": answer}
    if answer in ("a", "b"):
        chosen, rejected = pair.episodes if answer == "a" else pair.episodes[::-1]
        row["first"] = "chosen" if answer == "a" else "rejected"
        for name, episode in (("chosen", chosen), ("rejected", rejected)):
            row[name] = {a: [getattr(t, "text", t) for t in texts] for a, texts in episode.texts.items()}
        row["seeds"] = [chosen.seed, rejected.seed]
    return row
