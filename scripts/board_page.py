"""The page of the leaderboard: docs/board.md, from the submissions in board/."""

from __future__ import annotations

from pathlib import Path

from environment_pages import GENERATED

from llm_dec_pomdp.board import Submission, load, page, read
from llm_dec_pomdp.board import measure as statistics

BOARD = Path(__file__).parent.parent / "board"
INTRODUCTION = """\
# Leaderboard

Compare teams of language models on a fixed suite, and check every number of every team on your machine. No model is
needed for that:

```bash
llm-dec-pomdp board verify board/*
```

The suite `{suite}` has {tasks} tasks of {environments}, {episodes} episodes in all, and an LLM judge scores none of
them. It fixes rows, horizons, token limits and the seed of chance. A change of any of these is a suite with another
name.

![Return of each team in each task](results/board.svg)

## What a submission proves

A submission has the texts of all episodes. `board verify` plays them again. It compares every observation and reward
bit for bit, and every statistic to nine digits. The code of agents runs in the [sandbox](sandbox.md); nothing else in a
submission is executed. Verification fails at the first difference, and names it:

- a reward, a return or a statistic that the texts do not give;
- a text after which rewards or later observations differ, or a text beyond its limit (eight characters per token);
- an episode or task that is missing, added or in another place;
- another suite, environment, horizon, protocol or seed of chance;
- a number that is not finite, and a damaged file.

A valid submission shows that these texts receive these rewards on exactly these tasks. It does **not** show who wrote
the texts. Rows, references and seeds are public, so a person can write a perfect submission. Columns with a star (*)
are *reported*: they rely on tokens and seconds that replay cannot check. Names, notes and "trained" are reported, too.

## How to read the tables

Click on the head of a column to sort. Brackets are 95 % intervals: over tasks in the first table, over rows (or over
episodes of a single row) in the others.

{columns}

- **There is no total.** Each column of the first table is a mean over tasks. It is shown for teams that played all
  tasks. A team may also play a part of the suite; it is then in the tables of these tasks.
- **Influence** is direct: teammates repeat their texts and do not react. A member whose messages only change what its
  teammates write, such as a scout, has influence 0; its silent loss shows what it contributes.
- **Kinds.** A *script* and an *exploit* are programs. An exploit receives reward without doing the work ([degenerate
  strategies](rewards.md)), so it shows what a high number is worth. A *table* has no language model.
- **Trained** teams were trained on the reward of the task or of another version of it: on training rows or, if the
  task has a single row, on that row.
- **Partner loss** needs a second team of the same method, usually of another seed. Its members play in turn with the
  rest of the submitted team, as in [cross-play](tutorials/robust.md). Replay checks these episodes as all others.
- **A single agent** observes everything and writes all parts, and has the token limit of the whole team. The second
  table has the difference between each team and the single agent of the same model, in points. A discussion also
  writes drafts, so it samples up to twice as many tokens.
- **Hierarchies.** The agents of `research-v0` and `calls-v0` call each other, so `sequential` and `discussion` play
  these two tasks as `concat` does.
- **SmolLM2-135M-Instruct and Gemma-3-270M** (a base model) played in bfloat16 on one core, which other work slowed
  down, so their seconds are too long. All nine tasks took 36 minutes with `concat` and 14 minutes with `single`.
  Trained teams only play the task of their training.

"""
SUBMITTING = """\
## How to submit

1. Play the suite. A server of the OpenAI kind, a local model or a trained team will do:

    ```bash
    llm-dec-pomdp board run --model http://localhost:8000/v1#NAME --method concat --dry-run --price 0.6
    llm-dec-pomdp board run --model http://localhost:8000/v1#NAME --method concat --out board/NAME-concat
    llm-dec-pomdp board run --model http://localhost:8000/v1#NAME --method single --out board/NAME-single
    llm-dec-pomdp board run --team runs/my-run --partner runs/seed-1 --out board/NAME-trained
    ```

    The dry run prints an upper bound of tokens and cost. A run that was stopped resumes at the first unfinished task
    if you repeat the command. `--task` plays a part of the suite.

2. Verify it: `llm-dec-pomdp board verify board/NAME-concat`. A quiet core needs about 15 seconds, and no model.

3. Always add the single agent of the same model. Without it, nobody can see whether your team beats one agent.

4. Write in `--note` what a reader should know: the training data, the prompt, the hardware, the price.

5. Rebuild this page and its figure, and open a pull request with the folder. CI verifies every submission.

    ```bash
    python scripts/build_docs.py && python research/draw_board.py
    ```

A submission has about 0.2 MB. It is public: do not submit texts that must stay private. Rows of teams that were
trained on test rows are refused.
"""


def submissions() -> list[Submission]:
    """Return the submissions in board/, in the order of their folders."""
    return [read(folder) for folder in sorted(BOARD.iterdir()) if folder.is_dir()]


def board_page() -> str:
    """Return docs/board.md."""
    suite = load()
    episodes = sum(len(suite.plan(task)) + task.silent for task in suite.tasks)
    shown = ", ".join(f"`{task.environment}`" for task in suite.tasks)
    columns = "\n".join(line for line in (statistics.__doc__ or "").splitlines() if line.startswith("|"))
    first = INTRODUCTION.format(
        suite=suite.name, tasks=len(suite.tasks), environments=shown, episodes=episodes, columns=columns
    )
    return GENERATED + first + page(submissions()) + "\n" + SUBMITTING
