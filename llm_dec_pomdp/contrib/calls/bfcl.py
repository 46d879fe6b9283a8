"""bfcl-v0: The multi-turn rows of BFCL v4 for a dispatcher and a specialist for each application.

| fact | value |
|---|---|
| agents | agent_0 "dispatcher", then a specialist for each of eight classes: "GorillaFileSystem", "MathAPI", ... |
| turns | `max_turns` H = 200 |
| data | 800 rows of the package `bfcl-eval` (Apache-2.0); the same for training and test |
| options | `category` "base", "miss_func", "miss_param", "long_context" (200 rows each) or "" for all; see calls-v0 |
| return | 0 to 1.0 |

Install. `pip install --no-deps bfcl-eval==2026.3.23`; its requirements are not needed.

Observation, action: as in calls-v0. The dispatcher observes the words of the user and the classes of the row. Some rows
withhold functions until a later user turn. No agent observes a withheld function, but a call of it runs, as in the
published benchmark (multi_turn_miss_func_49 needs this).

Reward (one float for the team), with the option `reward` of calls-v0. A user turn is checked as in the published
benchmark. It is right if two conditions hold at its end, or if the row has no call in it:

- All public attributes of all classes of the row have the values that result from the calls of the row.
- The results of the row's calls in this turn are among the results of the team's calls so far.

`outcome` is 1 if all user turns are right, and otherwise 0, as in the published benchmark.

Options. With `candidates=True` agents act with a letter as in calls-v0. An order is then a call as the row writes it.
With `rows` there is also a `vocabulary` for `builtin:words`. It leaves out the results of calls, so the model reads
them as unknown words.

Differences from the published benchmark. Messages about unknown or missing functions and arguments have other words. A
text may have at most 16 calls, and an agent observes at most 6000 characters of each result. The check of a user turn
compares the uncut results.

Teams. `script:gold` orders the calls of the row. It receives 1 on all rows of each category. With all categories
together it receives 1 on 799 of 800 rows. The reason is that multi_turn_base_180 and multi_turn_miss_param_180 have the
same observations for three user turns and then require different bookings. No team can receive 1 on both. With
`candidates=True` the offered texts distinguish the two rows, and `script:gold` receives 1 on all 800.

Source: the Berkeley Function-Calling Leaderboard v4, https://gorilla.cs.berkeley.edu; the split into agents
was written for this package.

Version history: v0, the first.

Example:
    >>> import llm_dec_pomdp
    >>> env = llm_dec_pomdp.make("bfcl-v0", category="base")
    >>> len(env.items)
    200
"""

from __future__ import annotations

import copy
import functools
import importlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple, Unpack, cast, get_args

from llm_dec_pomdp.envs import Script, Tasks, TaskSource, TextDecPOMDP
from llm_dec_pomdp.envs.tools import ArgumentsError, Call, Function, Kit, Limits, Toolbox, ToolState, read_calls
from llm_dec_pomdp.registries import nearest
from llm_dec_pomdp.types import TaskItem, Tool

from .dispatch import DECLARED, Dispatch, DispatchOptions, State, arguments_of
from .published import rows

Category = Literal["", "base", "miss_func", "miss_param", "long_context"]
CLASSES: Mapping[str, tuple[str, str]] = {  # module, and file of descriptions
    "GorillaFileSystem": ("gorilla_file_system", "gorilla_file_system"),
    "MathAPI": ("math_api", "math_api"),
    "MessageAPI": ("message_api", "message_api"),
    "TwitterAPI": ("posting_api", "posting_api"),
    "TicketAPI": ("ticket_api", "ticket_api"),
    "TradingBot": ("trading_bot", "trading_bot"),
    "TravelAPI": ("travel_booking", "travel_booking"),
    "VehicleControlAPI": ("vehicle_control", "vehicle_control"),
}
_MODULES = "bfcl_eval.eval_checker.multi_turn_eval.func_source_code"
_TYPES = {"dict": "object", "float": "number"}
_MORE = "I have updated some more functions you can choose from. What about now?"
DONE = "Done."
_LONGEST = 1_000_000  # maximum length of the calls of an object in an episode, in characters
_COSTLY = ("exponent", "precision", "decimal_places")  # arguments that determine the run time of a function
_LARGEST = 1000  # maximum absolute value of these arguments
_KEPT = 32  # number of calls between cached copies of an object; later calls are replayed from the last copy


AnyCall = tuple[str, str, str]
"""A call: the class, the function, and its arguments as JSON."""


class Instance(NamedTuple):
    """An object of a class, described by its initial configuration and its calls so far."""

    name: str
    config: str = ""  # JSON; "" for none
    long: bool = False
    calls: str = ""  # a line for each: the function, a space, its arguments as JSON


class Row(NamedTuple):
    """A parsed row."""

    words: tuple[str, ...]
    classes: tuple[str, ...]
    configs: Mapping[str, str]
    long: bool
    hidden: tuple[frozenset[str], ...]  # withheld functions of each user turn
    gold: tuple[tuple[str, ...], ...]  # calls of each user turn


@functools.lru_cache(maxsize=1024)
def row_of(text: str) -> Row:
    """Parse the field `row`, a line of JSON."""
    row = json.loads(text.splitlines()[0])
    return Row(
        tuple(row["words"]),
        tuple(row["classes"]),
        {name: json.dumps(config) for name, config in row["configs"].items()},
        row["long"],
        tuple(map(frozenset, row["hidden"])),
        tuple(tuple(str(call) for call in turn) for turn in row["gold"]),
    )


@functools.cache
def _tasks() -> tuple[TaskItem, ...]:
    items: list[TaskItem] = []
    for category in get_args(Category)[1:]:
        right = {r["id"]: r["ground_truth"] for r in rows(f"possible_answer/BFCL_v4_multi_turn_{category}")}
        for row in rows(f"BFCL_v4_multi_turn_{category}"):
            missed: Mapping[str, list[str]] = row.get("missed_function", {})
            words = ["\n".join(m["content"] for m in turn) or _MORE for turn in row["question"]]
            later = [
                [n for start, names in missed.items() if int(start) > turn for n in names] for turn in range(len(words))
            ]
            played = {
                "words": words,
                "classes": row["involved_classes"],
                "configs": row["initial_config"],
                "long": category == "long_context",
                "hidden": [[*row.get("excluded_function", ()), *names] for names in later],
                "gold": right[row["id"]],
            }
            items.append(TaskItem(row["id"], words[0], "test", fields={"row": json.dumps(played)}))
    return tuple(items)


# --- objects ----------------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=256)
def played(instance: Instance) -> tuple[Any, tuple[str, ...]]:
    """Return the object after its calls, and the result of each call. The object is cached and must not be changed."""
    lines = instance.calls.splitlines(keepends=True)
    before = max(0, len(lines) - 1) // _KEPT * _KEPT
    if before:  # continue from a copy of the cached object
        api, given = copy.deepcopy(played(instance._replace(calls="".join(lines[:before]))))
    else:
        api, given = getattr(importlib.import_module(f"{_MODULES}.{CLASSES[instance.name][0]}"), instance.name)(), ()
        if hasattr(api, "_load_scenario"):
            api._load_scenario(json.loads(instance.config or "{}"), long_context=instance.long)
    calls = (line.split(" ", 1) for line in lines[before:])
    return api, (*given, *(_called(api, name, json.loads(arguments)) for name, arguments in calls))


def _called(api: Any, name: str, arguments: Mapping[str, Any]) -> str:
    """Run a function and return its result as text, as `execute_multi_turn_func_call` of `bfcl-eval` does."""
    try:
        result = getattr(api, name)(**copy.deepcopy(dict(arguments)))
        if isinstance(result, dict):
            try:
                return json.dumps(result)
            except (TypeError, ValueError):
                return str(result)  # pyright: ignore[reportUnknownArgumentType]
        return str(result)
    except Exception as error:
        return f"Error during execution: {error}"


def attributes(api: Any) -> dict[str, Any]:
    """Return the public attributes of an object, which the reward compares."""
    every = cast("dict[str, Any]", vars(api))
    return {name: value for name, value in every.items() if not name.startswith("_")}


class _Run:
    """A function of a class, as a tool: it appends a call to the state and returns its result."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, state: Instance, arguments: Mapping[str, Any]) -> tuple[Instance, str]:
        after = state._replace(calls=f"{state.calls}{self.name} {json.dumps(dict(arguments))}\n")
        if len(after.calls) > _LONGEST:
            raise ValueError(f"the calls of {state.name} have {len(after.calls)} characters; at most {_LONGEST}")
        return after, played(after)[1][-1]


class _Accepted:
    """A check of arguments: names must be known, and costly values small. The class checks other values."""

    def __init__(self, tool: Tool) -> None:
        self.tool = tool

    def __call__(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        schema = self.tool.json_schema
        known, needed = schema["properties"], schema.get("required", ())
        if unknown := [name for name in arguments if name not in known]:
            raise ArgumentsError(
                f"unknown argument {unknown[0]!r:.60} of {self.tool.name}; it takes {', '.join(known)}"
            )
        if missing := [name for name in needed if name not in arguments]:
            raise ArgumentsError(f"the argument {missing[0]!r} of {self.tool.name} is missing")
        for name in _COSTLY:
            if isinstance(value := arguments.get(name), int) and abs(value) > _LARGEST:
                raise ArgumentsError(
                    f"the argument {name!r} of {self.tool.name} is {value}"[:200] + f"; it is at most {_LARGEST}"
                )
        return arguments


@functools.cache
def kits() -> tuple[Kit, ...]:
    """Return the functions of the eight classes."""
    applications: list[Kit] = []
    for name, (_, file) in CLASSES.items():
        functions: list[Function] = []
        for about in rows(f"multi_turn_func_doc/{file}"):
            description = about["description"].partition("Tool description: ")[2] or about["description"]
            tool = Tool(about["name"], description, schema=json.dumps(_schema(about["parameters"])))
            functions.append(Function(tool, _Run(tool.name), _Accepted(tool)))
        applications.append(Kit(name, tuple(functions), Instance(name)))
    return tuple(applications)


def _schema(value: Any) -> Any:
    """Return the JSON schema, with the type names of `bfcl-eval` replaced by the standard ones."""
    if not isinstance(value, dict):
        return value
    table = cast("dict[str, Any]", value)
    return {k: _TYPES.get(v, v) if k == "type" and isinstance(v, str) else _schema(v) for k, v in table.items()}


# --- the task ---------------------------------------------------------------------------------------------------------


class BFCL(Dispatch):
    """Environment with the multi-turn rows of BFCL v4. See the module docstring.

    Args:
        category: The category of rows; "" for all.
        tasks, common: See `Dispatch`.

    Raises:
        ModuleNotFoundError: The package `bfcl-eval` is not installed; the message has the command to install it.
    """

    characters = 6000  # longest observed result of a call
    source = TaskSource("bfcl", required=("prompt", "row"), sample=_tasks, every_split=True)
    declared = replace(DECLARED, name="bfcl-v0", hidden_fields=("row",), scripts=("gold",))

    def __init__(self, tasks: Tasks = "sample", *, category: Category = "", **common: Unpack[DispatchOptions]) -> None:
        if category not in get_args(Category):
            raise ValueError(f"category is {category!r}; {nearest(category, get_args(Category))}")
        self.category = category
        common.setdefault("max_turns", 200)
        limits = {f.tool.name: Limits(seconds=0, characters=self.characters) for kit in kits() for f in kit.functions}
        super().__init__(kits(), limits, tasks, **common)

    def with_candidates(self) -> TextDecPOMDP:
        """Return the task with agents that choose orders and calls by letter."""
        from .bfcl_choices import BFCLChoices  # here, since it imports this module

        return BFCLChoices(self)

    def prepare(self, items: tuple[TaskItem, ...]) -> tuple[TaskItem, ...]:
        """Return the rows of the category."""
        named = f"multi_turn_{self.category}"
        return super().prepare(tuple(item for item in items if item.id.startswith(named) or not self.category))

    def problem(self, item: TaskItem) -> str:
        """Return why a row is invalid; "" if it is valid."""
        try:
            row = row_of(item.fields["row"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            return f"field 'row': {type(error).__name__}: {error}; give a row of this environment"
        unknown = [name for name in row.classes if name not in CLASSES]
        return f"field 'row': there is no class {unknown[0]!r}; {nearest(unknown[0], CLASSES)}" if unknown else ""

    def words(self, item: TaskItem) -> Sequence[str]:
        """Return the messages of the user, one for each user turn."""
        return row_of(item.fields["row"]).words

    def applications(self, item: TaskItem) -> Sequence[str]:
        """Return the names of the classes of the row."""
        return row_of(item.fields["row"]).classes

    def tools_at_first(self, item: TaskItem) -> ToolState:
        """Return the objects of the row in their initial configuration."""
        row = row_of(item.fields["row"])
        begun = ((i, "", Instance(name, row.configs.get(name, ""), row.long)) for i, name in enumerate(CLASSES))
        return ToolState(tuple(entry for entry in begun if entry[2].name in row.classes))

    def shown(self, item: TaskItem, user: int) -> Toolbox:
        """Return the tools without the functions that the row withholds in this user turn."""
        hidden = row_of(item.fields["row"]).hidden
        return self._without(hidden[min(user, len(hidden) - 1)])

    def _without(self, hidden: frozenset[str]) -> Toolbox:
        left = [replace(k, functions=tuple(f for f in k.functions if f.tool.name not in hidden)) for k in kits()]
        known = {f.tool.name for kit in left for f in kit.functions}
        limits = {name: limit for name, limit in self.toolbox.limits.items() if name in known}
        return Toolbox(left, limits, self.toolbox.users)

    # --- checks of user turns -----------------------------------------------------------------------------------------

    def right(self, state: State) -> bool:
        """Return whether the user turn passes the published checks."""
        row = row_of(state.item.fields["row"])
        gold = row.gold[state.user]
        if not gold:
            return True
        if not any(call.user == state.user for call in state.calls):
            return False
        after, before = (gold_instances(row, state.user + 1), gold_instances(row, state.user))
        now = {i.name: i for _, _, i in state.tools.states}
        wanted, given = Counter[str](), Counter[str]()
        for name in row.classes:
            api, results = played(now[name])
            expected, all_results = played(after[name])
            if attributes(api) != attributes(expected):
                return False
            wanted.update(all_results[before[name].calls.count("\n") :])
            given.update(results)
        return not wanted - given

    def gold(self, item: TaskItem) -> Sequence[tuple[str, Mapping[str, Any]]]:
        """Return the calls of the row; see `Dispatch.gold`."""
        return _gold(row_of(item.fields["row"]).gold)

    def missing(self, state: State, user: int) -> tuple[AnyCall, ...]:
        """Return the calls of the row in a user turn that were not made in it."""
        called = Counter((m.tool, m.arguments) for m in state.calls if m.valid and m.user == user)
        gold = Counter(calls_of(row_of(state.item.fields["row"]).gold[user : user + 1]))
        return tuple((gold - Counter({call: called[call[1:]] for call in gold})).elements())

    # --- a team without a model ---------------------------------------------------------------------------------------

    def script(self, name: str) -> Script:
        """Return the team "gold", which orders the calls of the row."""
        from .bfcl_gold import Gold  # here, since it imports this module

        return Gold(self) if name == "gold" else super().script(name)


@functools.cache
def owners() -> Mapping[str, str]:
    """Return the class of each function, by name."""
    return {f.tool.name: kit.name for kit in kits() for f in kit.functions}


def written(call: AnyCall) -> str:
    """Return a call as text."""
    return text_of(call[1], json.loads(call[2]))


def text_of(name: str, arguments: Mapping[str, Any]) -> str:
    """Return a call of a function as text."""
    return f"{name}({', '.join(f'{argument}={value!r}' for argument, value in arguments.items())})"


@functools.lru_cache(maxsize=4096)
def calls_of(gold: tuple[tuple[str, ...], ...]) -> tuple[AnyCall, ...]:
    """Return the calls in the texts of user turns."""
    box = Toolbox(kits())
    calls: list[Call] = [call for turn in gold for text in turn for call in read_calls(text)]
    return tuple((owners()[call.name], call.name, arguments_of(box, call)) for call in calls)


@functools.lru_cache(maxsize=4096)
def _gold(gold: tuple[tuple[str, ...], ...]) -> tuple[tuple[str, Mapping[str, Any]], ...]:
    return tuple((owner, json.loads(given)) for owner, _, given in calls_of(gold))


def gold_instances(row: Row, turns: int) -> dict[str, Instance]:
    """Return the objects of a row after the calls of its first `turns` user turns."""
    calls = calls_of(row.gold[:turns])
    return {
        name: Instance(
            name,
            row.configs.get(name, ""),
            row.long,
            "".join(f"{tool} {given}\n" for owner, tool, given in calls if owner == name),
        )
        for name in row.classes
    }
