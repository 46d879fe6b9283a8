"""A learnt reward in place of the task's own: a model of what people prefer.

    env = LearnedReward(make("tldr-v0"), model)        # or make("tldr-v0", reward=model)

Every learner can train on it. Each turn pays model(history, text), where the history and the text are those of a single
agent that writes all parts (protocol "centralized"): all that the agents were told, and all that they said, one part
after another under their roles. The return is the sum over the turns, as in the training of such a model
(`algorithms.reward_model`).

The score stays that of the task. So an evaluation measures what the texts are truly worth, and training shows both the
learnt return (`mean_return`) and the true one (`return_percent`). Where the first rises while the second falls, the
team has learnt the mistakes of the model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

from ...types import Message, TaskItem
from ..base import TextDecPOMDP
from ..facts import Facts
from ..task import Task, Transition
from .base import TaskWrapper
from .protocols import asked_together

Worth = Callable[[Sequence[Message], str], float]
LEARNED = "learned"  # the diagnostic


class Judged(NamedTuple):
    """The state of `LearnedReward`."""

    inner: Any  # that of the task
    history: tuple[Message, ...] = ()  # the joint conversation so far


class LearnedReward(TaskWrapper[Judged]):
    """A task that pays what a model makes of its texts; the module says how.

    Args:
        env: A task. A protocol goes around this wrapper, not into it.
        model: A deterministic function from a joint conversation and the joint text that follows to a number.

    Raises:
        TypeError: `env` is no task, or `model` is no function.
        ValueError: It is a hierarchy, whose agents come and go.
    """

    def __init__(self, env: TextDecPOMDP, model: Worth) -> None:
        name = env.metadata["name"]
        if not isinstance(env, Task):
            raise TypeError(f"{name} is a {type(env).__name__}; a learnt reward wraps a task, and protocols wrap it")
        if not callable(model):
            raise TypeError(
                f"the reward of {name} is {model!r}; give a function of a conversation and a text, or on the command "
                "line reward={model=FOLDER} with the folder of a trained reward model"
            )
        if env.facts.hierarchical:
            raise ValueError(f"{name} is a hierarchy; a learnt reward needs agents that are there from the beginning")
        super().__init__(cast("Task[Any]", env), LEARNED)
        self.model = model

    @property
    def facts(self) -> Facts:
        """A turn may pay the team any number, for silence too."""
        known = super().facts
        return replace(
            known,
            joint_reward=True,
            silence_is_lowest=False,
            diagnostics=(*known.diagnostics, LEARNED),
            turn_range=(-math.inf, math.inf),
        )

    def initial_state(self, item: TaskItem, seed: int) -> Judged:
        """That of the task, before anything was said."""
        return Judged(self.env.initial_state(item, seed))

    def transition(self, state: Judged, actions: Mapping[str, str], seed: int) -> Transition[Judged]:
        """What follows in the task, paid by the model.

        Raises:
            ValueError: The model returned a number that is not finite.
        """
        observations = {
            a: m.text if isinstance(m, Message) else m for a, m in self.env.observations(state.inner).items()
        }
        history = (*state.history, Message("observation", asked_together(self.env, observations)))
        known = self.env.facts
        text = known.join([known.visible_part(actions.get(agent, "")) for agent in self.possible_agents])
        step = self.env.transition(state.inner, actions, seed)
        value = float(self.model(history, text))
        if not math.isfinite(value):
            raise ValueError(
                f"the learnt reward of {self.metadata['name']} is {value}: its model is damaged; train it anew"
            )
        score = step.score and replace(step.score, diagnostics={**step.score.diagnostics, LEARNED: value})
        following = Judged(step.state, (*history, Message("action", text)))
        return replace(step, state=following, reward=value, score=score, rewards=None)
