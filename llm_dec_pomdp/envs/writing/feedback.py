"""Messages to both writers after a turn: the levels of the reward that passed.

| mode | content |
|---|---|
| `none` | a request for a new version |
| `level_passed` | the levels that passed |
| `level_feedback` | also the measured quantity and the range with the full reward |

Both agents observe the same message. It quotes no word of either text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...types import Score
from .reward import WritingFormula

MODES = ("none", "level_passed", "level_feedback")
REVISE = "Write the complete new version of your text."


def message(mode: str, score: Score, formula: WritingFormula, roles: Sequence[str]) -> str:
    """Return the message after a turn, the same for both agents."""
    if mode == "none":
        return REVISE
    lines = levels(score, formula, roles, reasons=mode == "level_feedback")
    return "\n".join(f"- {line}" for line in lines) + f"\n\n{REVISE}"


def levels(score: Score, formula: WritingFormula, roles: Sequence[str], *, reasons: bool) -> list[str]:
    """Return one line for each level up to the first that failed."""
    stopped = score.notes.get("stopped_at", "")
    lines: list[str] = []
    for level, reason in _reasons(score.diagnostics, formula, roles).items():
        verdict = "failed" if level == stopped else "passed"
        lines.append(f"{level}: {verdict}" + (f", {reason}" if reasons else ""))
        if level == stopped:
            return lines
    return lines


def _reasons(facts: Mapping[str, float], formula: WritingFormula, roles: Sequence[str]) -> dict[str, str]:
    first, second = roles
    fewest, most = formula.words
    length, vocabulary = formula.length_ratio, formula.vocabulary_ratio
    return {
        "structure": (
            f"the {first} has {facts['words_first']:.0f} words and the {second} {facts['words_second']:.0f}; "
            f"{fewest} to {most} are wanted"
        ),
        "coordination": (
            f"the {second} is {facts['length_ratio']:.2f} times as long as the {first}; "
            f"{length.full_low:g} to {length.full_high:g} times is best"
        ),
        "vocabulary": (
            f"the {second} has {facts['vocabulary_ratio']:.2f} times as many different words as the {first}; "
            + (
                f"{vocabulary.full_low:g} to {vocabulary.full_high:g} times is best"
                if vocabulary.full_high < 1e9
                else f"{vocabulary.full_low:g} times or more is best"
            )
        ),
        "style": (
            f"transition words of {facts['connective_categories']:.0f} kinds are used, more kinds are better; "
            f"{facts['jaccard']:.0%} of the words are shared, {formula.jaccard_cap:.0%} are enough"
        ),
    }
