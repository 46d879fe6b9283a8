"""Write published episodes of an environment as data for `madpo`, `reward_model` and `imitation`.

    python research/preferences.py tldr-v1 board/* --out tldr
    llm-dec-pomdp train tldr-v1 --tasks tldr.tasks.jsonl --split all --algorithm madpo --set source=tldr.traces.jsonl

A SOURCE is a submission of the leaderboard, the folder of a run, or a file of traces; those without the environment are
left out. The learners pair the episodes of a task by their returns. Textbook problems need no file of tasks.
Submissions have test rows only, so a team that was trained on them is no entry for the leaderboard.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from llm_dec_pomdp.board.submission import SUBMISSION, file_of, read_traces
from llm_dec_pomdp.episodes import Trace, TraceWriter, read_whole, task_of
from llm_dec_pomdp.rollout.preferences import Preferences
from llm_dec_pomdp.rollout.recorded import files_of


def traces_of(source: Path, env_id: str) -> Iterator[Trace]:
    """Yield the traces of a source; of a submission only those of the environment in which all members act."""
    if (source / SUBMISSION).exists():
        file = source / file_of(env_id)
        yield from read_traces(file) if file.exists() else ()
    else:
        for file in files_of(str(source)):
            yield from read_whole(file)


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the file, and print the number of episodes and of pairs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("environment")
    parser.add_argument("sources", nargs="+", type=Path, metavar="SOURCE")
    parser.add_argument("--out", required=True, help="beginning of the paths of the files with traces and with tasks")
    given = parser.parse_args(arguments)
    counts, rows = Counter[str](), dict[str, dict[str, Any]]()
    recorded, tasks = (Path(f"{given.out}.{kind}.jsonl") for kind in ("traces", "tasks"))
    with TraceWriter(recorded) as writer:
        for source in given.sources:
            for trace in traces_of(source, given.environment):
                if trace["events"][0]["header"]["environment"]["id"] == given.environment:
                    writer.write({**trace, "trace_id": f"{source.name}/{trace['trace_id']}"})
                    counts[source.name] += 1
                    item = task_of(trace)
                    rows[item.id] = {"id": item.id, "prompt": item.prompt, **item.fields}
                    rows[item.id] |= {"reference": item.reference} if item.reference else {}
    tasks.write_text("".join(f"{json.dumps(row)}\n" for row in rows.values()), encoding="utf-8")
    pairs = Preferences(str(recorded)).pairs()
    print(f"wrote {recorded} and {tasks}")
    print(f"{counts.total()} episodes of {len(pairs)} tasks ({sum(map(len, pairs.values()))} pairs of best and worst)")
    for name, count in counts.items():
        print(f"  {count} of {name}")


if __name__ == "__main__":
    main()
