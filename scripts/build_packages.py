"""Write the embedded rows of `modules-v0` and `merge-v0`, or packages of another size.

    python scripts/build_packages.py                                        # all files of contrib/software/data
    python scripts/build_packages.py --modules 4 --deep 4 --shared 2 --out rows.jsonl

Then `make("modules-v0", modules=4, tasks="rows.jsonl")` plays these packages. `--deep` is the number of modules in the
longest chain of imports (0: any). `--shared 2` adds a second data type that modules share.

A package works on items of a theme, such as parcels with a code, a route and a weight. Its modules have roles:

| role | imports | does |
|---|---|---|
| reader | | lines of text to items and back |
| rates | | the rate of a group, the fee of an amount |
| checks | rates | which items are allowed |
| pricing | rates | the price of an item |
| desk | reader; pricing or rates | answers for one line |
| labels | reader | short texts for one line |
| batches | reader; checks | a whole text |
| totals | batches; pricing | sums by group |
| report | totals, reader | the final text |

`PLANS` says which roles make a package of how many modules, and how deep its imports go. With `shared=2` a whole text
is a type of its own, {"label": ..., "items": [...]}, in place of a list of items.

The first sentence of a docstring is the interface of the function. The authors of modules that import it read only this
sentence. The sentences after it are the rule, which only the author of the function reads.

A row of `merge-v0` is a module with two sections and two requests. Each author adds a function to one section and a
line to the function `describe`.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import random
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import llm_dec_pomdp
from llm_dec_pomdp.contrib.software.merge import MODULE, merged
from llm_dec_pomdp.contrib.software.packages import TOGETHER, class_of
from llm_dec_pomdp.seeding import derive

OUT = Path(llm_dec_pomdp.__file__).parent / "contrib" / "software" / "data"
COUNTS = {"train": 60, "test": 20}
PLANS: Mapping[int, Sequence[tuple[str, ...]]] = {
    3: (("reader", "rates", "desk"), ("reader", "batches", "totals")),
    4: (
        ("reader", "rates", "desk", "labels"),
        ("reader", "rates", "pricing", "desk"),
        ("reader", "batches", "totals", "report"),
    ),
    5: (("reader", "rates", "pricing", "batches", "totals"), ("reader", "rates", "checks", "batches", "totals")),
    6: (
        ("reader", "rates", "pricing", "batches", "totals", "report"),
        ("reader", "rates", "checks", "batches", "totals", "report"),
    ),
}
_WANTS: Mapping[str, Sequence[str]] = {
    "checks": ("rates",),
    "pricing": ("rates",),
    "labels": ("reader",),
    "batches": ("reader", "checks"),
    "totals": ("batches", "pricing"),
    "report": ("totals", "reader"),
}
# package, an item, its fields (name, group, amount), groups, names
THEMES = (
    ("depot", "parcel", ("code", "route", "weight"), ("north", "south", "west"), ("P7", "Q2", "R5", "S1")),
    ("clinic", "visit", ("patient", "ward", "minutes"), ("eye", "bone", "skin"), ("Ada", "Ben", "Cleo", "Dov")),
    ("farm", "sack", ("field", "crop", "kilos"), ("rye", "oats", "corn"), ("hill", "brook", "gate", "moor")),
    ("harbour", "ship", ("name", "flag", "tons"), ("red", "blue", "green"), ("Gull", "Tern", "Auk", "Skua")),
    ("cinema", "ticket", ("seat", "hall", "cents"), ("large", "small", "open"), ("A1", "B4", "C2", "D9")),
    ("garage", "repair", ("plate", "kind", "hours"), ("brake", "paint", "tyre"), ("KX1", "LM2", "NP3", "QR4")),
    ("library", "loan", ("title", "shelf", "days"), ("art", "law", "math"), ("Emma", "Dune", "Ilias", "Faust")),
    ("bakery", "order", ("client", "bread", "loaves"), ("dark", "white", "sweet"), ("Ann", "Bob", "Cy", "Di")),
)


class Package(NamedTuple):
    """A package of a task.

    Attributes:
        name: Name of the package.
        about: One sentence on it.
        modules: Source of each module by name; imported modules come first.
        test: `unittest` classes, one for each module (`class_of`) and `TOGETHER`.
    """

    name: str
    about: str
    modules: Mapping[str, str]
    test: str


def imports_of(plan: Sequence[str], role: str) -> list[str]:
    """Return the modules of a plan that a module imports."""
    if role == "desk":
        return ["reader", "pricing" if "pricing" in plan else "rates"]
    return [wanted for wanted in _WANTS.get(role, ()) if wanted in plan]


def depth(plan: Sequence[str]) -> int:
    """Return the number of modules in the longest chain of imports."""
    levels: dict[str, int] = {}
    for role in plan:
        levels[role] = 1 + max((levels[other] for other in imports_of(plan, role)), default=0)
    return max(levels.values())


# --- sources ----------------------------------------------------------------------------------------------------------


class _Words(NamedTuple):
    """Sampled words and numbers of a package."""

    package: str
    item: str
    name: str
    group: str
    amount: str
    groups: tuple[str, ...]
    names: tuple[str, ...]
    sign: str  # between the fields of a line
    rates: tuple[int, ...]
    other: int  # the rate of unknown groups
    step: int  # step between amounts for the fee
    fee: int
    limit: int
    every: str  # the text before the total
    lowest: bool  # which of several equal sums is the best
    plan: tuple[str, ...]
    shared: int


def _function(signature: str, about: str, *body: str) -> str:
    lines = [
        f"def {signature}:",
        *textwrap.wrap(f'"""{about}"""', 110, initial_indent="    ", subsequent_indent="    "),
    ]
    return "\n".join([*lines, *(f"    {line}" for line in body)]) + "\n"


def _reader(w: _Words) -> list[str]:
    line = w.sign.join(f"<{field}>" for field in (w.name, w.group, w.amount))
    item = f'{{"{w.name}": ..., "{w.group}": ..., "{w.amount}": ...}}'
    return [
        _function(
            "parse(line)",
            f"The {w.item} of a line, as a dict {item} with the {w.amount} as int. A line is '{line}'; blanks at the "
            "ends of a field do not count. ValueError if there are not three fields.",
            f'parts = [part.strip() for part in line.split("{w.sign}")]',
            "if len(parts) != 3:",
            "    raise ValueError(line)",
            f'return {{"{w.name}": parts[0], "{w.group}": parts[1], "{w.amount}": int(parts[2])}}',
        ),
        _function(
            f"show({w.item})",
            f"The line of a {w.item}. It has no blanks around '{w.sign}'.",
            f'return "{w.sign}".join(str({w.item}[field]) for field in ("{w.name}", "{w.group}", "{w.amount}"))',
        ),
    ]


def _rates(w: _Words) -> list[str]:
    table = ", ".join(f'"{group}": {rate}' for group, rate in zip(w.groups, w.rates, strict=True))
    listed = ", ".join(f"{rate} for {group}" for group, rate in zip(w.groups, w.rates, strict=True))
    return [
        _function(
            f"rate({w.group})",
            f"The rate of a {w.group}, an int. It is {listed}, and {w.other} for any other.",
            f"return {{{table}}}.get({w.group}, {w.other})",
        ),
        _function(
            f"fee({w.amount})",
            f"The fee of some {w.amount}, an int. It is {w.fee} for each {w.step} {w.amount} begun, 0 for none.",
            f"return {w.fee} * -(-{w.amount} // {w.step})",
        ),
    ]


def _checks(w: _Words) -> list[str]:
    return [
        _function(
            f"most({w.group})",
            f"The most {w.amount} that a {w.group} allows, an int. It is {w.limit} times its rate.",
            f"return {w.limit} * rates.rate({w.group})",
        ),
        _function(
            f"allowed({w.item})",
            f"Whether a {w.item} is allowed. It is if its {w.amount} are above 0 and at most what its {w.group} "
            "allows.",
            f'return 0 < {w.item}["{w.amount}"] <= most({w.item}["{w.group}"])',
        ),
    ]


def _pricing(w: _Words) -> list[str]:
    return [
        _function(
            f"price({w.item})",
            f"The price of a {w.item}, an int. It is the {w.amount} times the rate of the {w.group}, plus the fee of "
            f"the {w.amount}.",
            f'return {w.item}["{w.amount}"] * rates.rate({w.item}["{w.group}"]) + rates.fee({w.item}["{w.amount}"])',
        ),
        _function(
            f"reduced({w.item}, percent)",
            f"The reduced price of a {w.item}, an int. It is the price less so many percent of it, rounded down.",
            f"return price({w.item}) * (100 - percent) // 100",
        ),
    ]


def _desk(w: _Words) -> list[str]:
    pricing = "pricing" in w.plan
    value = "pricing.price(item)" if pricing else f'item["{w.amount}"] * rates.rate(item["{w.group}"])'
    words = "the price" if pricing else f"the {w.amount} times the rate of the {w.group}"
    return [
        _function(
            "quote(line)",
            f"For the {w.item} of a line its {w.name} and {words}, as a tuple.",
            "item = reader.parse(line)",
            f'return item["{w.name}"], {value}',
        ),
        _function(
            "dearest(lines)",
            f"The {w.name} of the line with the highest quote, the first of equal ones; an empty text without lines.",
            "quotes = [quote(line) for line in lines]",
            'return max(quotes, key=lambda pair: pair[1], default=("", 0))[0]',
        ),
    ]


def _labels(w: _Words) -> list[str]:
    return [
        _function(
            "label(line)",
            f"The {w.name} in capitals, a slash, and the first letter of the {w.group}.",
            "item = reader.parse(line)",
            f'return item["{w.name}"].upper() + "/" + item["{w.group}"][0]',
        ),
        _function(
            "tidy(line)",
            "The line as the reader shows it.",
            "return reader.show(reader.parse(line))",
        ),
    ]


def _batches(w: _Words) -> list[str]:
    keeps = "; those that the checks do not allow are left out" if "checks" in w.plan else ""
    test = "if checks.allowed(item)" if "checks" in w.plan else ""
    result = '{"label": label, "items": items}' if w.shared == 2 else "items"
    kind = 'as {"label": label, "items": items}' if w.shared == 2 else "as a list"
    given, take = ("label, text", 'batch["items"]') if w.shared == 2 else ("text", "batch")
    joined = '{"label": first["label"], "items": items}' if w.shared == 2 else "items"
    a, b = (take.replace("batch", name) for name in ("first", "second"))
    return [
        _function(
            f"load({given})",
            f"The {w.item}s of a text, {kind}. Each line that is not empty is one{keeps}.",
            "items = [reader.parse(line) for line in text.splitlines() if line.strip()]",
            *([f"items = [item for item in items {test}]"] if test else []),
            f"return {result}",
        ),
        _function(
            "merged(first, second)",
            f"A new batch of the {w.item}s of both, the first ones first"
            + (", with the first label." if w.shared == 2 else "."),
            f"items = {a} + {b}",
            f"return {joined}",
        ),
    ]


def _totals(w: _Words) -> list[str]:
    value = "pricing.price(item)" if "pricing" in w.plan else f'item["{w.amount}"]'
    words = "prices" if "pricing" in w.plan else w.amount
    given, call = ("label, text", "batches.load(label, text)") if w.shared == 2 else ("text", "batches.load(text)")
    items = f'{call}["items"]' if w.shared == 2 else call
    order = "-1" if w.lowest else "1"
    which = "last" if w.lowest else "first"
    return [
        _function(
            f"by_{w.group}({given})",
            f"The sums of a text by {w.group}, as a dict. A sum is that of the {words} of the {w.item}s in a batch of "
            "the text.",
            "sums = {}",
            f"for item in {items}:",
            f'    sums[item["{w.group}"]] = sums.get(item["{w.group}"], 0) + {value}',
            "return sums",
        ),
        _function(
            f"best({given})",
            f"The {w.group} with the largest sum in a text. Of equal ones it is the {which} by name; it is an empty "
            "text if there is none.",
            f"sums = by_{w.group}({given})",
            f"names = sorted(sums)[::{order}]",
            'return max(names, key=lambda name: sums[name], default="")',
        ),
    ]


def _report(w: _Words) -> list[str]:
    given = "label, text" if w.shared == 2 else "text"
    head = 'f"{label}: {sum(sums.values())}"' if w.shared == 2 else f'f"{w.every}: {{sum(sums.values())}}"'
    words = "the label" if w.shared == 2 else f"'{w.every}'"
    return [
        _function(
            f"report({given})",
            f"Lines '{w.group}: sum' by {w.group} in order, below {words}, a colon, a blank and the whole sum.",
            f"sums = totals.by_{w.group}({given})",
            f'return [{head}] + [f"{{name}}: {{sums[name]}}" for name in sorted(sums)]',
        ),
        _function(
            "cleaned(text)",
            "The lines of a text that are not empty, each as the reader shows it, joined by line ends.",
            r'return "\n".join(reader.show(reader.parse(line)) for line in text.splitlines() if line.strip())',
        ),
    ]


_SOURCES: Mapping[str, Any] = {
    "reader": (_reader, "Lines and {item}s."),
    "rates": (_rates, "Rates and fees."),
    "checks": (_checks, "Which {item}s are allowed."),
    "pricing": (_pricing, "Prices of {item}s."),
    "desk": (_desk, "Answers for single lines."),
    "labels": (_labels, "Labels of single lines."),
    "batches": (_batches, "Texts of many lines."),
    "totals": (_totals, "Sums over texts."),
    "report": (_report, "The report."),
}


def _source(w: _Words, role: str) -> str:
    functions, about = _SOURCES[role]
    imports = "".join(f"from {w.package} import {other}\n" for other in sorted(imports_of(w.plan, role)))
    return "\n\n".join([f'"""{about.format(item=w.item)}"""\n\n{imports}'.strip() + "\n", *functions(w)])


# --- tests ------------------------------------------------------------------------------------------------------------


def _calls(w: _Words, draw: random.Random) -> dict[str, list[str]]:
    """Return the calls whose values are tested, by module; `TOGETHER` has the calls that use several modules."""

    def item(amount: int = 0) -> dict[str, Any]:
        return {w.name: draw.choice(w.names), w.group: draw.choice(w.groups), w.amount: amount or draw.randint(1, 9)}

    def line(amount: int = 0) -> str:
        return w.sign.join(str(value) for value in item(amount).values())

    def spaced() -> str:
        return f" {w.sign} ".join(str(value) for value in item().values())

    def text() -> str:
        return "\n".join([line(1), "", spaced(), line(), line(100 * draw.randint(1, 9))])

    (group, other), label = draw.sample(w.groups, 2), repr(draw.choice(["May", "Monday", "first"]))

    def given(text: str) -> str:
        return f"{label}, {text!r}" if w.shared == 2 else repr(text)

    calls = {
        "reader": [f"reader.parse({line()!r})", f"reader.parse({spaced()!r})", f"reader.show({item()!r})"],
        "rates": [
            f"rates.rate({group!r}), rates.rate('none')",
            f"rates.rate({other!r}), rates.rate({group!r})",
            f"rates.fee({w.step + 1}), rates.fee({w.step}), rates.fee(0)",
        ],
        "checks": [
            f"checks.most({group!r}), checks.most({other!r})",
            f"checks.allowed({item(1)!r}), checks.allowed({item(100)!r})",
        ],
        "pricing": [f"pricing.price({item()!r})", f"pricing.price({item()!r})", f"pricing.reduced({item()!r}, 30)"],
        "desk": [
            f"desk.quote({line()!r})",
            f"desk.quote({spaced()!r})",
            f"desk.dearest({[line() for _ in range(3)]!r}), desk.dearest([])",
        ],
        "labels": [f"labels.label({line()!r})", f"labels.tidy({spaced()!r})"],
        "batches": [
            f"batches.load({given(text())}), batches.load({given('')})",
            f"batches.load({given(text())})",
            f"batches.merged(batches.load({given(line(1))}), batches.load({given(line(1))}))",
        ],
        "totals": [
            f"totals.by_{w.group}({given(text())})",
            f"totals.best({given(text())}), totals.best({given('')})",
        ],
        "report": [f"report.report({given(text())})", f"report.cleaned({text()!r})"],
    }
    across = {
        "desk": [f"desk.quote({spaced()!r})", f"desk.dearest({[spaced() for _ in range(4)]!r})"],
        "labels": [f"desk.quote(labels.tidy({spaced()!r}))", f"labels.label(labels.tidy({spaced()!r}))"],
        "totals": [f"totals.by_{w.group}({given(text())})", f"totals.best({given(text())})"],
        "report": [f"report.report({given(text())})", f"totals.best({given('X')[:-3]}report.cleaned({text()!r}))"],
    }
    return {**{role: calls[role] for role in w.plan}, TOGETHER: across[w.plan[-1]]}


CONSTANTS: Sequence[Any] = (None, True, False, 0, 1, "", [], {})


class _Stub:
    """Module in which every function returns one value or, without a value, its first argument."""

    def __init__(self, *value: Any) -> None:
        self.value = value

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *given: (*self.value, *given)[0]


def _tests(w: _Words, sources: Mapping[str, str], draw: random.Random) -> str:
    """Return the classes of tests, with values that the solution gives; without tests that stubs pass."""
    scope = _loaded(w.package, sources)
    stubs = [dict.fromkeys(w.plan, stub) for stub in (_Stub(), *map(_Stub, CONSTANTS))]
    parts = ["import unittest\n"]
    for module, calls in _calls(w, draw).items():
        lines = [f"class {module if module == TOGETHER else class_of(module)}(unittest.TestCase):"]
        values = {call: eval(call, dict(scope)) for call in calls}
        telling = [call for call in values if all(eval(call, dict(stub)) != values[call] for stub in stubs)]
        for number, call in enumerate(telling, 1):
            names = [role for role in w.plan if f"{role}." in call]
            lines += [
                f"    def test_{number}(self):",
                f"        from {w.package} import {', '.join(names)}",
                f"        self.assertEqual(({call}), {values[call]!r})",
            ]
        if module == "reader":
            lines += [
                "    def test_wrong(self):",
                f"        from {w.package} import reader",
                "        with self.assertRaises(ValueError):",
                f"            reader.parse('a{w.sign}b')",
                f"        self.assertEqual(reader.parse('a{w.sign}b{w.sign}1')['{w.amount}'], 1)",
            ]
        parts.append("\n".join(lines) + "\n")
    return "\n\n".join(parts)


def _loaded(package: str, sources: Mapping[str, str]) -> dict[str, Any]:
    """Execute the modules of a trusted solution, and return their scopes by name."""
    from types import ModuleType

    scope: dict[str, Any] = {}
    for name, source in sources.items():
        module = ModuleType(name)
        vars(module).update(scope)
        body = "\n".join(line for line in source.splitlines() if not line.startswith(f"from {package} import"))
        exec(compile(body, name, "exec", dont_inherit=True), vars(module))
        scope[name] = module
    return scope


# --- rows -------------------------------------------------------------------------------------------------------------


def drawn(split: str, number: int, modules: int, deep: int, shared: int, attempt: int = 0) -> Package:
    """Sample a package.

    Args:
        split: Split of the row; the seeds of the two splits differ.
        number: Number of the row in its split.
        modules: Number of modules, 3 to 6.
        deep: Number of modules in the longest chain of imports; 0 for any.
        shared: Number of data types that modules share, 1 or 2.
        attempt: Number of the attempt, which is increased if the sampled package exists already.
    """
    draw = random.Random(derive(0, "modules", split, modules, deep, shared, number, attempt))
    plans = [plan for plan in PLANS[modules] if deep in (0, depth(plan))]
    plan = plans[number % len(plans)]
    package, item, (name, group, amount), groups, names = THEMES[draw.randrange(len(THEMES))]
    words = _Words(
        package,
        item,
        name,
        group,
        amount,
        groups,
        names,
        draw.choice([",", ";", "|", "/", ":", "+", "#", "="]),
        tuple(draw.sample(range(2, 9), len(groups))),
        draw.randint(9, 12),
        draw.randint(3, 6),
        draw.randint(2, 7),
        draw.randint(1, 2),
        draw.choice(["all", "sum", "total", "together"]),
        draw.random() < 0.5,
        plan,
        shared,
    )
    sources = {role: _source(words, role) for role in plan}
    about = f"The package `{package}` works on {item}s with {name}, {group} and {amount}."
    return Package(package, about, sources, _tests(words, sources, draw))


def packed(package: Package) -> str:
    """Return the solution as one text with `# file: path` before each module; see `unpacked`."""
    return "\n\n".join(f"# file: {package.name}/{name}.py\n{source}" for name, source in package.modules.items())


def package_rows(modules: int, deep: int, shared: int) -> Iterator[dict[str, str]]:
    """Yield the rows of a size; no two have the same solution."""
    known = set[str]()
    for split, count in COUNTS.items():
        for number in range(count):
            attempts = (drawn(split, number, modules, deep, shared, attempt) for attempt in itertools.count())
            package = next(package for package in attempts if packed(package) not in known)
            known.add(packed(package))
            row_id = f"{split}-{modules}-{number + 1:02d}"
            yield {
                "id": row_id,
                "split": split,
                "prompt": package.about,
                "solution": packed(package),
                "test": package.test,
            }


# --- merge-v0 ---------------------------------------------------------------------------------------------------------

_BASE = '''"""Lists of {item}s, each a dict with "{name}", "{group}" and "{amount}"."""


# --- choosing ---------------------------------------------------------------------------------------------------------


def of_{group}({item}s, {group}):
    """The {item}s of a {group}, in order."""
    return [{item} for {item} in {item}s if {item}["{group}"] == {group}]


# --- counting ---------------------------------------------------------------------------------------------------------


def total({item}s):
    """The sum of their {amount}."""
    return sum({item}["{amount}"] for {item} in {item}s)


# --- describing -------------------------------------------------------------------------------------------------------


def describe({item}s):
    """Lines on the {item}s, as a list."""
    lines = []
    lines.append(f"{item}s: {{len({item}s)}}")
    lines.append(f"{amount}: {{total({item}s)}}")
    return lines
'''


class Feature(NamedTuple):
    """Function that a request asks for, and its line in `describe`."""

    name: str
    about: str  # the effect of the function
    source: str
    line: str  # the line for `describe`
    call: str  # the tested calls


_CHOOSING = (
    Feature(
        "heavy",
        "`heavy({item}s, least)`: the {item}s with at least so many {amount}, in order",
        'def heavy({item}s, least):\n    """The {item}s with at least so many {amount}, in order."""\n'
        '    return [{item} for {item} in {item}s if {item}["{amount}"] >= least]\n',
        'lines.append(f"heavy: {{len(heavy({item}s, 5))}}")',
        "heavy(items, 4)",
    ),
    Feature(
        "named",
        "`named({item}s, start)`: the {item}s whose {name} begins with a text, in order",
        'def named({item}s, start):\n    """The {item}s whose {name} begins with a text, in order."""\n'
        '    return [{item} for {item} in {item}s if {item}["{name}"].startswith(start)]\n',
        "lines.append(f\"named: {{len(named({item}s, 'A'))}}\")",
        "named(items, items[0]['{name}'][0])",
    ),
    Feature(
        "lightest",
        "`lightest({item}s, count)`: so many {item}s with the fewest {amount}, the fewest first",
        'def lightest({item}s, count):\n    """So many {item}s with the fewest {amount}, the fewest first."""\n'
        '    return sorted({item}s, key=lambda {item}: {item}["{amount}"])[:count]\n',
        'lines.append(f"lightest: {{len(lightest({item}s, 2))}}")',
        "lightest(items, 2)",
    ),
    Feature(
        "between",
        "`between({item}s, low, high)`: the {item}s with {amount} from low to high, both included, in order",
        'def between({item}s, low, high):\n    """The {item}s with {amount} from low to high, both included."""\n'
        '    return [{item} for {item} in {item}s if low <= {item}["{amount}"] <= high]\n',
        'lines.append(f"between: {{len(between({item}s, 3, 6))}}")',
        "between(items, 2, 5)",
    ),
)
_COUNTING = (
    Feature(
        "mean",
        "`mean({item}s)`: the mean of their {amount}, rounded down; 0 without {item}s",
        'def mean({item}s):\n    """The mean of their {amount}, rounded down; 0 without {item}s."""\n'
        "    return total({item}s) // len({item}s) if {item}s else 0\n",
        'lines.append(f"mean: {{mean({item}s)}}")',
        "mean(items), mean([])",
    ),
    Feature(
        "spread",
        "`spread({item}s)`: the largest less the smallest {amount}; 0 without {item}s",
        'def spread({item}s):\n    """The largest less the smallest {amount}; 0 without {item}s."""\n'
        '    amounts = [{item}["{amount}"] for {item} in {item}s]\n'
        "    return max(amounts) - min(amounts) if amounts else 0\n",
        'lines.append(f"spread: {{spread({item}s)}}")',
        "spread(items), spread([])",
    ),
    Feature(
        "counts",
        "`counts({item}s)`: how many {item}s each {group} has, as a dict",
        'def counts({item}s):\n    """How many {item}s each {group} has, as a dict."""\n    found = {{}}\n'
        '    for {item} in {item}s:\n        found[{item}["{group}"]] = found.get({item}["{group}"], 0) + 1\n'
        "    return found\n",
        'lines.append(f"{group}s: {{len(counts({item}s))}}")',
        "counts(items)",
    ),
)
REQUEST = (
    "Add a function to the section `{section}`, at its end: {about}. Add `{line}` as the {place} line that `describe` "
    "gives."
)


class MergeTask(NamedTuple):
    """Row of `merge-v0`."""

    base: str
    requests: tuple[str, str]
    reference: tuple[str, str]
    test: str


@functools.cache
def combinations() -> list[tuple[int, Feature, Feature]]:
    """Return every theme with every pair of features in random order, so that no two tasks are alike."""
    every = list(itertools.product(range(len(THEMES)), _CHOOSING, _COUNTING))
    random.Random(derive(0, "merge")).shuffle(every)
    return every


def merge_task(number: int) -> MergeTask:
    """Return the task with a number, counted over both splits."""
    draw = random.Random(derive(0, "merge", number))
    place, *pair = combinations()[number]
    theme = THEMES[place]
    _, item, (name, group, amount), groups, names = theme
    words = {"item": item, "name": name, "group": group, "amount": amount}
    base = _BASE.format(**words)
    first, second = (Feature(*(text.format(**words) for text in feature)) for feature in pair)
    chose = base.replace("\n\n\n# --- counting", f"\n\n\n{first.source}\n\n# --- counting")
    counted = base.replace("\n\n\n# --- describing", f"\n\n\n{second.source}\n\n# --- describing")
    chose = chose.replace("    lines = []\n", f"    lines = []\n    {first.line}\n")
    counted = counted.replace("    return lines\n", f"    {second.line}\n    return lines\n")
    whole = merged(base, chose, counted)
    assert whole is not None
    items = [{name: draw.choice(names), group: draw.choice(groups), amount: draw.randint(1, 9)} for _ in range(5)]
    requests = tuple(
        REQUEST.format(section=section, about=feature.about, line=feature.line, place=place)
        for section, feature, place in (("choosing", first, "first"), ("counting", second, "last"))
    )
    test = _merge_tests(whole, (first, second), items)
    return MergeTask(base, (requests[0], requests[1]), (chose, counted), test)


def _merge_tests(whole: str, features: Sequence[Feature], items: Sequence[Mapping[str, object]]) -> str:
    scope: dict[str, object] = {}
    exec(compile(whole, MODULE, "exec", dont_inherit=True), scope)
    calls = {
        class_of("first"): [features[0].call],
        class_of("second"): [features[1].call],
        "TestTogether": ["describe(items)", "describe([])"],
    }
    lines = ["import unittest", ""]
    for name, listed in calls.items():
        lines += ["", f"class {name}(unittest.TestCase):"]
        for number, call in enumerate(listed, 1):
            value = eval(call, {**scope, "items": items})
            lines += [
                f"    def test_{number}(self):",
                f"        from {MODULE} import {call.partition('(')[0]}",
                f"        items = {items!r}",
                f"        self.assertEqual(({call}), {value!r})",
            ]
        lines.append("")
    return "\n".join(lines)


def merge_rows() -> Iterator[dict[str, Any]]:
    """Yield the rows of merge-v0."""
    for split, count in COUNTS.items():
        for number in range(count):
            task = merge_task(number if split == "train" else number + COUNTS["train"])
            yield {
                "id": f"{split}-merge-{number + 1:02d}",
                "split": split,
                "prompt": task.base,
                "first": task.requests[0],
                "second": task.requests[1],
                "test": task.test,
                "reference": task.reference,
            }


def write(path: Path, rows: Iterator[Mapping[str, Any]]) -> None:
    """Write rows as JSONL."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    print(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--modules", type=int, choices=PLANS)
    parser.add_argument("--deep", type=int, default=0)
    parser.add_argument("--shared", type=int, choices=(1, 2), default=1)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if given.out is None:
        for modules in PLANS:
            write(OUT / f"packages_{modules}.jsonl", package_rows(modules, 0, 1))
        write(OUT / "merge.jsonl", merge_rows())
        return
    depths = sorted({depth(plan) for plan in PLANS.get(given.modules, ())})
    if given.deep not in (0, *depths):
        parser.error(f"--deep is {given.deep}; with --modules {given.modules} give one of {depths}, or 0 for any")
    write(given.out, package_rows(given.modules, given.deep, given.shared))


if __name__ == "__main__":
    main()
