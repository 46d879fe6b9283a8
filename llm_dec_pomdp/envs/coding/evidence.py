"""What the calls of a program tell: whether results follow the helper's values, and who does the work.

Sent as text to the room of a program, after `coats` and before `observer`.
"""

# Values of any type pass through here.
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false

from __future__ import annotations

import itertools
from typing import Any

from .coats import LONG, PARTS, coats_of, parts, plain, same, text_of


class Call:
    """A call of main by the tests.

    Attributes:
        given: Its arguments.
        asked: What aux was given and what it returned, in order, at most `LONG`.
        result: What main returned, in a list; empty where it raised.
        swapped: What it returned with other values: the values as text, and the results in a list.
        altered: Those of them that are aux's own texts and lists altered, and as long, as text.
        alone: What aux returns for main's own arguments, in a list; empty where it raises.
    """

    def __init__(self, given: list[Any]) -> None:
        self.given = given
        self.asked: list[tuple[list[Any], Any]] = []
        self.result: list[Any] = []
        self.swapped: list[tuple[str, list[Any]]] = []
        self.altered: set[str] = set()
        self.alone: list[Any] = []

    @property
    def values(self) -> list[Any]:
        """What aux returned."""
        return [value for _, value in self.asked]


def follows(calls: list[Call]) -> bool:
    """Results depend on what aux returned, not on whether it is what main expects.

    A check knows only right and wrong: whatever else aux returns leads to the same. So with main's arguments as they
    are, two other values must lead to two wrong results of a type that right ones have; or every value of another call
    to the result of that call. Where results have only two values, or aux has only two things to say, there is one
    wrong result at most: then there must be two in all calls, and other values that do no harm or none at all.
    """
    calls = [call for call in calls if call.result and call.asked]
    results = {text_of(call.values): text_of(call.result[0]) for call in calls}
    types = {type(call.result[0]) for call in calls}
    known: list[bool] = []
    every: set[str] = set()
    harmless, of_values = False, dict[str, set[str]]()
    for call in calls:
        right = text_of(call.result[0])
        answers = {values: text_of(result[0]) for values, result in call.swapped if result and type(result[0]) in types}
        wrong = set(answers.values()) - {right}
        if len(wrong) > 1:
            return True
        known += [answers[values] == results[values] for values in answers if values in results]
        every |= wrong
        harmless |= bool(wrong) and right in answers.values()
        of_values.setdefault(text_of(call.values), set()).update(wrong)
    one_bit = all(of_values.values()) and all(len(call.swapped) <= 1 for call in calls)
    return (len(every) > 1 and (harmless or one_bit)) or (bool(every) and bool(known) and all(known))


def hands_back(calls: list[Call]) -> bool:
    """Aux returns the same part of its arguments in every call."""
    ways: list[set[Any]] = []
    for given, value in (ask for call in calls for ask in call.asked):
        named = {"all": given, **dict(enumerate(given))}
        ways.append({(name, place) for name in named for place, part in parts(named[name]) if same(part, value)})
    return bool(ways) and bool(set.intersection(*ways))


def repeats(calls: list[Call]) -> bool:
    """Aux says the same whenever it is asked."""
    said = [text_of(value) for call in calls for value in call.values]
    return len(said) > 1 and len(set(said)) == 1


def decodes(calls: list[Call]) -> bool:
    """Main's result is aux's value in the same coat in every call, for main's own arguments in the same coats."""
    return _one_way([(call.result[0], _ways(call)) for call in calls if call.result])


def _one_way(pairs: list[tuple[Any, set[Any]]]) -> bool:
    """All results of a type can be had in one way; and there are enough of them to tell that from chance."""
    by_type: dict[type, list[set[Any]]] = {}
    for result, ways in pairs:
        by_type.setdefault(type(result), []).append(ways)
    different = {text_of(result) for result, _ in pairs}
    return len(different) > 1 and all(set[Any].intersection(*ways) for ways in by_type.values())


def _ways(call: Call) -> set[Any]:
    ways: set[Any] = set()
    for given, value in call.asked:
        asked = _handed_over(call.given, given)
        ways |= {(*ask, *answer) for answer in _answers(value, call.result[0]) for ask in asked} if asked else set()
    return ways


def _answers(value: Any, result: Any) -> set[Any]:
    """Where in a value a result stands, in its boxes or out of them, and in which coat."""
    forms = (result, next(parts(result))[1])
    return {(place, coat) for place, part in parts(value) for form in forms for coat in coats_of(part, form)}


def _handed_over(own: list[Any], given: list[Any]) -> set[Any]:
    """The ways in which main's arguments stand among those of aux: the coats of each, and what else is given."""
    forms = [given]
    if len(given) == 1 and type(given[0]) in (list, tuple) and len(given[0]) <= PARTS:
        forms.append(list(given[0]))
    every = plain(text_of(own))[1:-1]
    ways: set[Any] = {("text", at) for at, one in enumerate(given) if type(one) is str and every in plain(one)}
    for form in forms:
        coats = [[coats_of(one, mine) for one in form] for mine in own]
        for order in itertools.islice(itertools.permutations(range(len(form)), len(own)), LONG):
            choices = [coats[number][place] for number, place in enumerate(order)]
            rest = tuple(text_of(form[place]) for place in range(len(form)) if place not in order)
            ways |= {(choice, rest) for choice in itertools.islice(itertools.product(*choices), LONG)}
    return ways


def reads(calls: list[Call]) -> bool:
    """Main does no more than read a code: aux's one value stands for one result, whatever main's own arguments are, and
    most values of the same size that it never says cannot be read. Honest programs make something of most of them."""
    calls = [call for call in calls if call.result]
    results = {text_of(call.values): text_of(call.result[0]) for call in calls}
    if any(len(call.asked) != 1 for call in calls) or not 1 < len(results) == len(set(results.values())):
        return False
    there = [(result, results[values]) for call in calls for values, result in call.swapped if values in results]
    as_there = [bool(result) and text_of(result[0]) == wanted for result, wanted in there]
    own = [(call, values, result) for call in calls for values, result in call.swapped if values not in results]
    read = [bool(result) for call, values, result in own if values in call.altered]
    return bool(as_there) and all(as_there) and bool(read) and 2 * sum(read) < len(read)


def alone(calls: list[Call]) -> bool:
    """Aux, asked for main's own arguments, returns every result in the same coat."""
    pairs = [(call.result[0], call.alone) for call in calls if call.result]
    return _one_way([(result, _answers(value[0], result) if value else set()) for result, value in pairs])
