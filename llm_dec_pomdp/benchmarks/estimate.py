"""Estimates of tokens, time and memory of a suite, before it runs.

Tokens are upper bounds: every completion is assumed to reach the token limit. Times assume three quarters of that
length and the rates below. The rates of a CPU were measured with the built-in model on two cores of two machines, where
the estimates were within a factor of two. The rates of a GPU were measured on one H200 with random weights in the shape
of Qwen3-1.7B (`doctor --device`). There, updates of fewer than some hundred completions all take about the same time.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from ..agents.io.models import WHOLE_TEAMS
from ..agents.scripted import Script
from ..config import named_model
from ..envs.base import TextDecPOMDP
from ..envs.registration import spec as find_environment
from ..printable import Rows
from ..types import grouped
from .checks import validated
from .setup import build_env, with_defaults
from .suite import Cell, Suite

_CHARACTERS_PER_TOKEN = 4.0
_PROMPTS = 8  # tasks whose prompts are counted
_STEP = {"cpu": 0.013, "gpu": 0.0078}  # shortest time of a decoding step, in seconds
_ADAPTED = {"cpu": 1.0, "gpu": 1.1}  # factor of this time with adapters
_UPDATE = {"cpu": 0.0, "gpu": 0.28}  # shortest time of an update of a model, in seconds
_DECODE = {"cpu": 4e10, "gpu": 6e13}  # floating-point operations per second while sampling 32 completions at once
_DENSE = {"cpu": 1.6e11, "gpu": 3e14}  # the same for reading prompts and for training
_BATCH = 32  # maximum number of completions sampled at once; in training, the completions of one update
_LENGTH = 0.75  # mean length as a share of the token limit, measured with the built-in model
_LOAD = {"cpu": 5e6, "gpu": 1e8}  # parameters loaded per second; a GGUF file loads at the first rate


@dataclass(frozen=True, slots=True)
class Estimate:
    """The estimated cost of a cell.

    Attributes:
        label: Label of the cell.
        episodes: Number of episodes in training and evaluation.
        prompt_tokens, generated_tokens: Upper bounds over all episodes; prompts are counted without texts of agents.
        minutes: Minutes on the device of the cell. For the device "auto": on one GPU if there is one or the model has
            half precision, else on two CPU cores. None if the size of the model is unknown.
        gigabytes: Memory of weights, gradients and optimizer.
        note: Assumptions of the estimate.
    """

    label: str
    episodes: int
    prompt_tokens: int
    generated_tokens: int
    minutes: float | None
    gigabytes: float | None
    note: str = ""


def estimates(cells: Sequence[Cell]) -> list[Estimate]:
    """Return the cost of every cell; cells that differ only in their seed are estimated once."""
    known: dict[str, Estimate] = {}
    estimated: list[Estimate] = []
    for cell in cells:
        key = json.dumps({**cell.to_dict(), "seed": 0}, sort_keys=True, default=str)
        known[key] = known[key] if key in known else estimate(cell)
        estimated.append(dataclasses.replace(known[key], label=cell.label))
    return estimated


def complete(cells: Sequence[Cell]) -> list[Cell]:
    """Return the cells, completed by `validated` without loading data of the hub.

    Raises:
        ConfigError: A learner is incompatible with its environment, as in a run.
    """
    envs: dict[str, TextDecPOMDP] = {}
    for cell in cells:
        if (key := _place(cell)) not in envs:
            envs[key] = _look(cell)[0]
    return [validated(cell, envs[_place(cell)]) for cell in cells]


def _place(cell: Cell) -> str:
    return json.dumps([cell.environment.model_dump(), cell.protocol, cell.evaluation.split], default=str)


def estimate(cell: Cell) -> Estimate:
    """Return the cost of one cell."""
    learns = cell.method.learns
    env, tasks, note = _look(cell)
    cell = with_defaults(cell, env)
    steps = cell.training.steps if learns else 0
    inner = len([n for n in range(1, steps) if cell.evaluation.every and n % cell.evaluation.every == 0])
    evaluations = inner + 2 if learns else 1
    trained = steps * cell.training.prompts_per_step * cell.training.group_size
    samples = cell.evaluation.samples or 1
    episodes = trained + evaluations * tasks * samples + cell.evaluation.timing
    texts, prompt = _texts_and_prompt(env)
    parts = env.facts.parts_per_action
    limits = {agent: cell.sampling_of(agent, env.role(agent), parts).max_new_tokens for agent in texts}
    written = sum(count * limits[agent] for agent, count in texts.items())  # tokens of an episode, at most
    generated, prompts = episodes * written, episodes * prompt
    parameters = None if cell.model.members else model_parameters(cell.model.name)
    minutes = memory = None
    if parameters:
        where = _device(cell)
        reading = 2 * parameters * prompts / _DENSE[where]
        adapters = cell.model.sharing == "lora"
        agents = len(env.possible_agents)
        models = agents if cell.model.sharing == "separate" else 1
        learning = learning_seconds(trained * (prompt + _LENGTH * written), parameters, where, steps * models)
        at_once = min(cell.training.prompts_per_step * cell.training.group_size * agents // models, _BATCH)
        in_training = _LENGTH * trained * written
        speaking = drawing_seconds(in_training, at_once, parameters, where, adapters)
        speaking += drawing_seconds(_LENGTH * generated - in_training, _BATCH, parameters, where, adapters)
        minutes = (parameters / _LOAD[where] + speaking + reading + learning) / 60
        memory = _memory(cell, parameters, agents, learns)
    return Estimate(cell.label, episodes, int(prompts), int(generated), minutes, memory, note)


def drawing_seconds(tokens: float, at_once: int, parameters: float, where: str, adapters: bool = False) -> float:
    """Return the seconds to sample tokens, with `at_once` completions in parallel, on "cpu" or "gpu".

    The models of a team are assumed to sample one after the other.
    """
    shortest = _STEP[where] * (_ADAPTED[where] if adapters else 1.0)
    return tokens / at_once * max(shortest, 2 * parameters * at_once / _DECODE[where])


def learning_seconds(tokens: float, parameters: float, where: str, updates: int = 1) -> float:
    """Return the seconds of updates on "cpu" or "gpu"; `tokens` counts all tokens of prompts and completions."""
    return updates * _UPDATE[where] + 6 * parameters * tokens / _DENSE[where]


def _look(cell: Cell) -> tuple[TextDecPOMDP, int, str]:
    """Return the evaluation environment, its number of tasks, and a note, without loading data of the hub."""
    environment = cell.environment
    note = ""
    if "hub" in (environment.tasks, environment.eval_tasks):
        options = {key: value for key, value in environment.options.items() if not named_model(value)}
        changes = {"tasks": "sample", "eval_tasks": None, "fields": {}, "options": options}
        cell = dataclasses.replace(cell, environment=environment.model_copy(update=changes))
        note = "prompts of the embedded tasks"
    env = build_env(cell, cell.protocol, evaluation=True)
    count = len(env.items)
    if note:
        source: Any = getattr(find_environment(environment.id).load(), "source", None)
        bounds = re.search(r"\[(\d*):(\d+)\]", source.hub_splits.get(cell.evaluation.split, "") if source else "")
        if bounds:
            count = int(bounds[2]) - int(bounds[1] or 0)
        else:
            note += ", and their number"
    return env, min(count, cell.evaluation.items or count), note


def _texts_and_prompt(env: TextDecPOMDP) -> tuple[dict[str, float], float]:
    """Return the mean number of completions per episode by agent, and of prompt tokens per episode.

    Each task is played with empty actions and, if there is one, with the optimal script. Empty actions never solve a
    task early, but may end an episode with tools. The longer of the two episodes counts.
    """
    task = env.task
    texts, characters = Counter[str](), 0
    chosen = env.items[:_PROMPTS]
    for item in chosen:
        played = [_texts_and_characters(env, item.id, None)]
        with contextlib.suppress(KeyError, ValueError):  # no optimal team is known
            played.append(_texts_and_characters(env, item.id, task.script("optimal")))
        longest, read = max(played, key=lambda pair: (pair[0].total(), pair[1]))
        texts, characters = texts + longest, characters + read
    return {a: count / len(chosen) for a, count in texts.items()}, characters / len(chosen) / _CHARACTERS_PER_TOKEN


def _texts_and_characters(env: TextDecPOMDP, item: str, say: Script | None) -> tuple[Counter[str], int]:
    """Play one episode; return the number of completions by agent and the number of characters in their prompts.

    Actions are those of the script `say`, or empty without a script.
    """
    env = env.fork()
    env.reset(seed=0, options={"task_id": item})
    texts, characters = Counter[str](), 0
    while env.agents:
        asked = [agent for agent in env.agents if env.asked(agent)]
        texts.update(asked)
        characters += sum(len(message.text) for agent in asked for message in env.history(agent))
        texts_of = {agent: say(agent, env.history(agent)) for agent in asked} if say else {}
        env.step(dict.fromkeys(env.agents, "") | texts_of)
    return texts, characters


def model_parameters(name: str) -> float | None:
    """Return the number of parameters of a built-in model or of a name with "1.7B" or "135M"; None if unknown."""
    if name in WHOLE_TEAMS:
        return 1e5
    if name == "builtin:tiny":
        weights = Path(str(resources.files("llm_dec_pomdp.data") / "tiny" / "model.safetensors"))
        return weights.stat().st_size / 2  # stored in 16 bits
    sizes = re.findall(r"(?<![\w.])(\d+(?:\.\d+)?)([BM])(?![a-zA-Z])", Path(name).name)
    return float(sizes[-1][0]) * {"B": 1e9, "M": 1e6}[sizes[-1][1]] if sizes else None


def _device(cell: Cell) -> str:
    import torch

    name = cell.model.device
    if name != "auto":
        return "gpu" if name.startswith("cuda") else "cpu"
    return "gpu" if torch.cuda.is_available() or cell.model.dtype in ("bfloat16", "float16") else "cpu"


def _memory(cell: Cell, parameters: float, agents: int, learns: bool) -> float:
    """Return gigabytes of weights, and with a learner also of gradients and optimizer."""
    frozen = cell.model.sharing == "lora" or not learns
    automatic = cell.model.dtype == "auto" and _device(cell) == "gpu" and frozen
    small = automatic or cell.model.dtype in ("bfloat16", "float16")
    weight = 2.0 if small else 4.0
    copies = agents if cell.model.sharing == "separate" else 1
    trained = 0.05 if cell.model.sharing == "lora" else 1.0
    return parameters * weight * copies * (1 + 3 * trained * learns) / 1e9  # weights, gradients, two moments


def estimate_table(suite: Suite, cells: Sequence[Cell], estimated: Sequence[Estimate]) -> Rows:
    """Return a table of estimates, by environment, method and model, with the sum over all runs in the caption."""
    keys = [(cell.environment.title, cell.method.title, Path(cell.model.name).name) for cell in cells]
    rows = grouped(zip(keys, estimated, strict=True), lambda pair: pair[0])
    figures = ("seeds", "episodes", "tokens in", "out", "min", "GB")
    body: list[list[str]] = []
    environment = None
    for (env_title, method, model), seeds in rows.items():
        if env_title != environment:
            body.append([env_title] + [""] * (1 + len(figures)))
        environment, (_, e) = env_title, seeds[0]
        numbers = (f"{e.episodes:,}", _short(e.prompt_tokens), _short(e.generated_tokens))
        body.append([f"  {method}", model, str(len(seeds)), *numbers, _rough(e.minutes), _rough(e.gigabytes)])
    known = [e.minutes for e in estimated if e.minutes is not None]
    tokens = sum(e.prompt_tokens + e.generated_tokens for e in estimated)
    largest = max((e.gigabytes for e in estimated if e.gigabytes is not None), default=0.0)
    notes = "".join(f"; {note}" for note in dict.fromkeys(e.note for e in estimated) if note)
    cost = f"about {_duration(sum(known))} one after the other (rates of two CPU cores, or of an H200 for half "
    cost += f"precision); {largest:.1f} GB for the largest run (weights, gradients, optimizer)"
    if unknown := len(estimated) - len(known):
        cost = f"{cost}, without {unknown} runs" if known else "time and memory are unknown"
        notes += "; teams of several models, and models without a size in their name, are not estimated"
    return Rows(
        ["method", "model", *figures],
        body,
        title=f"{suite.name}: {len(estimated)} runs; values for one run",
        caption=f"total: at most {_short(tokens)} tokens; {cost}{notes}",
        right=figures,
    )


def _short(tokens: int) -> str:
    """Return a count in thousands or millions, as text."""
    return f"{tokens / 1e6:.1f}M" if tokens >= 1e6 else f"{tokens / 1e3:.0f}k"


def _duration(minutes: float) -> str:
    """Return a duration in minutes, or in hours from two hours on, as text."""
    return f"{minutes / 60:.1f} hours" if minutes >= 120 else f"{minutes:.1f} minutes"


def _rough(value: float | None) -> str:
    return "?" if value is None else f"{value:.1f}"
