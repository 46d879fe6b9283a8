"""Calls, reports and answers by letter: `candidates=True` of research-v0.

An agent chooses among three texts. They are usually: the text of an optimal team; the same call with a wrong argument;
and a call of the wrong tool or specialist, or a wrong answer or report. The seed of the episode decides their order.
Each prompt repeats all that the agent needs, so earlier turns are dropped from its history.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llm_dec_pomdp.envs import Task
from llm_dec_pomdp.envs.hierarchy.base import LEADER
from llm_dec_pomdp.envs.wrappers.choices import TurnChoices, TurnState
from llm_dec_pomdp.seeding import derive
from llm_dec_pomdp.types import Message, TaskItem

from .questions import Invocation, Known, QuestionState, knowledge, steps_of, world_of
from .scripts import UNKNOWN, Ask, asked, call, fact_of, found_by, holder, meant, notes, value_in
from .worlds import RELATIONS, SKILLS, World


class ResearchChoices(TurnChoices):
    """Environment research-v0 with actions by letter. See the module docstring.

    Args:
        env: The task.

    Raises:
        ValueError: A question has no known steps, from which the offered texts are made.
    """

    letters = "ABC"

    def __init__(self, env: Task[Any]) -> None:
        super().__init__(env)
        if without := [item.id for item in env.items if not steps_of(item)]:
            raise ValueError(
                f"task {without[0]!r} has no field 'steps', which candidates need; use embedded questions, or leave "
                "out candidates"
            )

    def prompt(self, state: TurnState, agent: str, message: str | Message) -> str:
        """Return a prompt that repeats all that the agent has observed."""
        inner: QuestionState = state.inner
        if agent == LEADER:
            blocks = f"Question: {inner.item.prompt}", self.env.seen(inner)
        else:
            work = _invocation(inner, agent)
            blocks = f"Find out: {work.subtask}", notes(work.calls)
        return "\n\n".join(filter(None, blocks))

    def is_complete(self, agent: str) -> bool:
        """Return True: each prompt repeats all that the agent needs, so earlier turns are dropped."""
        return True

    def offers(self, state: TurnState, agent: str, observation: str) -> Sequence[str]:
        """Return the offered texts, in an order that the seed decides."""
        inner: QuestionState = state.inner
        texts = self.texts(inner, agent)
        first = derive(derive(state.seed, "options"), agent, inner.turn) % len(texts)
        return (*texts[first:], *texts[:first])

    def texts(self, state: QuestionState, agent: str) -> tuple[str, ...]:
        """Return the offered texts of an agent; see `offers_of_lead` and `offers_of_sub`."""
        if agent == LEADER:
            return self.offers_of_main(state)
        return offers_of_sub(state.item, _invocation(state, agent))

    def offers_of_main(self, state: QuestionState) -> tuple[str, str, str]:
        """Return the three texts that main chooses among; see `offers_of_lead`."""
        of, kinds = world_of(state.item), self.env.kinds

        def ask_wrongly(fact: Ask, label: int) -> str:
            others = [kind for kind in kinds if kind != holder(kinds, fact[0])]
            if others and label % 2:
                return call("ask", others[label // 2 % len(others)], asked(*fact))
            return self.ask(another(of, fact, label))

        return offers_of_lead(state.item, self.known(state), self.ask, ask_wrongly)

    def ask(self, fact: Ask) -> str:
        """Return the call of main that asks for a fact."""
        return call("ask", holder(self.env.kinds, fact[0]), asked(*fact))

    def known(self, state: QuestionState) -> list[Known]:
        """Return the steps of the question, with the values in the reports."""
        of, reports = world_of(state.item), {work.subtask: work.reported for work in state.invocations}
        return knowledge(steps_of(state.item), lambda r, s: value_in(of, (r, s), reports.get(asked(r, s), "")))

    def as_written(self, history: Sequence[Message]) -> list[Message]:
        """Convert the last prompt, which repeats everything, to the history of the task without candidates.

        The calls of a sub-agent become empty texts, each followed by its result.
        """
        [first, *blocks] = super().as_written(history[-1:])[0].text.split("\n\n")
        if not first.startswith("Find out: "):
            return [Message("observation", "\n\n".join([first, *blocks]))]
        results = [message for block in blocks for message in (Message("action", ""), Message("tool", block))]
        return [Message("observation", first), *results]

    def instead(self, offers: Sequence[str], text: str, history: Sequence[Message]) -> str:
        """Return the first of several calls if it is offered, else an offered text without a call."""
        first = text.partition("\n")[0]
        return first if first in offers else next(text for text in offers if not text.endswith((")", ")]")))


class ParallelChoices(ResearchChoices):
    """Choices among four texts, for tasks with `orchestration`: with the fourth, main asks for all open steps."""

    letters = "ABCD"

    def texts(self, state: QuestionState, agent: str) -> tuple[str, ...]:
        """Return the three texts, and a fourth: a request for all open steps, or "unknown" if there is none."""
        asks = [self.ask(fact_of(step)) for step in self.known(state) if agent == LEADER and step.open]
        asks = asks[: self.env.max_invocations - len(state.invocations)]
        return (*super().texts(state, agent), f"[{', '.join(asks)}]" if asks else UNKNOWN)

    def instead(self, offers: Sequence[str], text: str, history: Sequence[Message]) -> str:
        """Return all calls as one text if this text is offered; else see `ResearchChoices`."""
        at_once = f"[{', '.join(text.splitlines())}]"
        return at_once if at_once in offers else super().instead(offers, text, history)


def _invocation(state: QuestionState, agent: str) -> Invocation:
    return next(work for work in state.invocations if work.agent == agent)


def offers_of_lead(
    item: TaskItem, known: Sequence[Known], go_on: Callable[[Ask], str], err: Callable[[Ask, int], str]
) -> tuple[str, str, str]:
    """Return the three offered texts of the main agent.

    While the answer is not known: the optimal text, a wrong one by `err`, and a wrong answer. After that: the answer, a
    wrong answer, and a text that asks again.

    Args:
        item: The question.
        known: Its steps, with the values that main has observed.
        go_on: Function from a fact to the text that asks for it.
        err: Function from a fact and a seed to a wrong text.
    """
    facts = [fact_of(step) for step in known if step.open] or [fact_of(known[0])]
    label = derive(0, item.prompt, str(known))
    answer, guess = known[-1].value, guessed(item, known, label)
    if answer is None:
        return go_on(facts[0]), err(facts[0], label), guess
    return answer, guess if guess != answer else UNKNOWN, go_on(facts[0])


def offers_of_sub(item: TaskItem, work: Invocation) -> tuple[str, str, str]:
    """Return the next text of an optimal sub-agent, and two texts with a wrong argument, tool or report."""
    of, fact = world_of(item), meant(work.subtask)
    gold, other = found_by(work.kind, fact), another(of, fact, derive(0, work.subtask))
    able = fact[0].skill in work.kind.split("+")
    given = next((used.answer for used in work.calls if call(used.tool, used.input) == gold), "")
    value = value_in(of, fact, given) if able else None
    wrong = of.fact((other if fact[0].program else fact)[0].name, other[1]).value
    wrong = UNKNOWN if wrong in (value, *fact[1]) else wrong
    if value is not None:
        return value, wrong, found_by(work.kind, other)
    if work.turns:
        return gold, wrong, UNKNOWN
    foreign = next((skill for skill in SKILLS if skill not in work.kind.split("+")), SKILLS[-1])
    return gold, found_by(work.kind, other), found_by(foreign, fact)


def another(of: World, fact: Ask, label: int) -> Ask:
    """Return a fact about another subject of the same kind; for a sum the difference, and vice versa."""
    relation, subjects = fact
    if relation.program:
        [other] = [r for r in RELATIONS.values() if r.program and r != relation]
        return other, subjects
    kind = of.kind_of.get(subjects[0])
    others = [fact for fact in of.facts if of.kind_of[fact[1]] == kind and fact[1] not in subjects]
    name, subject = others[label % len(others)]
    return RELATIONS[name], (subject,)


def guessed(item: TaskItem, known: Sequence[Known], label: int) -> str:
    """Return a wrong answer of the right kind, from a report if one has such a name; `label` is the seed."""
    of, right = world_of(item), item.fields["answer"].partition("\n")[0]
    kind = of.kind_of.get(right, "numbers")
    seen = {name for step in known for name in (*step.subjects, step.value) if name and name != known[-1].value}
    names = sorted(name for name in seen - {right} if of.kind_of.get(name, "numbers") == kind)
    if not names and kind == "numbers":
        return str(int(right) + 1 + label % 9)
    names = names or [name for name in of.names[kind] if name != right]
    return names[label % len(names)]
