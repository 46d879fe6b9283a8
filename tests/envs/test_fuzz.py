"""Fuzzed texts through every registered environment: no exception, and every reward in its range.

More than 20,000 in the full run and about a hundred for each environment in the default run.

Texts are drawn from a fixed seed per environment, so a run that passes passes again. An environment plays two turns
with each batch, so that feedback reads every text too. Few of the texts for code tasks hold a program that can be
judged; how many did is asserted as well, because a fuzz test that never gets past the first gate shows nothing.
"""

from __future__ import annotations

import itertools
import json
import math
import random
import zlib
from collections.abc import Sequence
from typing import Any
from unittest import mock

import pytest
from every import make_least, seen
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.internal.conjecture import providers

import llm_dec_pomdp
from llm_dec_pomdp.envs.base import TextDecPOMDP, step_many
from llm_dec_pomdp.envs.wrappers import PROTOCOLS, with_protocol
from llm_dec_pomdp.envs.writing.reward import lexicon
from llm_dec_pomdp.types import Score

FOR_ANY_NUMBER = ("telegrams-v0", "relay-v0", "meeting-v0")  # of agents
SOFTWARE = ("classeval-v0", "merge-v0")  # ask for more than a drawn function
AGENTS = 2  # for whom texts are dealt out; one agent plays half of them
BATCH = 16  # texts: four episodes of two turns and two agents
# In these and in hierarchies a text without a form ends the episode at once; `check_env` tries them.
ENDED_BY_ANY_TEXT = ("scouts-v0", "pennies-v0", "kuhn-v0", "verify-v0")
MORE_AGENTS = ("debate-v0", "document-v0", "incident-v0", "review-v0")  # than texts are dealt out for
FLAT = [
    env_id
    for env_id in sorted(llm_dec_pomdp.registry)
    if env_id not in (*ENDED_BY_ANY_TEXT, *MORE_AGENTS, "modules-v0") and not seen(env_id).facts.hierarchical
]
WRITING = [env_id for env_id in FLAT if not seen(env_id).facts.judges_code]
CODE = sorted(set(FLAT) - set(WRITING))
# How many texts for every environment, whole batches all, in the full run and in the default run.
FULL = {"writing": 704, "code": 320, "protocols": 160}
BRIEF = {"writing": 96, "code": 96, "protocols": 32}
brief_and_full = pytest.mark.parametrize(
    "counts", [BRIEF, pytest.param(FULL, marks=pytest.mark.slow)], ids=["brief", "full"]
)
# Of the texts are different, and are played; the first that are drawn are short and repeat each other.
SHARE, SHARE_OF_FEW = 0.97, 0.85

# --- texts ------------------------------------------------------------------------------------------------------------

ANY = st.text(st.characters(), max_size=12)  # lone surrogates included
ODD = st.sampled_from(
    "\x00|\ud800|\udfff\ud800|\u202e|\u2028|\x85|\x1c|\r\n|\ufeff|İ|ß|ſ|ǅ|Σ|a\u0301|٣|½|𝕬|🙂|👩‍👩‍👧|\U0010ffff|%s|{0}|\\N{DASH}|nan|1e999|-0|```|`|[/b]".split(
        "|"
    )
)
COMMON = [*sorted(lexicon()[1])[:60], *(phrase for phrases in lexicon()[0].values() for phrase in phrases[:4])]
PROSE = st.lists(st.sampled_from([*COMMON, "WORD"]) | ODD, max_size=6).map(" ".join)


MIXED = [*COMMON, *["WORD"] * 60, *[". "] * 9, "\u2028"]
FUNCTION_WORDS = sorted(lexicon()[1])
MARKS = ["...", "-", "?!", "\u202e", "\ufeff", "🙂", "«»", "'", "\ud800", "[", "٪"]  # not one word in them


def wordy(number: int, count: int, vocabulary: Sequence[str]) -> str:
    """`count` words of a vocabulary in an order of their own."""
    return " ".join(" ".join(random.Random(number).choices(vocabulary, k=count)).split()[:count])


SIZED = [
    st.builds(
        wordy, st.integers(0, 2**63), st.sampled_from(counts), st.sampled_from([MIXED, MIXED, FUNCTION_WORDS, MARKS])
    )
    for counts in (
        [7, 8, 12, 30],
        [20, 60, 90, 127],
        [128, 140, 160],
        [150, 170, 190],
        [180, 200, 230],
        [250, 256, 257],
    )
]
FENCED = st.builds(
    "{}\n```{}\n{}\n{}{}".format,
    ANY,
    st.sampled_from(["python", "py", "", " ", "text"]),
    ANY | PROSE,
    st.sampled_from(["```", "``", "", "~~~"]),
    ANY,
)
HEADED = st.builds("[{}]{}{}".format, st.sampled_from(["summary", "AUX", "main", "method", ""]), ODD, PROSE)
HUGE = st.builds(
    lambda piece, size: piece * (size // max(len(piece), 1)), ANY | ODD, st.sampled_from([300, 3000, 30_000, 200_000])
)
TEXT = st.one_of(ANY, PROSE, *SIZED, FENCED, HEADED, HUGE)

# --- code-like texts --------------------------------------------------------------------------------------------------

VALUE = st.sampled_from(
    "0|1|-1|x|''|[]|None|True|float('nan')|1e999|10 ** 400|aux|aux(x)|aux(*a)|ENTRY(x)|len(x)|x[0]|x + x|sorted(x)|"
    "{1: [2]}|{x}|lambda: x|(i for i in x)|'\\ud800'|b'\\x00'|1 / 0|missing|type('T', (), {})()|print|...|~x|x == x|"
    "__import__('os').getcwd()|open('/etc/passwd').read()|globals()|dict.fromkeys('ab', aux(x))|aux(aux(x))|range(3)|"
    "int('9' * 5000)|str(x) * 1000|f'{x!r:>9}'|x if aux(x) else None|[aux(i) for i in x]|[*a] or x|object()".split("|")
)
LINE = st.one_of(
    st.builds("{} = {}".format, st.sampled_from(["y", "x", "y, z", "x[0]", "y: int", "aux", "global y"]), VALUE),
    st.sampled_from(
        ["aux(x)", "import math", "pass", "raise ValueError('\\ud800')", "x.append(1)", "assert x", "'doc'"]
    ),
    st.sampled_from(
        ["if x: return x", "for i in [1]: return i", "with x: pass", "del x", "raise SystemExit", "nonlocal y"]
    ),
)
PARAMETERS = st.sampled_from(["*a, x=1, **k", "x=1, *a, **k", "x, *a", "*a", "x", "", "x, x", "x=missing"])


def function(name: str, parameters: str, lines: Sequence[str], value: str) -> str:
    body = "".join(f"    {line}\n" for line in (*lines, f"return {value}"))
    return f"def {name}({parameters}):\n{body}"


FUNCTION = st.builds(
    function,
    st.sampled_from(["aux", "ENTRY", "ENTRY", "helper"]),
    PARAMETERS,
    st.lists(LINE, max_size=3),
    VALUE,
)
PIECE = st.sampled_from(
    'def |def aux(|def ENTRY(|async def |class |return|:|\n|    |\t|(|)|"""|\'|#|\\|```python\n|```|@aux\n|x|lambda |=|'
    "\x00|\ud800|\x0c|\u2028|if x:\n|import os\n|aux(x)|yield|await |*|**|->|[1]|f'{".split("|")
)
SHARDS = st.lists(PIECE, max_size=25).map("".join)
CODE_TEXT = st.one_of(
    TEXT,
    SHARDS,
    st.builds("```python\n{}```\n{}".format, FUNCTION, ANY),
    st.builds("{}\n{}".format, FUNCTION, SHARDS),
    st.builds("{}\n\n{}".format, FUNCTION, FUNCTION),
)

# --- playing ----------------------------------------------------------------------------------------------------------


def check(env: TextDecPOMDP, result: Any) -> None:
    """What holds for every step whatever was said."""
    observations, rewards, terminations, truncations, infos = result
    low, high = env.facts.reward_range
    assert len(set(rewards.values())) == 1
    reward = rewards["agent_0"]
    assert type(reward) is float
    assert math.isfinite(reward)
    assert low <= reward <= high
    assert all(isinstance(text, str) for text in observations.values())
    score = env.latest.transition.score.total if env.latest.transition.score else 0.0
    for agent, info in infos.items():
        assert all(type(value) is float and math.isfinite(value) for value in info.values())
        assert math.isclose(sum(info[f"reward/{name}"] for name in env.facts.components), score, abs_tol=1e-9)
        assert terminations[agent] is (not env.agents)
        assert truncations[agent] is False


def play(env: TextDecPOMDP, index: int, texts: Sequence[str]) -> tuple[int, int]:
    """Four episodes, stepped together, of two turns or phases at most.

    Returns:
        How many texts were played, and how many joint actions got past the first gate.
    """
    item = env.items[index % len(env.items)]
    words = item.prompt.split()
    fitted = [adapted(text, item.fields.get("entry_point", ""), words) for text in texts]
    copies = [env.fork() for _ in range(BATCH // 4)]
    for copy in copies:
        copy.reset(options={"task_id": item.id})
    played = passed = 0
    for turn in range(2):
        live = [number for number, copy in enumerate(copies) if copy.agents]
        actions = [dict(zip(env.possible_agents, fitted[4 * n + 2 * turn :], strict=False)) for n in live]
        for number, result in zip(live, step_many([copies[n] for n in live], actions), strict=True):
            check(copies[number], result)
            played += len(env.possible_agents)
            score = copies[number].latest.transition.score
            passed += score is not None and past_the_gate(score)
    for copy in copies:
        assert json.loads(copy.state())["turn"] == copy.turn
        copy.render_mode = "ansi"
        assert str(copy.render()).startswith(env.metadata["name"])
    return played, passed


def adapted(text: str, entry_point: str, words: Sequence[str]) -> str:
    """A drawn text about this task: with its entry point, and with words of its own."""
    pieces = text.split("WORD")
    inserted = (words[(7 * number + len(text)) % len(words)] for number in range(len(pieces) - 1))
    text = "".join(itertools.chain.from_iterable(zip(pieces, [*inserted, ""], strict=True)))
    return text.replace("ENTRY", entry_point)


def past_the_gate(score: Score) -> bool:
    return score.notes.get("outcome") != "not run" and score.notes.get("stopped_at") != "structure"


def drawn(texts: st.SearchStrategy[str], count: int, name: str) -> list[str]:
    """Texts of a strategy, always the same for a name; nearly all of them differ."""
    found: list[str] = []

    @seed(zlib.crc32(name.encode()))
    @settings(max_examples=count, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(texts)
    def keep(text: str) -> None:
        found.append(text)

    # Hypothesis mixes constants of the modules that happen to be loaded into what it draws, and keeps them.
    none, kept = providers.Constants(), type(providers.CONSTANTS_CACHE)(1024)
    with mock.patch.multiple(providers, _get_local_constants=lambda: none, CONSTANTS_CACHE=kept):
        keep()
    assert len(set(found)) >= (SHARE if count in FULL.values() else SHARE_OF_FEW) * count
    return found


def two_turns(env_id: str) -> TextDecPOMDP:
    """An environment for two agents, where it has so many, and two turns."""
    options = {"n_agents": 2} if env_id in FOR_ANY_NUMBER else {}
    return make_least(env_id, max_turns=2, **options)


def fuzz(env: TextDecPOMDP, texts: Sequence[str]) -> tuple[int, int]:
    """The sums of `play` over batches of texts."""
    batches = [texts[start : start + BATCH] for start in range(0, len(texts), BATCH)]
    results = [play(env, index, batch) for index, batch in enumerate(batches)]
    return sum(played for played, _ in results), sum(passed for _, passed in results)


@brief_and_full
@pytest.mark.parametrize(
    "env_id",
    [
        pytest.param(env_id, marks=pytest.mark.slow if env_id in ("tldr-v2", "arxiv-v2") else ())  # a judge reads them
        for env_id in (*WRITING, *CODE)
    ],
)
def test_every_task_takes_any_text(env_id: str, counts: dict[str, int]) -> None:
    texts, count = (TEXT, counts["writing"]) if env_id in WRITING else (CODE_TEXT, counts["code"])
    env = two_turns(env_id)
    played, passed = fuzz(env, drawn(texts, count, env_id))
    assert played >= SHARE * count * len(env.possible_agents) / AGENTS
    assert env_id in SOFTWARE or passed >= (10 if counts is FULL else 1)


@pytest.mark.parametrize("protocol", sorted(set(PROTOCOLS) - {"parallel"}))
@pytest.mark.parametrize(
    ("env_id", "counts"),
    [("tldr-v0", BRIEF), *(pytest.param(env_id, FULL, marks=pytest.mark.slow) for env_id in WRITING)],
)
def test_writing_tasks_take_any_text_under_every_protocol(env_id: str, protocol: str, counts: dict[str, int]) -> None:
    env = with_protocol(two_turns(env_id), protocol)
    texts = drawn(TEXT | HEADED, counts["protocols"], env.metadata["name"])
    played, _ = fuzz(env, texts)
    assert played >= len(texts) // AGENTS * len(env.possible_agents)
