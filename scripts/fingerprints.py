"""Print texts, returns and weights of runs with fixed seeds as one JSON object, to verify a refactoring.

    python scripts/fingerprints.py > before.json        # repeat after the change, and compare the files

The runs use float32, one thread and the built-in model. `texts` and `weights` are hashes: they are equal only if all
bits are equal.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from llm_dec_pomdp.cli import app
from llm_dec_pomdp.episodes import read, to_episode
from llm_dec_pomdp.episodes.files import last_evaluation
from llm_dec_pomdp.types import Episode

PLAY = ["--items", "2", "--max-new-tokens", "24", "--seed", "3"]
TRAIN = ["--steps", "2", "--prompts", "2", "--group-size", "3", *PLAY]
TLDR = ["tldr-v0", "--model", "builtin:tiny"]
TRAINED = {
    "magrpo": TLDR,
    "magrpo turns": ["coophumaneval-v0", "--turns", "2", "--set", "epochs=2", "--set", "minibatches=2"],
    "magrpo kl entropy": ["arxiv-v0", "--set", "beta=0.1", "--set", "entropy=0.01"],
    "magrpo lora": [*TLDR, "--sharing", "lora", "--load", "lora_rank=4"],
    "magrpo shared": ["telegrams-v0", "--sharing", "shared"],
    "marloo": [*TLDR, "--algorithm", "marloo"],
    "mareinforce": [*TLDR, "--algorithm", "mareinforce", "--set", "ratio=sequence"],
    "grpo": [*TLDR, "--algorithm", "grpo"],
    "crossed": ["arxiv-v0", "--set", "credit=crossed"],
    "tree": ["humaneval-v0", "--turns", "2", "--set", "tree=true"],
    "crossed tree": [*TLDR, "--turns", "2", "--set", "tree=true", "--set", "credit=crossed"],
    "counterfactual": [*TLDR, "--turns", "2", "--set", "credit=counterfactual"],
    "resampled": [*TLDR, *"--turns 2 --set credit=counterfactual --set continuation=resampled".split()],
}
PLAYED = [(task, protocol) for task in ("tldr-v1", "coophumaneval-v0") for protocol in ("single", "concat")]
PLAYED += [(task, protocol) for task in ("arxiv-v0", "humaneval-v0") for protocol in ("sequential", "discussion")]
TRAINED_FIGURES = ("episodes", "mean_return", "return_percent", "components", "texts")
METRICS = ("loss", "grad_norm", "clipped", "tokens", "kl", "entropy")


def command_line(*arguments: str) -> None:
    """Run the command line in this process, and discard its output."""
    print(*arguments, file=sys.stderr)
    with contextlib.redirect_stdout(io.StringIO()):
        app(list(arguments), standalone_mode=False)


def hash_of_tensors(paths: list[Path]) -> str:
    """Return one hash of all tensors in files; it does not depend on names and files."""
    tensors = [tensor for path in paths for tensor in load_file(path).values()]
    hashes = sorted(hashlib.sha256(tensor.numpy().tobytes()).hexdigest() for tensor in tensors)
    return hashlib.sha256("".join(hashes).encode()).hexdigest()[:16]


def trained(folder: Path) -> dict[str, object]:
    """Return the figures of a training run."""
    steps = [json.loads(line) for path in folder.glob("**/train.jsonl") for line in path.read_text().splitlines()]
    shown = [
        {n: s[n] for n in TRAINED_FIGURES} | {n: s["metrics"][n] for n in METRICS if n in s["metrics"]} for s in steps
    ]
    return {"steps": shown, "weights": hash_of_tensors(list(folder.glob("**/team/**/*.safetensors")))}


def played(folder: Path) -> str:
    """Return a hash of the episodes of an evaluation, without their times."""
    cells = (path.parent for path in folder.glob("**/result.json"))
    files = [file for cell in cells if (file := last_evaluation(cell)) is not None]
    rows = [_row(to_episode(trace)) for file in files for trace in read(file)]
    text = json.dumps(rows, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _row(episode: Episode) -> dict[str, Any]:
    turns = [
        {
            "observations": dict(turn.observations),
            "actions": {agent: completion.text for agent, completion in turn.actions.items()},
            "tokens": {
                agent: [len(completion.prompt_ids), len(completion.token_ids)]
                for agent, completion in turn.actions.items()
            },
            "reward": turn.reward,
            "score": turn.score.total if turn.score else None,
            "components": dict(turn.score.components) if turn.score else None,
            "diagnostics": dict(turn.score.diagnostics) if turn.score else None,
            "notes": dict(turn.score.notes) if turn.score else None,
        }
        for turn in episode.turns
    ]
    known = {"task": episode.item_id, "seed": episode.seed, "return": episode.total}
    return {**known, "terminated": episode.terminated, "turns": turns}


def main() -> None:
    """Run everything, and print the object."""
    torch.set_num_threads(1)
    result: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as name:
        for title, arguments in TRAINED.items():
            folder = Path(name) / title.replace(" ", "-")
            command_line("train", *arguments, *TRAIN, "--out", str(folder))
            result[title] = trained(folder)
        for task, protocol in PLAYED:
            folder = Path(name) / f"{task}-{protocol}"
            command_line("eval", task, "--algorithm", protocol, *PLAY, "--out", str(folder))
            result[f"{task} {protocol}"] = played(folder)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
