# pyright: basic
"""Export of a trained team as plain folders, one per agent, that do not need this package.

The option `--team` accepts the exported folder, too. All weights: `AutoModelForCausalLM.from_pretrained(folder)`.
Adapters: `PeftModel.from_pretrained(base, folder)`.
"""

from __future__ import annotations

import json
from pathlib import Path

from ..agents.io.save import (
    DESCRIPTION,
    CheckpointError,
    folder_of,
    load_weights,
    players,
    read_description,
    write_weights,
)
from ..agents.language_model.policy import LanguageModel
from ..benchmarks.setup import build_env, build_team, with_defaults
from ..benchmarks.suite import Cell
from ..printable import escape_controls, inline
from ..storage.files import Draft
from ..storage.secrets import masked
from ..training.checkpoint import Checkpoints, trained_folder

CARD = """---
library_name: {library}
{base}pipeline_tag: text-generation
tags: [multi-agent, reinforcement-learning, llm-dec-pomdp]
---

# {agent} ({role}) of a team for {environment}

One member of a team of language models ({members}), trained together with `{method}` on `{environment}` for {steps}
updates of {prompts} tasks x {group} episodes from {model}, with seed {seed}. It was trained to write its part of a
joint answer, under the communication protocol "{protocol}", and is of use with the other members only.

```python
{code}
```

Prompts are the environment's observations as one user message under the chat template. Sampling in training:
temperature {temperature}, top_p {top_p}, at most {tokens} new tokens.
"""
LOAD_ALL = """from transformers import AutoModelForCausalLM, AutoTokenizer

model = AutoModelForCausalLM.from_pretrained("{folder}")
tokenizer = AutoTokenizer.from_pretrained("{folder}")"""
LOAD_ADAPTER = """from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

base = AutoModelForCausalLM.from_pretrained({base})
model = PeftModel.from_pretrained(base, "{folder}")
tokenizer = AutoTokenizer.from_pretrained("{folder}")"""


def export_run(run: Path, place: Path) -> tuple[Path, list[str]]:
    """Write the trained team of a run; if the run is not done, the team of its newest checkpoint.

    Args:
        run: A run folder with one trained cell, or the folder of a cell (one environment, method and seed).
        place: A new folder.

    Returns:
        The folder of the weights, and the names of the written agents.

    Raises:
        CheckpointError: There is no team, more than one, or one that other libraries cannot load.
        FileExistsError: `place` is not empty.
    """
    if place.exists() and any(place.iterdir()):
        raise FileExistsError(f"{str(place)!r} is not empty; give a new folder")
    cell, folder = trained_cell(run)
    env = build_env(cell, cell.protocol, evaluation=True)
    team = build_team(with_defaults(cell, env), env)
    if (folder / "team").is_dir():
        source, steps = folder / "team", cell.training.steps
    else:
        newest = Checkpoints(folder / "checkpoints", {}).newest()
        assert newest is not None  # trained_cell saw its folder
        source, steps = newest.folder, newest.step
    load_weights(source, team)
    written: list[str] = []
    with Draft(place.absolute()) as draft:
        for policy, agents in players(team):
            if not policy.portable:
                raise CheckpointError(
                    f"{agents[0]!r} has a {type(policy).__name__}, which no other library can load; use the team in "
                    f"{str(source)!r} with this package"
                )
            for agent in agents:
                weights = next(iter(policy.weight_files([agent]).values()))
                write_weights(draft, folder_of(agent), policy, weights)
                card = _card(cell, env.role(agent), agent, agents=env.possible_agents, steps=steps)
                draft.write(f"{folder_of(agent)}/README.md", [masked(escape_controls(card).encode())])
                if isinstance(policy, LanguageModel):
                    policy.tokenizer.save_pretrained(draft.folder / folder_of(agent))
                written.append(agent)
        draft.write_json(DESCRIPTION, cell.to_dict())  # for `--team`
        draft.publish()
    return source, written


def upload(place: Path, repository: str) -> str:
    """Upload an exported team to the hub as one commit, and return its address.

    Args:
        place: The folder that `export_run` wrote.
        repository: OWNER/NAME; a new repository is private. The token is the one of huggingface_hub.

    Raises:
        ConnectionError: The hub refuses the upload; the exported folder is kept.
    """
    from huggingface_hub import HfApi

    api = HfApi()
    try:
        api.create_repo(repository, private=True, exist_ok=True)
        commit = api.upload_folder(repo_id=repository, folder_path=place, commit_message="A team of llm_dec_pomdp")
    except Exception as error:  # huggingface_hub raises many unrelated types
        reason = str(error).strip().partition("\n")[0]
        raise ConnectionError(
            f"the hub refuses {repository!r} ({type(error).__name__}: {reason}); log in with `hf auth login` "
            f"and upload again: hf upload {repository} {place}"
        ) from error
    return str(commit.repo_url)


def trained_cell(run: Path) -> tuple[Cell, Path]:
    """Return the only trained cell of a run, and its folder, without loading code that it names.

    Raises:
        CheckpointError: There is no trained cell, or more than one.
    """
    folder = trained_folder(run)
    team = folder / "team"
    return Cell.from_dict(read_description(team)) if team.is_dir() else Cell.read(folder / "cell.json"), folder


def _card(cell: Cell, role: str, agent: str, *, agents: list[str], steps: int) -> str:
    lora, name = cell.model.sharing == "lora", cell.model.name
    gguf = Path(name).suffix == ".gguf"
    base = f'"{Path(name).parent}", gguf_file="{Path(name).name}"' if gguf else json.dumps(name)
    folder, sampling = folder_of(agent), cell.sampling_of(agent, role)
    on_hub = not (gguf or name.startswith("builtin:") or Path(name).exists())
    return CARD.format(
        library="peft" if lora else "transformers",
        base=f"base_model: {name}\n" if on_hub else "",
        agent=inline(agent),
        role=inline(role),
        environment=inline(cell.environment.id),
        members=inline(", ".join(agents)),
        method=inline(cell.method.title),
        steps=steps,
        prompts=cell.training.prompts_per_step,
        group=cell.training.group_size,
        model=inline(name),
        seed=cell.seed,
        protocol=cell.protocol,
        code=(LOAD_ADAPTER if lora else LOAD_ALL).format(folder=folder, base=base),
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        tokens=sampling.max_new_tokens,
    )
