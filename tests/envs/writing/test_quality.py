"""The properties of texts that v1 of the writing tasks looks at: closed-form cases and what holds for all texts."""

from __future__ import annotations

import math
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_dec_pomdp.envs.writing import reward
from llm_dec_pomdp.envs.writing.text import Text, lexicon
from llm_dec_pomdp.envs.writing.v1 import quality

SOURCE = " ".join(f"source{i}" for i in range(60))
FULL = "the cat went to the market and it came home with a fish for the whole family"
ODD = ("İıßſ", "\ud800", "a\u0301", "𝕬", "\x00", "don't", "so", "in fact", "\n", ".", "!?", "...", "٣", "Σ")


def words(prefix: str, count: int) -> str:
    """`count` different words; of five letters and more they have the same stem."""
    return " ".join(f"{prefix}{i}" for i in range(count))


def properties(first: str, second: str, source: str) -> dict[str, float]:
    return quality.WordPair(first, second).properties(source)


def of(name: str, first: str, second: str = FULL, source: str = "") -> float:
    return properties(first, second, source)[name]


def between(x: float, zero: float, full: float) -> float:
    return min(1.0, max(0.0, (x - zero) / (full - zero)))


def categories_as_words(text: str) -> int:
    return quality.categories_as_words(Text(text))


# --- by hand ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shared", range(11))
def test_relevance_is_the_share_of_content_words_that_the_source_has(shared: int) -> None:
    text = f"{words('a', shared)} the {words('z', 10 - shared)} of"
    assert of("relevance", text, text, f"the {words('a', 10)}") == pytest.approx(between(shared / 10, 0.15, 0.27))


@pytest.mark.parametrize(
    ("word", "value"),
    [("apple", 1.0), ("APPLE", 1.0), ("apples", 1.0), ("applesauce", 1.0), ("appl", 0.0), ("pineapple", 0.0)],
)
def test_relevance_compares_the_first_five_letters(word: str, value: float) -> None:
    assert of("relevance", word, word, "Apple pie") == value


@pytest.mark.parametrize(("times", "distinct", "total"), [(1, 4, 4), (2, 5, 9), (3, 5, 14), (9, 5, 44)])
def test_variety_is_the_share_of_different_bigrams(times: int, distinct: int, total: int) -> None:
    text = "a b c d e " * times
    assert of("variety", text, words("w", 30)) == pytest.approx(between(distinct / total, 0.50, 0.80))


def test_punctuation_and_case_do_not_hide_a_repetition() -> None:
    assert of("variety", "So it is. SO IT IS! so it is? So, it; is") == of("variety", "so it is " * 4)


@pytest.mark.parametrize("new_words", [0, 1, 20, 25, 30, 34, 40, 60])
def test_originality_and_independence_fall_with_the_share_of_copied_trigrams(new_words: int) -> None:
    value = pytest.approx(between(20 / (20 + new_words), 0.40, 0.30))  # 20 copied trigrams of 20 + own
    assert of("originality", f"{words('source', 22)} {words('own', new_words)}", FULL, SOURCE) == value
    shared = words("shared", 22)
    assert of("independence", f"{shared} {words('own', new_words)}", f"{words('more', 70)} {shared}") == value


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 12), st.integers(0, 8)), min_size=1, max_size=8))
def test_independence_is_the_share_of_trigrams_for_any_patchwork(patches: list[tuple[int, int, int]]) -> None:
    """Copied runs of any length at any place, each followed by own words."""
    copied, fresh = SOURCE.split(), iter(words("own", 100).split())
    text = [word for start, size, new in patches for word in [*copied[start : start + size], *islice(fresh, new)]]
    runs = [text[i : i + 3] for i in range(len(text) - 2)]
    known = [copied[i : i + 3] for i in range(len(copied) - 2)]
    share = sum(run in known for run in runs) / max(len(runs), 1)
    assert of("independence", " ".join(text), SOURCE) == pytest.approx(between(share, 0.40, 0.30))


COPIED = words("shared", 12)
EXTREMES: dict[str, tuple[str, str, str, str, float]] = {
    "a word said often": ("relevance", f"{'apple ' * 50} {words('z', 9)}", "apple", "an apple a day", 0.0),
    "stop words alone": ("relevance", "the and of", "the and of", "the and of", 0.0),
    "the second text is about something else": ("relevance", "apple", "zebra", "apple", 0.0),
    "the first text is about something else": ("relevance", "zebra", "apple", "apple", 0.0),
    **{f"the source is {source!r}": ("relevance", "apple", "apple", source, 0.0)
       for source in ("", "the of and", "...", "zebra")},
    **{f"no bigram in {text!r}": ("variety", text, text, "", 1.0) for text in ("", "word", ".", "Word.")},
    "the first text repeats itself": ("variety", "a b c " * 9, FULL, "", 0.0),
    "the second text repeats itself": ("variety", FULL, "a b c " * 9, "", 0.0),
    "two words in a row": ("originality", words("source", 2), FULL, SOURCE, 1.0),
    "three words in a row": ("originality", words("source", 3), FULL, SOURCE, 0.0),
    "a copy in other case and punctuation": ("originality", SOURCE.replace(" ", ", ").upper(), FULL, SOURCE, 0.0),
    "another order": ("originality", " ".join(reversed(SOURCE.split())), FULL, SOURCE, 1.0),
    "the second text is a copy": ("originality", FULL, SOURCE, SOURCE, 0.0),
    "the first text is a copy": ("originality", SOURCE, FULL, SOURCE, 0.0),
    "the first as a prefix of the second": ("independence", FULL, f"{FULL} and then {words('more', 40)}", "", 0.0),
    "a copy in a long second text": ("independence", COPIED, f"{words('own', 100)} {COPIED}", "", 0.0),
    "a copy in a long first text": ("independence", f"{words('own', 100)} {COPIED}", COPIED, "", 1.0),
    "a copy of the source": ("independence", SOURCE, FULL, SOURCE, 1.0),
}  # fmt: skip


@pytest.mark.parametrize(("name", "first", "second", "source", "value"), EXTREMES.values(), ids=EXTREMES)
def test_extremes(name: str, first: str, second: str, source: str, value: float) -> None:
    assert of(name, first, second, source) == value


# --- connectives as words ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        ("nothing of that kind", 0),
        ("MOREOVER,", 1),
        ("sofa", 0),
        ("also", 1),  # elaboration, and not the cause_effect of "so"
        ("also so", 2),
        ("season rattled button shift", 0),  # as, rather, but, if
        ("on the other hand", 1),
        ("on the\tother  hand", 1),
        ("on the other", 0),
        ("the other hand on", 0),
        ("while", 3),  # contrast, concession and time
        ("in fact in fact in fact", 2),  # explanation and emphasis
        ("moreover. furthermore. also.", 1),
    ],
)
def test_connective_categories_as_words(text: str, count: int) -> None:
    assert categories_as_words(text) == count


@pytest.mark.parametrize("phrases", lexicon()[0].values(), ids=lexicon()[0])
def test_every_connective_counts_for_its_category(phrases: tuple[str, ...]) -> None:
    assert all(categories_as_words(f"We say {phrase} it") >= 1 for phrase in phrases)


# --- for all texts ----------------------------------------------------------------------------------------------------

TEXTS = st.lists(
    st.sampled_from([*ODD, "moreover", "indeed", *FULL.split(), *SOURCE.split()[:9]])
    | st.text(st.characters(), max_size=8),
    max_size=50,
).map(" ".join)


@given(TEXTS, TEXTS)
def test_words_count_what_substrings_do_and_no_more(text: str, more: str) -> None:
    assert categories_as_words(text) <= categories_as_words(f"{text}. {more}") <= len(lexicon()[0])
    assert categories_as_words(text) <= reward.categories_as_substrings(" ".join(Text(text).words))


@given(TEXTS, TEXTS, TEXTS)
def test_every_property_of_any_texts_lies_between_0_and_1(first: str, second: str, source: str) -> None:
    found = properties(first, second, source)
    assert tuple(found) == quality.PROPERTIES
    assert all(0.0 <= value <= 1.0 for value in found.values())
    assert 0.0 <= math.prod(found.values()) <= min(found.values())
