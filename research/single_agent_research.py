"""research-v0 with its form for one agent: the environment of the suites `claims/joint` and `claims/rates`.

    python -m llm_dec_pomdp bench research/suites/claims/joint.toml --out runs/joint

The team plays research-v0. Under the protocol "centralized", one agent has all tools and answers without sub-agents.
Its calls count as the support of its answer. `wrappers.Centralized` differs: its agent delegates to itself.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import replace

from llm_dec_pomdp.contrib.research.choices import ResearchChoices, another, offers_of_lead
from llm_dec_pomdp.contrib.research.corpus import corpus
from llm_dec_pomdp.contrib.research.questions import Invocation, QuestionState, knowledge, steps_of, world_of
from llm_dec_pomdp.contrib.research.scripts import call, found_by, notes, value_in
from llm_dec_pomdp.contrib.research.task import CALLS, Research, used
from llm_dec_pomdp.contrib.research.worlds import SKILLS
from llm_dec_pomdp.envs import Facts, Task, TextDecPOMDP, Transition
from llm_dec_pomdp.envs.hierarchy.base import LEADER
from llm_dec_pomdp.envs.tools import Limits, Toolbox
from llm_dec_pomdp.envs.tools.python import python
from llm_dec_pomdp.envs.tools.search import search
from llm_dec_pomdp.envs.tools.sql import sql
from llm_dec_pomdp.envs.wrappers.choices import TurnChoices, TurnState
from llm_dec_pomdp.types import Event, Message, TaskItem

ALL_SKILLS = "+".join(SKILLS)


@functools.lru_cache(maxsize=64)
def toolbox(name: str) -> Toolbox:
    """Return all tools for the corpus of that name."""
    held = corpus(name)
    kits = [search(held.texts), sql(held.script), replace(python(), private=True)]
    return Toolbox(kits, {f.tool.name: Limits(calls=CALLS, seconds=0) for kit in kits for f in kit.functions})


class SingleAgentResearch(Task[QuestionState]):
    """Task for one agent with all tools; each prompt is complete and resets the history.

    Args:
        team: The task, whose options hold.
    """

    def __init__(self, team: Research) -> None:
        self.team, self._items = team, team.items
        self.declared = Facts(
            name=f"{team.declared.name}/alone",
            roles=("solo",),
            components=team.declared.components,
            diagnostics=("right", "support", "retrieval_hit"),
            score_range=(-math.inf, 1.0),  # follows max_turns
            hidden_fields=team.declared.hidden_fields,
        )
        self.metadata = {**team.metadata, "name": self.declared.name}
        TextDecPOMDP.__init__(self, 1, team.max_turns, team.render_mode)

    @property
    def facts(self) -> Facts:
        """From minus the costs of all turns to 1."""
        return replace(self.declared, score_range=(-self.max_turns * self.team.cost_per_turn, 1.0))

    def initial_state(self, item: TaskItem, seed: int) -> QuestionState:
        """Return the state in which the agent observes the question."""
        return with_prompt(QuestionState(item))

    def observations(self, state: QuestionState) -> Mapping[str, Message]:
        """Return the question, the calls so far and their results."""
        return dict(state.messages)

    def transition(self, state: QuestionState, actions: Mapping[str, str], seed: int) -> Transition[QuestionState]:
        """Run the calls, or end the question with the answer."""
        now, text = state._replace(turn=state.turn + 1, messages=()), actions[LEADER]
        box = toolbox(state.item.fields["corpus"])
        calls = box.calls(LEADER, text)
        if not calls or now.turn >= self.max_turns:
            answer = "" if calls else text
            work = Invocation(LEADER, "", state.item.prompt, calls=state.calls, report=answer)
            score = self.team.score(now._replace(invocations=(work,)), answer, "it said nothing")
            event = Event("answer" if answer.strip() else "stop", LEADER, {"text": text})
            return Transition(now, score.total, score, terminated=True, events=(event,))
        tools, answered = box.answer(state.tools, LEADER, calls)
        following = with_prompt(now._replace(tools=tools, calls=(*state.calls, *used(answered))))
        return Transition(following, 0.0, events=tuple(box.events(LEADER, answered)), reset_history=frozenset([LEADER]))


def with_prompt(state: QuestionState) -> QuestionState:
    """Return the state with the prompt of the agent."""
    prompt = "\n\n".join(filter(None, [f"Question: {state.item.prompt}", notes(state.calls)]))
    return state._replace(messages=((LEADER, Message("observation", prompt)),))


class SingleAgentChoices(ResearchChoices):
    """The form for one agent by letter."""

    def prompt(self, state: TurnState, agent: str, message: str | Message) -> str:
        """Return what the task lets the agent observe."""
        return TurnChoices.prompt(self, state, agent, message)

    def offers_of_main(self, state: QuestionState) -> tuple[str, str, str]:
        """Return the next text of an optimal agent, a call with a wrong argument or a wrong answer, and another one."""
        of, answers = world_of(state.item), {call(made.tool, made.input): made.answer for made in state.calls}
        known = knowledge(
            steps_of(state.item), lambda r, s: value_in(of, (r, s), answers.get(found_by(ALL_SKILLS, (r, s)), ""))
        )
        return offers_of_lead(
            state.item,
            known,
            lambda fact: found_by(ALL_SKILLS, fact),
            lambda fact, label: found_by(ALL_SKILLS, another(of, fact, label)),
        )


class TeamChoices(ResearchChoices):
    """The team by letter, which has a form for one agent."""

    def single_agent(self) -> SingleAgentChoices:
        """Return the form for one agent by letter."""
        return SingleAgentChoices(self.env.single_agent())


class ResearchOrSingleAgent(Research):
    """research-v0, which has a form for one agent."""

    def single_agent(self) -> SingleAgentResearch:
        """Return the form for one agent."""
        return SingleAgentResearch(self)

    def with_candidates(self) -> TeamChoices:
        """Return the task by letter."""
        return TeamChoices(self)
