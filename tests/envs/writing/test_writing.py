from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import llm_dec_pomdp
from llm_dec_pomdp.envs.writing.reward import (
    ARXIV,
    ARXIV_PAPER_LENGTH_RATIO,
    COMPONENTS,
    TLDR,
    Band,
    PublishedPair,
    WritingFormula,
    categories_as_substrings,
    connective_part,
)
from llm_dec_pomdp.envs.writing.reward import score as score_of
from llm_dec_pomdp.envs.writing.text import Text, lexicon, words_of
from llm_dec_pomdp.types import Score

PAPER = dataclasses.replace(ARXIV, length_ratio=ARXIV_PAPER_LENGTH_RATIO)
EVERY_CATEGORY = "moreover namely indeed hence however lastly overall likewise unless until"


def text(letter: str, words: int, chars: int, unique: int | None = None, tail: str = "") -> str:
    """`words` words, `unique` of them different, none a connective, padded with full stops to `chars` characters."""
    body = " ".join(f"{letter}{i % (unique or words)}" for i in range(words)) + (f" {tail}" if tail else "")
    assert len(body) <= chars
    return body + "." * (chars - len(body))


def score(first: str, second: str, formula: WritingFormula) -> Score:
    return score_of(PublishedPair(first, second), formula)


def parts(first: str, second: str, formula: WritingFormula) -> dict[str, float]:
    return dict(score(first, second, formula).components)


# --- Band -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("x", "height"),
    [(1, 0.0), (1.5, 0.5), (2, 1.0), (2.5, 1.0), (3, 1.0), (4, 0.5), (5, 0.0), (0.999, None), (5.001, None)],
)
def test_a_band_is_a_trapezoid(x: float, height: float | None) -> None:
    assert Band(1, 2, 3, 5)(x) == height


# --- structure --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "passes", "formula"),
    [(count, passes, TLDR) for count, passes in ((7, False), (8, True), (256, True), (257, False))]
    + [(count, passes, ARXIV) for count, passes in ((127, False), (128, True), (256, True), (257, False))],
)
def test_both_texts_have_a_number_of_words(count: int, passes: bool, formula: WritingFormula) -> None:
    expected = 0.5 if passes else 0.0
    assert parts(text("q", count, 2000), text("z", 200, 2800), formula)["structure"] == expected
    assert parts(text("q", 200, 2000), text("z", count, 2800), formula)["structure"] == expected


def test_words_are_separated_by_any_whitespace() -> None:
    assert parts("a\tb\nc  d e\u3000f g h", text("z", 16, 60), TLDR)["structure"] == 0.5


# --- coordination -----------------------------------------------------------------------------------------------------

TLDR_LENGTHS = [(110, 0.0), (135, 0.5), (160, 1.0), (240, 1.0), (320, 1.0), (410, 0.5), (500, 0.0)]
ARXIV_LENGTHS = [(800, 0.0), (1050, 0.5), (1300, 1.0), (1450, 1.0), (1600, 1.0), (1800, 0.5), (2000, 0.0)]
PAPER_LENGTHS = [(800, 0.0), (900, 0.5), (1000, 1.0), (1150, 1.0), (1300, 1.0), (1400, 0.5), (1500, 0.0)]


@pytest.mark.parametrize(
    ("first", "words", "chars", "value", "formula"),
    [(text("q", 8, 100), 16, chars, value, TLDR) for chars, value in TLDR_LENGTHS]
    + [(text("q", 130, 1000), 130, chars, value, ARXIV) for chars, value in ARXIV_LENGTHS]
    + [(text("q", 130, 1000), 130, chars, value, PAPER) for chars, value in PAPER_LENGTHS],
)
def test_the_length_ratio_is_a_band_and_goes_on_at_its_edges(
    first: str, words: int, chars: int, value: float, formula: WritingFormula
) -> None:
    result = score(first, text("z", words, chars), formula)
    assert result.components["coordination"] == pytest.approx(value, abs=1e-9)
    assert "stopped_at" not in result.notes
    assert result.components["vocabulary"] == pytest.approx(0.5)


# --- vocabulary -------------------------------------------------------------------------------------------------------


def tldr_pair(unique: float) -> tuple[str, str]:
    """Two texts of which the second has `unique` / 10 times as many different words."""
    return text("q", 20, 300), text("z", int(2 * unique), 600)


def arxiv_pair(unique: int) -> tuple[str, str]:
    """Two texts of which the second has `unique` % as many different words."""
    return text("q", 130, 1000, unique=100), text("z", 180, 1400, unique=unique)


@pytest.mark.parametrize(
    ("texts", "formula", "value"),
    [
        *((tldr_pair(u), TLDR, v) for u, v in ((13, 0.0), (16.5, 0.5 * (1.65 - 1.3) / 0.7), (20, 0.5), (40, 0.5))),
        *((arxiv_pair(u), ARXIV, v) for u, v in ((50, 0.0), (60, 0.25), (70, 0.5), (100, 0.5))),
        *((arxiv_pair(u), ARXIV, v) for u, v in ((130, 0.5), (150, 0.25), (170, 0.0))),
    ],
)
def test_the_vocabulary_ratio_is_a_band(texts: tuple[str, str], formula: WritingFormula, value: float) -> None:
    assert parts(*texts, formula)["vocabulary"] == pytest.approx(value, abs=1e-9)


@pytest.mark.parametrize(
    ("texts", "formula", "total", "stop"),
    [
        (("too short", "also too short"), TLDR, 0.0, "structure"),
        ((text("q", 8, 100), text("z", 16, 109)), TLDR, 0.5, "coordination"),
        ((text("q", 8, 100), text("z", 16, 501)), TLDR, 0.5, "coordination"),
        ((text("q", 130, 1000), text("z", 130, 799)), ARXIV, 0.5, "coordination"),
        ((text("q", 130, 1000), text("z", 130, 2001)), ARXIV, 0.5, "coordination"),
        ((text("q", 130, 1000), text("z", 130, 799)), PAPER, 0.5, "coordination"),
        ((text("q", 130, 1000), text("z", 130, 1501)), PAPER, 0.5, "coordination"),
        (("- " * 7 + "-", "... " * 6 + "... !"), TLDR, 1.5, "vocabulary"),  # without words
        ((text("q", 10, 200), text("z", 12, 400)), TLDR, 1.5, "vocabulary"),
        (arxiv_pair(49), ARXIV, 1.5, "vocabulary"),
        (arxiv_pair(171), ARXIV, 1.5, "vocabulary"),
    ],
)
def test_what_fails_a_level_or_lies_beyond_its_band_ends_the_sum(
    texts: tuple[str, str], formula: WritingFormula, total: float, stop: str
) -> None:
    result = score(*texts, formula)
    assert (result.total, result.notes["stopped_at"]) == (pytest.approx(total), stop)
    assert tuple(result.components) == COMPONENTS


def test_words_are_compared_in_lower_case() -> None:
    both_cases = text("q", 16, 80).upper() + " " + text("q", 16, 80)
    assert score(text("q", 8, 100), both_cases, TLDR).components["vocabulary"] == 0.5


# --- style ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sentence", "value"),
    [
        ("", 0.0),
        ("zq zq", 0.0),
        ("moreover", 0.4),
        ("Moreover!", 0.4),
        ("wasp", 0.4),  # a plain substring: "as"
        ("in fact", 0.45),  # explanation and emphasis
        ("moreover namely", 0.45),
        ("moreover moreover", 0.4),
        (EVERY_CATEGORY, 0.95),
    ],
)
def test_connective_part(sentence: str, value: float) -> None:
    assert connective_part(categories_as_substrings(sentence)) == pytest.approx(value)


def test_the_lexicon_is_whole() -> None:
    assert (len(lexicon()[0]), len(lexicon()[1])) == (12, 106)


@pytest.mark.parametrize(
    ("first", "second", "value"),
    [
        ("", "", 1.0),
        ("the", "of", 1.0),
        ("cat", "", 0.0),
        ("cat", "dog", 0.0),
        ("cat the cat", "Cat", 1.0),
        ("cat cow the", "cat dog of", 1 / 3),
    ],
)
def test_jaccard(first: str, second: str, value: float) -> None:
    assert PublishedPair(first, second).jaccard() == pytest.approx(value)


@given(st.text() | st.text("aZ0_ß٣İΣ.'’- \n\x1c\u3000"))
def test_a_text_is_read_as_runs_of_word_characters(text: str) -> None:
    assert words_of(text) == Text(text).words == re.findall(r"\w+", text.lower())
    assert Text(text).vocabulary == set(words_of(text))


CUT = st.lists(
    st.sampled_from(
        ["so", "SO", "o", "s", "in", " fact", "İf", "Σ", "but", "bu", "t", " ", ".", "\n", "wasp", "_yet", "\ud800"]
    )
).map("".join)


@given(CUT, CUT)
def test_connectives_that_are_words_of_the_texts_need_not_be_looked_for(first: str, second: str) -> None:
    pair = PublishedPair(first, second)
    assert pair.connective_categories(both=True) == categories_as_substrings(first + second)
    assert pair.connective_categories(both=False) == categories_as_substrings(second)


def test_tldr_counts_connectives_in_the_second_text_only() -> None:
    plain = text("z", 30, 400)
    assert parts(text("q", 10, 200, tail=EVERY_CATEGORY), plain, TLDR)["coherence"] == 0.0
    found = parts(text("q", 10, 200), text("z", 30, 400, tail=EVERY_CATEGORY), TLDR)
    assert found["coherence"] == pytest.approx(0.38)


def test_arxiv_counts_connectives_in_both_texts() -> None:
    found = parts(text("q", 130, 1000, tail="moreover"), text("z", 130, 1400, tail="namely"), ARXIV)
    assert found["coherence"] == pytest.approx(0.4 * 0.45)


def test_arxiv_joins_the_texts_without_a_separator() -> None:
    joined = parts(text("q", 130, 997) + "hen", "ce" + text("z", 130, 1398), ARXIV)
    assert joined["coherence"] == pytest.approx(0.4 * 0.4)


@pytest.mark.parametrize(
    ("first", "second", "formula", "value"),
    [
        *(
            (text("q", 10, 200), text("z", 30 - n, 400 - 3 * n, tail=" ".join(f"q{i}" for i in range(n))), TLDR, value)
            for n, value in ((0, 0.0), (1, 0.6 * (1 / 39) / 0.03), (2, 0.6))  # capped at 3 %
        ),
        *(
            (text("q", 130, 600), text("q", n, 840, tail=" ".join(f"z{i}" for i in range(130 - n))), ARXIV, value)
            for n, value in ((20, 0.6 * (20 / 240) / 0.23), (60, 0.6))  # J = 20 / 240 and 60 / 200; capped at 23 %
        ),
    ],
)
def test_consistency_is_the_share_of_common_words_up_to_a_cap(
    first: str, second: str, formula: WritingFormula, value: float
) -> None:
    assert parts(first, second, formula)["consistency"] == pytest.approx(value)


def test_a_whole_sum_by_hand() -> None:
    # r = 135/100 -> 0.5; u = 19/10 -> 0.5 * 0.6/0.7; "moreover" -> 0.4 * 0.4; J = 1/28 > 0.03 -> 0.6
    result = score(text("q", 10, 100), text("z", 17, 135, tail="q3 moreover"), TLDR)
    assert result.total == pytest.approx(0.5 + 0.5 + 0.5 * 0.6 / 0.7 + 0.16 + 0.6)


# --- the environments -------------------------------------------------------------------------------------------------


def reward(env: Any, first: str, second: str) -> float:
    env.reset(options={"index": 0})
    return env.step({"agent_0": first, "agent_1": second})[1]["agent_0"]


@pytest.mark.parametrize("name", ["tldr", "arxiv"])
def test_golden_pairs(name: str, golden: Callable[[str], list[dict[str, Any]]]) -> None:
    env = llm_dec_pomdp.make(f"{name}-v0")
    rows = golden(name)
    assert len(rows) >= 100
    assert [reward(env, *row["completions"]) for row in rows] == pytest.approx(
        [row["reward"] for row in rows], abs=1e-6
    )


def test_length_ratio_paper_is_the_first_release() -> None:
    texts = text("q", 130, 1000), text("z", 130, 1000)
    assert reward(llm_dec_pomdp.make("arxiv-v0", length_ratio="paper"), *texts) == pytest.approx(2.0)
    assert reward(llm_dec_pomdp.make("arxiv-v0"), *texts) == pytest.approx(1.0 + 0.2 / 0.5)


@pytest.mark.parametrize("env_id", ["tldr-v0", "arxiv-v0"])
def test_both_agents_see_the_source_and_different_requests(env_id: str) -> None:
    env = llm_dec_pomdp.make(env_id)
    observations, _ = env.reset(seed=0)
    assert all(env.item.prompt.strip() in observation for observation in observations.values())
    assert observations["agent_0"] != observations["agent_1"]


def test_the_cue_at_the_end_of_published_posts_is_not_shown() -> None:
    item = llm_dec_pomdp.make("tldr-v0").items[0]
    env = llm_dec_pomdp.make("tldr-v0", tasks=[dataclasses.replace(item, prompt=f"{item.prompt}\n\nTL;DR:")])
    assert "TL;DR:" not in env.reset()[0]["agent_0"]


def test_tldr_agents_are_not_told_about_each_other() -> None:
    env = llm_dec_pomdp.make("tldr-v0")
    for agent in env.possible_agents:
        request = env.observe(env.items[0], agent).rpartition("\n\n")[2].lower()
        assert not {"another", "other", "agent", "partner"} & set(request.rstrip(".").split())
