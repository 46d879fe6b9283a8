"""The outside reviewer: what it is shown, what of its answers is told, and that it never costs an episode."""

from __future__ import annotations

import json
import pickle
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from models import Recorder
from servers import Server, reply

import llm_dec_pomdp
from llm_dec_pomdp.agents import Expert, Remote, Sampling
from llm_dec_pomdp.envs.coding.feedback import EXPERT_TRIES, ask_expert
from llm_dec_pomdp.envs.coding.reward import Program
from llm_dec_pomdp.types import TaskItem

pytestmark = pytest.mark.filterwarnings("ignore:no feedback from the reviewer")
CANARY = "kestrel"
ITEM = TaskItem(
    "t",
    'def main(x):\n    """Return twice x, plus one."""\n',
    reference=(f"def aux(x):\n    return '{CANARY}'\n", f"def main(x):\n    return '{CANARY}'\n"),
    fields={
        "entry_point": "main",
        "test": f"def check(c):\n    assert c(0) == 1\n    assert c(41) == 83, '{CANARY}'\n",
    },
)
PROGRAM = Program("def aux(x):\n    return x\n", "def main(x):\n    return aux(x) + 1\n")
BETTER = "def aux(x):\n    return 2 * x\n"
BETTER_MAIN = "def main(x):\n    return aux(x) + 1  # better\n"
EDITS = json.dumps({"aux": BETTER, "main": BETTER_MAIN})
NO_CHANGE = "The reviewer suggests no change."


def ask(expert: Callable[[str, int], Any], seconds: float = 30.0) -> dict[str, str]:
    return ask_expert(expert, ITEM, PROGRAM, seconds)


def answering(*answers: Any) -> tuple[Callable[[str, int], Any], list[int]]:
    """An expert that gives or raises these answers in turn, the last one for ever, and the numbers of its tries."""
    numbers: list[int] = []

    def expert(prompt: str, number: int) -> Any:
        numbers.append(number)
        answer = answers[min(number, len(answers) - 1)]
        if isinstance(answer, Exception):
            raise answer
        return answer

    return expert, numbers


def next_turn(expert: Any, program: Program = PROGRAM, **kwargs: Any) -> tuple[Any, dict[str, str]]:
    """The environment after a first turn, and what was told."""
    env = llm_dec_pomdp.make(
        "humaneval-v0", tasks=[ITEM], split="all", max_turns=3, feedback="expert", expert=expert, **kwargs
    )
    env.reset(options={"index": 0})
    return env, env.step({"agent_0": program.aux, "agent_1": program.main})[0]


def goes_on(env: Any) -> bool:
    """The next turn is scored as if nothing had happened."""
    env.step({"agent_0": BETTER, "agent_1": PROGRAM.main})
    return env.last_score.total == 4.0


def is_waited_for(expert: Any, seconds: float) -> None:
    """An expert that does not answer is waited for so long and no longer, and the episode goes on."""
    started = time.perf_counter()
    env, observations = next_turn(expert, expert_seconds=seconds)
    assert seconds <= time.perf_counter() - started < 10
    assert all(message.startswith(NO_CHANGE) for message in observations.values())
    assert goes_on(env)


# --- what is said when nothing comes ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expert", "why"),
    [
        (lambda prompt, number: "well done!", "3 tries, .*it said 'well done!', which holds no JSON object"),
        (lambda prompt: EDITS, "3 tries, .*it raised TypeError: .*takes 1 positional argument but 2 were given"),
        (lambda prompt, number: time.sleep(5), "0 tries, 0.1 s at most: it did not answer in time"),
    ],
)
def test_a_reviewer_that_gives_no_feedback_is_warned_about(expert: Any, why: str) -> None:
    with pytest.warns(UserWarning, match=f"no feedback from the reviewer in {why}"):
        ask(expert, seconds=0.1)


@pytest.mark.parametrize(
    ("expert", "seconds", "error", "message"),
    [
        ("gpt", 1, TypeError, r"expert is a .*; put a policy into agents\.Expert, or give a function"),
        (Remote("http://localhost:1/v1", "m"), 1, TypeError, r"expert is a .*; put a policy into agents\.Expert"),
        (answering(EDITS)[0], 0, ValueError, r"expert_seconds is 0; it is a time in seconds, above 0"),
        (answering(EDITS)[0], -5.0, ValueError, r"expert_seconds is -5\.0; it is a time in seconds, above 0"),
    ],
)
def test_no_callable_reviewer_and_no_time_are_refused(
    expert: Any, seconds: float, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        next_turn(expert, expert_seconds=seconds)


# --- answers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        EDITS,
        f"Here is my review. Both need work.\n\n{EDITS}\n\nGood luck!",
        f"```json\n{EDITS}\n```",
        f"The set {{1, 2}} and {{x}} aside:\n```\n{EDITS}\n```",
        f'First {{}} and {{"verdict": "bad"}}, then {EDITS}',
        json.dumps({"comment": "fine", "aux": BETTER, "main": BETTER_MAIN}, indent=2),
        f"{EDITS} {json.dumps({'aux': 'a second thought'})}",
        "{" * 3000 + EDITS,
    ],
    ids=["bare", "prose", "fence", "braces before", "objects before", "more keys", "two answers", "many braces"],
)
def test_edits_are_found_in_an_answer(answer: str) -> None:
    expert, numbers = answering(answer)
    assert ask(expert) == {"aux": BETTER, "main": BETTER_MAIN}
    assert numbers == [0]


@pytest.mark.parametrize(
    ("answer", "edits"),
    [
        ({"main": BETTER_MAIN}, {"main": BETTER_MAIN}),
        ({"aux": BETTER, "main": ""}, {"aux": BETTER, "main": ""}),
        ({"aux": BETTER, "main": None}, {"aux": BETTER}),
        ({"aux": [BETTER], "main": BETTER_MAIN}, {"main": BETTER_MAIN}),
    ],
)
def test_only_text_is_an_edit(answer: dict[str, Any], edits: dict[str, str]) -> None:
    assert ask(answering(json.dumps(answer))[0]) == edits


USELESS: dict[str, Any] = {
    "prose": "I would write it differently.",
    "empty": "",
    "half an object": EDITS[:-1],
    "other keys": '{"helper": "def aux(x): return x"}',
    "wrong values": '{"aux": 5, "main": null}',
    "a list": f"[{json.dumps(BETTER)}]",
    "a number": "7",
    "no text": None,
    "an object, not text": {"aux": BETTER},
    "bytes": EDITS.encode(),
    "an integer": 3,
}


@pytest.mark.parametrize("answer", [*USELESS.values(), RuntimeError("out of memory")], ids=[*USELESS, "raised"])
def test_a_useless_answer_is_asked_for_three_times_and_the_last_may_help(answer: Any) -> None:
    for last, edits in ((answer, {}), (EDITS, {"aux": BETTER, "main": BETTER_MAIN})):
        expert, numbers = answering(answer, answer, last)
        assert ask(expert) == edits
        assert numbers == list(range(EXPERT_TRIES)) == [0, 1, 2]


# --- what the agents are told -----------------------------------------------------------------------------------------


def test_each_agent_is_told_its_own_edit() -> None:
    started = time.perf_counter()
    _, observations = next_turn(answering(EDITS)[0], expert_seconds=60)
    assert time.perf_counter() - started < 10  # an answer in time is not waited out
    assert observations["agent_0"].startswith(f"A reviewer suggests for `aux`:\n\n{BETTER.strip()}\n\n")
    assert observations["agent_1"].startswith(f"A reviewer suggests for `main`:\n\n{BETTER_MAIN.strip()}\n\n")
    assert "# better" not in observations["agent_0"]
    assert "2 * x" not in observations["agent_1"]


@pytest.mark.parametrize(
    "answer", ["prose", RuntimeError("no"), KeyError("no"), MemoryError(), RecursionError(), OSError("gone")]
)
def test_an_episode_survives_an_expert_that_is_useless_or_raises(answer: Any) -> None:
    env, observations = next_turn(answering(answer)[0])
    assert all(
        message.startswith(f"{NO_CHANGE}\n\nWrite the complete new version") for message in observations.values()
    )
    assert goes_on(env)


def test_a_solved_problem_is_not_reviewed() -> None:
    expert, numbers = answering(EDITS)
    env, _ = next_turn(expert)
    asked = len(numbers)
    assert goes_on(env)
    assert len(numbers) == asked == 1


# --- what the reviewer is shown ---------------------------------------------------------------------------------------


def prompts_for(program: Program) -> list[str]:
    """Every prompt that an expert who never helps is given."""
    prompts: list[str] = []

    def expert(prompt: str, number: int) -> str:
        prompts.append(prompt)
        return "babble"

    env, _ = next_turn(expert, program)
    env.step({"agent_0": program.aux, "agent_1": program.main})
    return prompts


def test_the_prompt_holds_the_problem_and_both_functions() -> None:
    prompts = prompts_for(PROGRAM)
    assert len(prompts) == 2 * EXPERT_TRIES  # two turns are followed by another
    assert all(prompt.count("(nothing usable)") == 2 for prompt in prompts_for(Program("", "")))
    for prompt in prompts:
        assert ITEM.prompt.strip() in prompt
        assert PROGRAM.aux in prompt
        assert PROGRAM.main in prompt
        assert '{"aux": "...", "main": "..."}' in prompt


@pytest.mark.parametrize("program", [PROGRAM, Program("", ""), Program("def aux(x):\n    return (x\n", PROGRAM.main)])
def test_the_prompt_never_holds_tests_or_references(program: Program) -> None:
    for prompt in prompts_for(program):
        for secret in (CANARY, "def check", "assert", "41", "83"):
            assert secret not in prompt


# --- policies as reviewers --------------------------------------------------------------------------------------------


def test_the_number_of_the_try_seeds_the_draw() -> None:
    policy = Recorder(text="babble")
    next_turn(Expert(policy, Sampling(temperature=0.25, max_new_tokens=5)))
    requests = [request for call in policy.calls for request in call]
    assert [request.seeds for request in requests] == [(0,), (1,), (2,)]
    assert {request.agent for request in requests} == {"expert"}
    assert len({request.history for request in requests}) == 1
    assert set(policy.samplings) == {Sampling(temperature=0.25, max_new_tokens=5)}


def test_an_environment_with_a_remote_reviewer_can_be_pickled() -> None:
    env = llm_dec_pomdp.make("humaneval-v0", feedback="expert", expert=Expert(Remote("http://localhost:1/v1", "m")))
    assert pickle.loads(pickle.dumps(env)).feedback == "expert"


# --- a reviewer behind a server ---------------------------------------------------------------------------------------


def remote(url: str) -> Expert:
    return Expert(Remote(url, "reviewer", tries=1, timeout=20))


def test_a_remote_reviewer_has_three_tries(server: Server) -> None:
    answers = [reply("I am not sure."), (500, b""), reply(EDITS)]
    server.answer = lambda body, number: answers[min(number, 2)]
    _, observations = next_turn(remote(server.url))
    assert observations["agent_1"].startswith(f"A reviewer suggests for `main`:\n\n{BETTER_MAIN.strip()}")


@pytest.mark.parametrize("far", [False, True], ids=["a function", "a server"])
def test_an_expert_is_waited_for_no_longer_than_allowed(far: bool, server: Server) -> None:
    done = threading.Event()

    def late(*asked: Any) -> str:
        done.wait(timeout=30)
        return EDITS

    server.answer = lambda body, number: reply(late())
    try:
        is_waited_for(remote(server.url) if far else late, 0.3)
    finally:
        done.set()
