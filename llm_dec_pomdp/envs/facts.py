"""What is true of an environment whatever is played: one frozen value, which wrappers pass on."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..types import Excerpt, Scale, Score
from .judging import RememberingJudge

Range = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What a task declares; see the module.

    Attributes:
        name: Its id, e.g. "tldr-v0".
        roles: Human name of every agent, in agent order.
        components: Names of the score's parts; every info carries `reward/<name>` for each.
        diagnostics: Names of further numbers that explain the reward; every info carries `diagnostic/<name>` for each.
        score_range: Lowest and highest score of a joint action.
        turn_range: Lowest and highest joint reward of one turn; None: those of the score.
        best: The highest score that can be reached; None: the upper end of `score_range`.
        scale: The scores that reports call 0 % and 100 %; None: 0 and the upper end of `score_range`.
        optimum: Mean return of an optimal team; None where it is not known. Reports show the regret to it.
        reference_share: Every reference joint action earns at least this share of `max_return`.
        silence_is_lowest: True where empty texts earn the lowest score; elsewhere chance decides what they earn.
        joint_reward: True where every agent gets the identical reward; False where agents are paid individually.
        shares_texts: True where agents may be told each other's texts; elsewhere `check_env` reports that as a leak.
        needs_messages: True where agents need teammates' texts; a training whose protocol passes none warns.
        hierarchical: True where a main agent calls sub-agents, each of which sees only its subtask; see `alone`.
        hidden_fields: Fields of the tasks that only the reward may read; `check_env` looks for them in observations.
        vocabulary: Every word that agents are told or have to say, where these are few; () for any word.
        excerpt: Where an observation shows the text that the task is about; None where there is no such text.
        default_model: The model of a team that names none; "": see `evaluation.teams.default_model`.
        scripts: Names of teams without a model, see `TextDecPOMDP.script`.
        parts_per_action: How many agents' parts one action holds; a policy's token budget is per part.
        joined_as_module: True where one text that holds every agent's part is a module, in which parts are found by name.
        end_marker: What ends a text for everybody but its author; "": nothing does.
        judges_code: True when `step` waits for another process, so that stepping copies in threads pays.
        judge: The language model that its reward asks, of which texts of several copies can be asked at once, or None.
    """

    name: str
    roles: tuple[str, ...] = ()
    components: tuple[str, ...]
    diagnostics: tuple[str, ...] = ()
    score_range: Range
    turn_range: Range | None = None
    best: float | None = None
    scale: Scale | None = None
    optimum: float | None = None
    reference_share: float = 1.0
    silence_is_lowest: bool = True
    joint_reward: bool = True
    shares_texts: bool = False
    needs_messages: bool = False
    hierarchical: bool = False
    hidden_fields: tuple[str, ...] = ()
    vocabulary: tuple[str, ...] = ()
    excerpt: Excerpt | None = None
    default_model: str = ""
    scripts: tuple[str, ...] = ()
    parts_per_action: int = 1
    joined_as_module: bool = False
    end_marker: str = ""
    judges_code: bool = False
    judge: RememberingJudge | None = None

    @property
    def reward_range(self) -> Range:
        """Lowest and highest joint reward of one turn."""
        return self.turn_range or self.score_range

    @property
    def max_return(self) -> float:
        """The highest score that can be reached."""
        return self.score_range[1] if self.best is None else self.best

    @property
    def score_scale(self) -> Scale:
        """The scores that reports call 0 % and 100 %."""
        return self.scale or Scale(0.0, self.score_range[1])

    def numbers(self, score: Score) -> dict[str, float]:
        """What every info carries of a score: its parts and its further numbers, by the names of infos."""
        parts, diagnostics = _in_infos("reward", self.components), _in_infos("diagnostic", self.diagnostics)
        return {
            **{key: float(score.components.get(name, 0.0)) for name, key in parts.items()},
            **{key: float(score.diagnostics.get(name, 0.0)) for name, key in diagnostics.items()},
        }

    # --- texts of several agents ---------------------------------------------------------------------------------

    def visible_part(self, text: str) -> str:
        """What others may be shown of an agent's text."""
        return text.partition(self.end_marker)[0] if self.end_marker else text

    def split(self, text: str) -> tuple[str, ...]:
        """Cut one text that holds every agent's part into the parts, for one agent that writes them all.

        Parts stand under header lines `[role]`; a text without any header is the first part. Every agent gets the whole
        of a module.
        """
        if self.joined_as_module:
            return (text,) * len(self.roles)
        roles = "|".join(re.escape(role) for role in self.roles)
        pieces = re.split(rf"(?im)^[ \t]*\[({roles})\][ \t]*:?", text)
        if len(pieces) == 1:
            return (text, *[""] * (len(self.roles) - 1))
        parts: dict[str, str] = {}
        for role, part in zip(pieces[1::2], pieces[2::2], strict=True):
            parts.setdefault(role.lower(), part.strip())
        return tuple(parts.get(role.lower(), "") for role in self.roles)

    def join(self, texts: Sequence[str]) -> str:
        """The inverse of `split`: one text that holds every agent's part."""
        if self.joined_as_module:
            return "\n\n".join(texts)
        return "\n".join(f"[{role}]\n{text}" for role, text in zip(self.roles, texts, strict=True))


@functools.cache
def _in_infos(kind: str, names: tuple[str, ...]) -> dict[str, str]:
    """Names as infos have them; forks, of which there are many, share them."""
    return {name: f"{kind}/{name}" for name in names}
