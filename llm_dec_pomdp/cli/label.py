"""The command `label`, in which a person or a judge compares episodes of a run."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..printable import plain
from .console import out, stop, usage

if TYPE_CHECKING:
    from ..results.labels import Labels

_KEYS = {"t": "tie", "s": "skip"}
_HELP = "a or b: the better text; tie (t); skip (s); back: change the last answer; quit (q)"


def label(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run, or a file of traces with their texts.")],
    out_file: Annotated[
        Path | None,
        typer.Option("--out", help="File of answers; answers in it are kept. Default: pairs.jsonl in the folder."),
    ] = None,
    pairs: Annotated[int, typer.Option(min=1, help="Greatest number of pairs of a task.")] = 1,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the pairs and of their order.")] = 0,
    judge: Annotated[
        str, typer.Option(help="principles:FILE: a language model compares by the principles in a text file.")
    ] = "",
    judge_model: Annotated[
        str,
        typer.Option(
            help="Model of the judge: a .gguf file, a folder, a name on the Hugging Face hub, or a server as "
            "http://HOST:PORT/v1#NAME."
        ),
    ] = "",
) -> None:
    """Compare pairs of episodes, and write the file of pairs that madpo and reward_model read.

    You see two texts without their returns, in random order. Every answer is saved at once; the same command resumes.
    Answers: a or b for the better text, tie, skip, back (change the last answer), quit.

    Examples: [bold]llm-dec-pomdp label runs/my-run[/]
              [bold]llm-dec-pomdp label runs/my-run --judge principles:rules.txt --judge-model model.gguf[/]
              [bold]llm-dec-pomdp train tldr-v0 --algorithm madpo --set source=runs/my-run/pairs.jsonl[/]
    """
    from ..agents.io.load import check_model
    from ..agents.principles import load_principles, read_principles
    from ..results.labels import Labels, judge_pairs

    with usage():
        if not run.exists():
            stop(f"the run {str(run)!r} does not exist; `llm-dec-pomdp runs` lists all runs")
        if bool(judge) != bool(judge_model):
            stop(f"--judge is {judge!r} and --judge-model is {judge_model!r}; give both, or leave both out")
        place = out_file or (run / "pairs.jsonl" if run.is_dir() else run.with_name(f"{run.name}.pairs.jsonl"))
        if not place.parent.is_dir():
            stop(f"the folder of {str(place)!r} does not exist; create it")
        labels = Labels(str(run), place, pairs, seed)
        if judge:
            read_principles(judge)
            check_model(judge_model)
            measured = judge_pairs(labels, load_principles(judge, judge_model))
            out.print("  ".join(f"{name} {value:.4g}" for name, value in measured.items()))
        else:
            _asked(labels)
    counts = labels.counts()
    left = len(labels.pairs) - counts.total()
    out.print(
        f"{counts['a'] + counts['b']} preferences ({counts['a']} for the text shown first), {counts['tie']} ties, "
        f"{counts['skip']} skipped, {left} left, in {place}"
    )
    if counts["a"] + counts["b"]:
        out.print(f"train on them: llm-dec-pomdp train ENV --algorithm madpo --set source={place}", soft_wrap=True)


def _asked(labels: Labels) -> None:
    """Ask a person in the terminal about each pair, until the person quits or the input ends."""
    from ..results.labels import ANSWERS

    answers = _lines()
    while (pair := labels.next()) is not None:
        out.rule(f"pair {labels.counts().total() + 1} of {len(labels.pairs)}, task {pair.task}")
        out.print(plain(pair.asked))
        for name, text in zip("AB", pair.texts, strict=True):
            out.rule(f"text {name}")
            out.print(plain(text))
        out.rule(_HELP)
        for line in answers:
            answer = _KEYS.get(line, line)
            if answer in ("q", "quit"):
                return
            if answer in ANSWERS:
                labels.answer({pair.id: answer})
                break
            if answer == "back" and labels.back():
                break
            out.print("there is no earlier answer" if answer == "back" else _HELP)
        else:
            return


def _lines() -> Iterator[str]:
    for line in sys.stdin:
        yield line.strip().lower()
