"""A judge by principles: rankings, both orders, answers that cannot be used, and models behind it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from servers import Server, reply

from llm_dec_pomdp.agents.base import Policy, Request, Sampling
from llm_dec_pomdp.agents.principles import (
    Comparison,
    PrincipleJudge,
    load_principles,
    read_principles,
    read_ranking,
)
from llm_dec_pomdp.types import Completion

PAIR = Comparison("Name a colour.", ("red", "a sofa"), 3)


class Answering(Policy):
    """Answers by a function of the prompt and the temperature."""

    def __init__(self, answer: Callable[[str, float], str]) -> None:
        self.answer = answer

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        return [[Completion(self.answer(r.history[0].text, sampling.temperature))] for r in requests]


def judge(answer: Callable[[str, float], str], **options: Any) -> PrincipleJudge:
    return PrincipleJudge(Answering(answer), ["A colour is better than a thing."], **options)


def shortest_first(prompt: str, temperature: float) -> str:
    """Ranks honestly: a shorter text is better."""
    texts = [part.partition(":\n")[2].split("\n\n")[0] for part in prompt.split("\n\nText ")[1:]]
    order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
    return " > ".join(f"Text {place + 1}" for place in order)


@pytest.mark.parametrize(
    ("answer", "count", "scores"),
    [
        ("2 > 1", 2, [0.0, 1.0]),
        ("**Text 2**", 2, [0.0, 1.0]),
        ("1 = 2", 2, [0.5, 0.5]),
        ("At first 1 > 2 > 3, but then\n[3] > [1] = [2].", 3, [0.25, 0.25, 1.0]),
        ("3, 1, 2", 3, [0.5, 0.0, 1.0]),
        ("both", 2, None),
        ("1 is better than 2", 2, None),
        ("1 > 2", 3, None),
        ("1 > 1 > 2", 3, None),
        ("", 2, None),
    ],
)
def test_only_a_ranking_of_all_texts_is_read(answer: str, count: int, scores: list[float] | None) -> None:
    assert read_ranking(answer, count) == scores


def test_an_honest_ranking_becomes_rewards_from_0_to_1() -> None:
    of = judge(shortest_first)
    assert of.scores([PAIR, Comparison("?", ("ccc", "a", "bb"), 1)]) == [[1.0, 0.0], [0.0, 1.0, 0.5]]
    measured = of.measured()
    assert (measured["judge_agreement"], measured["judge_neutral"], measured["judge_calls"]) == (1.0, 0.0, 4.0)
    assert of.measured() == {"judge_calls": 0.0}


def test_a_judge_that_prefers_a_place_prefers_no_text_and_is_found_out() -> None:
    of = judge(lambda prompt, temperature: "1 > 2")
    assert of.scores([PAIR]) == [[0.5, 0.5]]
    assert of.measured() == {
        "judge_neutral": 0.0,
        "judge_first": 1.0,
        "judge_agreement": 0.0,
        "judge_repeated": 0.0,
        "judge_calls": 2.0,
    }
    assert sorted(judge(lambda prompt, temperature: "1 > 2", orders=1).scores([PAIR])[0]) == [0.0, 1.0]


def test_an_unusable_answer_is_asked_for_again_and_then_counted_as_neutral() -> None:
    patient = judge(lambda prompt, temperature: shortest_first(prompt, 0) if temperature else "Hm.")
    assert patient.scores([PAIR]) == [[1.0, 0.0]]
    assert patient.measured()["judge_repeated"] == 1.0
    half = judge(lambda prompt, temperature: "1" if prompt.index("red") < prompt.index("a sofa") else "Hm.")
    assert half.scores([PAIR]) == [[0.5, 0.5]]
    measured = half.measured()
    assert (measured["judge_neutral"], measured["judge_repeated"], measured["judge_calls"]) == (1.0, 0.5, 3.0)


def test_a_model_on_a_server_reads_the_principles_in_both_orders(server: Server, tmp_path: Path) -> None:
    server.answer = lambda body, number: reply(shortest_first(body["messages"][-1]["content"], 0.0))
    rules = tmp_path / "rules.txt"
    rules.write_text("A colour is better\nthan a thing.\n\nBe brief.")
    of = load_principles(f"principles:{rules}", f"{server.url}#m")
    assert of.scores([PAIR]) == [[1.0, 0.0]]
    prompts = [body["messages"][-1]["content"] for body in server.asked]
    assert all("- A colour is better than a thing.\n- Be brief." in prompt for prompt in prompts)
    assert sum("Text 1:\nred" in prompt for prompt in prompts) == 1


def test_principles_are_lines_or_paragraphs_and_missing_ones_are_refused(tmp_path: Path) -> None:
    rules = tmp_path / "rules.txt"
    rules.write_text("One.\nTwo.\n")
    assert read_principles(f"principles:{rules}") == ["One.", "Two."]
    rules.write_text(" \n")
    for name in (f"principles:{rules}", f"principles:{tmp_path / 'none.txt'}", "principles:", str(rules)):
        with pytest.raises(ValueError, match="principle"):
            read_principles(name)
