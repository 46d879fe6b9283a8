"""A scripted reviewer of the candidate functions, for the suite `claims/feedback`.

    [[environments]]
    id = "research.candidates.reviewer:reviewed"
    options = { right = 0.5 }

Run the suite in the root folder of the repository with `--trust`, so that `research` can be imported.
"""

from __future__ import annotations

import json
from typing import Any

import llm_dec_pomdp
from llm_dec_pomdp.envs import TextDecPOMDP
from llm_dec_pomdp.envs.coding.candidates import candidates
from llm_dec_pomdp.seeding import derive, uniforms


class ScriptedReviewer:
    """A reviewer that suggests both references with a given probability, and two other candidates otherwise.

    It reads the problem and both functions in the prompt of `envs.coding.feedback.ask_expert`. The same functions
    always get the same review.

    Args:
        right: The probability, 0 to 1.

    Raises:
        ValueError: `right` is no probability.
    """

    def __init__(self, right: float) -> None:
        if not 0 <= right <= 1:
            raise ValueError(f"right is {right!r}; it is a probability, from 0 to 1")
        self.right = right
        self._ids = {item.prompt.strip(): item.id for item in llm_dec_pomdp.make("coophumaneval-v0", split="all").items}

    def __call__(self, prompt: str, number: int) -> str:
        """Return the suggested functions by role as JSON."""
        problem, _, rest = prompt.partition("\n\nTwo programmers share this problem. One wrote the helper `aux`:\n\n")
        aux, _, rest = rest.partition("\n\nThe other wrote `")
        main = rest.partition("`:\n\n")[2].partition("\n\nReview both.")[0]
        written = ["" if text == "(nothing usable)" else text for text in (aux, main)]
        task_id = self._ids[problem]
        is_right, *draws = uniforms(derive(0, task_id, "review", *written), 3)
        edits: dict[str, str] = {}
        for (role, of_kind), u in zip(candidates()[task_id].items(), draws, strict=True):
            wrong = [kind for kind in sorted(of_kind) if kind != "gold"]
            edits[role] = of_kind["gold" if is_right < self.right else wrong[int(u * len(wrong))]]
        return json.dumps(edits)


def reviewed(*, right: float, **options: Any) -> TextDecPOMDP:
    """Build `coophumaneval-v0` with candidates and the scripted reviewer; `options` are those of the environment."""
    expert = ScriptedReviewer(right)
    return llm_dec_pomdp.make("coophumaneval-v0", candidates=True, feedback="expert", expert=expert, **options)
