"""Pass tasks and rewards to another library: one prompt per agent, and a function that scores joint actions."""

import math


def rows(env):
    """Yield the first observation of each agent of each task."""
    for item in env.items:
        observations, _ = env.reset(options={"task_id": item.id})
        for agent, prompt in observations.items():
            yield {"task": item.id, "agent": agent, "prompt": prompt}


def score(env, task, texts):
    """Return the joint reward of one text per agent; None if it could not be scored."""
    env.reset(options={"task_id": task})
    _, rewards, *_ = env.step(texts)
    reward = rewards[env.possible_agents[0]]
    return None if math.isnan(reward) else reward
