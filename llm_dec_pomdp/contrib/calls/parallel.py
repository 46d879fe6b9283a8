"""bfcl-parallel-v0: Two agents make the calls that a user asks for in parallel, and neither sees the other's calls.

| fact | value |
|---|---|
| agents | agent_0 and agent_1, both "caller" |
| turns | 1; `max_turns` for more, with rewards as in `envs.turn_rewards` |
| data | 440 rows of the package `bfcl-eval` (Apache-2.0); the same for training and test |
| options | `category`: "parallel" (200), "parallel_multiple" (200), "live_parallel", "live_parallel_multiple" |
| return | -0.4 to 1.1 |

Install. `pip install --no-deps bfcl-eval==2026.3.23`; its requirements are not needed.

Observation. Both agents observe the user's words, the functions, and a note that a teammate works on the same request.

Action. Calls, one a line, such as `f(a=1, b="x")`; JSON is also parsed. No call is run.

Reward (one float for the team). The calls of both agents are merged, each different call once, and compared with the
answer key of n calls:

| component | part |
|---|---|
| parse | 0.05 if there is a call |
| names | 0.25 F1 of the functions' names |
| arguments | 0.35 mean share of right arguments, over best pairs |
| count | 0.10 (1 - missing or surplus calls / n) |
| balance | 0.15 (1 - difference to equal shares / n) |
| exact | 0.20 if all calls are right |
| overlap | -0.20 calls that both agents make / n |
| lazy | -0.15 share of agents without a call |
| extra | -0.05 surplus calls / n |
| duplicate | -0.05 calls that were made before / n |

This is the published formula (`contrib.calls.parallel_reward`), with one known defect: an argument whose value is a
list is never right. So `script:gold` receives 1.1 on 354 rows and at least 0.325 on the remaining ones.

Differences from the published environment. The prompt has other words. The rows are those of `bfcl-eval`; the
authors publish their own split with a normalised answer key elsewhere. Texts of more than 10,000 characters, and texts
on which the published parser fails, hold no calls. Where the published parser looks for functions in random order, this
one takes the order of the row.

Source: github.com/OpenMLRL/LLM_Collab_BFCL-v4, `native_parallel`; rows of the Berkeley Function-Calling Leaderboard v4.

Version history: v0, the first.

Example:
    >>> import llm_dec_pomdp
    >>> env = llm_dec_pomdp.make("bfcl-parallel-v0", category="parallel")
    >>> len(env.items)
    200
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import Any, Literal, Unpack, get_args

from llm_dec_pomdp.envs import Facts, Tasks, TaskSource, TextOptions, TextTask
from llm_dec_pomdp.registries import nearest
from llm_dec_pomdp.types import Score, TaskItem

from .parallel_reward import HIGHEST, LOWEST, WEIGHTS, score
from .published import rows

Category = Literal["", "parallel", "parallel_multiple", "live_parallel", "live_parallel_multiple"]
_SHAPES = {  # an example of each field
    "functions": '[{"name": "f", "parameters": {"properties": {"a": {"type": "integer"}}}}]',
    "calls": '[{"f": {"a": [1]}}]',
}
_REQUEST = (
    "Somebody else works on the same request at the same time; you cannot see each other's calls, which are put "
    "together. Make those that you are most sure of, at least one, and leave the others. Write calls only, one a line, "
    'such as f(a=1, b="x").'
)


@functools.cache
def _tasks() -> tuple[TaskItem, ...]:
    items: list[TaskItem] = []
    for category in get_args(Category)[1:]:
        right = {row["id"]: row["ground_truth"] for row in rows(f"possible_answer/BFCL_v4_{category}")}
        for row in rows(f"BFCL_v4_{category}"):
            gold = right[row["id"]]
            fields = {"functions": json.dumps(row["function"]), "calls": json.dumps(gold)}
            words = "\n".join(message["content"] for message in row["question"][0])
            items.append(TaskItem(row["id"], words, "test", reference=_reference(gold), fields=fields))
    return tuple(items)


def _reference(gold: list[Mapping[str, Mapping[str, list[Any]]]]) -> tuple[str, ...]:
    """Return the calls of the answer key with the first right values; agent_0 has the first half."""
    lines = [
        f"{name}({', '.join(f'{argument}={values[0]!r}' for argument, values in arguments.items())})"
        for call in gold
        for name, arguments in call.items()
    ]
    half = (len(lines) + 1) // 2
    return "\n".join(lines[:half]), "\n".join(lines[half:])


class BFCLParallel(TextTask):
    """Environment in which two agents make calls in parallel. See the module docstring.

    Args:
        category: The category of rows; "" for all.
        tasks, common: See `TextTask`.

    Raises:
        ModuleNotFoundError: The package `bfcl-eval` is not installed; the message has the command to install it.
    """

    source = TaskSource("bfcl_parallel", required=("prompt", "functions", "calls"), sample=_tasks, every_split=True)
    declared = Facts(
        name="bfcl-parallel-v0",
        roles=("caller", "caller"),
        components=tuple(WEIGHTS),
        diagnostics=("exact",),
        score_range=(LOWEST, HIGHEST),
        reference_share=0.29,
        silence_is_lowest=False,
        hidden_fields=("calls",),
    )

    def __init__(self, tasks: Tasks = "sample", *, category: Category = "", **common: Unpack[TextOptions]) -> None:
        if category not in get_args(Category):
            raise ValueError(f"category is {category!r}; {nearest(category, get_args(Category))}")
        self.category = category
        super().__init__(tasks, **common)

    def prepare(self, items: tuple[TaskItem, ...]) -> tuple[TaskItem, ...]:
        """Return the rows of the category."""
        return tuple(item for item in items if self.category in ("", item.id.rpartition("_")[0]))

    def problem(self, item: TaskItem) -> str:
        """Return why functions or calls of a row are invalid; "" if they are valid."""
        name = "functions"
        try:
            functions = _loaded(item, name)
            score(("",), functions, ())
            name = "calls"
            score(("",), functions, _loaded(item, name))
        except (ValueError, KeyError, TypeError, AttributeError, StopIteration, RuntimeError) as error:
            return f"field {name!r}: {type(error).__name__}: {error}; give a line of JSON such as {_SHAPES[name]}"
        return ""

    def observe(self, item: TaskItem, agent: str) -> str:
        """Return the functions, the user's words and the instruction."""
        functions = "\n".join(json.dumps(f, ensure_ascii=False) for f in _loaded(item, "functions"))
        return f"Functions:\n{functions}\n\nThe user: {item.prompt}\n\n{_REQUEST}"

    def score(self, item: TaskItem, actions: Mapping[str, str]) -> Score:
        """Compute the published reward, see `contrib.calls.parallel_reward`."""
        texts = [actions[agent] for agent in self.possible_agents]
        return score(texts, _loaded(item, "functions"), _loaded(item, "calls"))


def _loaded(item: TaskItem, field: str) -> list[Mapping[str, Any]]:
    return json.loads(item.fields[field].partition("\n")[0])
