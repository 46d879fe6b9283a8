"""What v1 of the writing tasks asks of the words that texts take from their source: closed-form cases."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from writing_properties import SOURCE, between, of, words

from llm_dec_pomdp.envs.writing import grammar, quality
from llm_dec_pomdp.envs.writing.text import Text

Fit = Callable[[float], None]

# --- rewording --------------------------------------------------------------------------------------------------------

ORDERED = words("source", 60).split()
ELSEWHERE = words("z", 60)


@pytest.mark.parametrize("gap", [1, 2, 3, 4, 7])
def test_every_nth_word_of_the_source_is_a_copy_up_to_the_third(gap: int) -> None:
    """Words in between that are not the source's change nothing."""
    left = ORDERED[::gap]
    assert of("rewording", " ".join(left), ELSEWHERE, SOURCE) == (gap > 3)
    assert of("rewording", " other ".join(left), ELSEWHERE, SOURCE) == (gap > 3)


@pytest.mark.parametrize("copied", [20, 26, 28, 30, 40])
def test_rewording_falls_with_the_share_of_pairs_in_the_order_of_the_source(copied: int) -> None:
    """The rest is backwards; the runs of three content words are judged by their own ramp."""
    text = [*ORDERED[:copied], *reversed(ORDERED[copied:])]
    pairs, runs = (copied - 1) / 59, (copied - 2) / 58
    expected = between(pairs, 0.72, 0.62) * between(runs, 0.65, 0.50)
    assert of("rewording", " ".join(text), ELSEWHERE, SOURCE) == pytest.approx(expected)


@pytest.mark.parametrize("own", [10, 15, 18, 20, 24, 60])
def test_rewording_wants_content_words_that_the_source_has_not(own: int) -> None:
    text = " ".join(reversed(ORDERED))
    assert of("rewording", text, words("z", own), SOURCE) == pytest.approx(between(60 / (60 + own), 0.80, 0.72))


# --- context ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def told_anew(monkeypatch: pytest.MonkeyPatch) -> Fit:
    """Sets I, how well words of the source go with the function words beside them."""
    return lambda fit: monkeypatch.setattr(quality, "association_of_pairs", lambda _: fit)


@pytest.mark.parametrize("same", range(1, 6))
def test_context_wants_the_function_words_beside_a_word_that_stand_there(same: int, told_anew: Fit) -> None:
    """Of 59 pairs the source has `of` before the first words and behind all but the last of them: 2 same - 1."""
    source = " ".join(f"{'of' if i < same else 'by'} {word}" for i, word in enumerate(ORDERED[:30]))
    told_anew(1.0)
    text = " ".join(f"of {word}" for word in ORDERED[:30])
    assert of("context", text, ELSEWHERE, source) == pytest.approx(between(2 * same / 61, 0.090, 0.125))


@pytest.mark.parametrize("joined", [0, 5, 8, 9, 10, 12])
def test_context_wants_words_next_to_each_other_that_are_so_there(joined: int, told_anew: Fit) -> None:
    told_anew(1.0)
    text = [*ORDERED[: joined + 1], *ORDERED[joined + 2 :: 2]]
    expected = between((joined + 1) / (len(text) - 1 + 2), 0.25, 0.28)
    assert of("context", " ".join(text), ELSEWHERE, SOURCE) == pytest.approx(expected)


@pytest.mark.parametrize("fit", [-0.2, 0.0, 0.2, 0.25, 0.3, 0.5])
@pytest.mark.parametrize("near", [8, 10, 14])
def test_context_adds_up_fit_to_a_limit_and_words_near_each_other(fit: float, near: int, told_anew: Fit) -> None:
    """Of 20 steps from a word of the source to the next some are to its neighbour, the others over 14; no two touch."""
    told_anew(fit)
    places = itertools.accumulate([1] * near + [14] * (20 - near), initial=0)
    text = " ".join(f"{ORDERED[place % 60]} {'own' * (i + 1)}" for i, place in enumerate(places))
    expected = between(min(fit, 0.30) + near / 20 - 1 / 2 / 2, 0.48, 0.54)
    assert of("context", text, ELSEWHERE, SOURCE) == pytest.approx(expected)


@pytest.mark.parametrize("bent", [0, 2, 3, 4, 8])
def test_context_counts_other_endings_up_to_a_limit(bent: int, told_anew: Fit) -> None:
    """Beside 50 words of the source as they stand there: M is 1 and E 50 / 51."""
    told_anew(-0.30)
    names = [f"{first}o{second}um" for first in "bcdfghjkmp" for second in "bcdfkm"]
    others = [f"{name}{'ing' if i % 2 else 's'}" for i, name in enumerate(names[:bent])]
    expected = between(-0.30 + 5 * min(bent / 50, 0.06) + 1 - 50 / 51 / 2, 0.48, 0.54)
    assert of("context", " ".join(names[:50] + others), ELSEWHERE, " ".join(names)) == pytest.approx(expected)


@pytest.mark.parametrize(("gap", "near"), [(1, True), (11, True), (12, True), (13, False), (20, False)])
def test_context_reaches_over_twelve_words(gap: int, near: bool, told_anew: Fit) -> None:
    told_anew(0.0)
    text = f"{ORDERED[5]} and {ORDERED[5 + gap]}"
    assert of("context", text, ELSEWHERE, SOURCE) == between(near - 1 / 2 / 2, 0.48, 0.54)


def test_fit_is_the_association_of_the_classes_of_new_pairs_within_sentences() -> None:
    counts = grammar._counted()[1]
    text = f"the {ORDERED[0]} of. {ORDERED[1]} of. The {ORDERED[0]}"
    phrases = quality._Phrases((Text(text), Text("")), quality._Source(SOURCE))
    new = (counts["the", "-"], counts["-", "of"])  # "the" before the first, "of" behind the first and the second
    assert phrases.fit == pytest.approx((new[0] + 2 * new[1]) / 3)


# --- agreement --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("both", [0, 8, 9, 10, 20])
def test_agreement_is_beyond_chance(both: int) -> None:
    """20 and 30 of 60 words have 10 in common by chance, and 20 at most."""
    first, second = ORDERED[:20], ORDERED[20 - both : 50 - both]
    apart = [" ".join(f"{word} {own}{i}" for i, word in enumerate(text)) for text, own in ((first, "y"), (second, "z"))]
    assert of("agreement", *apart, SOURCE) == pytest.approx(between((both - 10) / 10, -0.15, -0.02))


@pytest.mark.parametrize("own", [0, 12, 15, 16, 17, 40])
def test_what_both_texts_say_is_the_sources(own: int) -> None:
    text = f"{' '.join(reversed(ORDERED[:10]))} {words('z', own)}"
    assert of("agreement", text, text, SOURCE) == pytest.approx(between(11 / (own + 12), 0.36, 0.41))
