"""The properties of texts that v1 of the writing tasks looks at: closed-form cases and what holds for all texts."""

from __future__ import annotations

import math
import random
from collections import Counter
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st
from writing_properties import FULL, SOURCE, between, of, properties, words

import llm_dec_pomdp
from llm_dec_pomdp.envs.writing import grammar, quality, reward
from llm_dec_pomdp.envs.writing.quality import factor
from llm_dec_pomdp.envs.writing.text import Text, lexicon, words_of

ODD = ("İıßſ", "\ud800", "a\u0301", "𝕬", "\x00", "don't", "so", "in fact", "\n", ".", "!?", "...", "٣", "Σ")


def categories_as_words(text: str) -> float:
    return quality.categories_as_words(Text(text))


# --- relevance --------------------------------------------------------------------------------------------------------


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


# --- variety ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("times", "distinct", "total"), [(1, 4, 4), (2, 5, 9), (3, 5, 14), (9, 5, 44)])
def test_variety_is_the_share_of_different_bigrams(times: int, distinct: int, total: int) -> None:
    text = "a b c d e " * times
    assert of("variety", text, words("w", 30)) == pytest.approx(between(distinct / total, 0.50, 0.80))


def test_punctuation_and_case_do_not_hide_a_repetition() -> None:
    assert of("variety", "So it is. SO IT IS! so it is? So, it; is") == of("variety", "so it is " * 4)


# --- originality ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("own", [0, 1, 4, 8, 16, 24, 56])
def test_originality_falls_with_the_share_of_copied_5_grams(own: int) -> None:
    text = f"{words('source', 24)} {words('own', own)}"  # 20 copied 5-grams of 20 + own
    assert of("originality", text, FULL, SOURCE) == pytest.approx(between(20 / (20 + own), 0.90, 0.40))


# --- independence -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("own", [0, 1, 4, 8, 16, 24, 56])
def test_independence_falls_with_the_share_of_the_first_that_stands_in_the_second(own: int) -> None:
    shared = words("shared", 24)
    assert of("independence", f"{shared} {words('own', own)}", f"{words('more', 40)} {shared}") == pytest.approx(
        between(20 / (20 + own), 0.90, 0.40)
    )


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 12), st.integers(0, 8)), min_size=1, max_size=8))
def test_independence_is_the_share_of_5_grams_for_any_patchwork(patches: list[tuple[int, int, int]]) -> None:
    """Copied runs of any length at any place, each followed by own words."""
    copied, own = SOURCE.split(), iter(words("own", 100).split())
    text = [word for start, size, new in patches for word in [*copied[start : start + size], *islice(own, new)]]
    runs = [text[i : i + 5] for i in range(len(text) - 4)]
    known = [copied[i : i + 5] for i in range(len(copied) - 4)]
    share = sum(run in known for run in runs) / max(len(runs), 1)
    assert of("independence", " ".join(text), SOURCE) == pytest.approx(between(share, 0.90, 0.40))


# --- grammar ----------------------------------------------------------------------------------------------------------


def test_association_is_what_the_counts_say() -> None:
    """Of four pairs, `the` is before `-` twice and stands before three; 2 * 3 / 4 are expected by chance."""
    counted = grammar._Associations(Counter({("the", "-"): 2, ("the", "-s"): 1, ("a", "-"): 1}))
    assert counted["the", "-"] == pytest.approx(math.log(2.5 / (3 * 3 / 4 + 0.5)))
    assert counted["a", "-s"] == pytest.approx(math.log(0.5 / (1 / 4 + 0.5)))
    assert counted["never", "seen"] == 0.0


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("the", "the"),
        ("zebra", "-"),
        ("houses", "-es"),
        ("doings", "-ings"),
        ("ing", "-"),
        ("1990s", "#"),
        ("tion", "-"),
    ],
)
def test_the_class_of_a_word(word: str, found: str) -> None:
    assert grammar.word_class(word, {"the"}) == found


def test_sentences_begin_and_end_with_a_boundary() -> None:
    classes = grammar.WordClasses({"the", "cat"})
    assert classes.of(Text("The cat. ... the\n")) == [".", "the", "cat", ".", "the", "."]
    assert classes.of(Text("")) == ["."]


@pytest.mark.parametrize("functional", [50, 54, 57, 60, 70])
def test_grammar_wants_words_that_are_no_function_words(functional: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quality, "association", lambda *_: 0.19)
    expected = between(functional / 100, 0.60, 0.53) / 2
    assert of("grammar", "of " * functional, "house " * (100 - functional)) == pytest.approx(expected)


@pytest.mark.parametrize("env_id", ["tldr-v1", "arxiv-v1"])
def test_the_words_of_real_sentences_in_random_order_do_not(env_id: str) -> None:
    shuffle = random.Random(0).shuffle
    for item in llm_dec_pomdp.make(env_id, split="test").items:
        mixed = [text.split() for text in item.reference]
        for text in mixed:
            shuffle(text)
        assert of("grammar", *item.reference) == 1.0
        assert of("grammar", *map(" ".join, mixed)) == 0.0


# --- extremes ---------------------------------------------------------------------------------------------------------

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
    "four words in a row": ("originality", words("source", 4), FULL, SOURCE, 1.0),
    "five words in a row": ("originality", words("source", 5), FULL, SOURCE, 0.0),
    "a copy in other case and punctuation": ("originality", SOURCE.replace(" ", ", ").upper(), FULL, SOURCE, 0.0),
    "another order": ("originality", " ".join(reversed(SOURCE.split())), FULL, SOURCE, 1.0),
    "the second text is a copy": ("originality", FULL, SOURCE, SOURCE, 0.0),
    "the first text is a copy": ("originality", SOURCE, FULL, SOURCE, 0.0),
    "the first as a prefix of the second": ("independence", FULL, f"{FULL} and then {words('more', 40)}", "", 0.0),
    "a copy in a long second text": ("independence", COPIED, f"{words('own', 100)} {COPIED}", "", 0.0),
    "a copy in a long first text": ("independence", f"{words('own', 100)} {COPIED}", COPIED, "", 1.0),
    "a copy of the source": ("independence", SOURCE, FULL, SOURCE, 1.0),
    "nothing of the source": ("rewording", "zebra", "zebra", SOURCE, 1.0),
    "no neighbours": ("context", "source1", "", SOURCE, 0.0),
    "the source backwards": ("context", " ".join(reversed(SOURCE.split())), "", SOURCE, 0.0),
    **{f"nothing said in {text!r}": ("grammar", text, text, "", 0.0) for text in ("", ".", "zebra", "\n\n")},
    "real sentences": ("grammar", FULL, FULL.upper(), "", 1.0),
}  # fmt: skip


@pytest.mark.parametrize(("name", "first", "second", "source", "value"), EXTREMES.values(), ids=EXTREMES)
def test_extremes(name: str, first: str, second: str, source: str, value: float) -> None:
    assert of(name, first, second, source) == value


# --- the product ------------------------------------------------------------------------------------------------------


def test_the_factor_is_the_product() -> None:
    assert factor({"relevance": 0.5, "variety": 0.5, "grammar": 1.0}) == 0.25
    assert factor({"relevance": 1.0, "variety": 0.0}) == 0.0


# --- connectives as words ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0.0),
        ("nothing of that kind", 0.0),
        ("moreover", 1.0),
        ("MOREOVER,", 1.0),
        ("so", 1.0),
        ("sofa", 0.0),
        ("also", 1.0),  # elaboration, and not the cause_effect of "so"
        ("also so", 1.5),
        ("season rattled button shift", 0.0),  # as, rather, but, if
        ("such as", 1.5),  # examples, and time for its "as"
        ("such, as", 1.5),
        ("such. as", 1.0),
        ("on the other hand", 1.0),
        ("on the other", 0.0),
        ("on the\tother  hand", 1.0),
        ("the other hand on", 0.0),
        ("in fact", 1.5),  # explanation and emphasis
        ("while", 1.75),  # contrast, concession and time
        ("then", 1.5),  # cause_effect and sequence
        ("in fact in fact in fact", 1.5),
        ("moreover. furthermore. also.", 1.0),
        ("moreover. namely. unless.", 3.0),
        ("moreover! namely? unless\nuntil", 4.0),
        ("Moreover it rains. Namely here. Hence we stay. Lastly we eat. Unless they come. Until noon.", 6.0),
        ("moreover namely unless", 1.75),
        ("moreover, namely, unless, until", 1.875),
        ("moreover namely. namely unless", 2.5),
        ("moreover namely. moreover namely", 1.5),
        ("moreover... namely", 2.0),
    ],
)
def test_connective_categories_as_words(text: str, count: float) -> None:
    assert categories_as_words(text) == pytest.approx(count)


LISTED = "moreover namely indeed hence however lastly overall likewise unless until"


def test_a_list_of_connectives_in_one_sentence_counts_less_than_two() -> None:
    assert reward.categories_as_substrings(LISTED) == 12
    assert categories_as_words(LISTED) < 2.0


@pytest.mark.parametrize(("category", "phrases"), lexicon()[0].items())
def test_every_connective_counts_for_its_category(category: str, phrases: tuple[str, ...]) -> None:
    for phrase in phrases:
        assert categories_as_words(f"We say {phrase} it") >= 1.0
        assert category in categories_of(phrase)


def categories_of(phrase: str) -> set[str]:
    """Categories of the connectives that a phrase is or holds."""
    others = {c for c, phrases in lexicon()[0].items() if any(f" {p} " in f" {phrase} " for p in phrases)}
    assert categories_as_words(phrase) == pytest.approx(2 - 2.0 ** (1 - len(others)))
    return others


TEXTS = st.lists(
    st.sampled_from([*ODD, *LISTED.split(), *FULL.split(), *SOURCE.split()[:9]]) | st.text(st.characters(), max_size=8),
    max_size=50,
).map(" ".join)


@given(TEXTS, TEXTS)
def test_a_further_sentence_never_lowers_the_count(text: str, more: str) -> None:
    assert 0.0 <= categories_as_words(text) <= categories_as_words(f"{text}. {more}") <= len(lexicon()[0])


@given(TEXTS)
def test_saying_everything_again_does_not_raise_the_count(text: str) -> None:
    assert categories_as_words(f"{text}. {text}. {text}") == categories_as_words(text)


@given(TEXTS)
def test_the_sentence_break_is_what_pays(text: str) -> None:
    """Without breaks a text counts less than two: 1 + 1/2 + 1/4 + ..."""
    assert categories_as_words(" ".join(words_of(text))) < 2.0


# --- for all texts ----------------------------------------------------------------------------------------------------


@given(TEXTS, TEXTS, TEXTS)
def test_every_property_of_any_texts_lies_between_0_and_1(first: str, second: str, source: str) -> None:
    found = properties(first, second, source)
    assert all(0.0 <= value <= 1.0 for value in found.values())
    assert 0.0 <= factor(found) <= min(found.values())


@given(TEXTS, TEXTS, TEXTS)
def test_all_but_independence_treat_both_texts_alike(first: str, second: str, source: str) -> None:
    one, other = properties(first, second, source), properties(second, first, source)
    assert {**one, "independence": 0} == {**other, "independence": 0}


@given(TEXTS, st.integers(40, 60))
def test_appending_a_copied_passage_never_raises_originality(text: str, length: int) -> None:
    """Four of the new 5-grams span the seam, so this holds for passages of 40 words, and not for five of them."""
    copied = " ".join(SOURCE.split()[:length])
    assert of("originality", f"{text} {copied}", FULL, SOURCE) <= of("originality", text, FULL, SOURCE)


@given(TEXTS, TEXTS, TEXTS)
def test_a_longer_source_never_raises_originality(text: str, source: str, more: str) -> None:
    assert of("originality", text, FULL, f"{source} {more}") <= of("originality", text, FULL, source)


@given(TEXTS, TEXTS, TEXTS)
def test_a_longer_source_never_lowers_relevance(text: str, source: str, more: str) -> None:
    assert of("relevance", text, text, f"{source} {more}") >= of("relevance", text, text, source)


@given(TEXTS)
def test_a_word_of_the_source_never_lowers_relevance_and_a_foreign_one_never_raises_it(text: str) -> None:
    before = of("relevance", text, SOURCE, SOURCE)
    assert of("relevance", f"{text} source7", SOURCE, SOURCE) >= before
    assert of("relevance", f"{text} zebra", SOURCE, SOURCE) <= before


@given(TEXTS)
def test_saying_everything_twice_never_raises_variety(text: str) -> None:
    assert of("variety", f"{text} {text}") <= of("variety", text)


@given(TEXTS, TEXTS, TEXTS)
def test_a_longer_second_text_never_raises_independence(first: str, second: str, more: str) -> None:
    assert of("independence", first, f"{second} {more}") <= of("independence", first, second)
