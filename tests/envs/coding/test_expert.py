"""The outside reviewer: what it reads, what agents read of its answers, and that no answer stops an episode."""

from __future__ import annotations

import json
import pickle
import threading
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
    """An expert that gives or raises these answers in turn, the last one from then on, and the numbers of its tries."""
    numbers: list[int] = []

    def expert(prompt: str, number: int) -> Any:
        numbers.append(number)
        answer = answers[min(number, len(answers) - 1)]
        if isinstance(answer, Exception):
            raise answer
        return answer

    return expert, numbers


def next_turn(expert: Any, program: Program = PROGRAM, **kwargs: Any) -> tuple[Any, dict[str, str]]:
    """The environment after a first turn, and its observations."""
    env = llm_dec_pomdp.make(
        "humaneval-v0", tasks=[ITEM], split="all", max_turns=3, feedback="expert", expert=expert, **kwargs
    )
    env.reset(options={"index": 0})
    return env, env.step({"agent_0": program.aux, "agent_1": program.main})[0]


def is_scored(env: Any) -> bool:
    """Whether the next turn is scored as if no reviewer had answered."""
    env.step({"agent_0": BETTER, "agent_1": PROGRAM.main})
    return env.last_score.total == 4.0


@pytest.mark.parametrize(
    ("options", "error", "named"),
    [
        ({"feedback": "expert", "expert": "gpt"}, TypeError, "str"),
        ({"feedback": "expert", "expert": Remote("http://localhost:1/v1", "m")}, TypeError, "Remote"),
        ({"feedback": "expert", "expert": str, "expert_seconds": 0}, ValueError, "0"),
        ({"feedback": "expert"}, ValueError, "None"),
        ({"feedback": "level_feedback", "expert": str}, ValueError, "'level_feedback'"),
    ],
)
def test_an_expert_that_cannot_be_asked_is_refused(options: Any, error: type[Exception], named: str) -> None:
    with pytest.raises(error, match=named):
        llm_dec_pomdp.make("humaneval-v0", **options)


@pytest.mark.parametrize(
    "answer",
    [
        f"Here is my review. Both need work.\n\n```json\n{EDITS}\n```\nGood luck!",
        f'The set {{1, 2}}, then {{}} and {{"verdict": "bad"}}, then {EDITS}',
        json.dumps({"comment": "fine", "aux": BETTER, "main": BETTER_MAIN}, indent=2),
        f"{EDITS} {json.dumps({'aux': 'a second thought'})}",
        "{" * 3000 + EDITS,
    ],
    ids=["fence", "braces and objects before", "more keys", "two answers", "many braces"],
)
def test_edits_are_found_in_an_answer(answer: str) -> None:
    expert, numbers = answering(answer)
    assert ask(expert) == {"aux": BETTER, "main": BETTER_MAIN}
    assert numbers == [0]


def test_only_text_is_an_edit() -> None:
    assert ask(answering(json.dumps({"aux": [BETTER], "main": BETTER_MAIN}))[0]) == {"main": BETTER_MAIN}


USELESS: dict[str, Any] = {
    "prose": "I would write it differently.",
    "half an object": EDITS[:-1],
    "wrong values": '{"aux": 5, "main": null}',
    "no text": None,
    "an object, not text": {"aux": BETTER},
    "raised": RecursionError(),
}


@pytest.mark.parametrize("answer", USELESS.values(), ids=USELESS)
def test_a_useless_answer_is_asked_for_three_times_and_never_stops_an_episode(answer: Any) -> None:
    expert, numbers = answering(answer, answer, EDITS)
    assert ask(expert) == {"aux": BETTER, "main": BETTER_MAIN}
    assert numbers == list(range(EXPERT_TRIES)) == [0, 1, 2]
    env, observations = next_turn(answering(answer)[0])
    assert all(message.startswith(NO_CHANGE) for message in observations.values())
    assert is_scored(env)


def test_each_agent_reads_its_own_edit_until_the_problem_is_solved() -> None:
    expert, numbers = answering(EDITS)
    env, observations = next_turn(expert)
    assert observations["agent_0"].startswith(f"A reviewer suggests for `aux`:\n\n{BETTER.strip()}\n\n")
    assert observations["agent_1"].startswith(f"A reviewer suggests for `main`:\n\n{BETTER_MAIN.strip()}\n\n")
    assert "# better" not in observations["agent_0"]
    assert "2 * x" not in observations["agent_1"]
    assert is_scored(env) and numbers == [0]  # a solved problem is not reviewed


@pytest.mark.parametrize("program", [PROGRAM, Program("", ""), Program("def aux(x):\n    return (x\n", PROGRAM.main)])
def test_the_prompt_has_the_problem_and_both_functions_and_no_test(program: Program) -> None:
    prompts: list[str] = []

    def expert(prompt: str, number: int) -> str:
        prompts.append(prompt)
        return "babble"

    next_turn(expert, program)
    assert len(prompts) == EXPERT_TRIES
    for prompt in prompts:
        assert ITEM.prompt.strip() in prompt
        assert (program.aux or "(nothing usable)") in prompt and (program.main or "(nothing usable)") in prompt
        assert not any(secret in prompt for secret in (CANARY, "def check", "assert", "41", "83"))


def test_the_number_of_the_try_seeds_a_policy_as_reviewer() -> None:
    policy = Recorder(text="babble")
    next_turn(Expert(policy, Sampling(temperature=0.25, max_new_tokens=5)))
    requests = [request for call in policy.calls for request in call]
    assert [request.seeds for request in requests] == [(0,), (1,), (2,)]
    assert {request.agent for request in requests} == {"expert"}
    assert set(policy.samplings) == {Sampling(temperature=0.25, max_new_tokens=5)}


def test_an_environment_with_a_remote_reviewer_can_be_pickled() -> None:
    env = llm_dec_pomdp.make("humaneval-v0", feedback="expert", expert=Expert(Remote("http://localhost:1/v1", "m")))
    assert pickle.loads(pickle.dumps(env)).feedback == "expert"


def test_a_remote_reviewer_has_three_tries(server: Server) -> None:
    answers = [reply("I am not sure."), (500, b""), reply(EDITS)]
    server.answer = lambda body, number: answers[min(number, 2)]
    _, observations = next_turn(Expert(Remote(server.url, "reviewer", tries=1, timeout=20)))
    assert observations["agent_1"].startswith(f"A reviewer suggests for `main`:\n\n{BETTER_MAIN.strip()}")


def test_an_expert_is_waited_for_no_longer_than_allowed() -> None:
    done = threading.Event()

    def late(prompt: str, number: int) -> str:
        done.wait(timeout=30)
        return EDITS

    try:
        env, observations = next_turn(late, expert_seconds=0.3)
        assert all(message.startswith(NO_CHANGE) for message in observations.values())
        assert is_scored(env)
    finally:
        done.set()
