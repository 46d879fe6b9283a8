"""What the published writing rewards do not look at, and v1 does: is it a text, about the source, in own words?

Eight properties between 0 and 1, each a linear ramp between two measured values; natural texts of a few sentences lie
on the full side. The reward of v1 is the gated formula times their product.

| property | measured | 0 at | 1 at |
|---|---|---|---|
| relevance | share of a text's content words that occur in the source | 0.15 | 0.27 |
| variety | different bigrams / bigrams of a text | 0.50 | 0.80 |
| originality | share of a text's 5-grams that stand in the source | 0.90 | 0.40 |
| independence | share of the first text's 5-grams that stand in the second | 0.90 | 0.40 |
| rewording | P: pairs of words that follow each other as in the source | 0.72 | 0.62 |
| rewording, too | R: runs of three content words that follow each other as in the source | 0.65 | 0.50 |
| rewording, too | share of the different content words that occur in the source | 0.80 | 0.72 |
| context | U: source words with a function word beside them that they have there | 0.090 | 0.125 |
| context, too | E: source words next to each other that stand so in the source | 0.25 | 0.28 |
| context, too | min(I, 0.30) + 5 min(H, 0.06) + M - E / 2: source words fit, are bent, stay together | 0.48 | 0.54 |
| agreement | G: source words that both texts have, beyond chance | -0.15 | -0.02 |
| agreement, too | J: content words of both texts that are the source's | 0.36 | 0.41 |
| grammar | mean association of the word classes that follow each other, `grammar.association` | 0.14 | 0.24 |
| grammar, too | share of function words among the words | 0.60 | 0.53 |

For the first three the lower of the two texts counts. The last four are of both texts together, and what has several
measures is their product. P, R and M read only the words that the source has, as if nothing stood between them: with
s the words of the source, c its content words, and w, v those of the texts that it has (a pair or run counts once,
however often it is said; near: at most three places behind),

    P = |{(w_i, w_i+1)} and {(s_j, s_k), k near j}| / |{(w_i, w_i+1)}|
    R = |{(v_i, v_i+1, v_i+2)} and {(c_j, c_k, c_l), k near j, l near k}| / |{(v_i, v_i+1, v_i+2)}|
    M = |V and K| / |V|,  V = {(v_i, v_i+1)},  K = {content words (s_j, s_k), 0 < k - j <= 12}

U, E and I read the words as they stand. With T the pairs of words that follow each other in a sentence of the texts, S
the pairs in the source, T_fc the pairs of T that are a function word and a content word of the source (in either
order), T_cc those of two content words of the source, X, Y those of the N content words of the source that the first
and the second text have, and O the content words of the texts that the source has not:

    U = (|T_fc and S| + 1) / (|T_fc| + 2),  E = (|T_cc and S| + 1) / (|T_cc| + 2)
    I = mean over T_fc without S of the association of their word classes, as in `grammar`
    H = |those of O that are a word of the source with another ending| / |X or Y|
    e = |X| |Y| / N,  G = (|X and Y| - e) / (min(|X|, |Y|) - e)
    J = (|X and Y| + 1) / (content words that both texts have + 2)

Who tells a source anew puts its words beside other function words that go with them (I), gives them other endings (H)
and keeps near each other what is so there (M, less what follows from phrases that are taken over whole). Of short texts
each is known but roughly, so they are added up, the first two to a limit, so that neither does alone. Who puts words or
phrases of the source into a text about something else has little of the sum. e is how many words two draws of that size
from the source have in common by chance, so G is 0 for words that were drawn and 1 where the texts take up the same.
The 1 and the 2 keep texts with few such pairs or words off both ends.

Punctuation is not looked at, but for the ends of sentences in grammar, so commas hide nothing. Words are compared by
their first five letters for relevance; an ending is what of d, e, g, i, l, n, s, t, y stands at the end of a word,
behind its third letter.

What this cannot see: whether it is true; docs/degenerate_writing.md has figures, and what remains.

The ramps were set on the embedded train rows: references on the full side; copied, mixed, shuffled and templated ones
on the zero side. `tests/envs/test_degenerate_writing.py` holds the table of strategies on the test rows.
"""

from __future__ import annotations

import functools
import math
from itertools import compress, pairwise, product
from operator import itemgetter

from . import reward
from .grammar import association, association_of_pairs
from .text import Text, lexicon, words_of

PROPERTIES = ("relevance", "variety", "originality", "independence", "rewording", "context", "agreement", "grammar")
_stem = itemgetter(slice(5))  # the letters of a word that are compared for relevance: a plain stemmer
_ENDING = "deginlsty"  # letters that endings are made of
_NEAR, _CLOSE = range(1, 4), 12  # words from one to the next: as good as next to each other; in the same context
_OWN = 0.40  # share of 5-grams that a text may have in common with another one


class HardenedPair(reward.Pair):
    """Two texts about a source as v1 measures them."""

    def __init__(self, first: str, second: str, source: str) -> None:
        self.first, self.second, self._source = Text(first), Text(second), _source(source)

    def words(self) -> tuple[int, int]:
        """How many words the texts have; signs between spaces are none."""
        return len(self.first.words), len(self.second.words)

    def lengths(self) -> tuple[int, int]:
        """Characters of the words, so that neither signs nor spaces make a text longer."""
        return self.first.letters, self.second.letters

    def vocabularies(self) -> tuple[int, int]:
        """How many different words the texts have."""
        return len(self.first.vocabulary), len(self.second.vocabulary)

    def connective_categories(self, both: bool) -> float:
        """How many connective categories the texts use, as whole words and with diminishing returns per sentence."""
        return categories_as_words(*((self.first, self.second) if both else (self.second,)))

    def contents(self) -> tuple[set[str], set[str]]:
        """The different words of the texts that are no stop words."""
        return self.first.content, self.second.content

    def properties(self) -> dict[str, float]:
        """The eight properties, each in [0, 1]."""
        first, second, source = self.first, self.second, self._source
        retold = _Retold((first, second), source)
        return {
            "relevance": min(_relevance(first, source), _relevance(second, source)),
            "variety": min(_variety(first), _variety(second)),
            "originality": min(_own_words(first, source.text), _own_words(second, source.text)),
            "independence": _own_words(first, second),
            "rewording": _rewording(retold, source),
            "context": _context(retold, _Phrases((first, second), source), source),
            "agreement": _agreement(first, second, source),
            "grammar": _grammar(first, second),
        }


def factor(properties: dict[str, float]) -> float:
    """What the reward is multiplied by: the product of the properties."""
    return math.prod(properties.values())


def categories_as_words(*texts: Text) -> float:
    """How many connective categories texts use, as whole words and with diminishing returns per sentence.

    The k-th new category of a sentence counts 1 / 2^(k-1), so a list of connectives earns little more than one.
    """
    index = _connectives()
    seen: set[str] = set()
    count = 0.0
    for text in texts:
        words, ends = text.words, iter(text.ends)
        start, end, worth = 0, 0, 1.0  # of the sentence
        for position in compress(range(len(words)), map(index.__contains__, words)):
            for phrase, size, before, category in index[words[position]]:
                begin = position - before
                if category in seen or (size > 1 and words[begin : begin + size] != phrase):
                    continue
                while position >= end:
                    start, end, worth = end, next(ends), 1.0
                if start <= begin and begin + size <= end:
                    seen.add(category)
                    count += worth
                    worth /= 2
    return count


@functools.cache
def _connectives() -> dict[str, list[tuple[list[str], int, int, str]]]:
    """By its most telling word every connective: its words, their number, how many stand before it, its category."""
    connectives, stop_words = lexicon()
    index: dict[str, list[tuple[list[str], int, int, str]]] = {}
    for category, phrases in connectives.items():
        for phrase in map(words_of, phrases):
            telling = max(phrase, key=lambda word: (word not in stop_words, len(word)))
            index.setdefault(telling, []).append((phrase, len(phrase), phrase.index(telling), category))
    return index


class _Source:
    """A source text and what is read off it; the texts of a group share one."""

    def __init__(self, raw: str) -> None:
        self.text = Text(raw)
        self.content = self.text.content  # the different content words
        self.stems = set(map(_stem, self.content))
        self.forms = set(map(_form, self.content))  # without their endings
        words = self.text.words
        # Two words, the second at most three words behind the first.
        self.pairs = {pair for gap in _NEAR for pair in zip(words, words[gap:], strict=False)}
        told = [word for word in words if word in self.content]
        # Three content words, each at most three content words behind the one before.
        self.runs = {
            run
            for gap, next_gap in product(_NEAR, _NEAR)
            for run in zip(told, told[gap:], told[gap + next_gap :], strict=False)
        }
        # Two content words, the second at most twelve words behind the first.
        self.close = {
            (word, later)
            for place, word in enumerate(words)
            if word in self.content
            for later in words[place + 1 : place + 1 + _CLOSE]
            if later in self.content
        }


_source = functools.lru_cache(maxsize=256)(_Source)


def _form(word: str) -> str:
    """A word without its ending, so that "stay" and "staying" are one."""
    return word[:3] + word[3:].rstrip(_ENDING)


def _relevance(text: Text, source: _Source) -> float:
    enough = 0.27
    content = text.content
    known = len(content & source.content)
    if known < enough * len(content):  # else other forms of the same words add nothing
        known += sum(map(source.stems.__contains__, map(_stem, content - source.content)))
    return _ramp(known / max(len(content), 1), 0.15, enough)


def _variety(text: Text) -> float:
    bigrams = len(text.words) - 1
    return _ramp(len(text.bigrams) / bigrams, 0.50, 0.80) if bigrams > 0 else 1.0


def _own_words(text: Text, other: Text) -> float:
    """1 for a text that has few 5-grams in common with another one, 0 for one that has nearly all."""
    words = text.words
    every_fourth = zip(words[::4], words[1::4], strict=False)
    if 4 * sum(map(other.bigrams.__contains__, every_fourth)) <= _OWN * (len(words) - 4):
        return 1.0  # every 5-gram in common holds one of these bigrams, and each of those lies in four of them at most
    common = set(other.five_grams())
    grams = text.five_grams()
    return _ramp(sum(gram in common for gram in grams) / max(len(grams), 1), 0.90, _OWN)


class _Retold:
    """What two texts say in the words of a source, all others left out."""

    def __init__(self, texts: tuple[Text, Text], source: _Source) -> None:
        known, content = source.text.vocabulary, source.content
        self.pairs: set[tuple[str, str]] = set()  # of neighbouring words
        self.neighbours: set[tuple[str, str]] = set()  # of neighbouring content words
        self.runs: set[tuple[str, str, str]] = set()  # of three content words
        for text in texts:
            words = [word for word in text.words if word in known]
            self.pairs.update(pairwise(words))
            words = [word for word in words if word in content]
            self.neighbours.update(pairwise(words))
            self.runs.update(zip(words, words[1:], words[2:], strict=False))
        all_content = texts[0].content | texts[1].content
        said = len(all_content & content)
        self.borrowed = said / max(len(all_content), 1)  # share of the content words that the source has
        # H: how many of the others are words of the source with another ending, for every one that it has.
        self.bent = sum(map(source.forms.__contains__, map(_form, all_content - content))) / max(said, 1)


class _Phrases:
    """How two texts put words next to content words of a source: as it does, or otherwise; see U, E and I above."""

    def __init__(self, texts: tuple[Text, Text], source: _Source) -> None:
        content, functional, there = source.content, lexicon()[1], source.text.bigrams
        beside: set[tuple[str, str]] = set()
        joined: set[tuple[str, str]] = set()
        for text in texts:
            for sentence in text.sentences():
                for pair in pairwise(sentence):
                    word, after = pair
                    if word in content:
                        if after in content:
                            joined.add(pair)
                        elif after in functional:
                            beside.add(pair)
                    elif after in content and word in functional:
                        beside.add(pair)
        self.usage = (len(beside & there) + 1) / (len(beside) + 2)  # U
        self.joined = (len(joined & there) + 1) / (len(joined) + 2)  # E
        self.fit = association_of_pairs(beside - there)  # I


def _rewording(retold: _Retold, source: _Source) -> float:
    """1 for texts that have words of their own and do not say the source's in its order, 0 for copies with changes."""
    pairs = len(retold.pairs & source.pairs) / max(len(retold.pairs), 1)
    runs = len(retold.runs & source.runs) / max(len(retold.runs), 1)
    return _ramp(pairs, 0.72, 0.62) * _ramp(runs, 0.65, 0.50) * _ramp(retold.borrowed, 0.80, 0.72)


def _context(retold: _Retold, phrases: _Phrases, source: _Source) -> float:
    """1 for texts that use the source's words as it does, or as they can be used; 0 for words put elsewhere."""
    near = len(retold.neighbours & source.close) / max(len(retold.neighbours), 1)
    told_anew = min(phrases.fit, 0.30) + 5 * min(retold.bent, 0.06) + near - phrases.joined / 2
    return _ramp(phrases.usage, 0.090, 0.125) * _ramp(phrases.joined, 0.25, 0.28) * _ramp(told_anew, 0.48, 0.54)


def _agreement(first: Text, second: Text, source: _Source) -> float:
    """1 for texts that take up the same words of the source, and not others."""
    said, said_too = first.content & source.content, second.content & source.content
    both, most = len(said & said_too), min(len(said), len(said_too))
    by_chance = len(said) * len(said_too) / max(len(source.content), 1)
    beyond = (both - by_chance) / (most - by_chance) if most > by_chance else 0.0
    shared = (both + 1) / (len(first.content & second.content) + 2)
    return _ramp(beyond, -0.15, -0.02) * _ramp(shared, 0.36, 0.41)


def _grammar(first: Text, second: Text) -> float:
    """1 for texts whose words follow each other as in real text and are not function words for the most part."""
    words, functional = len(first.words) + len(second.words), lexicon()[1]
    share = sum(map(functional.__contains__, first.words + second.words)) / max(words, 1)
    return _ramp(association(first, second), 0.14, 0.24) * _ramp(share, 0.60, 0.53)


def _ramp(x: float, zero: float, one: float) -> float:
    """0 at `zero`, 1 at `one`, linear between, flat beyond; either may be the larger."""
    height = (x - zero) / (one - zero)
    return 0.0 if height < 0.0 else 1.0 if height > 1.0 else height
