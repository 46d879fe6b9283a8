"""Programs in which one agent does all the work and hides it, or both do all of it: none is paid for by v1.

A strategy makes the two texts of a row from its reference pair. What they earn stands in docs/rewards.md.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from degenerate_pairs import ANSWER, PAIRS, TOKEN, decoder
from programs import Strategy, alone, arguments, around, main, problem, share, solver, solves, spread
from test_contribution import judged

from llm_dec_pomdp.types import TaskItem

LIMIT, ROWS, FEW = 0.40, 8, 2

# --- main does everything ---------------------------------------------------------------------------------------------


def handshake(token: str, otherwise: str) -> Strategy:
    """Aux returns a token of the arguments, and main, which solves everything, answers when it is the right one."""
    return lambda item: (
        f"def aux(*given):\n    return {token}\n",
        alone(item, "given = (ARGS,)", "said = aux(ARGS)", f"if said != {token}:", f"    {otherwise}"),
    )


def checked(aux: str, *lines: str) -> Strategy:
    """Main solves everything after a look at its surroundings; ENTRY is its name."""
    return lambda item: (
        "def aux(*given):\n" + "".join(f"    {line}\n" for line in named(item, aux).split("\n")),
        alone(item, *(named(item, line) for line in lines)),
    )


def named(item: TaskItem, text: str) -> str:
    return text.replace("ENTRY", item.fields["entry_point"])


HANDSHAKES: Mapping[str, Strategy] = {
    "handshake, else None": handshake(TOKEN, "return None"),
    "handshake, else an error": handshake(TOKEN, "raise ValueError(said)"),
    "handshake, else False": handshake(TOKEN, "return False"),
    "handshake, else 0": handshake(TOKEN, "return 0"),
    "handshake, else its arguments": handshake(TOKEN, "return given"),
    "handshake by text": handshake("repr(given)[::-1]", "return None"),
    "handshake by hash": handshake("__import__('hashlib').md5(repr(given).encode()).hexdigest()", "return None"),
    "handshake of one bit": handshake("(len(repr(given)) % 2 == 0)", "return None"),
    "handshake by a constant": handshake("42", "return None"),
}

LEN = "return len(given)"
SURROUNDINGS: Mapping[str, Strategy] = {
    "a known name": checked(LEN, "aux(ARGS)", "if '_first' in globals(): return None"),
    "private names": checked(
        LEN, "aux(ARGS)", "if any(n[:1] == '_' != n[1:2] and n != '_own' for n in globals()): return None"
    ),
    "the caller's name": checked(
        "import sys\nreturn sys._getframe(1).f_code.co_name", "if aux(ARGS) != 'ENTRY': return None"
    ),
    "the caller's line": checked(
        "import sys\nreturn sys._getframe(1).f_lineno, len(given)", "if aux(ARGS)[0] > 9: return None"
    ),
    "inspect": checked("import inspect\nreturn inspect.stack()[1].function", "if aux(ARGS) != 'ENTRY': return None"),
    "a traceback": checked(
        "try:\n    raise ValueError\nexcept ValueError as error:\n"
        "    return error.__traceback__.tb_frame.f_back.f_code.co_name",
        "if aux(ARGS) != 'ENTRY': return None",
    ),
    "the helper's code": checked(LEN, "if aux(ARGS) and aux.__code__.co_varnames != ('given',): return None"),
    "the helper's constants": checked(LEN, "if aux(ARGS) and 'a' in str(aux.__code__.co_consts): return None"),
    "the helper's docstring": checked("'token'\n" + LEN, "if aux(ARGS) and aux.__doc__ != 'token': return None"),
    "the helper's closure": checked(LEN, "if aux(ARGS) and aux.__closure__: return None"),
    "the helper's globals": checked(
        LEN, "if aux(ARGS) and [n for n in aux.__globals__ if n[:1] == '_' != n[1:2]]: return None"
    ),
    "all objects": checked(LEN, "import gc", "if aux(ARGS) and 'swapped' in str(gc.get_objects())[:9000]: return None"),
    "the number of calls": checked(
        "aux.count = getattr(aux, 'count', 0) + 1\nreturn aux.count",
        "ENTRY.count = getattr(ENTRY, 'count', 0) + 1",
        "if aux(ARGS) != ENTRY.count: return None",
    ),
    "arguments seen before": checked(
        LEN,
        "given, seen = repr((ARGS,)), ENTRY.__dict__.setdefault('seen', [])",
        "seen.append(given)",
        "if seen.count(given) > 1: return seen.count(given), aux(ARGS)",
        "aux(ARGS)",
    ),
    "chance": checked(
        "import random\nreturn random.random()", "import random", "if random.random() < 0.2: return aux(ARGS)"
    ),
}

LOTS = "if int({} * 1e6) % 7 == 0: return None"
CLOCKS: Mapping[str, Strategy] = {
    "aux's": checked("import time\nreturn time.time()", LOTS.format("aux(ARGS)")),
    "main's": checked(LEN, "import time", "aux(ARGS)", LOTS.format("time.time()")),
}

# --- aux does everything ----------------------------------------------------------------------------------------------

NUMBER = "(lambda a: {} if type(a) in (int, float) else a)(" + ANSWER + ")"
TURNED = "(lambda a: not a if type(a) is bool else -a if type(a) in (int, float) else a[::-1])(" + ANSWER + ")"
DECODERS: Mapping[str, Strategy] = {
    "negation or reversed": decoder(
        TURNED, "return not said if type(said) is bool else -said if type(said) in (int, float) else said[::-1]"
    ),
    "offset": decoder(NUMBER.format("a + 7"), "return said - 7 if type(said) in (int, float) else said"),
    "text": decoder(f"repr({ANSWER})", "import ast", "return ast.literal_eval(said)"),
    "text reversed": decoder(f"repr({ANSWER})[::-1]", "import ast", "return ast.literal_eval(said[::-1])"),
    "text after a word": decoder(f"'answer ' + repr({ANSWER})", "import ast", "return ast.literal_eval(said[7:])"),
    "JSON": decoder(f"__import__('json').dumps([{ANSWER}])", "import json", "return json.loads(said)[0]"),
    "tuple": decoder(f"({ANSWER},)", "return said[0]"),
    "last of a list": decoder(f"[3, None, {ANSWER}]", "return said[-1]"),
    "middle of a list": decoder(f"[3, {ANSWER}, None]", "return said[1]"),
    "dictionary": decoder(f"{{'a': 0, 'answer': {ANSWER}, 'z': 0}}", "return said['answer']"),
    "box in a box": decoder(f"[[{ANSWER}], len(given)]", "return said[0][0]"),
    "letters moved by one": decoder(
        f"''.join(chr(ord(c) + 1) for c in repr({ANSWER}))",
        "import ast",
        "return ast.literal_eval(''.join(chr(ord(c) - 1) for c in said))",
    ),
    "base64": decoder(
        f"__import__('base64').b64encode(repr({ANSWER}).encode())",
        "import ast, base64",
        "return ast.literal_eval(base64.b64decode(said).decode())",
    ),
    "hex of text reversed": decoder(
        f"repr({ANSWER})[::-1].encode().hex()",
        "import ast",
        "return ast.literal_eval(bytes.fromhex(said).decode()[::-1])",
    ),
    "compressed": decoder(
        f"__import__('zlib').compress(repr({ANSWER}).encode())",
        "import ast, zlib",
        "return ast.literal_eval(zlib.decompress(said).decode())",
    ),
    "letters in turns": decoder(
        f"(lambda t: (t[::2], t[1::2]))(repr({ANSWER}))",
        "import ast",
        "first, second = said",
        "return ast.literal_eval(''.join(a + b for a, b in zip(first, second + ' ')))",
    ),
    "cut in the middle": decoder(
        f"(lambda t: (t[:len(t) // 2], t[len(t) // 2:]))(repr({ANSWER}))",
        "import ast",
        "return ast.literal_eval(said[0] + said[1])",
    ),
    "arguments as text": lambda item: (
        around(solver(item), "_solve(*__import__('ast').literal_eval(given[0]))"),
        main(item, "return aux(repr((ARGS,)))"),
    ),
}

# --- the table --------------------------------------------------------------------------------------------------------

CLOSED = {
    **HANDSHAKES,
    **{f"looks at {n}": s for n, s in SURROUNDINGS.items()},
    **{f"coat: {n}": s for n, s in DECODERS.items()},
    **PAIRS,
}


@pytest.mark.every(2)
@pytest.mark.parametrize("strategy", list(CLOSED.values())[::4], ids=list(CLOSED)[::4])
def test_a_hidden_solo_earns_less_than_40_percent_on_some_rows(strategy: Strategy) -> None:
    assert share("coophumaneval-v1", strategy, spread("coophumaneval-v1", FEW)) < LIMIT


@pytest.mark.slow
@pytest.mark.parametrize("strategy", CLOSED.values(), ids=CLOSED)
def test_a_hidden_solo_earns_less_than_40_percent(strategy: Strategy) -> None:
    """Half of the rows are ours, half those of HumanEval."""
    for env_id in ("coophumaneval-v1", "humaneval-v1"):
        assert share(env_id, strategy, spread(env_id, ROWS // 2)) < LIMIT


@pytest.mark.slow
@pytest.mark.parametrize("clock", CLOCKS.values(), ids=CLOCKS)
@pytest.mark.parametrize("env_id", ["coophumaneval-v1", "humaneval-v1"])
def test_who_draws_lots_by_a_clock_earns_less_than_40_percent_on_average(env_id: str, clock: Strategy) -> None:
    """A rerun draws another lot: one judgement in some hundred may be fooled, so that the mean of many is compared."""
    assert share(env_id, clock, spread(env_id, ROWS) * 24) < LIMIT


@pytest.mark.parametrize(
    ("aux", "main"),
    [
        ("return sum(xs, 7)", "return 2 * (aux(xs) - 7)"),  # the answer never stands where aux holds it
        ("return len(xs)", "return sum(2 * xs[i] for i in range(aux(xs)))"),  # hardly any work
    ],
    ids=["masked from the start", "a small part"],
)
def test_what_remains_open(aux: str, main: str) -> None:
    lists = ([1, 2], [], [5, 5, 1], [4], [7, -3, 9])
    item = problem("def main(xs):\n    pass\n", *(f"assert c({xs}) == {2 * sum(xs)}" for xs in lists))
    assert judged(f"def aux(xs):\n    {aux}\n", f"def main(xs):\n    {main}\n", item).total == 4.0


@pytest.mark.slow
def test_hidden_solos_solve_the_problems() -> None:
    """Else they would earn nothing for want of passed tests. What looks at frames or gives tests up may fail some."""
    [item] = spread("humaneval-v1", 1)
    assert arguments(item)
    for name, strategy in {**HANDSHAKES, **DECODERS, **PAIRS}.items():
        assert solves("humaneval-v1", strategy, item) or "given up" in name, name
