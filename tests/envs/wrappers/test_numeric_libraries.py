"""The libraries that the numeric wrappers are for take them up: TorchRL and SuperSuit (the extra `numeric`)."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from pettingzoo.test import parallel_api_test
from tasks import WORDS, duo

import llm_dec_pomdp
from llm_dec_pomdp.envs.wrappers import PROTOCOLS, ByteObservation, DiscreteMenu, FixedRoster, TokenIds, with_protocol

MENU = ("so but if as also " * 3, "yes", "One two three four five six seven eight nine.")
AGENTS = ["agent_0", "agent_1"]


def menus(protocol: str, max_turns: int = 2) -> Any:
    env = with_protocol(llm_dec_pomdp.make("tldr-v0", max_turns=max_turns), protocol)
    return FixedRoster(ByteObservation(DiscreteMenu(env, MENU), 256))


def tokens(protocol: str) -> Any:
    env = with_protocol(llm_dec_pomdp.make("tldr-v0", max_turns=2), protocol)
    return FixedRoster(ByteObservation(TokenIds(env, MENU[0].split(), 12), 256))


# --- TorchRL, which takes seconds to import ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def torchrl() -> Callable[..., Any]:
    """TorchRL's wrapper of PettingZoo environments."""
    reason = "TorchRL is not installed: pip install -c constraints.txt -e '.[numeric]'"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("torchrl", reason=reason)
        import torch
        from torchrl.envs.libs.pettingzoo import PettingZooWrapper

    torch.set_num_threads(1)  # the networks are too small for more

    def wrapped(env: Any, **kwargs: Any) -> Any:
        with warnings.catch_warnings():  # it warns about every PettingZoo but one
            warnings.filterwarnings("ignore", message="PettingZoo in TorchRL is tested using")
            return PettingZooWrapper(env, **kwargs)

    return wrapped


@pytest.mark.slow
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("build", [menus, tokens])
@pytest.mark.parametrize("kwargs", [{}, {"use_mask": True, "return_state": True}, {"categorical_actions": False}])
def test_torchrl_agrees_with_every_spec(torchrl: Any, build: Any, protocol: str, kwargs: dict[str, Any]) -> None:
    from torchrl.envs.utils import check_env_specs

    env = torchrl(build(protocol), **kwargs)
    check_env_specs(env)
    assert env.rollout(6, break_when_any_done=False).batch_size == (6,)


@pytest.mark.slow
def test_a_torchrl_rollout_is_the_episode_of_the_environment(torchrl: Any) -> None:
    import torch

    env = FixedRoster(ByteObservation(DiscreteMenu(duo(), WORDS), 64))
    rolled = torchrl(env, seed=3).rollout(40, break_when_any_done=False)
    actions, rewards = rolled["agent", "action"], rolled["next", "agent", "reward"]
    hits = (actions == torch.tensor([0, 1])).sum(-1).float()
    assert torch.equal(rewards[..., 0], hits[:, None].expand(-1, 2))
    assert rolled["next", "terminated"][:, 0][hits == 2].all()
    assert torch.equal(rolled["next", "terminated"], rolled["next", "done"])  # nothing is cut
    assert torch.equal(rolled["next", "agent", "info", "reward/hits"][:, 0], hits)
    assert len(hits.unique()) == 3
    observations = {bytes(row.tolist()).rstrip(b"\0").decode() for row in rolled["agent", "observation"][:, 1]}
    assert observations <= {f"post {i}\n\nwrite the second part" for i in range(5)}
    assert len(observations) > 1


@pytest.mark.slow
def test_torchrl_draws_entry_0_for_agents_that_are_not_asked(torchrl: Any) -> None:
    rolled = torchrl(menus("sequential")).rollout(40, break_when_any_done=False)
    asked, actions = rolled["agent", "info", "asked"].bool(), rolled["agent", "action"]
    assert (actions[~asked] == 0).all()
    assert len(actions[asked].unique()) == 3
    assert (rolled["agent", "action_mask"].sum(-1)[~asked] == 1).all()
    assert rolled["agent", "observation"][asked].any(-1).all()
    assert not rolled["agent", "observation"][~asked].any()


@pytest.mark.slow
def test_menus_of_different_sizes_need_a_group_per_agent(torchrl: Any) -> None:
    from torchrl.envs.utils import MarlGroupMapType, check_env_specs

    sizes = {"agent_0": ["a", "b"], "agent_1": ["c", "d", "e"]}
    env = torchrl(ByteObservation(DiscreteMenu(duo(), sizes), 32), group_map=MarlGroupMapType.ONE_GROUP_PER_AGENT)
    check_env_specs(env)
    assert set(env.group_map) == set(AGENTS)


# --- SuperSuit --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def supersuit() -> Any:
    """The SuperSuit module."""
    reason = "SuperSuit is not installed: pip install -c constraints.txt -e '.[numeric]'"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("supersuit", reason=reason)


@pytest.mark.parametrize(
    ("name", "args", "shape"),
    [
        ("dtype_v0", (np.float32,), (256,)),
        ("frame_stack_v1", (2,), (512,)),
        ("agent_indicator_v0", (), (258,)),
        ("pad_observations_v0", (), (256,)),
        ("clip_reward_v0", (), (256,)),
    ],
)
def test_supersuit_wraps(supersuit: Any, name: str, args: tuple[Any, ...], shape: tuple[int, ...]) -> None:
    env = getattr(supersuit, name)(menus("sequential"), *args)
    assert env.observation_space("agent_0").shape == shape
    parallel_api_test(env, num_cycles=4)


def test_supersuit_pads_menus_of_different_sizes(supersuit: Any) -> None:
    env = supersuit.pad_action_space_v0(DiscreteMenu(duo(), {"agent_0": ["a"], "agent_1": ["c", "d", "e"]}))
    assert [env.action_space(agent).n for agent in AGENTS] == [3, 3]


def test_supersuit_turns_the_agents_of_several_copies_into_one_batch(supersuit: Any) -> None:
    env = FixedRoster(ByteObservation(DiscreteMenu(duo(), WORDS), 64))
    copies = supersuit.concat_vec_envs_v1(
        supersuit.pettingzoo_env_to_vec_env_v1(env), 2, num_cpus=0, base_class="gymnasium"
    )
    observations, _ = copies.reset(seed=0)
    assert observations.shape == (4, 64)
    assert observations.any(axis=1).all()
    _, rewards, terminations, truncations, _ = copies.step(np.array([0, 1, 0, 0]))
    assert rewards.tolist() == [2.0, 2.0, 1.0, 1.0]
    assert terminations.tolist() == [1, 1, 1, 1]
    assert truncations.tolist() == [0, 0, 0, 0]
