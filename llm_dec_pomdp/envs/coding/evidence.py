"""What the calls of a program show: whether results depend on the helper's values, and who does the work.

This source is sent to the process of a program, after `coats` and before `observer`.
"""

# Values of any type pass through here.
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false

from __future__ import annotations

import itertools
from typing import Any

from .coats import LONG, PARTS, coats_of, parts, plain, same, text_of


class Call:
    """A call of main by the tests. A result stands in a list, which is empty where the function raised."""

    def __init__(self, given: list[Any]) -> None:
        self.given = given  # main's arguments
        self.asked: list[tuple[list[Any], Any]] = []  # what aux was given and what it returned, in order, at most LONG
        self.result: list[Any] = []  # of main
        self.steady = True  # two true runs gave results of one type
        self.swapped: list[tuple[str, list[Any]]] = []  # other values of aux, as text, and main's result with them
        self.altered: set[str] = set()  # those of them that are aux's own texts and lists altered at the same length
        self.alone: list[Any] = []  # what aux returns for main's own arguments

    @property
    def values(self) -> list[Any]:
        """What aux returned."""
        return [value for _, value in self.asked]


def follows(calls: list[Call]) -> bool:
    """Results depend on what aux returned, not only on whether that is what main expects.

    A main function that only checks the value gives one result for all wrong values. So one of these must hold:

    * In one call of main, two other values lead to two different wrong results, of a type that right results have.
    * Every value that aux returned in another call leads to the result of that call.
    * All calls together have two different wrong results, and either some other values do no harm, or no call has more
      than one other value. (With two results or two values, a single call can have only one wrong result.)

    Calls whose results change without another value, by the clock for example, show nothing.
    """
    calls = [call for call in calls if call.result and call.asked and call.steady]
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
    """Aux always returns the same."""
    said = [text_of(value) for call in calls for value in call.values]
    return len(said) > 1 and len(set(said)) == 1


def decodes(calls: list[Call]) -> bool:
    """Main's result is aux's value in one coat in every call, where aux is asked for main's arguments in one coat."""
    return _one_way([(call.result[0], _ways(call)) for call in calls if call.result])


def _one_way(pairs: list[tuple[Any, set[Any]]]) -> bool:
    """All results of a type follow in one way, and there are enough of them for that not to be chance."""
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
    """Where a result stands in a value, and in which coat; also without its containers of one element."""
    forms = (result, next(parts(result))[1])
    return {(place, coat) for place, part in parts(value) for form in forms for coat in coats_of(part, form)}


def _handed_over(own: list[Any], given: list[Any]) -> set[Any]:
    """The ways in which main's arguments stand among those of aux: the coat of each, and the other arguments."""
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
    """Main only decodes: each value of aux stands for one result, whatever main's own arguments are, and main fails on
    most values of the same size that aux never returns. Honest programs handle most of them."""
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
