"""What a suite will cost, before it runs: tokens, and rough figures of time and memory.

Tokens are upper bounds: every text is assumed to have its greatest length. Time assumes three quarters of that length
and the rates below. Those of a CPU were measured with cells of the built-in model on two cores of two machines, where
estimates were right within a factor of two. Those of a GPU were measured on one H200 with random weights in the shape
of Qwen3-1.7B (`doctor --device`): updates of fewer than some hundred texts take the time of starting computations.
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
_STEP = {"cpu": 0.013, "gpu": 0.0078}  # shortest time of a decoding step, in seconds ...
_ADAPTED = {"cpu": 1.0, "gpu": 1.1}  # ... and with adapters, in these
_UPDATE = {"cpu": 0.0, "gpu": 0.28}  # shortest time of an update of a model, in seconds
_DECODE = {"cpu": 4e10, "gpu": 6e13}  # floating-point operations per second while texts are drawn, 32 at once
_DENSE = {"cpu": 1.6e11, "gpu": 3e14}  # the same while prompts are read and while it is trained
_BATCH = 32  # most texts drawn at once; in training those of one update
_LENGTH = 0.75  # share of the longest text that is used on average, measured with the built-in model
_LOAD = {"cpu": 5e6, "gpu": 1e8}  # parameters per second; a GGUF file is unpacked at the first rate


@dataclass(frozen=True, slots=True)
class Estimate:
    """The cost of a cell.

    Attributes:
        label: Which cell.
        episodes: Played in training and evaluation.
        prompt_tokens, generated_tokens: Of all episodes, at most; prompts without the answers that they may quote.
        minutes: On the device that the cell names. For "auto" on one GPU where there is one or the model is in half
            precision, else on a CPU of two cores. None where the size of the model is not known.
        gigabytes: Memory of weights, gradients and optimizer.
        note: What was assumed.
    """

    label: str
    episodes: int
    prompt_tokens: int
    generated_tokens: int
    minutes: float | None
    gigabytes: float | None
    note: str = ""


def estimates(cells: Sequence[Cell]) -> list[Estimate]:
    """The cost of every cell; cells that differ only in their seed are estimated once."""
    known: dict[str, Estimate] = {}
    estimated: list[Estimate] = []
    for cell in cells:
        key = json.dumps({**cell.to_dict(), "seed": 0}, sort_keys=True, default=str)
        known[key] = known[key] if key in known else estimate(cell)
        estimated.append(dataclasses.replace(known[key], label=cell.label))
    return estimated


def complete(cells: Sequence[Cell]) -> list[Cell]:
    """The cells, `validated` without data of the hub.

    Raises:
        ConfigError: A learner does not fit its environment, as in a run.
    """
    envs: dict[str, TextDecPOMDP] = {}
    for cell in cells:
        if (key := _place(cell)) not in envs:
            envs[key] = _look(cell)[0]
    return [validated(cell, envs[_place(cell)]) for cell in cells]


def _place(cell: Cell) -> str:
    return json.dumps([cell.environment.model_dump(), cell.protocol, cell.evaluation.split], default=str)


def estimate(cell: Cell) -> Estimate:
    """The cost of one cell."""
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
    """Seconds to draw this many tokens, `at_once` texts at a time, on "cpu" or "gpu"; models of a team take turns."""
    shortest = _STEP[where] * (_ADAPTED[where] if adapters else 1.0)
    return tokens / at_once * max(shortest, 2 * parameters * at_once / _DECODE[where])


def learning_seconds(tokens: float, parameters: float, where: str, updates: int = 1) -> float:
    """Seconds of this many updates on "cpu" or "gpu", which read so many tokens in all, those of prompts among them."""
    return updates * _UPDATE[where] + 6 * parameters * tokens / _DENSE[where]


def _look(cell: Cell) -> tuple[TextDecPOMDP, int, str]:
    """The evaluation environment, its number of tasks and a note; data of the hub are not loaded."""
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
    """Texts of an episode by agent, and its prompt tokens.

    Empty answers never solve a task early, but may end one that calls for tools. An optimal team, where one is known,
    does the opposite. The longer episode counts.
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
    """Of one episode: texts by agent, which are empty without a script, and the characters that were read for them."""
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
    """Parameters of a built-in model, or by the "1.7B" or "135M" in a name; None where neither is known."""
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
    """Gigabytes of weights, and of gradients and optimizer where it learns."""
    frozen = cell.model.sharing == "lora" or not learns
    automatic = cell.model.dtype == "auto" and _device(cell) == "gpu" and frozen
    small = automatic or cell.model.dtype in ("bfloat16", "float16")
    weight = 2.0 if small else 4.0
    copies = agents if cell.model.sharing == "separate" else 1
    trained = 0.05 if cell.model.sharing == "lora" else 1.0
    return parameters * weight * copies * (1 + 3 * trained * learns) / 1e9  # weights, gradients, two moments


def estimate_table(suite: Suite, cells: Sequence[Cell], estimated: Sequence[Estimate]) -> Rows:
    """The estimates of a suite, a row for all seeds of a cell below its environment, with their sum."""
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
    cost = f"roughly {_duration(sum(known))} one after the other (rates measured on two CPU cores, on an H200 for half "
    cost += f"precision) and {largest:.1f} GB for the largest cell (weights, gradients, optimizer)"
    if unknown := len(estimated) - len(known):
        cost = f"{cost}, without {unknown} cells" if known else "time and memory are not known"
        notes += "; models with members or without a size in their name are not estimated"
    return Rows(
        ["method", "model", *figures],
        body,
        title=f"{suite.name}: {len(estimated)} cells; per cell",
        caption=f"in all at most {_short(tokens)} tokens; {cost}{notes}",
        right=figures,
    )


def _short(tokens: int) -> str:
    """A count in thousands or millions."""
    return f"{tokens / 1e6:.1f}M" if tokens >= 1e6 else f"{tokens / 1e3:.0f}k"


def _duration(minutes: float) -> str:
    """Minutes, or hours where there are two or more."""
    return f"{minutes / 60:.1f} hours" if minutes >= 120 else f"{minutes:.1f} minutes"


def _rough(value: float | None) -> str:
    return "?" if value is None else f"{value:.1f}"
