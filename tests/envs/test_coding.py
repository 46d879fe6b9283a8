from __future__ import annotations

import ast
import dataclasses
import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import llm_dec_pomdp
from llm_dec_pomdp.envs.coding import analysis, reward
from llm_dec_pomdp.envs.coding import base as coding_base
from llm_dec_pomdp.envs.coding.analysis import cooperation, find_function, has_return, prelude
from llm_dec_pomdp.envs.coding.humaneval import problems
from llm_dec_pomdp.sandbox import Job, Verdict
from llm_dec_pomdp.types import Score, TaskItem

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


def test_a_fenced_function_comes_before_one_in_prose() -> None:
    text = f"def f(x):\n    return 0\n\n```python\n{SHORT}```"
    assert find_function(text, "f") == SHORT


def test_the_first_of_several_definitions_is_taken() -> None:
    assert find_function(f"{SHORT}\ndef f(x):\n    return 2\n", "f") == SHORT


def test_the_name_is_no_pattern() -> None:
    assert find_function("def fx(x):\n    return x\n", "f.") == ""


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
    ],
)
def test_the_whole_function_is_taken(function: str) -> None:
    assert find_function(f"prose\n\n{function}\nmore prose", "f") == function


def test_triple_quoted_text_at_the_margin_belongs_to_the_function() -> None:
    function = 'def f(x):\n    text = """first\nsecond\n"""\n    return text + x\n'
    assert find_function(f"{function}\nprint(f(1))\n", "f") == function


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


def test_an_unfinished_definition_is_still_a_definition() -> None:
    assert find_function("def f(", "f") == "def f(\n"


def test_an_escape_that_python_frowns_on_is_no_syntax_error() -> None:
    """Under `-W error` the warning about `\\d` becomes a SyntaxError: the reward must not depend on warning filters."""
    assert analysis.parse(find_function('def f(x):\n    return "\\d"\n', "f")) is not None


PIECES = (
    '|def f(|def f(x):|\n|    |\t|return x|```|```python\n|"""|\'|(|)|#|\\|\x00|\ud800|\u2028|async |@d\n|if x:|é|:|,'
)
FRAGMENTS = st.lists(st.sampled_from(PIECES.split("|")), max_size=30).map("".join)


@given(FRAGMENTS | st.text(max_size=200))
def test_finding_never_raises(text: str) -> None:
    found = find_function(text, "f")
    assert found == "" or "def" in found
    has_return(found)
    cooperation(found, "f")
    prelude(text, "f")


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
    ],
    ids=["minuses", "parentheses", "sum", "attributes", "long module", "open parenthesis", "fences"],
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


@pytest.mark.parametrize(
    ("calls", "wraps", "drops", "value"),
    [
        (False, False, False, 0.0),
        (True, True, False, 0.5),
        (True, False, False, 1.5),
        (True, False, True, 1.0),
        (False, False, True, 0.0),
    ],
)
def test_cooperation_part(calls: bool, wraps: bool, drops: bool, value: float) -> None:
    assert reward.cooperation_part(analysis.Cooperation(calls, wraps, drops)) == value


# --- prelude ----------------------------------------------------------------------------------------------------------


def names(source: str) -> list[str]:
    return [node.name for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]


def test_imports_of_the_problem_are_kept() -> None:
    prompt = 'from typing import List\nimport math\n\n\ndef f(x: List[int]) -> int:\n    """Do it."""\n'
    assert prelude(prompt, "f") == "from typing import List\nimport math"


def test_a_bare_signature_at_the_end_is_left_out() -> None:
    assert prelude("import math\n\ndef f(x):\n", "f") == "import math"


def test_helpers_of_the_problem_are_kept_and_the_entry_point_is_not() -> None:
    prompt = 'def given(x):\n    return x + 1\n\n\ndef f(x):\n    """Use given."""\n'
    assert names(prelude(prompt, "f")) == ["given"]


def test_a_problem_that_does_not_parse_gives_its_imports() -> None:
    prompt = "import math\nPlease write this function:\nfrom typing import List\ndef f(x)\n"
    assert prelude(prompt, "f") == "import math\nfrom typing import List"


def test_prose_that_begins_like_an_import_is_none() -> None:
    prompt = "import the numbers\nfrom a list of words\nimport math\ndef f(x)\n"
    assert prelude(prompt, "f") == "import math"


@pytest.mark.parametrize(("index", "helper"), [(32, "poly"), (38, "encode_cyclic"), (50, "encode_shift")])
def test_helpers_given_by_humaneval_are_kept(index: int, helper: str) -> None:
    item = problems()[index]
    assert names(prelude(item.prompt, item.fields["entry_point"])) == [helper]


# --- reward, by hand --------------------------------------------------------------------------------------------------

ITEM = TaskItem(
    "t",
    'def main(x):\n    """Return twice x, plus one."""\n',
    fields={"entry_point": "main", "test": "def check(c):\n    assert c(0) == 1\n    assert c(2) == 5\n"},
)
AUX = "def aux(x):\n    return 2 * x\n"
GOOD = "def main(x):\n    return aux(x) + 1\n"


def judged(aux: str, main: str, item: TaskItem = ITEM) -> Score:
    return reward.score(item, reward.Program.find(aux, main, item.fields["entry_point"]), coding_base.judge)


def unused(job: Job) -> Verdict:
    raise AssertionError(f"nothing is to be run, not {job}")


HAND = {
    "nothing": ("", "", (0.0, 0.0, 0.0, 0.0)),
    "prose": ("I would rather not.", "Me neither.", (0.0, 0.0, 0.0, 0.0)),
    "only aux": (AUX, "", (0.4, 0.0, 0.0, 0.0)),
    "aux under another name": ("def helper(x):\n    return x\n", "", (0.0, 0.0, 0.0, 0.0)),
    "main without return": (AUX, "def main(x):\n    print(x)\n", (0.4, 0.0, 0.0, 0.0)),
    "main under another name": (AUX, "def solution(x):\n    return x\n", (0.4, 0.0, 0.0, 0.0)),
    "main with a syntax error": (AUX, "def main(x):\n    return (x\n", (1.0, 0.0, 0.0, 0.0)),
    "aux with a syntax error": ("def aux(x):\n    return (x\n", GOOD, (1.0, 0.0, 0.0, 0.0)),
    "no aux, wrong": ("", "def main(x):\n    return x\n", (0.6, 0.5, 0.0, 0.0)),
    "no aux, half right": ("", "def main(x):\n    return 1\n", (0.6, 0.5, 0.5, 0.0)),
    "no aux, right": ("", "def main(x):\n    return 2 * x + 1\n", (0.6, 0.5, 1.0, 0.0)),
    "aux unused, right": (AUX, "def main(x):\n    return 2 * x + 1\n", (1.0, 0.5, 1.0, 0.0)),
    "aux used, right": (AUX, GOOD, (1.0, 0.5, 1.0, 1.5)),
    "aux used, half right": ("def aux(x):\n    return x\n", GOOD, (1.0, 0.5, 0.5, 1.5)),
    "aux used, all wrong": (AUX, "def main(x):\n    return aux(x) - 1\n", (1.0, 0.5, 0.0, 0.0)),
    "aux without return, called": (
        "def aux(x):\n    pass\n",
        "def main(x):\n    y = aux(x)\n    return 2 * x + 1\n",
        (0.6, 0.5, 1.0, 1.5),
    ),
    "wrapper": ("def aux(x):\n    return 2 * x + 1\n", "def main(x):\n    return aux(x)\n", (1.0, 0.5, 1.0, 0.5)),
    "wrapper of two lines": (
        "def aux(x):\n    return 2 * x + 1\n",
        "def main(x):\n    y = aux(x)\n    return y\n",
        (1.0, 0.5, 1.0, 0.5),
    ),
    "dropped": (AUX, "def main(x):\n    aux(x)\n    return 2 * x + 1\n", (1.0, 0.5, 1.0, 1.0)),
    "aux missing but called": ("", GOOD, (0.6, 0.5, 0.0, 0.0)),
    "aux raises": ("def aux(x):\n    return 1 / 0\n", GOOD, (1.0, 0.5, 0.0, 0.0)),
    "loading raises": ("def aux(x=1 / 0):\n    return x\n", "def main(x):\n    return 1\n", (1.0, 0.5, 0.0, 0.0)),
    "fenced": (f"Here:\n```python\n{AUX}```", f"```python\n{GOOD}```\nDone.", (1.0, 0.5, 1.0, 1.5)),
}


@pytest.mark.parametrize(("aux", "main", "values"), HAND.values(), ids=HAND)
def test_reward_by_hand(aux: str, main: str, values: tuple[float, ...]) -> None:
    score = judged(aux, main)
    assert tuple(score.components.values()) == pytest.approx(values)
    assert score.total == pytest.approx(sum(values))


@pytest.mark.parametrize("case", ["nothing", "only aux", "main with a syntax error"])
def test_nothing_is_run_before_the_gates_are_passed(case: str) -> None:
    aux, main, _ = HAND[case]
    assert reward.score(ITEM, reward.Program.find(aux, main, "main"), unused).notes["outcome"] == "not run"


def test_a_helper_of_the_problem_is_in_scope_of_program_and_tests() -> None:
    item = TaskItem(
        "t",
        'def given(x):\n    return x + 1\n\n\ndef main(x):\n    """Use given."""\n',
        fields={"entry_point": "main", "test": "def check(c):\n    assert c(1) == given(1)\n"},
    )
    assert judged(AUX, "def main(x):\n    return given(aux(x)) - x\n", item).total == 4.0


def test_an_import_of_the_problem_is_in_scope() -> None:
    item = dataclasses.replace(ITEM, prompt=f"import math\n\n\n{ITEM.prompt}")
    assert judged(AUX, "def main(x):\n    return math.floor(aux(x)) + 1\n", item).total == 4.0


def test_an_escape_that_python_frowns_on_costs_nothing() -> None:
    assert judged(AUX, 'def main(x):\n    pattern = "\\d"\n    return aux(x) + 1\n').total == 4.0


def test_a_tab_in_a_string_reaches_the_tests() -> None:
    item = dataclasses.replace(
        ITEM, fields={**ITEM.fields, "test": "def check(c):\n    assert c('a\\tb') == ['a', 'b']\n"}
    )
    assert judged("", 'def main(x):\n    return x.split("\t")\n', item).components["tests"] == 1.0


def test_counts_are_diagnostics() -> None:
    assert judged("def aux(x):\n    return x\n", GOOD).diagnostics == {"tests_passed": 1.0, "tests_total": 2.0}


def test_failed_asserts_are_notes() -> None:
    assert "c(2) == 5: assertion failed" in judged("def aux(x):\n    return x\n", GOOD).notes["detail"]


def test_a_judge_that_failed_makes_the_reward_nan() -> None:
    score = reward.score(ITEM, reward.Program(AUX, GOOD), lambda job: Verdict("infra_error"))
    assert math.isnan(score.total)
    assert not score.scorable


@pytest.mark.parametrize("outcome", ["timeout", "died", "load_error", "unsupported"])
def test_what_is_the_programs_fault_is_no_nan(outcome: Any) -> None:
    score = reward.score(ITEM, reward.Program(AUX, GOOD), lambda job: Verdict(outcome, passed=0, total=2))
    assert score.total == 1.5


def test_the_judge_gets_program_tests_and_prelude() -> None:
    jobs: list[Job] = []

    def record(job: Job) -> Verdict:
        jobs.append(job)
        return Verdict("passed", 2, 2)

    item = dataclasses.replace(ITEM, prompt=f"import math\n\n\n{ITEM.prompt}")
    assert reward.score(item, reward.Program(AUX, GOOD), record).total == 4.0
    assert [(j.solution, j.check, j.entry_point, j.prelude) for j in jobs] == [
        (f"{AUX}\n\n{GOOD}", ITEM.fields["test"], "main", "import math")
    ]


# --- the environments -------------------------------------------------------------------------------------------------


def test_golden_pairs(golden: Callable[[str], list[dict[str, Any]]]) -> None:
    env = llm_dec_pomdp.make("humaneval-v0", split="all")
    rows = golden("humaneval")
    assert len(rows) >= 126
    earned: dict[tuple[str, str], float] = {}
    for row in rows:
        env.reset(options={"task_id": row["task_id"]})
        texts = dict(zip(env.agents, row["completions"], strict=True))
        earned[row["task_id"], row["variant"]] = env.step(texts)[1]["agent_0"]
    assert earned == pytest.approx({(row["task_id"], row["variant"]): row["reward"] for row in rows}, abs=1e-6)


def test_infra_error_is_nan_for_everybody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coding_base, "judge", lambda job: Verdict("infra_error"))
    env = llm_dec_pomdp.make("coophumaneval-v0")
    env.reset(seed=0)
    _, rewards, terminations, _, infos = env.step(env.gold(env.item))
    assert [math.isnan(reward) for reward in rewards.values()] == [True, True]
    assert set(terminations.values()) == {False}
    assert math.isnan(infos["agent_0"]["reward/tests"])


@pytest.mark.parametrize("env_id", ["humaneval-v0", "coophumaneval-v0"])
def test_both_agents_see_the_problem(env_id: str) -> None:
    env = llm_dec_pomdp.make(env_id)
    observations, _ = env.reset(seed=0)
    assert all(env.item.prompt.strip() in told for told in observations.values())


@pytest.mark.parametrize("env_id", ["humaneval-v0", "coophumaneval-v0"])
def test_tests_and_references_are_not_shown(env_id: str) -> None:
    env = llm_dec_pomdp.make(env_id)
    observations, _ = env.reset(seed=0)
    for secret in ("def check", env.item.reference[0], env.item.reference[1]):
        assert all(secret not in told for told in observations.values())


def test_aux_is_asked_for_aux_and_main_for_the_entry_point() -> None:
    env = llm_dec_pomdp.make("coophumaneval-v0")
    observations, _ = env.reset(seed=0)
    assert [env.role(agent) for agent in env.agents] == ["aux", "main"]
    assert "helper function named `aux`" in observations["agent_0"]
    assert f"Write the function `{env.item.fields['entry_point']}`" in observations["agent_1"]
    assert "do not define it yourself" in observations["agent_1"]


def test_main_does_not_see_the_code_of_aux_at_the_next_turn() -> None:
    env = llm_dec_pomdp.make("coophumaneval-v0", max_turns=2)
    env.reset(seed=0)
    observations = env.step({"agent_0": "def aux(x):\n    return 'canary'\n", "agent_1": "nothing"})[0]
    assert "canary" not in observations["agent_1"]


def test_one_module_holds_both_parts() -> None:
    env = llm_dec_pomdp.make("coophumaneval-v0")
    env.reset(seed=0)
    whole = env.join_texts(env.item.reference)
    texts = dict(zip(env.agents, env.split_joint_text(whole), strict=True))
    assert env.step(texts)[1]["agent_0"] == 4.0


def test_many_programs_are_judged_at_once_with_the_same_result() -> None:
    envs = [llm_dec_pomdp.make("coophumaneval-v0") for _ in range(6)]
    for index, env in enumerate(envs):
        env.reset(options={"index": index})
    actions = [env.gold(env.item) if index % 2 else {"agent_0": AUX, "agent_1": ""} for index, env in enumerate(envs)]
    steps = llm_dec_pomdp.envs.step_many(envs, actions)
    assert [step[1]["agent_0"] for step in steps] == pytest.approx([0.4, 4.0] * 3)
