"""Train on texts of a person or another model, and read the hidden states of the policy.

`to_completion` tokenizes a text as if the policy had sampled it.
"""

import torch

from llm_dec_pomdp.agents.base import Request
from llm_dec_pomdp.algorithms.options import UpdaterOptions
from llm_dec_pomdp.algorithms.samples import Sample
from llm_dec_pomdp.algorithms.updater import step_updaters, updaters_of
from llm_dec_pomdp.types import conversation

LONGEST = 64  # tokens


def samples(policy, agent, rows):
    """Yield rows of (prompt, text, worth) as samples of an agent."""
    for prompt, text, worth in rows:
        yield Sample(agent, policy.to_completion(Request(agent, conversation(prompt)), text, LONGEST), advantage=worth)


def learn(team, agent, rows, updates):
    """Train with weighted maximum likelihood and a linear schedule; return the log-likelihood at each update."""
    given = list(samples(team.members[agent], agent, rows))
    updaters = updaters_of(team, 1.0, UpdaterOptions(schedule="linear", importance="none"))
    for updater in updaters:
        updater.expect(updates)
    likelihoods = []
    for update in range(updates):
        step_updaters(updaters, given, seed=update)
        likelihoods.append(sum(sum(logprobs) for updater in updaters for logprobs in updater.logprobs.values()))
    return likelihoods


def readable(policy, agent, rows):
    """Return the correlation of the texts' worth with its best linear prediction from their last hidden states."""
    given = list(samples(policy, agent, rows))
    with torch.no_grad():
        states, mask = policy.hidden_states([(s.agent, s.completion) for s in given])
    last = states[range(len(given)), mask.sum(-1).long() - 1]
    inputs = torch.cat([last, torch.ones(len(given), 1)], dim=1)
    worth = torch.tensor([s.advantage for s in given])[:, None]
    read = inputs @ torch.linalg.lstsq(inputs, worth).solution
    return torch.corrcoef(torch.cat([read, worth], dim=1).T)[0, 1].item()
