"""What v1 of the writing tasks asks of the words that texts take from their source: closed-form cases."""

from __future__ import annotations

import pytest
from writing_properties import AGREEMENT, SOURCE, between, of, words

# --- rewording --------------------------------------------------------------------------------------------------------

ORDERED = words("source", 60).split()
ELSEWHERE = words("z", 60)


@pytest.mark.parametrize("gap", [1, 2, 3, 4, 7])
def test_every_so_manieth_word_of_the_source_is_a_copy_up_to_the_third(gap: int) -> None:
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


@pytest.mark.parametrize("forward", [10, 12, 15, 20, 29])
def test_context_is_what_stands_near_in_order_less_what_stands_near_turned_round(forward: int) -> None:
    text = [*ORDERED[: forward + 1], *reversed(ORDERED[forward + 20 : 60])]
    neighbours = len(text) - 1  # one pair, at the seam, is not near
    turned = neighbours - 1 - forward
    assert of("context", " ".join(text), ELSEWHERE, SOURCE) == pytest.approx(
        between((forward - turned) / neighbours, 0.02, 0.10)
    )


@pytest.mark.parametrize(("gap", "value"), [(1, 1.0), (11, 1.0), (12, 1.0), (13, 0.0), (20, 0.0)])
def test_context_reaches_over_twelve_words(gap: int, value: float) -> None:
    assert of("context", f"{ORDERED[5]} and {ORDERED[5 + gap]}", ELSEWHERE, SOURCE) == value


@pytest.mark.parametrize("same", range(1, 6))
def test_context_wants_the_function_words_beside_a_word_that_stand_there(same: int) -> None:
    """Of 59 pairs the source has `of` before the first words and behind all but the last of them: 2 same - 1."""
    source = " ".join(f"{'of' if i < same else 'by'} {word}" for i, word in enumerate(ORDERED[:30]))
    text = " ".join(f"of {word}" for word in ORDERED[:30])
    assert of("context", text, ELSEWHERE, source) == pytest.approx(between(2 * same / 61, 0.090, 0.125))


@pytest.mark.parametrize("joined", [0, 2, 5, 6, 7, 12])
def test_context_wants_words_next_to_each_other_that_are_so_there(joined: int) -> None:
    text = [*ORDERED[: joined + 1], *ORDERED[joined + 2 :: 2]]
    expected = between((joined + 1) / (len(text) - 1 + 2), 0.18, 0.26)
    assert of("context", " ".join(text), ELSEWHERE, SOURCE) == pytest.approx(expected)


@pytest.mark.parametrize("alone", [2, 4, 5, 6, 9])
def test_context_wants_phrases_to_stand_near_each_other(alone: int) -> None:
    """Eight phrases of two words and some words alone, all far from each other in the source."""
    places = [3 * block + third for block in range(6) for third in (0, 20, 40)][: 8 + alone]
    parts = [" ".join(ORDERED[place : place + 1 + (i < 8)]) for i, place in enumerate(places)]
    text = " ".join(f"{part} own{i}" for i, part in enumerate(parts))
    expected = between(8 / (15 + alone) - 9 / 10 / 2, -0.10, -0.03)
    assert of("context", text, ELSEWHERE, SOURCE) == pytest.approx(expected)


# --- agreement --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("both", [0, 8, 9, 10, 20])
def test_agreement_is_beyond_chance(both: int) -> None:
    """20 and 30 of 60 words have 10 in common by chance, and 20 at most."""
    first, second = ORDERED[:20], ORDERED[20 - both : 50 - both]
    apart = [" ".join(f"{word} {own}{i}" for i, word in enumerate(text)) for text, own in ((first, "y"), (second, "z"))]
    assert of("agreement", *apart, SOURCE) == pytest.approx(between((both - 10) / 10, -0.15, -0.02))


@pytest.mark.parametrize("forward", [20, 21, 22, 23, 30])
def test_borrowed_pairs_take_from_agreement(forward: int) -> None:
    """Two texts that say all words agree as by chance."""
    text = " ".join([*ORDERED[: forward + 1], *reversed(ORDERED[forward + 1 :])])
    assert of("agreement", text, text, SOURCE) == pytest.approx(between(-2 * forward / 59, *AGREEMENT))


@pytest.mark.parametrize("own", [0, 12, 20, 24, 40])
def test_what_both_texts_say_is_the_sources(own: int) -> None:
    text = f"{' '.join(reversed(ORDERED[:10]))} {words('z', own)}"
    assert of("agreement", text, text, SOURCE) == pytest.approx(between(11 / (own + 12), 0.25, 0.40))
