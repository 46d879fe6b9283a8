"""Well-formed play of embedded questions: what to say next, lettered options for small models, teams without a model.

Main knows the steps of the question, as its readers do, but not the facts. Sub-agents know the sentences and the
statements of SQL that find a fact, and believe no rumour.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence

from llm_dec_pomdp.envs.hierarchy.base import MAIN
from llm_dec_pomdp.seeding import derive
from llm_dec_pomdp.types import Message, TaskItem

from .questions import Invocation, Known, QuestionState, Used, knowledge, steps_of, world_of
from .worlds import RELATIONS, RUMOURS, SKILLS, Relation, World

LETTERS = "ABC"
CHOOSE = "Reply with one letter, A, B or C."
UNKNOWN = "unknown"
TEAMS = ("optimal", "ask_everything", "never_ask")
ERRING = ("asks_twice", "asks_another", "asks_vaguely", "misreads", "goes_on")  # each makes one mistake
_REPORT = re.compile(r'^\S+ was asked (".*") and reports: (.*)$', re.MULTILINE)

_QUESTIONS = [
    (relation, re.compile(re.sub(r"\\{[xy]\\}", "(.+)", re.escape(relation.question))))
    for relation in RELATIONS.values()
]

Ask = tuple[Relation, tuple[str, ...]]  # what is asked for, and about whom


def call(tool: str, *arguments: str) -> str:
    """A call as text."""
    return f"{tool}({', '.join(json.dumps(argument, ensure_ascii=False) for argument in arguments)})"


def reported(work: Invocation) -> str:
    """What main is told of an invocation."""
    subtask = json.dumps(work.subtask, ensure_ascii=False)
    return f"{work.kind} was asked {subtask} and reports: {work.report or '(nothing usable)'}"


def notes(calls: Sequence[Used]) -> str:
    """Calls and what they gave."""
    return "\n\n".join(f"{call(used.tool, *filter(None, [used.input]))}\n{used.answer}" for used in calls)


def asked(relation: Relation, subjects: Sequence[str]) -> str:
    """The question for a fact."""
    return relation.question.format(**dict(zip("xy", subjects, strict=False)))


def meant(question: str) -> Ask:
    """The relation and the subjects of a sub-question; ValueError where it is none."""
    for relation, pattern in _QUESTIONS:
        if match := pattern.fullmatch(question):
            return relation, match.groups()
    raise ValueError(f"the scripted team does not know the sub-question {question[:80]!r}; main is to be scripted, too")


def holder(kinds: Sequence[str], relation: Relation) -> str:
    """The specialist that can find a fact; the first where none can."""
    return next((kind for kind in kinds if relation.skill in kind.split("+")), kinds[0])


def found_by(kind: str, fact: Ask) -> str:
    """The call by which a specialist finds a fact, or fails to."""
    relation, subjects = fact
    skills = kind.split("+")
    skill = relation.skill if relation.skill in skills else skills[0]
    if skill == "reader":
        return call("search", asked(*fact))
    if skill == "analyst":
        return call("query", relation.select(*subjects)) if relation.table else call("schema")
    return call("python", (relation.program or "0").format(x=subjects[0], y=subjects[-1]))


def stated(fact: Ask, text: str) -> str | None:
    """The value that a sentence of a text states; None where no sentence but rumours does."""
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
    """The value of a fact by a text: what is stated, else the only name of its kind."""
    if value := stated(fact, text):
        return value
    names = [name for name in of.named(text, fact[0].value) if name not in fact[1]]
    return names[0] if len(names) == 1 else None


# --- options ----------------------------------------------------------------------------------------------------------


def options_of_main(state: QuestionState, kinds: Sequence[str]) -> Sequence[str]:
    """Three texts: the next one of an optimal team; a wrong argument or specialist, or a wrong answer; another one."""
    of, item = world_of(state.item), state.item
    reports = {work.subtask: work.reported for work in state.invocations}

    def ask(fact: Ask) -> str:
        return call("ask", holder(kinds, fact[0]), asked(*fact))

    def ask_wrongly(fact: Ask, draw: int) -> str:
        others = [kind for kind in kinds if kind != holder(kinds, fact[0])]
        if others and draw % 2:
            return call("ask", others[draw // 2 % len(others)], asked(*fact))
        return ask(_another(of, fact, draw))

    known = knowledge(steps_of(item), lambda r, s: value_in(of, (r, s), reports.get(asked(r, s), "")))
    return _ordered(state, MAIN, _options_of_lead(item, known, ask, ask_wrongly))


def options_alone(state: QuestionState) -> Sequence[str]:
    """The same for one agent that has all tools."""
    of, everything = world_of(state.item), "+".join(SKILLS)
    known = known_alone(state.item, {call(used.tool, used.input): used.answer for used in state.calls})

    def use(fact: Ask) -> str:
        return found_by(everything, fact)

    return _ordered(state, MAIN, _options_of_lead(state.item, known, use, lambda f, draw: use(_another(of, f, draw))))


def known_alone(item: TaskItem, answers: Mapping[str, str]) -> list[Known]:
    """What one agent knows by its calls and what they gave."""
    of, everything = world_of(item), "+".join(SKILLS)

    def lookup(relation: Relation, subjects: tuple[str, ...]) -> str | None:
        return value_in(of, (relation, subjects), answers.get(found_by(everything, (relation, subjects)), ""))

    return knowledge(steps_of(item), lookup)


def _options_of_lead(
    item: TaskItem, known: Sequence[Known], go_on: Callable[[Ask], str], err: Callable[[Ask, int], str]
) -> tuple[str, str, str]:
    facts = [_fact(step) for step in known if step.open] or [_fact(known[0])]
    draw = derive(0, item.prompt, str(known))
    answer, guess = known[-1].value, _guess(item, known, draw)
    if answer is None:
        return go_on(facts[0]), err(facts[0], draw), guess
    return answer, guess if guess != answer else UNKNOWN, go_on(facts[0])


def options_of_sub(state: QuestionState, work: Invocation) -> Sequence[str]:
    """Three texts: the next one of an optimal team, and two others (another argument or tool, or report)."""
    of, fact = world_of(state.item), meant(work.subtask)
    gold, other = found_by(work.kind, fact), _another(of, fact, derive(0, work.subtask))
    able = fact[0].skill in work.kind.split("+")
    given = next((used.answer for used in work.calls if call(used.tool, used.input) == gold), "")
    value = value_in(of, fact, given) if able else None
    wrong = of.fact((other if fact[0].program else fact)[0].name, other[1]).value
    wrong = UNKNOWN if wrong in (value, *fact[1]) else wrong
    if value is not None:
        texts = value, wrong, found_by(work.kind, other)
    elif work.turns:
        texts = gold, wrong, UNKNOWN
    else:
        foreign = next((skill for skill in SKILLS if skill not in work.kind.split("+")), SKILLS[-1])
        texts = gold, found_by(work.kind, other), found_by(foreign, fact)
    return _ordered(state, work.agent, texts)


def _fact(known: Known) -> Ask:
    return RELATIONS[known.step.relation], known.subjects


def _another(of: World, fact: Ask, draw: int) -> Ask:
    """A fact about something else of the same kind; of a sum the difference."""
    relation, subjects = fact
    if relation.program:
        [other] = [r for r in RELATIONS.values() if r.program and r != relation]
        return other, subjects
    kind = of.kind_of.get(subjects[0])
    others = [fact for fact in of.facts if of.kind_of[fact[1]] == kind and fact[1] not in subjects]
    name, subject = others[draw % len(others)]
    return RELATIONS[name], (subject,)


def _guess(item: TaskItem, known: Sequence[Known], draw: int) -> str:
    """A wrong answer of the right kind: what stands in a report, where there is such a name."""
    of, right = world_of(item), item.fields["answer"].partition("\n")[0]
    kind = of.kind_of.get(right, "numbers")
    seen = {name for step in known for name in (*step.subjects, step.value) if name and name != known[-1].value}
    names = sorted(name for name in seen - {right} if of.kind_of.get(name, "numbers") == kind)
    if not names and kind == "numbers":
        return str(int(right) + 1 + draw % 9)
    names = names or [name for name in of.names[kind] if name != right]
    return names[draw % len(names)]


def _ordered(state: QuestionState, agent: str, texts: tuple[str, str, str]) -> Sequence[str]:
    """The texts in an order that the seed of the episode decides."""
    first = derive(state.seed, agent, state.turn) % len(texts)
    return (*texts[first:], *texts[:first])


def offered(options: Sequence[str]) -> str:
    """The options as agents are told them."""
    return "\n".join([*map(": ".join, zip(LETTERS, options, strict=True)), CHOOSE])


def picked(options: Sequence[str], text: str) -> str:
    """The option whose letter a text begins with, signs before it ignored; "" where it begins with none."""
    match = re.match(r"[\W_]*([A-Z])", text)
    return options[LETTERS.index(match[1])] if match and match[1] in LETTERS else ""


# --- teams ------------------------------------------------------------------------------------------------------------


class Scripts:
    """What the scripted teams say; they recognise tasks by the text of their questions."""

    def __init__(self, items: Sequence[TaskItem], roles: Mapping[str, str], most: int) -> None:
        self._items = {item.prompt: item for item in items}
        self._roles, self._most = roles, most
        self._kinds = list(dict.fromkeys(role for agent, role in roles.items() if agent != MAIN))

    def optimal(self, agent: str, history: Sequence[Message]) -> str:
        """Asks for each open step, several at once where possible, and answers."""
        return self._main(history, everything=False) if agent == MAIN else self._sub(agent, history)

    def ask_everything(self, agent: str, history: Sequence[Message]) -> str:
        """The same, but asks until no invocation is left."""
        return self._main(history, everything=True) if agent == MAIN else self._sub(agent, history)

    def never_ask(self, agent: str, history: Sequence[Message]) -> str:
        """Answers at once, knowing nothing."""
        return _picked(history, [UNKNOWN])

    def alone(self, agent: str, history: Sequence[Message]) -> str:
        """One agent that has the tools: uses them for each open step, and answers."""
        item = self._item(history)
        texts = [message.text for message in history if message.role == "action"]
        tools = [message.text for message in history if message.role == "tool"]
        blocks = [block.partition("\n") for block in _blocks(history[-1].text)]
        answers = dict(zip(texts, tools, strict=True)) if texts else {first: rest for first, _, rest in blocks}
        known = known_alone(item, answers)
        wanted = next((found_by("+".join(SKILLS), _fact(step)) for step in known if step.open), None)
        return _picked(history, [wanted or str(known[-1].value)])

    # --- teams that make one mistake ------------------------------------------------------------------------------

    def asks_twice(self, agent: str, history: Sequence[Message]) -> str:
        """Asks two sub-agents for its first step at once."""
        text = self.optimal(agent, history)
        return f"{_first_line(text)}\n{text}" if _begins(agent, history) else text

    def asks_another(self, agent: str, history: Sequence[Message]) -> str:
        """Asks the wrong specialist for its first step, and then the right one."""
        text = self.optimal(agent, history)
        others = [kind for kind in self._kinds if call("ask", kind)[:-1] not in text]
        first = re.sub(r'^ask\("[^"]*"', call("ask", *others[:1])[:-1], _first_line(text))
        return text.replace(_first_line(text), first, 1) if others and _begins(agent, history) else text

    def asks_vaguely(self, agent: str, history: Sequence[Message]) -> str:
        """Asks for its first step without naming the subject, and then again."""
        text = self.optimal(agent, history)
        if not _begins(agent, history):
            return text
        [(_, question)] = re.findall(r'^ask\("([^"]*)", "([^"]*)"\)', text)[:1]
        vague = asked(meant(question)[0], ("it", "it"))
        return text.replace(question, vague, 1)

    def misreads(self, agent: str, history: Sequence[Message]) -> str:
        """Has all reports, but answers with another name in them, or another number."""
        text = self.optimal(agent, history)
        if agent != MAIN or text.startswith("ask("):
            return text
        return _guess(self._item(history), self._known(history), 0)

    def goes_on(self, agent: str, history: Sequence[Message]) -> str:
        """Knows the answer, but asks for its first step once more."""
        text = self.optimal(agent, history)
        lines = "\n".join(message.text for message in history if message.role == "action").split("\n")
        late = agent == MAIN and not text.startswith("ask(") and lines.count(lines[0]) == 1
        return lines[0] if late else text

    # --- who says what --------------------------------------------------------------------------------------------

    def _main(self, history: Sequence[Message], *, everything: bool) -> str:
        known = self._known(history)
        left = self._most - len(_REPORT.findall(_observed(history)))
        wanted = [_fact(step) for step in known if step.open] or [_fact(known[0])] * left * everything
        asks = [call("ask", holder(self._kinds, fact[0]), asked(*fact)) for fact in wanted[:left]]
        return _picked(history, asks or [known[-1].value or UNKNOWN])

    def _known(self, history: Sequence[Message]) -> list[Known]:
        """The steps of the question that main was told, with what it was told of them."""
        item, reports = self._item(history), {json.loads(s): r for s, r in _REPORT.findall(_observed(history))}
        of = world_of(item)
        return knowledge(steps_of(item), lambda r, s: value_in(of, (r, s), reports.get(asked(r, s), "")))

    def _item(self, history: Sequence[Message]) -> TaskItem:
        """The task whose question is in the history."""
        item = self._items.get(_first_line(history[0].text).removeprefix("Question: "))
        if item is None or not steps_of(item):
            raise ValueError(
                f"the scripted team does not know the question of {history[0].text[:80]!r}; it plays embedded ones"
            )
        return item

    def _sub(self, agent: str, history: Sequence[Message]) -> str:
        fact = meant(_first_line(history[0].text).removeprefix("Find out: "))
        gold = found_by(self._roles[agent], fact)
        given = [message.text for message in history if message.role == "tool"] or _blocks(history[0].text)
        if not given:
            return _picked(history, [gold])
        value = stated(fact, given[-1]) if fact[0].sentences else given[-1].split("\n")[-1]
        value = value if fact[0].skill in self._roles[agent].split("+") else UNKNOWN
        return _picked(history, [value or UNKNOWN])


def _picked(history: Sequence[Message], texts: Sequence[str]) -> str:
    """The texts, or the letter of the first; where it has none, that of an option that is no call."""
    prompt = history[-1].text
    if not prompt.endswith(CHOOSE):
        return "\n".join(texts)
    options = [line.partition(": ")[2] for line in prompt.split("\n")[-1 - len(LETTERS) : -1]]
    wanted = texts[0] if texts[0] in options else next(text for text in options if not text.endswith(")"))
    return LETTERS[options.index(wanted)]


def _blocks(prompt: str) -> list[str]:
    """What stands between the beginning of a prompt and its options."""
    return prompt.split("\n\n")[1:-1] if prompt.endswith(CHOOSE) else []


def _observed(history: Sequence[Message]) -> str:
    return "\n".join(message.text for message in history if message.role != "action")


def _begins(agent: str, history: Sequence[Message]) -> bool:
    """Whether this is the first text of main."""
    return agent == MAIN and all(message.role != "action" for message in history)


def _first_line(text: str) -> str:
    return text.partition("\n")[0]
