"""A text that a person wrote about something else, with words of the source in the place of some of its own.

The other text is the reference of a train row. A strategy says which of its content words go, and what comes instead;
the stronger ones know what the reward of v1 looks at and choose by it.
"""

from __future__ import annotations

import functools
import itertools
import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from writing_strategies import Pair, Strategy, Words, dice, environment, rows, slots, th

from llm_dec_pomdp.envs.writing.grammar import WordClasses, _counted, association_of_pairs
from llm_dec_pomdp.envs.writing.text import Text, lexicon

WORD = r"\w+"


def is_content(word: str) -> bool:
    return word.lower() not in lexicon()[1]


@dataclass
class Unit:
    """Content words next to each other that go together, and what stands before and behind them wherever they occur.

    `place` is where they, or else those before, stand in the source that they are from: 0 its beginning, 1 its end.
    """

    words: tuple[str, ...]
    place: float = 0.0
    around: list[tuple[str, str]] = field(default_factory=list)


Taken = Callable[[Words, set[str]], list[bool]]
Filling = Callable[[list[Unit], str, random.Random], list[tuple[str, ...]]]


def other_text(taken: Taken, filling: Filling, size: int = 1, always: bool = False) -> Strategy:
    """The reference of another row with units of its content words replaced.

    Args:
        taken: Which of the content words go, given them and those of the source that the reference was written about.
        filling: What comes for every unit, given the source.
        size: Most words of a unit.
        always: The same unit is replaced by the same words throughout.
    """

    def strategy(name: str, index: int) -> Pair:
        draw, source = dice(name, index), rows(name)[index].prompt
        item = draw.choice(environment(f"{name}-v1", "train").items)
        texts = [re.split(rf"({WORD})", text) for text in item.reference]  # words at odd places
        places = [(text, i) for text in texts for i in range(1, len(text), 2)]
        content = [(text, i) for text, i in places if is_content(text[i])]
        chosen = taken([text[i].lower() for text, i in content], Text(item.prompt).content)
        own = Text(item.prompt).words
        place = 0.0
        units: dict[object, Unit] = {}
        where: list[tuple[Words, list[int], object]] = []
        for text, run in _runs(list(itertools.compress(content, chosen)), size):
            words = tuple(text[i].lower() for i in run)
            before = text[run[0] - 2].lower() if run[0] > 2 else ""
            after = text[run[-1] + 2].lower() if run[-1] + 2 < len(text) else ""
            key = words if always else len(where)
            if key not in units:
                place = next((own.index(word) / len(own) for word in words if word in own), place)
                units[key] = Unit(words, place)
            units[key].around.append((before, after))
            where.append((text, run, key))
        new = dict(zip(units, filling(list(units.values()), source, draw), strict=True))
        for text, run, key in where:
            for i, word in itertools.zip_longest(run, new[key][: len(run)], fillvalue=""):
                text[i] = word
        return "".join(texts[0]), "".join(texts[1])

    return strategy


def _runs(places: list[tuple[Words, int]], size: int) -> Iterator[tuple[Words, list[int]]]:
    """Places with only a space between them, together."""
    text, run = places[0][0], [places[0][1]]
    for other, i in places[1:]:
        if other is text and i == run[-1] + 2 and text[i - 1] == " " and len(run) < size:
            run.append(i)
        else:
            yield text, run
            text, run = other, [i]
    yield text, run


def some(n: int, m: int) -> Taken:
    return lambda words, _: [i % m < n for i in range(len(words))]


def topic(words: Words, source: set[str]) -> list[bool]:
    """Those that its own source has."""
    return [word in source for word in words]


def often(share: float) -> Taken:
    """The share of different words that occur most often."""

    def taken(words: Words, _: set[str]) -> list[bool]:
        counts = Counter(words)
        top = {word for word, _ in counts.most_common(int(share * len(counts)))}
        return [word in top for word in words]

    return taken


# --- what comes instead -----------------------------------------------------------------------------------------------


def listed(order: str, fit: bool = False) -> Filling:
    """Content words of the source one after the other; with `fit` the first of eight that has the class of the old."""

    def filling(units: list[Unit], source: str, draw: random.Random) -> list[tuple[str, ...]]:
        words = _in_order(re.findall(WORD, source), order, draw)
        classes: WordClasses = _counted()[0]
        waiting: Words = []
        new: list[tuple[str, ...]] = []
        for unit in units:
            waiting += itertools.islice(words, (8 if fit else 1) - len(waiting))
            wanted = (i for i, word in enumerate(waiting) if classes[word.lower()] == classes[unit.words[0]])
            new.append((waiting.pop(next(wanted, 0) if fit else 0),))
        return new

    return filling


def _in_order(words: Words, order: str, draw: random.Random) -> Iterator[str]:
    content = list(filter(is_content, words))
    if order == "forward and back":  # near each other, in the order of the source, and never a run of three
        place = 0
        while True:
            yield content[place % len(content)]
            place += draw.choice((1, 1, 2, 5, 6, -3))
    elif order == "runs of 4 from anywhere":
        while True:
            start = draw.randrange(len(content))
            yield from content[start : start + 4]
    else:
        yield from itertools.chain.from_iterable(map(str.split, slots(words, order, draw)))


def suited(fit: float, near: float, size: int = 1, in_step: bool = False, classes: float = 0.0) -> Filling:
    """Content words of the source that have the same function words beside them there, near those chosen before.

    Args:
        fit: Points for one that has the same word before or behind it.
        near: Points less for every word between it and what was chosen before.
        size: Most words of a unit.
        in_step: Near the place instead that is as far on in the source as the old one is in its own.
        classes: Points for the association of its word classes with those of the function words beside it.
    """

    def filling(units: list[Unit], source: str, draw: random.Random) -> list[tuple[str, ...]]:
        candidates, length = _candidates(source, size), len(re.findall(WORD, source))
        used: Counter[str] = Counter()
        instead: dict[str, str] = {}  # so that a word is the same in all units
        last, new = 0, []
        for unit in units:
            best, found, place = float("-inf"), unit.words, last
            for words, stands in candidates.items():
                if len(words) != min(len(unit.words), size):
                    continue
                before, after = {b for b, _, _ in stands}, {a for _, a, _ in stands}
                same = sum((b in before) + (a in after) for b, a in unit.around) / len(unit.around)
                again = sum(instead.get(old) == word for old, word in zip(unit.words, words, strict=True))
                worn = 0 if again else 8 * sum(used[word] for word in words) / len(words)
                here = unit.place * length if in_step else last + 2
                away, nearest = min((abs(at - here), at) for _, _, at in stands)
                points = fit * same + 15 * again * (size > 1) - worn - near * min(away, 25) + draw.random()
                points += classes * _association(unit, words) if classes else 0.0
                if points > best:
                    best, found, place = points, words, nearest
            used.update(found)
            instead.update(zip(unit.words, found, strict=True))
            last = place
            new.append(found)
        return new

    return filling


def _association(unit: Unit, words: tuple[str, ...]) -> float:
    """How well words go with the function words before and behind them where they come, as the reward counts it."""
    before = [(before, words[0]) for before, _ in unit.around if before and not is_content(before)]
    after = [(words[-1], after) for _, after in unit.around if after and not is_content(after)]
    return sum(association_of_pairs([pair]) for pair in before + after) / len(unit.around)


def bent(filling: Filling) -> Filling:
    """Every fourth with another ending of its last word."""

    def endings(units: list[Unit], source: str, draw: random.Random) -> list[tuple[str, ...]]:
        new = filling(units, source, draw)
        return [(*words[:-1], _bent(words[-1])) if i % 4 == 3 else words for i, words in enumerate(new)]

    return endings


def _bent(word: str) -> str:
    for old, other in (("ing", "ed"), ("ed", "ing"), ("s", ""), ("e", "ed")):
        if word.endswith(old) and len(word) > len(old) + 2:
            return word.removesuffix(old) + other
    return f"{word}s"


@functools.cache
def _candidates(source: str, size: int) -> Mapping[tuple[str, ...], list[tuple[str, str, int]]]:
    """Runs of content words of one sentence: the function words before and behind them, and their place."""
    candidates: dict[tuple[str, ...], list[tuple[str, str, int]]] = defaultdict(list)
    start = 0
    for sentence in re.split(r"[.!?\n]", source.lower()):
        words = re.findall(WORD, sentence)
        for i, j in itertools.combinations(range(len(words) + 1), 2):
            if j - i <= size and all(map(is_content, words[i:j])):
                before, after = words[i - 1] if i else "-", words[j] if j < len(words) else "-"
                candidates[tuple(words[i:j])].append(
                    ("-" if is_content(before) else before, "-" if is_content(after) else after, start + i)
                )
        start += len(words)
    return candidates


# --- longer pieces ----------------------------------------------------------------------------------------------------


def pieces(size: int, n: int, m: int) -> Strategy:
    """Runs of so many words of the source, function words too, for n of every m words."""

    def strategy(name: str, index: int) -> Pair:
        draw, words = dice(name, index), re.findall(WORD, rows(name)[index].prompt)
        starts = iter(lambda: draw.randrange(len(words) - size), None)
        filling = (word for start in starts for word in words[start : start + size])
        count = itertools.count()
        first, second = draw.choice(environment(f"{name}-v1", "train").items).reference

        def word(match: re.Match[str]) -> str:
            return next(filling) if next(count) % m < n else match[0]

        return re.sub(WORD, word, first), re.sub(WORD, word, second)

    return strategy


def phrases(every: int, as_long: bool = False, few: int | None = None) -> Strategy:
    """A phrase of the source, function words and the content words behind them, for every nth phrase.

    Args:
        every: Which phrases go.
        as_long: Take one with as many words.
        few: Take from so many only, the same in both texts.
    """

    def strategy(name: str, index: int) -> Pair:
        draw = dice(name, index)
        own = [phrase for part in re.split(r"[.!?\n,;:]", rows(name)[index].prompt) for phrase in _phrases(part)]
        own = [phrase for phrase in own if is_content(phrase[-1])]
        own = draw.sample(own, min(few or len(own), len(own)))
        count = itertools.count()

        def instead(phrase: Words) -> str:
            if next(count) % every:
                return " ".join(phrase)
            return " ".join(draw.choice([p for p in own if not as_long or len(p) == len(phrase)] or own))

        def part(match: re.Match[str]) -> str:
            return " ".join(map(instead, _phrases(match[0]))) + " "

        first, second = draw.choice(environment(f"{name}-v1", "train").items).reference
        return re.sub(r"[^.!?,;:]+", part, first), re.sub(r"[^.!?,;:]+", part, second)

    return strategy


def _phrases(text: str) -> list[Words]:
    found: list[Words] = []
    for word in re.findall(WORD, text):
        if not found or (is_content(found[-1][-1]) and not is_content(word)):
            found.append([])
        found[-1].append(word)
    return found


# --- all of them ------------------------------------------------------------------------------------------------------

ORDERS = ("in order", "at random", "near", "runs of 2", "runs of 3", "runs of 4 from anywhere", "forward and back")
HALVES = {"every 2nd": some(1, 2), "10 of 20": some(10, 20), "its topic": topic}
CONSISTENT = {"its topic": topic, "half, the commonest": often(0.5)}
PHRASES = {
    "": suited(10, 0.3, size=3),
    ", near": suited(10, 0.8, size=3),
    ", bent": bent(suited(10, 0.3, size=3)),
    ", in step": suited(10, 0.3, size=3, in_step=True),
    ", in step, bent": bent(suited(10, 0.3, size=3, in_step=True)),
}
OTHER_TEXTS: Mapping[str, Strategy] = {
    **{f"another text, all, {order}": other_text(some(1, 1), listed(order)) for order in ORDERS[:3]},
    **{
        f"another text, {which}, {order}": other_text(taken, listed(order))
        for which, taken in HALVES.items()
        for order in ORDERS
    },
    **{
        f"another text, {which}, {order}, of the class": other_text(HALVES[which], listed(order, fit=True))
        for which in ("10 of 20", "its topic")
        for order in ("runs of 2", "runs of 4 from anywhere")
    },
    **{
        f"another text, {which}, suited": other_text(taken, suited(20, 0.6))
        for which, taken in {**HALVES, "every 3rd": some(1, 3)}.items()
    },
    **{
        f"another text, {which}, always the same": other_text(taken, suited(10, 0.3), always=True)
        for which, taken in CONSISTENT.items()
    },
    **{
        f"another text, {n} of {m} words in pieces of {size}": pieces(size, n, m)
        for size in (2, 4)
        for n, m in ((6, 20), (10, 20))
    },
    **{f"another text, every {th(n)} phrase": phrases(n) for n in (2, 3)},
    **{f"another text, every {th(n)} phrase as long": phrases(n, as_long=True) for n in (2, 3)},
    **{f"another text, every {th(n)} phrase out of {few}": phrases(n, few=few) for n in (2, 3) for few in (12, 20)},
    **{
        f"another text, {which}, phrases always the same{how}": other_text(taken, filling, size=3, always=True)
        for which, taken in CONSISTENT.items()
        for how, filling in PHRASES.items()
    },
}
# What v1 pays still: phrases that are chosen one by one by the counts that it looks things up in, and bent.
STILL_PAID: Mapping[str, Strategy] = {
    f"another text, {which}, phrases always the same, of the classes, bent": other_text(
        taken, bent(suited(10, 0.3, size=3, classes=5)), size=3, always=True
    )
    for which, taken in CONSISTENT.items()
}
