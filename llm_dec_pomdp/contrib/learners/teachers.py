# pyright: basic
"""Teachers: policies that give log-probabilities of a student's tokens.

| teacher | log-probability of a token | student |
|---|---|---|
| `ScriptTeacher` | log((1 - epsilon) [action = script's action] + epsilon / number of actions) | tables |
| `ModelTeacher` | log pi of a model in this process, such as a trained team | same menu or tokenizer |
| `ServerTeacher` | `prompt_logprobs` of a vLLM server | same tokenizer |

A model teacher scores the token ids that the student sampled, never a second tokenization of the text. So teacher and
student must have the same ids: tables the same menu, language models the same tokenizer. This is checked.

Contexts. A teacher with `sees = "own"` reads the student's own prompt. A privileged teacher (`sees = "all"`) is a
single agent that was trained under the protocol "centralized". It observes all agents and writes all parts, each below
the header of its agent. The part of agent i is scored inside this joint action: after the observations of all agents,
the sampled parts of the agents before i, and the header of i. For agents 1 to n with the parts y_1 to y_n, this is

    log T(y_1, ..., y_n | o) = sum over i of log T(y_i | o, y_1, ..., y_{i-1}).                                (parts)

Agent i ends its part with its end token, where the single agent writes the header of the next part. So the end token of
every part but the last is scored by the log-probability of that header. A part cannot contain this header: a token that
completes it inside a part has probability 0.001.
"""

from __future__ import annotations

import json
import math
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import torch

from llm_dec_pomdp.agents import Remote, Team
from llm_dec_pomdp.config import ConfigError
from llm_dec_pomdp.envs import TextDecPOMDP
from llm_dec_pomdp.envs.wrappers import Centralized
from llm_dec_pomdp.http import WireError
from llm_dec_pomdp.seeding import derive
from llm_dec_pomdp.types import Completion, Episode, Message, grouped

_BATCH = 16  # completions per forward pass
_HEADER = math.log(0.001)  # log-probability of a token that completes the next header inside a part
_PART = "\x00part\x00"  # placeholder for a part in a joint action
_PROBE = "Teacher and student: 1234 tokens, naïve café, \n\tdef f(x): return x"  # text that tokenizers must agree on


class Asked(NamedTuple):
    """A completion to score, and the context that the teacher reads before it.

    Attributes:
        agent: The agent that sampled the completion.
        completion: The completion.
        history: The history that the teacher reads: of the agent, or of the single agent that sees all observations.
        before: The joint action up to the part of the agent; None with the agent's own history.
        after: The joint action between this part and the next one.
    """

    agent: str
    completion: Completion
    history: tuple[Message, ...]
    before: str | None = None
    after: str = ""


class Teacher(ABC):
    """A policy that gives log-probabilities of given tokens.

    Attributes:
        labels: Whether it may know the right actions.
    """

    labels = False

    @abstractmethod
    def logprobs(self, asked: Sequence[Asked]) -> list[tuple[float, ...]]:
        """Return log T(token | before) of each completion, one number per token, in nats."""


class ScriptTeacher(Teacher):
    """A scripted team whose actions have probability 1 - epsilon + epsilon / n; the other actions have epsilon / n.

    n is the number of actions that the environment lists. The script acts on the agent's own history.

    Args:
        env: The environment, under the protocol of the team.
        name: Name of the script.
        epsilon: Probability mass that is spread evenly over all actions.

    Raises:
        ValueError, KeyError: The environment has no such script.
    """

    labels = True

    def __init__(self, env: TextDecPOMDP, name: str, epsilon: float) -> None:
        self._task, self._name, self._epsilon = env.task, name, epsilon
        self._say = env.task.script(name)

    def logprobs(self, asked: Sequence[Asked]) -> list[tuple[float, ...]]:
        """Return the log-probability of each action, which is one token.

        Raises:
            ValueError: The script's action is not among the listed actions.
        """
        return [(self._logprob(a),) for a in asked]

    def _logprob(self, asked: Asked) -> float:
        agent, actions = asked.agent, list(self._task.choices(asked.agent, asked.history))
        played = self._say(agent, asked.history)
        if played not in actions:
            raise ValueError(
                f"script:{self._name} acts {played[:60]!r}, which is not among the {len(actions)} actions of "
                f"{agent!r}; choose another teacher"
            )
        rest = self._epsilon / len(actions)
        return math.log(rest + (1 - self._epsilon) * (asked.completion.text == played))


class ModelTeacher(Teacher):
    """A team of this process as teacher; its weights are not trained.

    Args:
        team: The teacher: one member for each agent of the students, or the single agent that sees all observations.
        students: The team that is trained.
        temperatures: Temperature of each trained agent, at which student and teacher are compared.

    Raises:
        ConfigError: A member has other token ids than its student.
    """

    def __init__(self, team: Team, students: Team, temperatures: Mapping[str, float]) -> None:
        [first, *others] = team.members
        self._names = {agent: agent if others else first for agent in temperatures}
        self._team, self._temperatures = team, temperatures
        for agent, name in self._names.items():
            teacher, student = team.members[name], students.members[agent]
            if _vocabulary(teacher) != _vocabulary(student):
                raise ConfigError(
                    f"teacher and student of {agent!r} have different token ids ({type(teacher).__name__} and "
                    f"{type(student).__name__}), so its tokens cannot be scored; give a teacher with the same "
                    "tokenizer, or for tables the same actions"
                )

    def logprobs(self, asked: Sequence[Asked]) -> list[tuple[float, ...]]:
        """Return the log-probabilities of each completion."""
        found: dict[int, tuple[float, ...]] = {}
        for agent, numbers in grouped(range(len(asked)), lambda n: asked[n].agent).items():
            policy = self._team.members[self._names[agent]]
            for batch in (numbers[first : first + _BATCH] for first in range(0, len(numbers), _BATCH)):
                rows = [_row(asked[n], policy) for n in batch]
                with torch.no_grad():
                    logprobs, _ = policy.token_logprobs(
                        [(self._names[agent], row) for row in rows], self._temperatures[agent]
                    )
                for n, row, values in zip(batch, rows, logprobs.double().tolist(), strict=True):
                    found[n] = _folded(values, asked[n], row, policy)
        return [found[n] for n in range(len(asked))]


class ServerTeacher(Teacher):
    """A model on a vLLM server as teacher, by the log-probabilities of a prompt of token ids (`prompt_logprobs`).

    The server scores at temperature 1.

    Args:
        url: Base address, as in "http://localhost:8000/v1".
        model: Name of the model on the server.
        students: The team that is trained, which builds the prompts.

    Raises:
        ConfigError: The server's tokenizer has other token ids than a student.
        RemoteError: The server returns no usable answer.
    """

    def __init__(self, url: str, model: str, students: Team) -> None:
        key = os.environ.get("OPENAI_API_KEY")
        self._remote, self._students = Remote(url, model, api_key=key), students
        root = Remote(self._remote.url.removesuffix("/v1"), model, api_key=key)
        probe = {"model": model, "prompt": _PROBE, "add_special_tokens": False}
        there = root.answered("/tokenize", probe, _tokens_of)
        for agent, policy in students.members.items():
            here = _tokenizer(policy).encode(_PROBE, add_special_tokens=False)
            if here != there:
                raise ConfigError(
                    f"the tokenizer of {model!r} at {self._remote.url} has other token ids than the student of "
                    f"{agent!r}, so its tokens cannot be scored; give a teacher with the same tokenizer"
                )

    def logprobs(self, asked: Sequence[Asked]) -> list[tuple[float, ...]]:
        """Return the log-probabilities of each completion."""
        with ThreadPoolExecutor(self._remote.concurrency) as threads:
            return list(threads.map(self._scored, asked))

    def _scored(self, asked: Asked) -> tuple[float, ...]:
        policy = self._students.members[asked.agent]
        row = _row(asked, policy)
        ids = [*row.prompt_ids, *row.token_ids]
        body = {"model": self._remote.model, "prompt": ids, "max_tokens": 1, "temperature": 0, "prompt_logprobs": 0}
        read = partial(_prompt_logprobs, ids=ids, start=len(row.prompt_ids))
        return _folded(self._remote.answered("/completions", body, read), asked, row, policy)


def _tokens_of(answer: bytes) -> list[int]:
    try:
        return [int(token) for token in json.loads(answer)["tokens"]]
    except (LookupError, TypeError, ValueError, RecursionError) as error:
        raise WireError(f"an answer of /tokenize without tokens ({error!r})", again=False, status=200) from None


def _prompt_logprobs(answer: bytes, ids: Sequence[int], start: int) -> list[float]:
    """Return the log-probabilities of the ids from `start` on."""
    try:
        entries = json.loads(answer)["choices"][0]["prompt_logprobs"]
        values = [float(entries[n][str(ids[n])]["logprob"]) for n in range(start, len(ids))]
    except (LookupError, TypeError, ValueError, RecursionError) as error:
        raise WireError(
            f"an answer without prompt_logprobs ({error!r}); a teacher needs a vLLM server", again=False, status=200
        ) from None
    if not all(map(math.isfinite, values)):
        raise WireError("log-probabilities of the prompt that are not finite", again=False, status=200)
    return values


# --- contexts ---------------------------------------------------------------------------------------------------------


def joint_contexts(env: TextDecPOMDP, episode: Episode) -> list[Asked]:
    """Return the completions of an episode with the contexts of a single agent that sees all observations.

    The episode is replayed under the protocol "centralized". If the texts of a turn contain headers, the single agent
    could not have written them as parts; then completions of later turns are left out.

    Args:
        env: The task, under the protocol "parallel".
        episode: An episode whose environment's chance has the seed `episode.seed`.
    """
    twin = Centralized(env.task.fork())
    twin.reset(seed=derive(episode.seed, "env"), options={"task_id": episode.item_id})
    [writer], agents, asked = twin.possible_agents, env.possible_agents, list[Asked]()
    for number, turn in enumerate(episode.turns):
        texts = [turn.actions[agent].text if agent in turn.actions else "" for agent in agents]
        history = twin.history(writer)
        for place, agent in enumerate(agents):
            if agent in turn.actions:
                parts = [*texts[:place], *[_PART] * (len(agents) - place)]
                before, after, *_ = twin.facts.join(parts).split(_PART)
                asked.append(Asked(agent, turn.actions[agent], history, before, after))
        action = twin.facts.join(texts)
        if number + 1 == len(episode.turns) or list(twin.facts.split(action)) != [text.strip() for text in texts]:
            break
        twin.step({writer: action})
    return asked


def _row(asked: Asked, policy: Any) -> Completion:
    """Return the tokens that a policy scores, as a completion; see (parts) for a joint action."""
    completion = asked.completion
    if asked.before is None:
        return Completion("", completion.prompt_ids, completion.token_ids)
    ids = completion.token_ids
    if asked.after and ids[-1] in policy.stop_ids:
        ids = (*ids[:-1], *policy.prompts.text_ids(asked.after))
    before = policy.prompts.text_ids(asked.before)
    return Completion("", (*policy.encode(asked.history, len(before) + len(ids)), *before), ids)


def _folded(values: Sequence[float], asked: Asked, row: Completion, policy: Any) -> tuple[float, ...]:
    """Return one log-probability per token of the completion; the last one is the sum over all further tokens."""
    ids, header = asked.completion.token_ids, asked.after.strip().lower()
    scores = [*values[: len(ids) - 1], math.fsum(values[len(ids) - 1 : len(row.token_ids)])]
    if header and header in policy.raw_text(ids).lower():
        scores[next(n for n in range(len(ids)) if header in policy.raw_text(ids[: n + 1]).lower())] = _HEADER
    return tuple(scores)


def _vocabulary(policy: Any) -> Any:
    """Return the meaning of a policy's token ids: the menu of a table, or the vocabulary of a tokenizer."""
    menu = getattr(policy, "menu", None)
    return _tokenizer(policy).get_vocab() if menu is None else menu


def _tokenizer(policy: Any) -> Any:
    found = getattr(policy, "tokenizer", None)
    if found is None:
        raise ConfigError(
            f"a {type(policy).__name__} has no token ids that a teacher can score; give students and a teacher of the "
            "process of the run (--executor local) that are tables or language models"
        )
    return found
