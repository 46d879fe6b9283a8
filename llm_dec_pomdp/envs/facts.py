"""Fixed properties of an environment, in one frozen value that wrappers pass on."""

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
    """Properties that a task declares.

    Attributes:
        name: Its id, e.g. "tldr-v0".
        roles: Human-readable name of every agent, in agent order.
        components: Names of the score's parts; every info has a key `reward/<name>` for each.
        diagnostics: Names of further numbers that explain the reward; every info has a key `diagnostic/<name>` for
            each.
        score_range: Lowest and highest score of a joint action.
        turn_range: Lowest and highest team reward of one turn; None: the same as `score_range`.
        best: The highest reachable score; None: the upper end of `score_range`.
        scale: The scores that reports call 0 % and 100 %; None: 0 and the upper end of `score_range`.
        optimum: Mean return of an optimal team; None if unknown. Reports show the regret relative to it.
        reference_share: Every reference joint action receives at least this share of `max_return`.
        silence_is_lowest: True if empty texts receive the lowest score; False if chance decides their score.
        joint_reward: True if all agents receive the identical reward; False if rewards are individual.
        shares_texts: True if agents may observe each other's texts; otherwise `check_env` reports this as a leak.
        needs_messages: True if agents need teammates' texts; training with a protocol that passes none warns.
        hierarchical: True if a main agent calls sub-agents, each of which observes only its subtask.
        hidden_fields: Task fields that only the reward may read; `check_env` looks for them in observations.
        vocabulary: All words of observations and actions, if they are few; () for any word. `builtin:words` reads
            other words as unknown.
        excerpt: The position of the source text in an observation; None if there is no source text.
        default_model: The model of a team if the user names none; "": see `evaluation.teams.default_model`.
        scripts: Names of scripted teams, see `TextDecPOMDP.script`.
        size: The option of the constructor that sets the number of agents with exchangeable roles; "" if there is none.
        parts_per_action: Number of agents' parts in one action; a policy's token limit is per part.
        joined_as_module: True if the joint text of all agents is one Python module, whose parts are found by name.
        end_marker: Marker in an action; teammates observe only the text before it. "": they observe the whole action.
        judges_code: True if `step` waits for the code sandbox, so that stepping copies in threads is faster.
        judge: The LLM judge of the reward, which can score the actions of several copies in one batch; None if the
            reward has none.
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
    size: str = ""
    parts_per_action: int = 1
    joined_as_module: bool = False
    end_marker: str = ""
    judges_code: bool = False
    judge: RememberingJudge | None = None

    @property
    def reward_range(self) -> Range:
        """Return the lowest and highest team reward of one turn."""
        return self.turn_range or self.score_range

    @property
    def max_return(self) -> float:
        """Return the highest reachable score."""
        return self.score_range[1] if self.best is None else self.best

    @property
    def score_scale(self) -> Scale:
        """Return the scores that reports call 0 % and 100 %."""
        return self.scale or Scale(0.0, self.score_range[1])

    def numbers(self, score: Score) -> dict[str, float]:
        """Return the entries that a score adds to every info: components and diagnostics by key."""
        parts, diagnostics = _in_infos("reward", self.components), _in_infos("diagnostic", self.diagnostics)
        return {
            **{key: float(score.components.get(name, 0.0)) for name, key in parts.items()},
            **{key: float(score.diagnostics.get(name, 0.0)) for name, key in diagnostics.items()},
        }

    # --- texts of several agents ---------------------------------------------------------------------------------

    def visible_part(self, text: str) -> str:
        """Return the part of an action that other agents may observe."""
        return text.partition(self.end_marker)[0] if self.end_marker else text

    def split(self, text: str) -> tuple[str, ...]:
        """Split the text of a single agent, which writes all parts, into one part per agent.

        Each part follows a header line `[role]`. A text without a header is the part of the first agent. If
        `joined_as_module`, every agent gets the whole text.
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
        """Return one text with the parts of all agents; the inverse of `split`, unless `joined_as_module`."""
        if self.joined_as_module:
            return "\n\n".join(texts)
        return "\n".join(f"[{role}]\n{text}" for role, text in zip(self.roles, texts, strict=True))


@functools.cache
def _in_infos(kind: str, names: tuple[str, ...]) -> dict[str, str]:
    """Return the key in infos of each name; cached, since many forks share the keys."""
    return {name: f"{kind}/{name}" for name in names}
