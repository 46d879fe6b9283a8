"""`RemoteEnv` is the environment that its server plays."""

from __future__ import annotations

import gc
import os
import pickle
import socket
from collections.abc import Callable
from typing import Any

import pytest
from every import make_least

from llm_dec_pomdp.agents import RandomText, Sampling, Team
from llm_dec_pomdp.envs import TextDecPOMDP, check_env, make
from llm_dec_pomdp.envs.checks import CHECKS
from llm_dec_pomdp.envs.wrappers import with_protocol
from llm_dec_pomdp.rollout import Trajectories
from llm_dec_pomdp.serving import RemoteEnv, RemoteEnvError
from llm_dec_pomdp.serving.sessions import Limits

Serving = Callable[..., str]


PLAYED = {  # a game, a task of texts, one with tests, and two hierarchies
    "dectiger-v0": {"max_turns": 4},
    "tldr-v0": {"max_turns": 2},
    "coophumaneval-v0": {},
    "keys-v0": {},
    "research-v0": {},
}


@pytest.mark.parametrize(
    "env_id", [pytest.param(name, marks=() if name == "keys-v0" else pytest.mark.slow) for name in PLAYED]
)
def test_every_law_is_kept_through_the_wire(env_id: str, serving: Serving) -> None:
    url = serving(make_least(env_id, max_turns=3))
    assert check_env(RemoteEnv(url), rows=1) == list(CHECKS)


def played(env: TextDecPOMDP, say: Any, **options: Any) -> list[Any]:
    """All that can be seen of an episode."""
    seen: list[Any] = [env.reset(**options)]
    while True:
        there = {agent: (env.history(agent), env.asked(agent)) for agent in env.possible_agents}
        after = env.latest.transition
        outcome = (env.latest.observations, after.events, after.reward, after.rewards, after.score, after.reset_history)
        seen.append((env.agents, env.turn, there, outcome, env.item, env.state(), env.last_score))
        if not env.agents:
            return seen
        seen.append(env.step({agent: say(agent, env.history(agent)) for agent in env.agents}))


@pytest.mark.every(2)
@pytest.mark.parametrize("env_id", PLAYED)
def test_an_episode_is_the_same_in_every_part(env_id: str, serving: Serving) -> None:
    env: Any = make_least(env_id, **PLAYED[env_id])
    there, say = RemoteEnv(serving(env)), env.script("optimal") if "optimal" in env.facts.scripts else None
    if env_id in ("tldr-v0", "coophumaneval-v0"):
        say = lambda agent, history: f"{agent} writes \x00 \ud83d {len(history)}"  # noqa: E731
    for seed in (0, 7, None, None):  # None goes on with what the last one seeded
        assert repr(played(there, say, seed=seed)) == repr(played(env, say, seed=seed))
    assert there.items == env.items
    assert there.facts.roles == env.facts.roles
    texts = [f"def f{number}():\n    return 1\n" for number, _ in enumerate(env.possible_agents)]
    joined = there.facts.join(texts)
    assert joined == env.facts.join(texts)
    assert there.facts.split(joined) == env.facts.split(joined)
    for turns in (2, 5):
        there.max_turns = env.max_turns = turns
        for name in ("score_range", "reward_range", "max_return", "optimum", "score_scale"):
            assert getattr(there.facts, name) == getattr(env.facts, name)
    for agent in env.possible_agents:
        assert there.tools(agent) == env.tools(agent)
        assert list(there.choices(agent)) == list(env.choices(agent))


def test_one_agent_may_play_a_hierarchy_alone(serving: Serving) -> None:
    env = make("keys-v0")
    there, here = RemoteEnv(serving(env)).single_agent(), env.single_agent()
    assert there is not None
    assert here is not None
    assert there.facts.roles == here.facts.roles
    assert repr(played(there, lambda *_: "k1", seed=1)) == repr(played(here, lambda *_: "k1", seed=1))
    assert RemoteEnv(serving(make("tldr-v0"))).single_agent() is None


@pytest.mark.parametrize("protocol", ["centralized", "sequential", "discussion"])
def test_protocols_and_rollouts_run_on_it(protocol: str, serving: Serving) -> None:
    env = make("tldr-v0")
    groups: list[Any] = []
    for playing in (with_protocol(env, protocol), with_protocol(RemoteEnv(serving(env)), protocol)):
        team = Team(dict.fromkeys(playing.possible_agents, RandomText()))
        ids = [item.id for item in playing.items[:2]]
        groups.append(Trajectories().play(playing, team, ids, [3, 4], Sampling(max_new_tokens=8), 3))
    texts = [
        [(e.item_id, e.rewards, [t.observations for t in e.turns]) for g in side for e in g.episodes] for side in groups
    ]
    assert texts[0] == texts[1]


def test_a_task_that_is_not_there_is_the_same_error(serving: Serving) -> None:
    there = RemoteEnv(serving(make("tldr-v0")))
    there.reset(seed=0)
    before = there.state()
    with pytest.raises(KeyError, match="nothing"):
        there.reset(options={"task_id": "nothing"})
    with pytest.raises(IndexError, match="999"):
        there.reset(options={"index": 999})
    assert there.state() == before


def test_other_tasks_may_be_played_but_not_brought(serving: Serving) -> None:
    env = make("tldr-v0")
    there = RemoteEnv(serving(env))
    last = env.items[-1]
    some = there.with_items([last])
    assert (some.items, there.items) == ((last,), env.items)
    some.reset(seed=0)
    assert some.item == last
    with pytest.raises(RemoteEnvError, match="arxiv"):
        there.with_items(make("arxiv-v0").items[:1])


def test_a_text_that_is_too_long_to_send_is_refused_and_the_episode_goes_on(serving: Serving) -> None:
    there = RemoteEnv(serving(make("telegrams-v0")))
    there.reset(seed=0)
    with pytest.raises(RemoteEnvError, match="16777216"):
        there.step(dict.fromkeys(there.agents, "x" * 6_000_000))
    there.step(dict.fromkeys(there.agents, "a text"))


# --- sessions ---------------------------------------------------------------------------------------------------------


def test_copies_and_pickles_share_a_session(serving: Serving) -> None:
    there = RemoteEnv(serving(make("tldr-v0"), limits=Limits(sessions=1)))
    there.reset(seed=0)
    twin, copied = there.fork(), pickle.loads(pickle.dumps(there))
    steps = []
    for env in (twin, copied, there):
        steps.append(env.step(dict.fromkeys(env.agents, "a text")))
        env.close()
    assert steps[0] == steps[1] == steps[2]
    there.reset(seed=1)  # `close` ended connections, not the session


def test_an_environment_that_is_gone_makes_room_for_another(serving: Serving) -> None:
    url = serving(make("telegrams-v0"), limits=Limits(sessions=1))
    for seed in range(3):
        RemoteEnv(url, tries=6).reset(seed=seed)
        gc.collect()


def test_a_request_whose_connection_was_lost_is_sent_again(serving: Serving) -> None:
    there = RemoteEnv(serving(make("telegrams-v0", max_turns=2)))
    there.reset(seed=0)
    for connection in there._client._unused:
        connection.socket.shutdown(socket.SHUT_RDWR)
    there.step(dict.fromkeys(there.agents, "a text"))
    assert there.turn == 1


def test_states_without_a_reference_are_dropped(serving: Serving) -> None:
    there = RemoteEnv(serving(make("telegrams-v0", max_turns=2), limits=Limits(megabytes=1)))
    start = there.snapshot()
    there.reset(seed=0)
    kept = there.snapshot()
    for seed in range(100):  # more states than fit into a session
        there.step(dict.fromkeys(there.agents, "a text"))
        there.reset(seed=seed)
    there.restore(kept)
    assert there.turn == 0
    there.step(dict.fromkeys(there.agents, "a text"))
    there.restore(start)
    assert there.agents == []


def test_a_token_is_not_in_a_pickle(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LLM_DEC_POMDP_TOKEN", raising=False)
    url = serving(make("telegrams-v0"), token="s3cret-token")
    with pytest.raises(RemoteEnvError, match="token"):
        RemoteEnv(url)
    stored = pickle.dumps(RemoteEnv(url, token="s3cret-token"))
    assert b"s3cret" not in stored
    with pytest.raises(RemoteEnvError, match="LLM_DEC_POMDP_TOKEN"):
        pickle.loads(stored).reset(seed=0)
    monkeypatch.setenv("LLM_DEC_POMDP_TOKEN", "s3cret-token")
    pickle.loads(stored).reset(seed=0)
    RemoteEnv(url).reset(seed=0)


def test_a_forked_process_leaves_the_connections_of_its_parent_alone(serving: Serving) -> None:
    there = RemoteEnv(serving(make("telegrams-v0")))
    there.reset(seed=0)
    if (child := os.fork()) == 0:
        there.close()
        os._exit(0)
    os.waitpid(child, 0)
    there.step(dict.fromkeys(there.agents, "a text"))


@pytest.mark.parametrize("url", ["127.0.0.1:8000", "http://me:secret@localhost"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"localhost|127\.0\.0\.1") as caught:
        RemoteEnv(url)
    assert "secret" not in str(caught.value)
