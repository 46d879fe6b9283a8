"""Measure the return of degenerate strategies: joint actions that do not do the work, or in which one agent does it.

    python scripts/degenerate.py --family code|writing|software|modules|memory|calls [--rows 12] [--only WORDS]
    python scripts/degenerate.py --family writing --judge MODEL [--search ROW [--judgements 1000] [--seed 0]]

Prints a Markdown table: strategy, environment, mean return in % of the maximum over test rows, and the number of rows.
References are in the table for comparison. Without `--judge`, environments that need an LLM judge are left out.

`--search` mutates the degenerate texts of a test row of tldr-v2 and arxiv-v2 and keeps texts with equal or higher
measurements of the judge. It sees more than a learner, which only receives the return. Texts with a sentence of a
reference are left out, since few mutations make them honest.

To add an environment, add a pair (environment, strategies) to a function of `FAMILIES`. A strategy is a function of an
environment and a row, of which it may read all fields; it returns the texts of the agents.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import math
import random
import re
import statistics
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import llm_dec_pomdp
from llm_dec_pomdp.contrib.calls import generator
from llm_dec_pomdp.contrib.memory.memory import KINDS
from llm_dec_pomdp.envs.base import step_many
from llm_dec_pomdp.envs.coding.coophumaneval_v2 import problems
from llm_dec_pomdp.types import TaskItem

sys.path += [str(Path(__file__).resolve().parents[1] / "tests" / "envs" / name) for name in ("coding", "writing")]
import degenerate_pairs
import writing_strategies

Play = Callable[[str, str], str]  # agent, last observation -> text
Strategy = Callable[[Any, TaskItem], Play]
Strategies = Mapping[str, Strategy]
AT_ONCE = 8  # mutations in a round of the search
SENTENCE = 8  # words of a sentence of a reference by which it is recognised


# --- how strategies are played ----------------------------------------------------------------------------------------


def spread(env: Any, count: int) -> list[TaskItem]:
    """Return `count` rows of an environment, spread evenly; all rows if it has fewer."""
    count = min(count, len(env.items))
    return [env.items[number * len(env.items) // count] for number in range(count)]


def returns(env: Any, item: TaskItem, strategies: Sequence[Strategy]) -> list[float]:
    """Play a row by each strategy, all in parallel.

    Returns:
        The return of each strategy, in % of the maximum.
    """
    plays = [strategy(env, item) for strategy in strategies]
    copies = [env.fork() for _ in plays]
    observations = [copy.reset(options={"task_id": item.id})[0] for copy in copies]
    totals = [0.0] * len(copies)
    while running := [number for number, copy in enumerate(copies) if copy.agents]:
        actions = [{a: plays[n](a, str(observations[n][a])) for a in copies[n].agents} for n in running]
        for number, step in zip(running, step_many([copies[n] for n in running], actions), strict=True):
            observations[number] = step[0]
            totals[number] += next(iter(step[1].values()))
    return [100 * total / env.facts.max_return for total in totals]


def texts(write: Callable[[TaskItem], Sequence[str]]) -> Strategy:
    """Return the strategy in which each agent acts with the same text in every turn, in the order of the agents."""

    def strategy(env: Any, item: TaskItem) -> Play:
        written = dict(zip(env.possible_agents, write(item), strict=True))
        return lambda agent, _: written[agent]

    return strategy


REFERENCES = {"references": texts(lambda item: item.reference)}


# --- code -------------------------------------------------------------------------------------------------------------


def code(judge: str | None) -> Iterator[tuple[Any, Strategies]]:
    """Yield the code tasks; in v2 the pairs solve the published problem, which a model may have memorised."""
    pairs = {name: texts(pair) for name, pair in degenerate_pairs.PAIRS.items()}
    for task in ("humaneval", "coophumaneval"):
        for version in ("v0", "v1"):
            yield llm_dec_pomdp.make(f"{task}-{version}", split="test"), REFERENCES | pairs
    by_heart = {name: texts(published(pair)) for name, pair in degenerate_pairs.PAIRS.items()}
    yield llm_dec_pomdp.make("coophumaneval-v2", split="test"), REFERENCES | by_heart | HALVES


def problem_of(item: TaskItem) -> Mapping[str, Any]:
    """Return the problem of a row of coophumaneval-v2."""
    return problems()[item.id.rpartition("/")[0]]


def published(pair: degenerate_pairs.Strategy) -> Callable[[TaskItem], Sequence[str]]:
    """Return the pair for a solution of the published problem in place of the reference."""
    aux = "def aux(*given):\n    return given\n"
    return lambda item: pair(dataclasses.replace(item, reference=(aux, problem_of(item)["published"])))


HALVES = {
    "main with its reference; aux: the rule of another variant": texts(
        lambda item: (
            next(v["code"] for v in problem_of(item)["variants"] if v["code"] != item.reference[0]),
            item.reference[1],
        )
    ),
    "main with its reference; aux: a stub": texts(
        lambda item: (f"{item.fields['aux_signature']}\n    return None\n", item.reference[1])
    ),
    "aux with its reference; main: a wrapper": texts(lambda item: (item.reference[0], problem_of(item)["wrapper"])),
    "aux with its reference; main: the published problem": texts(
        lambda item: (item.reference[0], problem_of(item)["published"])
    ),
    "main has one variant of the rule by heart": texts(
        lambda item: (
            f"{item.fields['aux_signature']}\n    return None\n",
            degenerate_pairs.alone(
                dataclasses.replace(item, reference=(problem_of(item)["variants"][0]["code"], item.reference[1]))
            ),
        )
    ),
}


# --- writing ----------------------------------------------------------------------------------------------------------


def of_row(task: str, pair: writing_strategies.Strategy) -> Strategy:
    """Return the strategy for a pair of texts, which a function makes from a task and the index of a test row."""
    ids = [item.id for item in writing_strategies.rows(task)]
    return texts(lambda item: pair(task, ids.index(item.id)))


def writing(judge: str | None) -> Iterator[tuple[Any, Strategies]]:
    """Yield the writing tasks; v2 with a judge."""
    w = writing_strategies
    pairs = {**w.STRATEGIES, **w.COPIED, **w.DAMAGE, **w.OPPOSITE}
    for task in w.NAMES:
        strategies = REFERENCES | {name: of_row(task, pair) for name, pair in pairs.items()}
        for version in ("v0", "v1"):
            yield llm_dec_pomdp.make(f"{task}-{version}", split="test"), strategies
        if judge:
            yield llm_dec_pomdp.make(f"{task}-v2", split="test", judge=judge), strategies


def mutated(pair: Sequence[str], source: list[str], draw: random.Random) -> tuple[str, ...]:
    """Return a pair of texts of which one has one to three changed words."""
    changed = [text.split() for text in pair]
    words = draw.choice(changed)
    for _ in range(draw.randint(1, 3)):
        place, kind = draw.randrange(len(words)), draw.randrange(4)
        if kind == 0:
            other = draw.randrange(len(words))
            words[place], words[other] = words[other], words[place]
        elif kind == 1 and len(words) > 5:
            del words[place]
        elif kind == 2:
            words.insert(place, draw.choice(source))
        else:
            words[place] = draw.choice(source)
    return tuple(map(" ".join, changed))


def climbed(env: Any, item: TaskItem, pairs: Sequence[Sequence[str]]) -> list[tuple[float, float]]:
    """Return for each pair how far its measurements are below those of references, and its return in %."""
    actions = [dict(zip(env.possible_agents, pair, strict=True)) for pair in pairs]
    with env.judge.put_off():
        for texts_of_agents in actions:
            env.score(item, texts_of_agents)
    found: list[tuple[float, float]] = []
    for score in [env.score(item, texts_of_agents) for texts_of_agents in actions]:
        gain, order = score.diagnostics["gain"], score.diagnostics["order"]
        lacking = min(gain / env.full.gain - 1.0, 0.0) + min(order - env.full.order, 0.0)
        found.append((lacking, 100 * score.total / env.facts.max_return))
    return found


def search(task: str, env: Any, given: argparse.Namespace) -> None:
    """Mutate the texts of a row while the measurements do not fall, and print the largest return as it grows."""
    w, draw = writing_strategies, random.Random(given.seed)
    item = env.items[given.search]
    source = re.findall(r"[\w'-]+[.,]?", item.prompt)
    sentences = [" ".join(part.split()[:SENTENCE]) for text in item.reference for part in re.split(r"[.!?]\s+", text)]
    starts = [pair(task, given.search) for pair in w.STRATEGIES.values()]
    pairs = [pair for pair in starts if all(pair) and not any(s in text for s in sentences for text in pair)]
    best, kept, judged, largest = -math.inf, list(pairs), 0, 0.0
    while judged < given.judgements:
        for pair, (value, total) in zip(pairs, climbed(env, item, pairs), strict=True):
            largest = max(largest, total)
            if value > best:
                best, kept = value, []
            if value == best:
                kept.append(pair)
        judged += len(pairs)
        if judged // AT_ONCE % 10 == 0:
            print(f"{judged} joint actions: largest return {largest:.1f} %", flush=True)
        pairs = [mutated(draw.choice(kept), source, draw) for _ in range(AT_ONCE)]
    print(f"{item.id}, {judged} joint actions: largest return {largest:.1f} %", *kept[-1], sep="\n")


# --- memory and calls -------------------------------------------------------------------------------------------------


def values_of_kind(item: TaskItem) -> str:
    """Return all values that answer a question of this kind."""
    [kind] = [kind for kind in KINDS if re.fullmatch(re.escape(kind.question).replace(r"\{\}", r"\w+"), item.prompt)]
    return " ".join(kind.values)


def memory(judge: str | None) -> Iterator[tuple[Any, Strategies]]:
    """Yield memory-v0 with a writer that keeps nothing and a reader that guesses."""
    guesses: Mapping[str, Callable[[TaskItem], str]] = {
        "silent writer and reader": lambda _: "",
        "silent writer, reader names the first value of the kind": lambda item: values_of_kind(item).split()[0],
        "silent writer, reader names all values of the kind": values_of_kind,
        "silent writer, reader names 30 values of any kind": lambda _: " ".join(
            [value for kind in KINDS for value in kind.values][:30]
        ),
    }
    silent = {name: texts(lambda item, guess=guess: ("", guess(item))) for name, guess in guesses.items()}
    yield llm_dec_pomdp.make("memory-v0", split="test"), silent


LOOKUPS: Mapping[str, Sequence[str]] = {
    "calendar": [f"find_event(person={name!r})" for name in generator.PEOPLE],
    "bank": [f"last_payment(person={name!r})" for name in generator.PEOPLE],
    "mail": [f"read_mail(sender={name!r})" for name in generator.PEOPLE],
    "shop": [f"price(item={name!r})" for name in generator.ITEMS],
    "files": [f"read_file(name={name!r})" for name in generator.FILES],
}


def everything(env: Any, item: TaskItem) -> Play:
    """Return the actions: the dispatcher orders "go" from all agents, and each specialist looks up all it can."""

    def act(agent: str, observation: str) -> str:
        if agent == env.possible_agents[0]:
            return "Done." if "reports: " in observation else "".join(f"{name}: go\n" for name in LOOKUPS)
        return "\n".join(LOOKUPS[env.role(agent)]) if "Order: " in observation else "Nothing to report."

    return act


def calls(judge: str | None) -> Iterator[tuple[Any, Strategies]]:
    """Yield calls-v0 with each of its rewards."""
    for reward in ("outcome", "process", "call"):
        env: Any = llm_dec_pomdp.make("calls-v0", split="test", reward=reward)
        silent = texts(lambda _: ["Done."] + [""] * len(LOOKUPS))
        yield env, {"dispatcher ends at once": silent, "specialists look everything up": everything}


# --- software ---------------------------------------------------------------------------------------------------------


def functions(source: str) -> list[ast.FunctionDef]:
    return [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]


def unparsed(function: ast.FunctionDef) -> str:
    """Return the statements of a function as text."""
    return "\n".join(map(ast.unparse, function.body))


def with_bodies(source: str, body: Callable[[ast.FunctionDef], str]) -> str:
    """Return a source whose functions have other bodies."""
    tree = ast.parse(source)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            node.body = ast.parse(body(node)).body
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def first_argument(function: ast.FunctionDef) -> str:
    """Return the body that returns the first argument that is not `self`, or None without one."""
    return f"return {next((a.arg for a in function.args.args if a.arg != 'self'), None)}"


STUBS: Mapping[str, Callable[[ast.FunctionDef], str]] = {
    "return None": lambda _: "return None",
    "return []": lambda _: "return []",
    "return True": lambda _: "return True",
    "return the first argument": first_argument,
    "raise ValueError": lambda _: "raise ValueError",
}


def stubs(body: Callable[[ast.FunctionDef], str], first: int = 0) -> Strategy:
    """Return the strategy in which authors from number `first` on write these bodies, and the others the reference."""
    return texts(lambda i: [*i.reference[:first], *(with_bodies(text, body) for text in i.reference[first:])])


def delegated(item: TaskItem) -> list[str]:
    """Return methods in which one method of the first author contains all others; the other authors call it."""
    first, *others = item.reference
    host = next(function for function in functions(first) if function.name != "__init__")
    held = {function.name: function for text in others for function in functions(text)}
    inner = "\n".join(ast.unparse(f).replace(f"def {name}(", f"def _{name}(", 1) for name, f in held.items())
    table = "{" + ", ".join(f"{name!r}: _{name}" for name in held) + "}"
    lines = [inner, "name, given = self.__dict__.pop('asked')", f"return {table}[name](self, *given)"]
    whole = with_bodies(
        first,
        lambda f: (
            "if 'asked' in self.__dict__:\n" + textwrap.indent("\n".join(lines), "    ") + "\n" + unparsed(f)
            if f.name == host.name
            else unparsed(f)
        ),
    )

    def call(function: ast.FunctionDef) -> str:
        given = "".join(f"{argument.arg}, " for argument in function.args.args[1:])
        nothing = ", ".join(["None"] * (len(host.args.args) - 1))
        return f"self.__dict__['asked'] = ({function.name!r}, ({given}))\nreturn self.{host.name}({nothing})"

    return [whole, *(with_bodies(text, call) for text in others)]


def software(judge: str | None) -> Iterator[tuple[Any, Strategies]]:
    """Yield classeval-v0."""
    yield (
        llm_dec_pomdp.make("classeval-v0", split="test"),
        REFERENCES
        | {"empty texts": texts(lambda i: [""] * len(i.reference))}
        | {f"all authors: {name}": stubs(body) for name, body in STUBS.items()}
        | {f"all but the first author: {name}": stubs(body, 1) for name, body in STUBS.items()}
        | {"second author delegates to the first, which holds the class": texts(delegated)},
    )


def replaced(item: TaskItem) -> list[str]:
    """Return modules of which the first replaces the functions of all others when it is imported."""
    paths = re.findall(r"^# file: (\S+)\.py$", item.fields["solution"], re.MULTILINE)
    lines = ["", "import importlib"]
    for path, source in list(zip(paths, item.reference, strict=True))[1:]:
        lines.append(f"exec({source!r}, vars(importlib.import_module({path.replace('/', '.')!r})))")
    stubbed = [with_bodies(source, STUBS["return None"]) for source in item.reference[1:]]
    return [item.reference[0] + "\n".join(lines) + "\n", *stubbed]


def modules(judge: str | None) -> Iterator[tuple[Any, Strategies]]:
    """Yield modules-v0 with three modules and one turn."""
    yield (
        llm_dec_pomdp.make("modules-v0", split="test", modules=3, max_turns=1),
        REFERENCES
        | {"empty texts": texts(lambda i: [""] * len(i.reference))}
        | {f"all authors: {name}": stubs(body) for name, body in STUBS.items()}
        | {"all but the first author: return None": stubs(STUBS["return None"], 1)}
        | {"the first module replaces all others": texts(replaced)},
    )


# --- the table --------------------------------------------------------------------------------------------------------

FAMILIES: Mapping[str, Callable[[str | None], Iterator[tuple[Any, Strategies]]]] = {
    "code": code,
    "writing": writing,
    "software": software,
    "modules": modules,
    "memory": memory,
    "calls": calls,
}


def measured(env: Any, strategies: Strategies, rows: int) -> dict[str, float]:
    """Return the mean return of each strategy over some rows, in % of the maximum."""
    found = [returns(env, item, list(strategies.values())) for item in spread(env, rows)]
    return {name: statistics.mean(values) for name, values in zip(strategies, zip(*found, strict=True), strict=True)}


def main() -> None:
    """Print a table, or search."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--family", choices=FAMILIES, required=True)
    options.add_argument("--judge", help="the language model that scores v2 of the writing tasks")
    options.add_argument("--rows", type=int, default=12, help="test rows of each environment at most")
    options.add_argument("--only", default="", help="words that the name of a strategy has")
    options.add_argument("--search", type=int, metavar="ROW", help="mutate the degenerate texts of this test row")
    options.add_argument("--judgements", type=int, default=1000, help="joint actions of a search")
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    if given.search is not None:
        if given.family != "writing" or not given.judge:
            options.error("--search needs --family writing and --judge MODEL")
        for task in writing_strategies.NAMES:
            search(task, llm_dec_pomdp.make(f"{task}-v2", split="test", judge=given.judge), given)
        return
    print("| strategy | environment | % of the maximum | rows |\n|---|---|---|---|")
    for env, strategies in FAMILIES[given.family](given.judge):
        chosen = {name: strategy for name, strategy in strategies.items() if given.only in name}
        label = env.metadata["name"] + (f", {env.reward}" if given.family == "calls" else "")
        for name, value in measured(env, chosen, given.rows).items():
            print(f"| {name} | {label} | {value:.1f} | {len(spread(env, given.rows))} |", flush=True)


if __name__ == "__main__":
    main()
