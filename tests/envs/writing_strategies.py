"""Strategies of the writing tasks that tell nothing, for `test_degenerate_writing`.

A strategy is a function from the name of a task and a row (its index among the test rows) to the two texts.
"""

from __future__ import annotations

import functools
import itertools
import random
import re
import statistics
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import llm_dec_pomdp
from llm_dec_pomdp.envs.writing.text import lexicon
from llm_dec_pomdp.types import TaskItem

Pair = tuple[str, str]
Strategy = Callable[[str, int], Pair]
Words = list[str]
NAMES = ("tldr", "arxiv")


@functools.cache
def environment(env_id: str, split: str = "test") -> Any:
    return llm_dec_pomdp.make(env_id, split=split)


def rows(name: str) -> tuple[TaskItem, ...]:
    return environment(f"{name}-v1").items


def earned(name: str, version: str, index: int, said: Pair) -> float:
    """Reward of two texts as a share of the maximum."""
    env = environment(f"{name}-{version}")
    total = env.score(rows(name)[index], dict(zip(env.possible_agents, said, strict=True))).total
    return total / env.reward_range[1]


def share(name: str, version: str, strategy: Strategy) -> float:
    """Mean over the rows."""
    return statistics.mean(earned(name, version, index, strategy(name, index)) for index in range(len(rows(name))))


def reference(name: str, index: int) -> Pair:
    first, second = rows(name)[index].reference
    return first, second


# --- writing ----------------------------------------------------------------------------------------------------------

LENGTHS = {"tldr": (30, 70), "arxiv": (130, 190)}  # words of both texts, within what the formula asks for


def fitted(name: str, first: list[str], second: list[str]) -> Pair:
    """The words of two texts, repeated to the lengths of the task."""
    return tuple(  # type: ignore[return-value]
        " ".join(itertools.islice(itertools.cycle(words), length))
        for words, length in zip((first, second), LENGTHS[name], strict=True)
    )


def source(name: str, index: int) -> list[str]:
    return rows(name)[index].prompt.split()


def dice(name: str, index: int) -> random.Random:
    return random.Random(f"{name} {index}")


def one_sentence(name: str, index: int) -> Pair:
    first, second = (re.split(r"(?<=[.!?])\s+", text)[0].split() for text in reference(name, index))
    return fitted(name, first, second)


def connectives(name: str, index: int) -> Pair:
    phrases = [phrase for category in lexicon()[0].values() for phrase in category]
    orders = [dice(name, index + shift).sample(phrases, len(phrases)) for shift in (0, 1000)]
    return fitted(name, *(" ".join(order).split() for order in orders))


def connectives_with_commas(name: str, index: int) -> Pair:
    return tuple(text.replace(" ", ", ") for text in connectives(name, index))  # type: ignore[return-value]


def connectives_as_sentences(name: str, index: int) -> Pair:
    return tuple(text.replace(" ", ". ") for text in connectives(name, index))  # type: ignore[return-value]


def copy_of_source(name: str, index: int) -> Pair:
    return fitted(name, source(name, index), source(name, index)[-LENGTHS[name][1] :])


def copy_of_beginning(name: str, index: int) -> Pair:
    return fitted(name, source(name, index), source(name, index))


def random_source_words(name: str, index: int) -> Pair:
    draw, (first, second) = dice(name, index), LENGTHS[name]
    return " ".join(draw.choices(source(name, index), k=first)), " ".join(draw.choices(source(name, index), k=second))


def shuffled_source(name: str, index: int) -> Pair:
    draw, words = dice(name, index), source(name, index)
    return fitted(name, draw.sample(words, len(words)), draw.sample(words, len(words)))


def shuffled_reference(name: str, index: int) -> Pair:
    draw = dice(name, index)
    return tuple(" ".join(draw.sample(t.split(), len(t.split()))) for t in reference(name, index))  # type: ignore[return-value]


def with_commas(pair: Pair, every: int) -> Pair:
    """A comma after every so many words, which breaks up whatever is looked for between commas."""
    return tuple(  # type: ignore[return-value]
        " ".join(word + "," * (i % every == every - 1) for i, word in enumerate(text.split())) for text in pair
    )


def dashes(name: str, index: int) -> Pair:
    """Two sentences, filled up with what is only a word to `str.split`."""
    first, second = (" ".join(text.split()[:12]) for text in reference(name, index))
    return f"{first} {'- ' * LENGTHS[name][0]}", f"{second} {'- ' * LENGTHS[name][1]}"


def something_else(name: str, index: int) -> Pair:
    return reference(name, (index + 1) % len(rows(name)))


WRITING: Mapping[str, Callable[[str, int], Pair]] = {
    "one sentence repeated": one_sentence,
    "list of connectives": connectives,
    "list of connectives with commas": connectives_with_commas,
    "connectives as sentences": connectives_as_sentences,
    "copy of the source": copy_of_source,
    "copy of its beginning twice": copy_of_beginning,
    "random source words": random_source_words,
    "shuffled source": shuffled_source,
    "shuffled source with commas": lambda n, i: with_commas(shuffled_source(n, i), 1),
    "copy with commas": lambda n, i: with_commas(copy_of_source(n, i), 3),
    "shuffled reference with commas": lambda n, i: with_commas(shuffled_reference(n, i), 2),
    "shuffled reference": shuffled_reference,
    "filled up with dashes": dashes,
    "something else": something_else,
    "half about something else": lambda n, i: (reference(n, i)[0], something_else(n, i)[1]),
    "empty elaboration": lambda n, i: (reference(n, i)[0], ""),
    "empty summary": lambda n, i: ("", reference(n, i)[1]),
    "first is the second's beginning": lambda n, i: (
        " ".join(reference(n, i)[1].split()[: LENGTHS[n][0]]),
        reference(n, i)[1],
    ),
    "second is the first repeated": lambda n, i: fitted(n, reference(n, i)[0].split(), reference(n, i)[0].split()),
}

# --- the source with something done to it -----------------------------------------------------------------------------

FOREIGN = "really quite surely maybe often perhaps simply truly mostly plainly rarely gladly".split()
OPENINGS = "Moreover However Indeed Hence Likewise Namely Unless Overall Lastly Until Besides Similarly".split()
Change = Callable[[Words, random.Random], Words]
Pick = Callable[[Words, random.Random], str]


def changed(*changes: Change) -> Strategy:
    """The source's words after some changes, in sentences of ten words that begin with different connectives."""

    def strategy(name: str, index: int) -> Pair:
        draw, words = dice(name, index), re.findall(r"[\w'/-]+", rows(name)[index].prompt)
        for change in changes:
            words = change(words, draw)
        length = LENGTHS[name][0]
        start = length if name == "tldr" else len(words) // 3
        return tuple(map(in_sentences, fitted(name, words, words[start:] + words[:start])))  # type: ignore[return-value]

    return strategy


def in_sentences(text: str) -> str:
    words = text.split()
    parts = [" ".join(words[i : i + 10]) for i in range(0, len(words), 10)]
    return " ".join(f"{opening}, {part}." for opening, part in zip(itertools.cycle(OPENINGS), parts, strict=False))


def foreign(words: Words, draw: random.Random) -> str:
    return draw.choice(FOREIGN)


def own(words: Words, draw: random.Random) -> str:
    return draw.choice(words)


def stop_word(words: Words, draw: random.Random) -> str:
    return draw.choice([word for word in words if word.lower() in lexicon()[1]] or ["the"])


def filler(every: int, pick: Pick) -> Change:
    def change(words: Words, draw: random.Random) -> Words:
        groups = [[*words[i : i + every], pick(words, draw)] for i in range(0, len(words), every)]
        return list(itertools.chain(*groups))

    return change


def replaced(every: int, pick: Pick) -> Change:
    return lambda words, draw: [pick(words, draw) if i % every == every - 1 else w for i, w in enumerate(words)]


def deleted(every: int) -> Change:
    return lambda words, _: [word for i, word in enumerate(words) if i % every != every - 1]


def shuffled(size: int) -> Change:
    """Runs of so many words in another order."""

    def change(words: Words, draw: random.Random) -> Words:
        runs = [words[i : i + size] for i in range(0, len(words), size)]
        return list(itertools.chain(*draw.sample(runs, len(runs))))

    return change


def interleaved(size: int) -> Change:
    """Runs of the first half and of the second by turns."""

    def change(words: Words, draw: random.Random) -> Words:
        half = len(words) // 2
        return [w for i in range(0, half, size) for w in words[i : i + size] + words[half + i : half + i + size]]

    return change


def swapped(words: Words, draw: random.Random) -> Words:
    return [word for i in range(0, len(words) - 1, 2) for word in (words[i + 1], words[i])]


def with_articles(words: Words, draw: random.Random) -> Words:
    """The content words in order, something small before each."""
    small = ["the", "a", "of the", "in the", "and the", "that"]
    return " ".join(f"{draw.choice(small)} {w}" for w in words if w.lower() not in lexicon()[1]).split()


def th(n: int) -> str:
    return {2: "2nd", 3: "3rd"}.get(n, f"{n}th")


CHANGED: Mapping[str, Strategy] = {
    **{f"filler after every {th(n)} word": changed(filler(n, foreign)) for n in (2, 3, 4, 6, 8)},
    **{f"source word after every {th(n)} word": changed(filler(n, own)) for n in (2, 3, 4, 8)},
    **{f"stop word after every {th(n)} word": changed(filler(n, stop_word)) for n in (2, 3, 4)},
    **{f"every {th(n)} word replaced": changed(replaced(n, foreign)) for n in (3, 5, 8)},
    **{f"every {th(n)} word replaced by the source's": changed(replaced(n, own)) for n in (3, 4, 5, 8)},
    **{f"every {th(n)} word deleted": changed(deleted(n)) for n in (2, 3, 4, 5, 8)},
    **{f"runs of {n} words shuffled": changed(shuffled(n)) for n in (2, 3, 4, 5, 6, 8, 12)},
    **{
        f"runs of {n} words shuffled, filler after every {th(m)}": changed(shuffled(n), filler(m, foreign))
        for n, m in ((2, 2), (2, 3), (2, 4), (3, 3), (4, 4))
    },
    "neighbours swapped": changed(swapped),
    "neighbours swapped, filler after every 3rd": changed(swapped, filler(3, foreign)),
    "halves interleaved by 1": changed(interleaved(1)),
    "halves interleaved by 3": changed(interleaved(3)),
    "every 4th word replaced by the source's, filler": changed(replaced(4, own), filler(4, foreign)),
    "content words with articles": changed(with_articles),
}

# --- templates --------------------------------------------------------------------------------------------------------

PLAIN_FRAMES = (
    "This is mainly about the _ and about the _ of it.",
    "However, there is also the _ and with it the _ that was _.",
    "In the end it is the _ that makes the _ what it is.",
    "Indeed, what they say of the _ is that it was _.",
    "For example, some of the _ is for the _ and not for the _.",
    "Because of the _ we have come to the _.",
    "Likewise, it was the _ after which there was _.",
    "Overall, both the _ and the _ may be of some use to _.",
    "Then they had a _ which was more than the _.",
    "Although it is _ it would be _ in most of the _.",
)
RICH_FRAMES = (
    "The story describes _ and mentions _ in passing.",
    "However, readers quickly learn how _ shaped _.",
    "Indeed, the writer stresses _ before turning to _.",
    "For example, careful attention goes toward _ besides _.",
    "Because people asked, _ gets explained alongside _.",
    "Likewise, questions around _ lead straight to _.",
    "Overall, everyone involved considers _ and _ worth discussing.",
    "Then details concerning _ emerge next to _.",
    "Lastly, several remarks about _ close with _.",
    "Although opinions differ, _ remains linked with _.",
)


def slots(words: Words, order: str, draw: random.Random) -> Iterator[str]:
    """What is put into a template: content words of the source, without end."""
    content = [word for word in words if word.lower() not in lexicon()[1]]
    size = {"in order": len(content), "at random": 1, "near": 8, "runs of 2": 2, "runs of 3": 3}[order]
    runs = [content[i : i + size] for i in range(0, len(content), size)]
    if order == "near":  # words in any order, beside words that stand near them
        runs = [draw.sample(run, len(run)) for run in runs]
    ordered = draw.sample(runs, len(runs))
    if order.startswith("runs"):
        return itertools.cycle([" ".join(run) for run in ordered])
    return itertools.cycle(itertools.chain(*ordered))


def template(frames: tuple[str, ...], order: str) -> Strategy:
    def strategy(name: str, index: int) -> Pair:
        draw = dice(name, index)
        filling = slots(re.findall(r"\w+", rows(name)[index].prompt), order, draw)
        texts: list[str] = []
        for length in LENGTHS[name]:
            text = ""
            for frame in itertools.cycle(draw.sample(frames, len(frames))):
                text += re.sub("_", lambda _: next(filling), frame) + " "
                if len(text.split()) >= length:
                    break
            texts.append(text)
        return texts[0], texts[1]

    return strategy


ORDERS = ("in order", "at random", "near", "runs of 2", "runs of 3")
TEMPLATES: Mapping[str, Strategy] = {
    **{f"template, source words {order}": template(PLAIN_FRAMES, order) for order in ORDERS},
    **{f"rich template, source words {order}": template(RICH_FRAMES, order) for order in ORDERS},
}
STRATEGIES = {**WRITING, **CHANGED, **TEMPLATES}

# --- search -----------------------------------------------------------------------------------------------------------

SEEDS = (
    "filler after every 4th word",
    "every 4th word deleted",
    "every 5th word replaced by the source's",
    "runs of 3 words shuffled",
    "template, source words at random",
    "template, source words near",
)
SEARCHED, MUTATIONS = 8, 300  # rows; per row and seed


def mutated(words: Words, source: Words, draw: random.Random) -> Words:
    """A word replaced, put in or left out, two words swapped, or a run of the source put in."""
    words, place, kind = list(words), draw.randrange(len(words)), draw.random()
    word = draw.choice(source if draw.random() < 0.75 else [*FOREIGN, *OPENINGS, *sorted(lexicon()[1])])
    if kind < 0.4:
        words[place] = word
    elif kind < 0.55:
        words.insert(place, word)
    elif kind < 0.65 and len(words) > 10:
        del words[place]
    elif kind < 0.85:
        other = draw.randrange(len(words))
        words[place], words[other] = words[other], words[place]
    else:
        size, start = draw.randint(1, 4), draw.randrange(len(source))
        words[place : place + size] = source[start : start + size]
    return words


def climbed(name: str, index: int, said: Pair) -> float:
    """What two texts earn after mutations that never lower it."""
    draw, best = dice(name, index), earned(name, "v1", index, said)
    texts = [text.split() for text in said]
    for _ in range(MUTATIONS):
        trial, which = list(texts), draw.randrange(2)
        trial[which] = mutated(texts[which], source(name, index), draw)
        reward = earned(name, "v1", index, (" ".join(trial[0]), " ".join(trial[1])))
        if reward >= best:
            texts, best = trial, reward
    return best
