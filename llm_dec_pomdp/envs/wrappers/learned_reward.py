"""A learned reward model in place of the task's own reward.

    env = LearnedReward(make("tldr-v0"), model)        # or make("tldr-v0", reward=model)

Every learner can train on it. The reward of each turn is model(history, text). Both are in the form of the protocol
"centralized": the history has the observations and actions of all agents, and the text has the actions of this turn,
each below the role of its agent. The return is the sum over the turns, as in the training of the reward model
(`algorithms.reward_model`).

The score remains the score of the task. An evaluation therefore measures the task's own score, and training reports
both the learned return (`mean_return`) and the task's (`return_percent`). If the first rises while the second falls,
the team exploits errors of the reward model.
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

    inner: Any  # state of the task
    history: tuple[Message, ...] = ()  # the joint conversation so far


class LearnedReward(TaskWrapper[Judged]):
    """A task whose reward is the output of a reward model; see the module.

    Args:
        env: A task without a protocol. Protocols wrap this wrapper.
        model: A deterministic function from a joint history and the joint action that follows to a reward.

    Raises:
        TypeError: `env` is not a task, or `model` is not a function.
        ValueError: `env` is a hierarchy, whose agents join and leave.
    """

    def __init__(self, env: TextDecPOMDP, model: Worth) -> None:
        name = env.metadata["name"]
        if not isinstance(env, Task):
            raise TypeError(
                f"{name} is a {type(env).__name__}; give a task to LearnedReward, and let protocols wrap the result"
            )
        if not callable(model):
            raise TypeError(
                f"the reward of {name} is {model!r}; give a function of a history and a text, or on the command line "
                "reward={model=FOLDER} with the folder of a trained reward model"
            )
        if env.facts.hierarchical:
            raise ValueError(f"{name} is a hierarchy; a learned reward needs a task whose agents do not join later")
        super().__init__(cast("Task[Any]", env), LEARNED)
        self.model = model

    @property
    def facts(self) -> Facts:
        """Return the facts of the task, with an unbounded joint reward, also for empty actions."""
        known = super().facts
        return replace(
            known,
            joint_reward=True,
            silence_is_lowest=False,
            diagnostics=(*known.diagnostics, LEARNED),
            turn_range=(-math.inf, math.inf),
        )

    def initial_state(self, item: TaskItem, seed: int) -> Judged:
        """Return the initial state of the task, with an empty history."""
        return Judged(self.env.initial_state(item, seed))

    def transition(self, state: Judged, actions: Mapping[str, str], seed: int) -> Transition[Judged]:
        """Return the transition of the task, with the reward of the model.

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
                f"the learned reward of {self.metadata['name']} is {value}; its model is damaged, so train it again"
            )
        score = step.score and replace(step.score, diagnostics={**step.score.diagnostics, LEARNED: value})
        following = Judged(step.state, (*history, Message("action", text)))
        return replace(step, state=following, reward=value, score=score, rewards=None)
