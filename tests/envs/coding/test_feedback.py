"""What programmers are told between turns: content by mode and level, and that it never holds the other's code."""

from __future__ import annotations

import json
import pickle
from itertools import pairwise
from typing import Any

import pytest

import llm_dec_pomdp
from llm_dec_pomdp.envs.coding import feedback as coding_feedback
from llm_dec_pomdp.types import TaskItem

ITEM = TaskItem(
    "t",
    'def main(x):\n    """Return twice x, plus one."""\n',
    fields={
        "entry_point": "main",
        "test": "def check(c):\n" + "".join(f"    assert c({x}) == {2 * x + 1}\n" for x in (0, 2, 3, 9)),
    },
)
AUX = "def aux(x):\n    return 2 * x\n"
MAIN = "def main(x):\n    return aux(x) + 1\n"
ALONE = "def main(x):\n    return 2 * x + 1\n"
HALF = "def aux(x):\n    return 2 * x if x < 3 else 1 // 0\n"  # two of the four asserts hold
BROKEN = "def aux(x):\n    y = 1\n    return (x\n"
CODE_MODES = [mode for mode in coding_feedback.MODES if mode != "expert"]


def code_env(feedback: str = "level_feedback", *, max_turns: int = 2, **kwargs: Any) -> Any:
    env = llm_dec_pomdp.make(
        "humaneval-v0", tasks=[ITEM], split="all", max_turns=max_turns, feedback=feedback, **kwargs
    )
    env.reset(options={"index": 0})
    return env


def feedback_of(aux: str, main: str, feedback: str = "level_feedback", **kwargs: Any) -> tuple[str, str]:
    """What aux and main are told after they wrote this."""
    observations = code_env(feedback, **kwargs).step({"agent_0": aux, "agent_1": main})[0]
    return observations["agent_0"], observations["agent_1"]


def lines(message: str) -> list[str]:
    return [line[2:] for line in message.splitlines() if line.startswith("- ")]


# --- code: the modes --------------------------------------------------------------------------------------------------


def test_none_only_asks_again() -> None:
    assert feedback_of(AUX, "", "none") == (
        "Write the complete new version of `aux`. Write only the function.",
        "Write the complete new version of `main`. Write only the function.",
    )


@pytest.mark.parametrize("mode", CODE_MODES)
def test_every_mode_ends_with_the_request(mode: str) -> None:
    for name, message in zip(("aux", "main"), feedback_of(HALF, MAIN, mode), strict=True):
        assert message.endswith(f"Write the complete new version of `{name}`. Write only the function.")


def test_plain_shows_the_own_function_as_it_was_understood_or_says_that_there_is_none() -> None:
    aux, main = feedback_of(f"Sure:\n```python\n{HALF}```\nThat is it.", MAIN, "plain")
    assert f"Your function so far:\n\n{HALF}" in aux
    assert f"Your function so far:\n\n{MAIN}" in main
    assert "That is it" not in aux
    aux, main = feedback_of("no idea", "def other(x):\n    return x\n", "plain")
    assert aux.startswith("Your answer held no function `aux`.")
    assert main.startswith("Your answer held no function `main`.")


@pytest.mark.parametrize(
    ("aux", "main", "line"),
    [
        (AUX, ALONE, "All tests passed."),
        (HALF, MAIN, "Not all tests passed."),
        ("", "", "Not all tests passed."),
        (BROKEN, MAIN, "Not all tests passed."),
    ],
    ids=["solved alone", "half", "nothing", "syntax error"],
)
def test_passed_is_one_line(aux: str, main: str, line: str) -> None:
    assert [message.splitlines()[0] for message in feedback_of(aux, main, "passed")] == [line, line]
    assert all(
        len(message.splitlines()) == 3 for message in feedback_of(aux, main, "passed")
    )  # a blank one and the request


LEVELS: dict[str, tuple[str, str, list[str], list[str]]] = {
    "nothing": ("", "", ["definition: failed"], ["definition: failed"]),
    "no return": (
        "def aux(x):\n    pass\n",
        MAIN,
        ["definition: failed"],
        ["definition: passed", "syntax: passed", "tests: 0 of 4 passed", "helper: used"],
    ),
    "syntax error": (BROKEN, MAIN, ["definition: passed", "syntax: failed"], ["definition: passed", "syntax: failed"]),
    "two of four": (
        HALF,
        MAIN,
        ["definition: passed", "syntax: passed", "tests: 2 of 4 passed"],
        ["definition: passed", "syntax: passed", "tests: 2 of 4 passed", "helper: used"],
    ),
    "helper not used": (
        AUX,
        ALONE,
        ["definition: passed", "syntax: passed", "tests: 4 of 4 passed"],
        ["definition: passed", "syntax: passed", "tests: 4 of 4 passed", "helper: not used"],
    ),
}


@pytest.mark.parametrize(("aux", "main", "to_aux", "to_main"), LEVELS.values(), ids=LEVELS)
def test_level_passed_names_levels_without_reasons(aux: str, main: str, to_aux: list[str], to_main: list[str]) -> None:
    assert [lines(message) for message in feedback_of(aux, main, "level_passed")] == [to_aux, to_main]


# --- code: reasons ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "your answer holds no function `aux`"),
        ("def helper(x):\n    return x\n", "your answer holds no function `aux`"),
        ("def aux(x):\n    print(x)\n", "your answer holds a function `aux` without a return"),
    ],
)
def test_a_missing_definition_of_aux(text: str, reason: str) -> None:
    assert lines(feedback_of(text, MAIN)[0]) == [f"definition: failed, {reason}"]


def test_an_entry_point_that_is_missing_or_has_no_return_is_reported_to_main_and_leaves_aux_untried() -> None:
    aux, main = feedback_of(AUX, "def solution(x):\n    return x\n")
    assert lines(aux) == ["definition: passed", "syntax: not tried, the entry point is missing"]
    assert lines(main) == ["definition: failed, your answer holds no function `main`"]
    aux, _ = feedback_of(AUX, "def main(x):\n    print(aux(x))\n")
    assert lines(aux) == ["definition: passed", "syntax: not tried, the entry point has no return"]
    _, main = feedback_of(AUX, "def main(x):\n    print(x)\n")
    assert lines(main) == ["definition: failed, your answer holds a function `main` without a return"]


@pytest.mark.parametrize(
    ("aux", "main", "author", "line"), [(BROKEN, MAIN, 0, 3), (AUX, "def main(x):\n    return aux(x) +\n", 1, 2)]
)
def test_a_syntax_error_is_reported_with_its_line_to_its_author(aux: str, main: str, author: int, line: int) -> None:
    messages = feedback_of(aux, main)
    assert lines(messages[author])[1].startswith(f"syntax: failed, line {line}: ")
    assert lines(messages[1 - author])[1:] == ["syntax: failed in the other function; yours parses"]


def test_a_failed_assert_is_reported_with_its_exception_if_any() -> None:
    for message in feedback_of(HALF, MAIN):
        assert "tests: 2 of 4 passed" in lines(message)
        assert any(line.startswith("failed: c(3) == 7: ZeroDivisionError: ") for line in lines(message))
    assert "failed: c(2) == 5: assertion failed" in lines(feedback_of("def aux(x):\n    return x\n", MAIN)[0])


@pytest.mark.parametrize(
    ("main", "line"),
    [
        (ALONE, "helper: not used, call `aux(...)` where it helps"),
        (
            "def main(x):\n    return aux(x)\n",
            "helper: used, but your function only hands its result on; do a part of the work yourself",
        ),
        (
            "def main(x):\n    y = aux(x)\n    return y\n",
            "helper: used, but your function only hands its result on; do a part of the work yourself",
        ),
        ("def main(x):\n    aux(x)\n    return x\n", "helper: used, but the value of a call is dropped"),
        ("def main(x):\n    return aux(x) - 1\n", "helper: used"),
    ],
    ids=["not used", "wrapper", "wrapper of two lines", "dropped", "used"],
)
def test_only_main_observes_how_the_helper_is_used(main: str, line: str) -> None:
    to_aux, to_main = feedback_of(AUX, main)
    assert lines(to_main)[-1] == line
    assert not [line for line in lines(to_aux) if line.startswith("helper")]


@pytest.mark.parametrize(
    "body",
    ["x" + " + 1" * 2_000, "x" + ".real" * 2_000, f"x + 0x{'f' * 40_000}"],
    ids=["a long sum", "a long chain", "a long number"],
)
def test_code_that_python_can_hardly_print_is_no_obstacle(body: str) -> None:
    for message in feedback_of(f"def aux(x):\n    return {body}\n", MAIN):
        assert any(line.startswith("failed: c(") for line in lines(message))


@pytest.mark.parametrize("shown", [0, 1, 3, 10])
def test_feedback_tests_bounds_the_asserts_that_are_revealed(shown: int) -> None:
    for message in feedback_of("def aux(x):\n    return 7.5\n", MAIN, feedback_tests=shown):
        failures = [line for line in lines(message) if line.startswith("failed: ")]
        assert len(failures) == min(shown, 4)
        assert sum(f"c({x})" in message for x in (0, 2, 3, 9)) == min(shown, 4)


@pytest.mark.parametrize("mode", [mode for mode in CODE_MODES if mode != "level_feedback"])
def test_other_modes_reveal_no_assert(mode: str) -> None:
    for message in feedback_of(HALF, MAIN, mode, feedback_tests=10):
        assert "c(" not in message
        assert "ZeroDivisionError" not in message


# --- code: nobody reads the other's code ------------------------------------------------------------------------------

BIRD = "kestrel"
LEAKS = {
    "comment": "    # kestrel\n    return x\n",
    "docstring": '    """A kestrel."""\n    return x\n',
    "docstring raised": '    """A kestrel."""\n    raise ValueError({name}.__doc__)\n    return x\n',
    "message": '    raise ValueError("the kestrel flies")\n    return x\n',
    "formatted message": '    raise ValueError(f"kestrel {x} kestrel")\n    return x\n',
    "message over lines": '    raise ValueError("""kestrel\n   and   kestrel""")\n    return x\n',
    "escaped message": '    raise KeyError("a\\nkestrel\'s \\"nest\\"")\n    return x\n',
    "message that is cut": '    raise ValueError("falcon " * 27 + "kestrels")\n    return x\n',
    "one long word": f'    raise ValueError("{"kestrel" * 60}")\n    return x\n',
    "bytes": '    raise ValueError(b"kestrel")\n    return x\n',
    "key": '    return {}["kestrel"]\n',
    "assert": '    assert x is None, "kestrel"\n    return x\n',
    "undefined name": "    return kestrel\n",
    "unbound name": "    if x is None:\n        kestrel = 1\n    return kestrel\n",
    "attribute": "    return x.kestrel\n",
    "import": "    import kestrel\n    return x\n",
    "exception class": "    class kestrel(Exception):\n        pass\n    raise kestrel(x)\n    return x\n",
    "inner function": "    def kestrel():\n        return 1\n    return kestrel(x)\n",
    "keyword": "    return int(x, kestrel=1)\n",
}


@pytest.mark.every(2)
@pytest.mark.parametrize("author", ["aux", "main"])
@pytest.mark.parametrize("body", LEAKS.values(), ids=LEAKS)
def test_a_message_holds_no_word_of_the_others_code(author: str, body: str) -> None:
    texts = {"aux": AUX, "main": MAIN} | {author: f"def {author}(x):\n" + body.replace("{name}", author)}
    reader = "main" if author == "aux" else "aux"
    for mode in CODE_MODES:
        messages = dict(
            zip(("aux", "main"), feedback_of(texts["aux"], texts["main"], mode, feedback_tests=9), strict=True)
        )
        assert BIRD not in messages[reader], mode
        assert "kest" not in messages[reader], mode


def test_the_name_of_a_missing_argument_is_not_told() -> None:
    aux, main = feedback_of("def aux(x, kestrel):\n    return x\n", MAIN)
    assert "missing 1 required positional argument" in main
    assert BIRD not in main
    assert BIRD in feedback_of("def aux(x):\n    return x\n", "def main(x):\n    return x.kestrel + aux(x)\n")[1]
    assert aux  # it is asked again


def test_an_error_while_loading_does_not_tell_the_others_names() -> None:
    assert BIRD not in feedback_of("def aux(x=kestrel):\n    return x\n", MAIN)[1]


def test_words_of_the_own_code_are_not_hidden() -> None:
    aux = 'def aux(x):\n    raise ValueError("twice kestrel")\n    return x\n'
    main = 'def main(x):\n    note = "kestrel"\n    return aux(x) + 1\n'
    assert "failed: c(0) == 1: ValueError: twice kestrel" in lines(feedback_of(aux, main)[1])


@pytest.mark.parametrize("mode", CODE_MODES)
def test_a_text_around_the_function_reaches_nobody_else(mode: str) -> None:
    aux, main = feedback_of(f"kestrel\n{HALF}", f"{MAIN}\nfalcon", mode)
    assert BIRD not in main
    assert "falcon" not in aux


# --- code: the length of a history ------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", CODE_MODES)
def test_histories_grow_by_the_same_amount_each_turn(mode: str) -> None:
    env = code_env(mode, max_turns=7)
    sizes = {agent: [len("".join(m.text for m in env.history(agent)))] for agent in env.possible_agents}
    for _ in range(6):
        env.step({"agent_0": HALF, "agent_1": MAIN})
        for agent, found in sizes.items():
            found.append(len("".join(m.text for m in env.history(agent))))
    for found in sizes.values():
        increments = {after - before for before, after in pairwise(found)}
        assert len(increments) == 1, found
        assert increments.pop() < 500


def test_feedback_is_about_the_last_turn_alone() -> None:
    env = code_env(max_turns=4)
    first = env.step({"agent_0": HALF, "agent_1": MAIN})[0]
    env.step({"agent_0": "", "agent_1": ""})
    assert env.step({"agent_0": HALF, "agent_1": MAIN})[0] == first


# --- code: which modes there are --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "nearest"),
    [("level_feedbak", "level_feedback"), ("experts", "expert"), ("pass", "passed"), ("plan", "plain")],
)
def test_an_unknown_mode_is_answered_with_the_nearest(mode: str, nearest: str) -> None:
    with pytest.raises(ValueError, match=rf"feedback '{mode}' does not exist; .*{nearest}"):
        code_env(mode)


def test_an_expert_needs_its_mode_and_the_mode_an_expert() -> None:
    with pytest.raises(ValueError, match="feedback is 'expert' and expert is None"):
        code_env("expert")
    with pytest.raises(ValueError, match="feedback is 'level_feedback' and expert is <function"):
        code_env("level_feedback", expert=reviewer)


def reviewer(prompt: str, number: int) -> str:
    return json.dumps({"aux": "def aux(x):\n    return 2 * x\n", "main": ""})


def test_an_environment_with_an_expert_can_be_pickled_and_forked() -> None:
    env = code_env("expert", expert=reviewer)
    copies = [env, pickle.loads(pickle.dumps(env)), env.fork()]
    heard = [copy.step({"agent_0": HALF, "agent_1": MAIN})[0] for copy in copies]
    assert heard[0] == heard[1] == heard[2]
    assert "A reviewer suggests for `aux`" in heard[0]["agent_0"]
    assert "The reviewer suggests no change." in heard[0]["agent_1"]
