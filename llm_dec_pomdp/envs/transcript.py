"""An episode as people read it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .base import TextDecPOMDP


def transcript(env: TextDecPOMDP) -> str:
    """What every agent was told and said in the running or finished episode, and what the last joint action scored."""
    lines = [f"{env.metadata['name']} / {env.item.id} / turn {env.turn} of {env.max_turns}"]
    for agent in env.possible_agents:
        for role, text, name in env.history(agent):
            verb = {"told": "told", "said": "says", "tool": f"gets from {name}"}[role]
            lines += [f"--- {agent} ({env.role(agent)}) {verb}:", text]
    if env.last_score is not None:
        parts = "  ".join(f"{name} {value:+.3f}" for name, value in env.last_score.components.items())
        lines.append(f"=== score {env.last_score.total:.3f} of {env.facts.score_range[1]:g}:  {parts}")
    return "\n".join(lines)
