"""Example texts of a team for the same task before and after training, chosen by a fixed rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..episodes import read, to_episode
from ..episodes.files import evaluations
from ..results.lines import MethodResult
from ..types import Episode

RULE = "The last text of each agent in the first evaluation task of the lowest seed, before and after training."


@dataclass(frozen=True)
class BeforeAfter:
    """Two episodes of one task.

    Attributes:
        method: Name of the method.
        seed, task: Seed of the run, and id of the task.
        steps: Number of updates, before and after.
        scores: Scores before and after; None if the episode could not be scored.
        texts: For each agent its role, its text before and its text after.
    """

    method: str
    seed: int
    task: str
    steps: tuple[int, int]
    scores: tuple[float | None, float | None]
    texts: Sequence[tuple[str, str, str]]


def before_and_after(line: MethodResult) -> BeforeAfter | None:
    """Return the example of a method; None if it does not learn or was evaluated less than twice."""
    entry = min(line.entries, key=lambda entry: entry.cell.seed)
    files = evaluations(entry.folder)
    if not line.learns or len(files) < 2:
        return None
    first, last = min(files), max(files)
    before, after = (next(map(to_episode, read(files[step])), None) for step in (first, last))
    if before is None or after is None or before.item_id != after.item_id:
        return None
    earlier, later = _last_texts(before), _last_texts(after)
    texts = [(entry.shown(agent), earlier.get(agent, ""), later.get(agent, "")) for agent in earlier | later]
    scores = (_score(before), _score(after))
    return BeforeAfter(line.name, entry.cell.seed, before.item_id, (first, last), scores, texts)


def _last_texts(episode: Episode) -> dict[str, str]:
    """Return the last sampled text of each agent, by agent; agents with a script are left out."""
    actions = ((agent, action) for turn in episode.turns for agent, action in turn.actions.items())
    return {agent: action.text for agent, action in actions if action.sampled_tokens}


def _score(episode: Episode) -> float | None:
    return episode.final.total if episode.final and episode.final.scorable else None
