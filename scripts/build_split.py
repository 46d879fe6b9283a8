"""Check the problems of coophumaneval-v2 and write their expected results and the audit.

    python scripts/build_split.py                  # rewrite data/coophumaneval_v2.jsonl and its audit
    python scripts/build_split.py --check FILE.py  # check the problems in the list PROBLEMS of a file

A problem has these fields:

    id                an identifier, such as "rich_words"
    source            the problem that it is derived from, such as "HumanEval/64"
    split             "train" or "test"
    main_signature    such as "def count_rich_words(text: str) -> int:"
    aux_signature     such as "def aux(word: str) -> int:"
    main_spec         what main returns, in terms of what `aux(...)` returns
    main              reference of main
    variants          three rules, each a `spec` and a reference `code` of aux
    examples          calls of aux, such as "aux('Holiday')", shown to its author with their results
    inputs            8 to 15 tuples of arguments of main, as Python literals
    published         a solution of the published problem, with the signature of main and without aux

The audit has for each variant the largest share of the tests that each kind of pair passes ("passed"), and for each
problem of the three sources whether it can be split into a composition and a rule, with the reason ("sources").

The script adds to main "off by one" (its reference with a number or an operator changed) and "wrapper", to each variant
"off by one", "aux_spec" (the rule with the results of the examples) and "test".
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import itertools
import json
import re
import runpy
import signal
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from build_candidates import off_by_one

DATA = Path(__file__).parent.parent / "llm_dec_pomdp" / "data"
ROWS, AUDIT = DATA / "coophumaneval_v2.jsonl", DATA / "gold" / "coophumaneval_v2_audit.json"
MOST = 0.2  # share of tests that a pair without cooperation may pass
SECONDS = 1.0  # for one call
Problem = dict[str, Any]

GENERAL = frozenset(
    """
    about above after all also and any append are argument around array as ascending at back before begin below between
    bigger biggest boolean both but by call case character code compute consider contain count decreasing def descending
    dict dictionary differ different digit does each earlier earliest either element else empty end entry equal every
    exactly except exclude false few find first float following for from function get give given given greater greatest
    group have high higher highest ignore include increasing index indices input int integer into itself iterable item
    its join keep key large larger largest last late later latest least left length less let letter line list long
    longer longest low lower lowest make mapping may more most must name need never next non none not nothing number
    numeric object occur once one only or order original other otherwise output pair parameter part place position
    positive negative previous produce python remaining repeat result return right same separate sequence set several
    should single size small smaller smallest some sort split stand start str string sum take teammate text than that
    the their them then there these they this three through tie times together total true tuple two type unless until
    use value when where whether which white whose with within without word write written you your zero
    """.split()
)


def content_words(text: str) -> set[str]:
    """Return the stems of the words of a text that are longer than two letters and not general."""
    words = re.findall(r"[a-z]+", re.sub(r"([a-z])([A-Z])", r"\1 \2", text).replace("_", " ").lower())
    general = {_stem(word) for word in GENERAL}
    return {_stem(word) for word in words if len(word) > 2} - general


def _stem(word: str) -> str:
    for ending in ("ing", "ies", "es", "ed", "ly", "s", "e", "y"):
        if word.endswith(ending) and len(word) - len(ending) > 2:
            return word[: -len(ending)]
    return word


def numbers(text: str) -> set[str]:
    """Return the numbers above 1 that a text contains."""
    return {number for number in re.findall(r"\d+", text) if int(number) > 1}


def name_of(signature: str) -> str:
    """Return the name of the function that a signature declares."""
    return signature.split("def ", 1)[1].split("(", 1)[0].strip()


def parameters(signature: str) -> list[str]:
    """Return the parameters of the function that a signature declares."""
    [function] = ast.parse(f"{signature.strip()}\n    pass").body
    assert isinstance(function, ast.FunctionDef)
    return [argument.arg for argument in function.args.args]


def results(aux: str | Callable[..., Any], main: str | Callable[..., Any], problem: Problem) -> list[str]:
    """Run main on each input and return the results as text; an exception is "raised"."""
    scope: dict[str, Any] = {}
    for name, function in (("aux", aux), (name_of(problem["main_signature"]), main)):
        if isinstance(function, str):
            with warnings.catch_warnings(action="ignore"):  # a changed function may look odd
                exec(compile(function, name, "exec"), scope)  # our own code
        else:
            scope[name] = function
    found: list[str] = []
    for given in problem["inputs"]:
        signal.setitimer(signal.ITIMER_REAL, SECONDS)  # a changed function may not end
        try:
            found.append(repr(scope[name_of(problem["main_signature"])](*copy.deepcopy(ast.literal_eval(given)))))
        except Exception:
            found.append("raised")
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    return found


def stubs(signature: str) -> dict[str, Callable[..., Any]]:
    """Return functions without a rule by name: constants, arguments, and what one guesses from a signature."""
    constants: list[Any] = [None, 0, 1, "", [], True, False]
    found: dict[str, Callable[..., Any]] = {repr(value): lambda *_, value=value: value for value in constants}
    guesses: dict[str, Callable[..., Any]] = {
        **{f.__name__: lambda a, *_, f=f: f(a) for f in (len, sum, max, min, str, sorted)},
        "first argument": lambda a, *_: a,
        "all arguments": lambda *given: given,
        "reversed": lambda a, *_: a[::-1],
        "sorted text": lambda a, *_: "".join(sorted(a)),
        "upper case": lambda a, *_: a.upper(),
        "sum of digits": lambda a, *_: sum(int(c) for c in str(a) if c.isdigit()),
        "number of vowels": lambda a, *_: sum(c in "aeiouAEIOU" for c in a),
        "number of different elements": lambda a, *_: len(set(a)),
        "sum of letters": lambda a, *_: sum(map(ord, a)),
        "absolute value": lambda a, *_: abs(a),
        "square": lambda a, *_: a * a,
        "a + b": lambda a, b, *_: a + b,
        "a - b": lambda a, b, *_: a - b,
        "a * b": lambda a, b, *_: a * b,
        "distance": lambda a, b, *_: abs(a - b),
        "larger": lambda a, b, *_: max(a, b),
        "smaller": lambda a, b, *_: min(a, b),
        "equal elements": lambda a, b, *_: sum(x == y for x, y in zip(a, b, strict=False)),
    }
    return {**found, **guesses}


def share(found: Sequence[str], expected: Sequence[str]) -> float:
    """Return the share of results that are as expected."""
    return sum(a == b for a, b in zip(found, expected, strict=True)) / len(expected)


@contextlib.contextmanager
def stopping() -> Iterator[None]:
    """Raise TimeoutError in the context if it takes longer than `SECONDS`."""

    def stop(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGALRM, before)


@stopping()
def audit(problem: Problem) -> tuple[list[list[str]], list[dict[str, float]], list[str]]:
    """Run a problem.

    Returns:
        The expected results of each variant; the largest share of tests passed without cooperation, by variant and
        kind of pair; and the reasons why the problem must not be used.
    """
    reasons: list[str] = []
    main, variants = problem["main"], problem["variants"]
    expected = [results(variant["code"], main, problem) for variant in variants]
    rows: list[dict[str, float]] = []
    if len(variants) != 3:
        reasons.append(f"{len(variants)} variants instead of 3")
    if not 8 <= len(problem["inputs"]) <= 15 or len(set(problem["inputs"])) < len(problem["inputs"]):
        reasons.append(f"{len(problem['inputs'])} inputs; there must be 8 to 15, all different")
    if problem["entry_point"] != name_of(problem["main_signature"]) or name_of(problem["aux_signature"]) != "aux":
        reasons.append("a signature has another name than entry_point or aux")
    for number, (variant, wanted) in enumerate(zip(variants, expected, strict=True)):
        others = [other["code"] for other in variants if other is not variant]
        aux_stubs, main_stubs = stubs(problem["aux_signature"]), stubs(problem["main_signature"])
        row = {
            "stub of aux": max(share(results(stub, main, problem), wanted) for stub in aux_stubs.values()),
            "stub of main": max(share(results(variant["code"], stub, problem), wanted) for stub in main_stubs.values()),
            "constant": max(Counter(wanted).values()) / len(wanted),
            "wrapper": share(results(variant["code"], _wrapper(problem), problem), wanted),
            "another rule": max(share(results(other, main, problem), wanted) for other in others),
            "published": share(results("def aux(*_): return None", problem["published"], problem), wanted),
        }
        rows.append(row)
        reasons += [f"variant {number}: {kind} passes {value:.0%}" for kind, value in row.items() if value > MOST]
        if bad := [result for result in wanted if not _literal(result)]:
            reasons.append(f"variant {number}: the reference returns {bad[0]!r:.60}, which is no exact literal")
        reasons += [f"variant {number}: {reason}" for reason in _leaks(problem, variant)]
    shown = [[_called(variant["code"], call) for call in problem["examples"]] for variant in variants]
    if not 2 <= len(problem["examples"]) <= 5:
        reasons.append(f"{len(problem['examples'])} examples; there must be 2 to 5")
    for (a, first), (b, second) in itertools.combinations(enumerate(shown), 2):
        if first == second:
            reasons.append(f"the examples do not tell variants {a} and {b} apart")
    return expected, rows, reasons


@stopping()
def complete(problem: Problem, expected: Sequence[Sequence[str]]) -> None:
    """Add the fields for environments: the tests, the specification of aux with its examples, and the candidates."""
    main, variants = problem["main"], problem["variants"]
    calls = [", ".join(map(repr, ast.literal_eval(given))) for given in problem["inputs"]]
    for variant, wanted in zip(variants, expected, strict=True):
        asserts = [f"    assert candidate({call}) == {result}" for call, result in zip(calls, wanted, strict=True)]
        shown = [f">>> {call}\n{_called(variant['code'], call)}" for call in problem["examples"]]
        variant["test"] = "\n".join(["def check(candidate):", *asserts, ""])
        variant["aux_spec"] = "\n".join([variant["spec"].strip(), "", *shown])
        variant["off by one"] = _damaged(variant["code"], lambda code, w=wanted: share(results(code, main, problem), w))
    first = variants[0]["code"]
    problem["off by one"] = _damaged(main, lambda code: share(results(first, code, problem), expected[0]))
    problem["wrapper"] = _wrapper(problem)


def _damaged(source: str, passed: Callable[[str], float]) -> str:
    """Return the function with one place changed that passes the fewest tests, at least one if possible."""
    changed = [*off_by_one(source), *_other_results(source)]
    shares = {text: share for text in changed if (share := passed(text)) < 1}
    return min(shares, key=lambda text: (shares[text] == 0, shares[text], text))


def _other_results(source: str) -> Iterator[str]:
    """Yield the function with one of its results changed: another number, or without the first element."""
    for place, node in enumerate(ast.walk(ast.parse(source))):
        for form in ("{} + 1", "{}[1:]") if isinstance(node, ast.Return) and node.value else ():
            tree = ast.parse(source)
            changed = list(ast.walk(tree))[place]
            assert isinstance(changed, ast.Return) and changed.value
            changed.value = ast.parse(form.format(f"({ast.unparse(changed.value)})"), mode="eval").body
            yield ast.unparse(tree) + "\n"


def _wrapper(problem: Problem) -> str:
    """Return a main that passes its first arguments to aux, as many as aux takes, and returns the result."""
    mine, its = parameters(problem["main_signature"]), parameters(problem["aux_signature"])
    return f"def {problem['entry_point']}({', '.join(mine)}):\n    return aux({', '.join(mine[: len(its)])})\n"


def _called(code: str, call: str) -> str:
    scope: dict[str, Any] = {}
    exec(compile(code, "aux", "exec"), scope)  # our own code
    return repr(eval(call, scope))


def _literal(text: str) -> bool:
    """Return whether a text is the repr of a value that `==` compares exactly."""
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return False
    return (
        not any(isinstance(node, ast.Constant) and isinstance(node.value, float) for node in ast.walk(ast.parse(text)))
        and value is not None
    )


def _leaks(problem: Problem, variant: Mapping[str, str]) -> list[str]:
    """Return words and numbers of one specification that reveal the other one."""
    free = content_words(f"{problem['main_signature'].split('(', 1)[1]} {problem['aux_signature']}")
    main = content_words(f"{problem['entry_point']} {problem['main_spec']}")
    common = (main & content_words(variant["spec"])) - free
    reasons = [f"both specifications contain {word!r}" for word in sorted(common)]
    both = numbers(problem["main_spec"]) & numbers(variant["spec"])
    return reasons + [f"both specifications contain the number {number}" for number in sorted(both)]


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--check", type=Path, help="a Python file with a list PROBLEMS; nothing is written")
    arguments = parser.parse_args()
    if arguments.check:
        problems: list[Problem] = runpy.run_path(str(arguments.check))["PROBLEMS"]
    else:
        problems = [json.loads(line) for line in ROWS.read_text(encoding="utf-8").splitlines()]
    found: dict[str, list[dict[str, float]]] = {}
    failed = 0
    for problem in problems:
        expected, found[problem["id"]], reasons = audit(problem)
        if not arguments.check:
            complete(problem, expected)
        failed += bool(reasons)
        print(problem["id"], "ok" if not reasons else "")
        print("".join(f"    {reason}\n" for reason in reasons), end="")
    if failed:
        raise SystemExit(f"{failed} of {len(problems)} problems must not be used")
    if not arguments.check:
        ROWS.write_text("".join(json.dumps(problem) + "\n" for problem in problems), encoding="utf-8")
        known = json.loads(AUDIT.read_text(encoding="utf-8")) if AUDIT.exists() else {}
        AUDIT.write_text(json.dumps({**known, "passed": found}) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
