"""Scripted teams for embedded questions, and the call or sub-question for each fact.

The main agent of a scripted team knows the steps of the question, but not the facts. Its sub-agents know the form of
the sentences and SQL statements that state a fact, and ignore rumours.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from llm_dec_pomdp.envs.hierarchy.base import LEADER
from llm_dec_pomdp.types import Message, TaskItem

from .questions import Invocation, Known, Used, knowledge, steps_of, world_of
from .worlds import RELATIONS, RUMOURS, Relation, World

UNKNOWN = "unknown"
TEAMS = ("optimal", "ask_everything", "never_ask")
_REPORT = re.compile(r'^\S+ was asked (".*") and reports: (.*)$', re.MULTILINE)

_QUESTIONS = [
    (relation, re.compile(re.sub(r"\\{[xy]\\}", "(.+)", re.escape(relation.question))))
    for relation in RELATIONS.values()
]

Ask = tuple[Relation, tuple[str, ...]]  # (relation, subjects) that a sub-question asks for


def call(tool: str, *arguments: str) -> str:
    """Return a call as text."""
    return f"{tool}({', '.join(json.dumps(argument, ensure_ascii=False) for argument in arguments)})"


def reported(work: Invocation) -> str:
    """Return the report of an invocation as the main agent observes it."""
    subtask = json.dumps(work.subtask, ensure_ascii=False)
    return f"{work.kind} was asked {subtask} and reports: {work.report or '(nothing usable)'}"


def notes(calls: Sequence[Used]) -> str:
    """Return calls and their results as text."""
    return "\n\n".join(f"{call(used.tool, *filter(None, [used.input]))}\n{used.answer}" for used in calls)


def asked(relation: Relation, subjects: Sequence[str]) -> str:
    """Return the sub-question for a fact."""
    return relation.question.format(**dict(zip("xy", subjects, strict=False)))


def meant(question: str) -> Ask:
    """Return the relation and the subjects of a sub-question.

    Raises:
        ValueError: The question is not a sub-question of a scripted team.
    """
    for relation, pattern in _QUESTIONS:
        if match := pattern.fullmatch(question):
            return relation, match.groups()
    raise ValueError(
        f"a scripted sub-agent does not know the sub-question {question[:80]!r}; give main the same script"
    )


def holder(kinds: Sequence[str], relation: Relation) -> str:
    """Return the specialist that can find a fact; the first specialist if none can."""
    return next((kind for kind in kinds if relation.skill in kind.split("+")), kinds[0])


def found_by(kind: str, fact: Ask) -> str:
    """Return the call with which a specialist looks up a fact."""
    relation, subjects = fact
    skills = kind.split("+")
    skill = relation.skill if relation.skill in skills else skills[0]
    if skill == "reader":
        return call("search", asked(*fact))
    if skill == "analyst":
        return call("query", relation.select(*subjects)) if relation.table else call("schema")
    return call("python", (relation.program or "0").format(x=subjects[0], y=subjects[-1]))


def stated(fact: Ask, text: str) -> str | None:
    """Return the value of a fact that a sentence of a text states; None if only rumours or no sentence state one."""
    relation, subjects = fact
    values: list[str] = []
    for line in re.split(r"\n|(?<=\.) ", text):
        sentence = re.sub(r"^\[\d+\] ", "", line)
        for template in () if sentence.startswith(RUMOURS) else relation.sentences:
            before, _, after = template.format(x=subjects[0], y="\0").partition("\0")
            if sentence.startswith(before) and sentence.endswith(after) and len(sentence) > len(before + after):
                values.append(sentence[len(before) : len(sentence) - len(after)])
    return min(values, key=len, default=None)


def value_in(of: World, fact: Ask, text: str) -> str | None:
    """Return the value of a fact in a text: the stated value, else the only name of its kind, else None."""
    if value := stated(fact, text):
        return value
    names = [name for name in of.named(text, fact[0].value) if name not in fact[1]]
    return names[0] if len(names) == 1 else None


def fact_of(known: Known) -> Ask:
    """Return the relation and the subjects of a step."""
    return RELATIONS[known.step.relation], known.subjects


# --- teams ------------------------------------------------------------------------------------------------------------


class Scripts:
    """The scripted teams, which identify a task by the text of its question.

    Args:
        items: The tasks that they can play.
        roles: The role of each agent.
        most: The number of sub-agents that main may ask.
    """

    def __init__(self, items: Sequence[TaskItem], roles: Mapping[str, str], most: int) -> None:
        self._items = {item.prompt: item for item in items}
        self._roles, self._most = roles, most
        self._kinds = list(dict.fromkeys(role for agent, role in roles.items() if agent != LEADER))

    def optimal(self, agent: str, history: Sequence[Message]) -> str:
        """Ask for each open step, several at once if possible, and then answer."""
        return self._main(history, everything=False) if agent == LEADER else self._sub(agent, history)

    def ask_everything(self, agent: str, history: Sequence[Message]) -> str:
        """Act as `optimal`, but ask until no invocation is left."""
        return self._main(history, everything=True) if agent == LEADER else self._sub(agent, history)

    def never_ask(self, agent: str, history: Sequence[Message]) -> str:
        """Answer "unknown" at once."""
        return UNKNOWN

    # --- texts of main and sub-agents ---------------------------------------------------------------------------------

    def _main(self, history: Sequence[Message], *, everything: bool) -> str:
        known = self.known(history)
        left = self._most - len(_REPORT.findall(_observed(history)))
        wanted = [fact_of(step) for step in known if step.open] or [fact_of(known[0])] * left * everything
        asks = [call("ask", holder(self._kinds, fact[0]), asked(*fact)) for fact in wanted[:left]]
        return "\n".join(asks) or known[-1].value or UNKNOWN

    def known(self, history: Sequence[Message]) -> list[Known]:
        """Return the steps of main's question, with the values that its observations contain."""
        item, reports = self.item(history), {json.loads(s): r for s, r in _REPORT.findall(_observed(history))}
        of = world_of(item)
        return knowledge(steps_of(item), lambda r, s: value_in(of, (r, s), reports.get(asked(r, s), "")))

    def item(self, history: Sequence[Message]) -> TaskItem:
        """Return the task whose question is in the history.

        Raises:
            ValueError: The question is not known, or its steps are not.
        """
        item = self._items.get(_first_line(history[0].text).removeprefix("Question: "))
        if item is None or not steps_of(item):
            raise ValueError(
                f"the scripted team does not know the question of {history[0].text[:80]!r}; play it on embedded "
                "questions"
            )
        return item

    def _sub(self, agent: str, history: Sequence[Message]) -> str:
        fact = meant(_first_line(history[0].text).removeprefix("Find out: "))
        gold = found_by(self._roles[agent], fact)
        given = [message.text for message in history if message.role == "tool"]
        if not given:
            return gold
        value = stated(fact, given[-1]) if fact[0].sentences else given[-1].split("\n")[-1]
        value = value if fact[0].skill in self._roles[agent].split("+") else UNKNOWN
        return value or UNKNOWN


def _observed(history: Sequence[Message]) -> str:
    return "\n".join(message.text for message in history if message.role != "action")


def _first_line(text: str) -> str:
    return text.partition("\n")[0]
