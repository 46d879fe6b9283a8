"""What the code environments share: a helper and a main function, judged in another process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...sandbox import Job, Verdict, default_pool
from ...types import Score, TaskItem
from ..base import TextTask
from . import reward

REQUIRED = ("prompt", "test", "entry_point")
_ONLY = "Write only the function: no explanation, no code fences, no tests."


class CodeTask(TextTask):
    """agent_0 writes a helper named `aux`, agent_1 the entry point; a subclass declares `source`."""

    roles = ("aux", "main")
    components = reward.COMPONENTS
    reward_range = (0.0, 4.0)
    max_return = 4.0
    judges_code = True

    def observe(self, item: TaskItem, agent: str) -> str:
        """The problem, then the role's request. Main does not see aux's code."""
        entry_point = item.fields["entry_point"]
        if self.role(agent) == "aux":
            goal = f"returns something useful for solving `{entry_point}`"
            request = f"Write a helper function named `aux` that {goal}. {_ONLY}"
        else:
            request = (
                f"Write the function `{entry_point}`. A helper function `aux(...)` written by someone else exists: "
                f"call it where it helps, and do not define it yourself. {_ONLY}"
            )
        return f"{item.prompt.strip()}\n\n{request}"

    def score(self, item: TaskItem, actions: Mapping[str, str]) -> Score:
        """The gated reward of `envs.coding.reward`."""
        aux_text, main_text = (actions[agent] for agent in self.possible_agents)
        return reward.score(item, reward.Program.find(aux_text, main_text, item.fields["entry_point"]), judge)

    def split_joint_text(self, text: str) -> tuple[str, ...]:
        """Functions are found by name, so every part may be looked for in the whole text."""
        return (text,) * len(self.roles)

    def join_texts(self, texts: Sequence[str]) -> str:
        """One module with all functions."""
        return "\n\n".join(texts)


def judge(job: Job) -> Verdict:
    """Judge one program in the pool of this process."""
    return default_pool().run([job])[0]
