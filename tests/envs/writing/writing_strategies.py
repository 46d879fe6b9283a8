"""Strategies of the writing tasks that tell nothing: data for `scripts/degenerate.py`.

A strategy is a function from the name of a task and a row (its index among the rows of SPLIT) to the two texts.
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
def environment(env_id: str, split: str = "test", **options: Any) -> Any:
    return llm_dec_pomdp.make(env_id, split=split, **options)


SPLIT = "test"


def rows(name: str) -> tuple[TaskItem, ...]:
    return environment(f"{name}-v1", SPLIT).items


def earned(name: str, version: str, index: int, texts: Pair, **options: Any) -> float:
    """Reward of two texts as a share of the maximum."""
    env = environment(f"{name}-{version}", **options)
    return env.score(rows(name)[index], dict(zip(env.possible_agents, texts, strict=True))).total / env.facts.max_return


def share(name: str, version: str, strategy: Strategy, every: int = 1, **options: Any) -> float:
    """Mean over every so many rows."""
    numbers = range(0, len(rows(name)), every)
    return statistics.mean(earned(name, version, i, strategy(name, i), **options) for i in numbers)


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


def content_words(name: str, index: int) -> Words:
    """The different content words of a source in random order."""
    words = dict.fromkeys(re.findall(r"[\w'-]+", rows(name)[index].prompt))
    content = [word for word in words if word.lower() not in lexicon()[1]]
    return dice(name, index).sample(content, len(content))


def bag_of_words(name: str, index: int) -> Pair:
    words = content_words(name, index)
    return fitted(name, words[: len(words) // 3], words[len(words) // 3 :])


def fixed_text(added: Callable[[str, int], Words]) -> Strategy:
    """The same text for all sources, followed by 15 and 35 words of a source."""

    def strategy(name: str, index: int) -> Pair:
        first, second = environment(f"{name}-v1", "train").items[0].reference
        words = added(name, index)
        return " ".join([first, *words[:15]]), " ".join([second, *words[15:50]])

    return strategy


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
    "bag of content words": bag_of_words,
    "one fixed text and 50 copied words": fixed_text(source),
    "one fixed text and 50 content words": fixed_text(content_words),
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


def changed(change: Change) -> Strategy:
    """The source's words after a change, in sentences of ten words that begin with different connectives."""

    def strategy(name: str, index: int) -> Pair:
        words = change(re.findall(r"[\w'/-]+", rows(name)[index].prompt), dice(name, index))
        length = LENGTHS[name][0]
        start = length if name == "tldr" else len(words) // 3
        return tuple(map(in_sentences, fitted(name, words, words[start:] + words[:start])))  # type: ignore[return-value]

    return strategy


def in_sentences(text: str) -> str:
    words = text.split()
    parts = [" ".join(words[i : i + 10]) for i in range(0, len(words), 10)]
    return " ".join(f"{opening}, {part}." for opening, part in zip(itertools.cycle(OPENINGS), parts, strict=False))


def filler(every: int) -> Change:
    return lambda words, draw: [
        w for i, word in enumerate(words, 1) for w in ((word, draw.choice(FOREIGN)) if i % every == 0 else (word,))
    ]


def deleted(every: int) -> Change:
    return lambda words, draw: [word for i, word in enumerate(words, 1) if i % every]


def runs_shuffled(words: Words, draw: random.Random) -> Words:
    runs = [words[i : i + 4] for i in range(0, len(words), 4)]
    return list(itertools.chain(*draw.sample(runs, len(runs))))


def swapped(words: Words, draw: random.Random) -> Words:
    return [word for i in range(0, len(words) - 1, 2) for word in (words[i + 1], words[i])]


CHANGED: Mapping[str, Strategy] = {
    "filler after every 4th word": changed(filler(4)),
    "filler after every 2nd word": changed(filler(2)),
    "every 4th word deleted": changed(deleted(4)),
    "every 3rd word deleted": changed(deleted(3)),
    "runs of 4 words shuffled": changed(runs_shuffled),
    "neighbours swapped": changed(swapped),
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


def slots(words: Words, order: str, draw: random.Random) -> Iterator[str]:
    """What is put into a template: content words of the source, without end."""
    content = [word for word in words if word.lower() not in lexicon()[1]]
    return itertools.cycle(content if order == "in order" else draw.sample(content, len(content)))


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


TEMPLATES: Mapping[str, Strategy] = {
    f"template, source words {order}": template(PLAIN_FRAMES, order) for order in ("in order", "at random")
}
STRATEGIES = {**WRITING, **CHANGED, **TEMPLATES}

# --- damage -----------------------------------------------------------------------------------------------------------


def harmed(change: Change) -> Strategy:
    """The reference after a change."""

    def strategy(name: str, index: int) -> Pair:
        draw = dice(name, index)
        return tuple(" ".join(change(text.split(), draw)) for text in reference(name, index))  # type: ignore[return-value]

    return strategy


def spliced(name: str, index: int) -> Pair:
    """Every sentence of the two references goes on as another one does, from its middle."""
    texts = [[sentence.split() for sentence in re.split(r"(?<=[.!?])\s+", text)] for text in reference(name, index)]
    begins = [[sentence[: len(sentence) // 2] for sentence in text] for text in texts]
    ends = [sentence[len(sentence) // 2 :] for text in texts for sentence in text]
    following = iter(ends[1:] + ends[:1])
    return tuple(" ".join(" ".join(begin + next(following)) for begin in text) for text in begins)  # type: ignore[return-value]


def content_shuffled(words: Words, draw: random.Random) -> Words:
    """30 % of the content words in another order."""
    content = [i for i, word in enumerate(words) if re.sub(r"\W", "", word).lower() not in lexicon()[1]]
    chosen = draw.sample(content, max(2, round(0.3 * len(content))))
    moved = dict(zip(chosen, draw.sample(chosen, len(chosen)), strict=True))
    return [words[moved.get(i, i)] for i in range(len(words))]


def swapped_every_tenth(words: Words, draw: random.Random) -> Words:
    words = list(words)
    for i in range(0, len(words) - 1, 10):
        words[i], words[i + 1] = words[i + 1], words[i]
    return words


DAMAGE: Mapping[str, Strategy] = {
    "neighbours swapped every tenth": harmed(swapped_every_tenth),
    "every eighth word dropped": harmed(lambda words, _: [word for i, word in enumerate(words) if i % 8 != 7]),
    "30 % of content words shuffled": harmed(content_shuffled),
    "spliced halves": spliced,
}


# --- the opposite -----------------------------------------------------------------------------------------------------

VERBS = "is are was were has have had can could will would should may might do does did must".split()
ANTONYMS = dict(
    pair
    for first, second in (
        line.split("/")
        for line in (
            "more/less higher/lower high/low large/small larger/smaller good/bad better/worse old/new first/last "
            "before/after always/never many/few much/little with/without increase/decrease increases/decreases in/out "
            "fast/slow faster/slower long/short longer/shorter strong/weak early/late all/none everyone/nobody "
            "most/least up/down easy/hard right/wrong cheap/expensive love/hate friend/enemy same/different rise/fall "
            "rises/falls"
        ).split()
    )
    for pair in ((first, second), (second, first))
)


def negated(words: Words, draw: random.Random) -> Words:
    return [w for word in words for w in ((word, "not") if word.lower() in VERBS else (word,)) if w]


def antonyms(words: Words, draw: random.Random) -> Words:
    return [re.sub(r"\w+", lambda found: ANTONYMS.get(found[0], found[0]), word) for word in words]


def numbers_changed(words: Words, draw: random.Random) -> Words:
    return [re.sub(r"\d", lambda found: str((int(found[0]) + 3) % 10), word) for word in words]


OPPOSITE: Mapping[str, Strategy] = {
    "verbs negated": harmed(negated),
    "words replaced by their opposites": harmed(antonyms),
    "other digits": harmed(numbers_changed),
}


# --- copies: few words in a row are the source's, the others what everybody knows -------------------------------------

KNOWN = (
    "I pledge allegiance to the flag of the United States of America and to the republic for which it stands one "
    "nation under God indivisible with liberty and justice for all.",
    "Four score and seven years ago our fathers brought forth on this continent a new nation conceived in liberty and "
    "dedicated to the proposition that all men are created equal. Now we are engaged in a great civil war testing "
    "whether that nation or any nation so conceived and so dedicated can long endure.",
)


def between_known(name: str, index: int) -> Pair:
    """Twenty words of a text that everybody knows, the next twelve of the source, and so on."""
    copied = itertools.cycle(source(name, index))
    texts: list[Words] = []
    for known in map(str.split, KNOWN):
        runs = ([*known[start : start + 20], *itertools.islice(copied, 12)] for start in range(0, len(known), 20))
        texts.append([word for run in runs for word in run])
    return fitted(name, *texts)


COPIED: Mapping[str, Strategy] = {
    "runs of the source between runs of known texts": between_known,
}
