"""What a user may get wrong in Python: every error has the right class and names the thing and its value."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import llm_dec_pomdp
from llm_dec_pomdp.agents.io.models import ModelError
from llm_dec_pomdp.config import ConfigError
from llm_dec_pomdp.registries import UnknownNameError


def tldr() -> Any:
    return llm_dec_pomdp.make("tldr-v0")


def tiger() -> Any:
    return llm_dec_pomdp.make("dectiger-v0")


def team() -> Any:
    return llm_dec_pomdp.load_team(tiger(), "builtin:table")


def rows(tasks: Any) -> Any:
    return llm_dec_pomdp.make("tldr-v0", tasks=tasks)


def members(given: Any) -> Any:
    return llm_dec_pomdp.load_team(tiger(), given)


def stepped(actions: dict[str, str]) -> None:
    env = tldr()
    env.reset(seed=0)
    env.step(actions)


def of_file(name: str) -> Callable[[], object]:
    def read() -> object:
        Path(name).write_text("id,prompt\n1,a post\n", encoding="utf-8")
        return llm_dec_pomdp.make("tldr-v0", tasks=name)

    return read


CASES: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "no id": (lambda: llm_dec_pomdp.make(None), TypeError, "env_id is None"),  # type: ignore[arg-type]
    "an id for an environment": (lambda: llm_dec_pomdp.load_team("tldr-v0"), TypeError, "env is 'tldr-v0'"),  # type: ignore[arg-type]
    "swapped in train": (lambda: llm_dec_pomdp.train(tiger(), team()), TypeError, "train.team, env"),
    "swapped in evaluate": (lambda: llm_dec_pomdp.evaluate(tiger(), team()), TypeError, "evaluate.policy, env"),
    "no tasks": (lambda: llm_dec_pomdp.evaluate(team(), tiger(), items=0), ValueError, "items = 0"),
    "no episodes": (lambda: llm_dec_pomdp.collect(team(), tiger(), samples=0), ValueError, "samples = 0"),
    "a text for all": (lambda: team().act("hello"), TypeError, "observations is 'hello'"),
    "an option of Gymnasium": (lambda: tldr().reset(options={"task": "a"}), UnknownNameError, "'task'.*task_id"),
    "roles": (lambda: stepped({"summary": "a", "elaboration": "b"}), UnknownNameError, "summary is .agent_0."),
    "lr": (lambda: llm_dec_pomdp.train(team(), tiger(), lr=1.0), ValueError, "did you mean learning_rate"),
    "a table of rows": (of_file("x.csv"), ValueError, r"x\.csv.*\.jsonl.*pandas"),
    "a row without a prompt": (lambda: rows([{"post": "x"}]), ValueError, "row 1.*'prompt'.*'post'"),
    "a row in place of rows": (lambda: rows({"id": "a"}), ValueError, "'id'"),
    "a number of rows": (lambda: rows(7), ValueError, "tasks is 7"),
    "a text in place of a row": (lambda: rows(["a text"]), ValueError, "row 1"),
    "no rows": (lambda: rows([]), ValueError, "no rows"),
    "members of no role": (lambda: members({"explorer 7": "builtin:table"}), ModelError, "'explorer 7'"),
    "too few members": (lambda: members({"explorer 1": "builtin:table"}), ModelError, "explorer 2|agent_1"),
    "an option of a member": (lambda: members({"explorer 1": {"sharin": "lora"}}), ConfigError, "sharin"),
    "members in a list": (lambda: members(["builtin:table"]), ConfigError, "builtin:table"),
    "a learner that does not learn": (lambda: llm_dec_pomdp.train(team(), tiger(), "single"), ConfigError, "'single'"),
    "a class as a learner": (lambda: llm_dec_pomdp.train(team(), tiger(), object), TypeError, "<class 'object'>"),  # type: ignore[arg-type]
    "no steps": (lambda: llm_dec_pomdp.train(team(), tiger(), steps=-1), ConfigError, "steps = -1"),
    "two names of one option": (
        lambda: llm_dec_pomdp.train(team(), tiger(), group_size=4, num_generations=4),
        ConfigError,
        "group_size = 4 and num_generations = 4",
    ),
    "two names of max_turns": (
        lambda: llm_dec_pomdp.make("tldr-v0", max_turns=2, max_cycles=5),
        ValueError,
        "max_turns and max_cycles",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_an_error_names_the_thing(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    call, kind, message = CASES[case]
    with pytest.raises(kind, match=message) as caught:
        call()
    assert not str(caught.value).startswith(('"', "'"))


def test_other_options_of_a_reset_are_ignored() -> None:
    env = tldr()
    first, _ = env.reset(seed=1, options={"options": 1})
    assert first == env.reset(seed=1)[0]
