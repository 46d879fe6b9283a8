"""MAPPO with TorchRL; the critic observes both agents' observations: pip install torch==2.13.0 torchrl==0.14.1.

python examples/libraries/torchrl_mappo.py tldr-v0     # or dectiger-v0
"""

from __future__ import annotations

import warnings
from pathlib import Path

import torch
import typer
from tensordict.nn import TensorDictModule
from torchrl.collectors import Collector
from torchrl.envs.libs.pettingzoo import PettingZooWrapper
from torchrl.modules import MultiAgentMLP, ProbabilisticActor
from torchrl.objectives import ClipPPOLoss, ValueEstimators
from two_tasks import TASKS, finish

SEEN, ACTION, VALUE = ("agent", "observation"), ("agent", "action"), ("agent", "state_value")


def main(task: str, steps: int = 6000, seed: int = 0, out: Path | None = None) -> None:
    """Train for a number of joint actions, and print the result."""
    torch.manual_seed(seed)
    warnings.filterwarnings("ignore", message="PettingZoo in TorchRL is tested using")
    env = PettingZooWrapper(TASKS[task](), seed=seed)
    seen, actions = env.observation_spec[SEEN].shape[-1], env.full_action_spec[ACTION].space.n
    nets = [
        MultiAgentMLP(seen, outputs, 2, centralized=central, share_params=True, depth=2, num_cells=64)
        for outputs, central in ((actions, False), (1, True))
    ]
    policy = ProbabilisticActor(
        TensorDictModule(nets[0], [SEEN], [("agent", "logits")]),
        spec=env.full_action_spec,
        in_keys={"logits": ("agent", "logits")},
        out_keys=[ACTION],
        distribution_class=torch.distributions.Categorical,
        return_log_prob=True,
    )
    loss = ClipPPOLoss(policy, TensorDictModule(nets[1], [SEEN], [VALUE]), entropy_coeff=0.0, normalize_advantage=True)
    keys = {name: ("agent", name) for name in ("reward", "done", "terminated")}
    loss.set_keys(action=ACTION, value=VALUE, **keys)
    loss.make_value_estimator(ValueEstimators.GAE, gamma=1.0, lmbda=0.95)
    optimizer = torch.optim.Adam(loss.parameters(), lr=1e-3, eps=1e-5)
    for batch in Collector(env, policy, frames_per_batch=200, total_frames=steps):
        with torch.no_grad():
            critic = {"params": loss.critic_network_params, "target_params": loss.target_critic_network_params}
            loss.value_estimator(batch, **critic)
        for _ in range(8):
            for part in batch.reshape(-1)[torch.randperm(batch.numel())].split(50):
                terms = loss(part)
                (terms["loss_objective"] + terms["loss_critic"]).backward()
                optimizer.step()
                optimizer.zero_grad()
    finish("TorchRL MAPPO", ["torchrl", "tensordict"], task, seed, out)


if __name__ == "__main__":
    typer.run(main)
