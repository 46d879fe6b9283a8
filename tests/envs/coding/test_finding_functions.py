"""Finding functions in what a model said, and reading them: returns, cooperation, what a problem gives."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from llm_dec_pomdp.envs.coding import analysis
from llm_dec_pomdp.envs.coding.analysis import cooperation, find_function, has_return, prelude
from llm_dec_pomdp.envs.coding.humaneval import problems

SHORT = "def f(x):\n    return x\n"

# --- find_function ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        SHORT,
        f"Here is the function:\n\n{SHORT}\nIt returns what it is given.",
        f"```python\n{SHORT}```",
        f"```\n{SHORT}```\nand so on",
        f"Sure!\n```py\n{SHORT}```\nNow the tests:\n```python\nassert f(1) == 1\n```",
        f"```python\n{SHORT}",
        f"```text\nnothing here\n```\n```python\n{SHORT}```",
        "    def f(x):\n        return x\n",
        "class A:\n    def f(x):\n        return x\n\n    def g(self):\n        pass\n",
        f"{SHORT}\nprint(f(1))\n",
        f"import math\n\ndef g():\n    return 1\n\n{SHORT}",
        f"{SHORT}\ndef g():\n    return 1\n",
        f"{SHORT}\nif __name__ == '__main__':\n    print(f(2))\n",
        "@functools.cache\ndef f(x):\n    return x\n",
        "def f(x):\r\n    return x\r\n",
        "def f(x):\n    return x\n\t",
        "def f(x):\n    return x\n\n\n\n",
    ],
)
def test_the_function_is_taken_out_of_its_surroundings(text: str) -> None:
    assert find_function(text, "f") == SHORT


@pytest.mark.parametrize(
    "text", ["", "no code", "def g(x):\n    return x\n", "def ff(x):\n    return x\n", "f(x)", "class f: pass"]
)
def test_no_such_function(text: str) -> None:
    assert find_function(text, "f") == ""


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"def f(x):\n    return 0\n\n```python\n{SHORT}```", SHORT),
        (f"{SHORT}\ndef f(x):\n    return 2\n", SHORT),
        ("def f(", "def f(\n"),
    ],
    ids=["a fenced function comes before one in prose", "the first of several", "an unfinished definition"],
)
def test_which_definition_is_taken(text: str, found: str) -> None:
    assert find_function(text, "f") == found


DOCUMENTED = 'def f(x):\n    """Add one.\n\n    ```\n    f(1)\n    ```\n    """\n    return x + 1\n'
WHOLE = {
    "alone": DOCUMENTED,
    "among prose": f"So:\n\n{DOCUMENTED}\nDone.",
    "fenced": f"So:\n```python\n{DOCUMENTED}```\nDone.",
    "fenced by tildes": f"~~~\n{DOCUMENTED}~~~",
    "fenced and cut": f"```python\n{DOCUMENTED}",
    "a fence at the margin": DOCUMENTED.replace("    ```", "```"),
    "fenced, a fence at the margin": "```python\n" + DOCUMENTED.replace("    ```", "```") + "```",
    "a fence in a string": 'def f(x):\n    text = """\n```\ndef f(x):\n    return 0\n```\n"""\n    return x + 1\n',
    "a definition in a string": '"""def f(x):\n\ndef f(x): ...\n"""\ndef f(x):\n    return x + 1\n',
    "a draft": "def f(x):\n    return (\n\nThat is wrong.\n\ndef f(x):\n    return x + 1\n",
    "a fenced draft": "```\ndef f(x):\n    return (\n```\nBetter:\n```\ndef f(x):\n    return x + 1\n```",
    "a draft, then a fenced one": "def f(x):\n    return (\n\n```\ndef f(x):\n    return x + 1\n```",
    "a fenced draft, then one in prose": "```\ndef f(x):\n    return (\n```\nNo:\n\ndef f(x):\n    return x + 1\n",
}


@pytest.mark.parametrize("text", WHOLE.values(), ids=WHOLE)
def test_a_definition_is_neither_cut_nor_a_draft_where_there_is_a_whole_one(text: str) -> None:
    names: dict[str, Any] = {}
    exec(find_function(text, "f"), names)
    assert names["f"](1) == 2


@pytest.mark.parametrize(
    "function",
    [
        "def f(\n    x: int,\n    y: int = 2,\n) -> int:\n    return x + y\n",
        "def f(x):\n    def inner(y):\n        return y\n\n    return inner(x)\n",
        "def f(x):\n    if x:\n        return 1\n\n    # a comment\n    return 2\n",
        "async def f(x):\n    return x\n",
        "def f(x): return x\n",
        'def f(x):\n    """Doc.\n\n    More.\n    """\n    return x\n',
        "def f(x):\n# a comment at the margin\n    return x\n",
        "def f(x):\n    y = x\n# a comment at the margin\n    return y\n",
        "def f(x):\n    if x:\n        return 1\n# otherwise\n    return 2\n",
        "def f(x):\n    return [\n1,\n2,\n    ]\n",
        "def f(größe):\n    return größe * 2\n",
        'def f(x):\n    text = """first\nsecond\n"""\n    return text + x\n',
    ],
)
def test_the_whole_function_is_taken(function: str) -> None:
    assert find_function(f"prose\n\n{function}\nmore prose", "f") == function


@pytest.mark.parametrize(
    ("function", "value"),
    [
        ('def f():\n    return "a\tb"\n', "a\tb"),
        ('def f():\n    return "a\u2028b"\n', "a\u2028b"),
        ('def f():\n    return "a\x0cb"\n', "a\x0cb"),
        ('def f():\n    return "a\x85b"\n', "a\x85b"),
    ],
    ids=["tab", "line separator", "form feed", "next line"],
)
def test_odd_characters_in_strings_are_kept(function: str, value: str) -> None:
    found = ast.parse(find_function(function, "f")).body[0]
    assert isinstance(found, ast.FunctionDef)
    assert ast.literal_eval(found.body[0].value) == value  # type: ignore[attr-defined]


def test_a_definition_with_a_syntax_error_is_still_a_definition() -> None:
    text = "def f(x):\n    return (x\n\ndef g():\n    return 1\n"
    found = find_function(text, "f")
    assert found.startswith("def f(x):\n    return (x")
    assert analysis.parse(found) is None


def test_an_escape_that_python_frowns_on_is_no_syntax_error() -> None:
    """Under `-W error` the warning about `\\d` becomes a SyntaxError: the reward must not depend on warning filters."""
    assert analysis.parse(find_function('def f(x):\n    return "\\d"\n', "f")) is not None


@pytest.mark.parametrize(
    "text",
    [
        "def f(x):\n    return " + "-" * 5000 + "1",
        "def f(x): return " + "(" * 500 + "x" + ")" * 500,
        "def f(x): return " + "+".join("1" * 9000),
        "def f(x):\n    return x" + ".a" * 9000,
        "def f(x):\n    return x\n" + "y = 1\n" * 50_000,
        "def f(x):\n    return (\n" + "z\n" * 10_000,
        "```\n" * 20_000,
        "```\n(\n" * 20_000,
        "```\ndef f(\n" * 10_000,
        "def f(x):\n    return (\n" + "y\n" * 20_000 + "def f(x):\n    return (\n" * 2_000,
    ],
    ids="minuses parentheses sum attributes module parenthesis fences broken_blocks drafts long_drafts".split(),
)
def test_monsters_are_looked_at_in_bounded_time(text: str) -> None:
    found = find_function(text, "f")
    assert len(found) <= len(text) + 1
    cooperation(found)


# --- has_return -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "value"),
    [
        (SHORT, True),
        ("def f(x):\n    return\n", True),
        ("def f(x):\n    if x:\n        return 1\n", True),
        ("def f(x):\n    print(x)\n", False),
        ("def f(x):\n    'return x'\n", False),
        ("def f(x):\n    # return x\n    pass\n", False),
        ("def f(x):\n    return (x\n", True),
        ("def f(x:\n    pass\n", False),
        ("", False),
    ],
)
def test_has_return(function: str, value: bool) -> None:
    assert has_return(function) is value


# --- cooperation ------------------------------------------------------------------------------------------------------


def main_with(*lines: str) -> str:
    return "def main(x):\n" + "".join(f"    {line}\n" for line in lines)


@pytest.mark.parametrize(
    ("lines", "calls", "wraps", "drops"),
    [
        (["return x"], False, False, False),
        (["return aux(x)"], True, True, False),
        (["'''Doc.'''", "return aux(x)"], True, True, False),
        (["y = aux(x)", "return y"], True, True, False),
        (["y: int = aux(x)", "return y"], True, True, False),
        (["# why", "", "return aux(x)"], True, True, False),
        (["return aux(x) + 1"], True, False, False),
        (["y = aux(x)", "return x"], True, False, False),
        (["y = aux(x)", "y += 1", "return y"], True, False, False),
        (["y, z = aux(x)", "return y"], True, False, False),
        (["aux(x)", "return x"], True, False, True),
        (["aux(x)", "return aux(x)"], True, False, True),
        (["y = aux(x)", "aux(y)", "return y"], True, False, True),
        (["if x:", "    return aux(x)", "return 0"], True, False, False),
        (["try:", "    return aux(x)", "except Exception:", "    return x"], True, False, False),
        (["for y in x:", "    aux(y)", "return x"], True, False, True),
        (["return [aux(y) for y in x]"], True, False, False),
        (["return sorted(x, key=aux)"], False, False, False),
        (["return helper.aux(x)"], False, False, False),
        (["return 'aux(x)'"], False, False, False),
        (["return auxiliary(x)"], False, False, False),
    ],
)
def test_cooperation(lines: list[str], calls: bool, wraps: bool, drops: bool) -> None:
    found = cooperation(main_with(*lines))
    assert (found.calls, found.wraps, found.drops) == (calls, wraps, drops)


@pytest.mark.parametrize("main", ["", "def main(x:\n    return aux(x)", "x = 1", "\ud800"])
def test_what_is_no_function_does_not_cooperate(main: str) -> None:
    found = cooperation(main)
    assert (found.calls, found.wraps, found.drops) == (False, False, False)


# --- prelude ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prompt", "kept"),
    [
        (
            'from typing import List\nimport math\n\n\ndef f(x: List[int]) -> int:\n    """Do it."""\n',
            "from typing import List\nimport math",
        ),
        ("import math\n\ndef f(x):\n", "import math"),
        ('def given(x):\n    return 1\n\n\ndef f(x):\n    """Use given."""\n', "def given(x):\n    return 1"),
        (
            "import math\nPlease write this function:\nfrom typing import List\ndef f(x)\n",
            "import math\nfrom typing import List",
        ),
        ("import the numbers\nfrom a list of words\nimport math\ndef f(x)\n", "import math"),
    ],
    ids=["imports", "a bare signature", "helpers", "what does not parse", "prose that begins like an import"],
)
def test_what_a_problem_gives_is_kept_without_the_entry_point(prompt: str, kept: str) -> None:
    assert prelude(prompt, "f") == kept


@pytest.mark.parametrize(("index", "helper"), [(32, "poly"), (38, "encode_cyclic"), (50, "encode_shift")])
def test_helpers_given_by_humaneval_are_kept(index: int, helper: str) -> None:
    item = problems()[index]
    found = ast.parse(prelude(item.prompt, item.fields["entry_point"])).body
    assert [node.name for node in found if isinstance(node, ast.FunctionDef)] == [helper]
