"""repair-v0: An assistant with the manual and a customer with the phone repair its faults in the right order.

| fact | value |
|---|---|
| agents | agent_0 "assistant", agent_1 "customer" |
| turns | up to 8 (`max_turns`); both agents act at once |
| options | `settings` of the phone, 5 (1 to 8), `accounts`, items of the account, 2 (0 to 4), `faults` 3 |
| rewards | `rewards` = "joint" or "individual" |
| costs | `turn_cost` 0.05 of a turn, and of an act that repairs nothing; `word_cost` 0 of a word |
| data | 300 / 100 tasks (`count`: training tasks), generated from different seeds; `words`: "fixed" or "paraphrased" |
| files | rows of `prompt`, `manual`: `sim on bill ok`, in its order, and `phone`, values now: `sim off bill ok` |
| return | at most 1.0 minus the turns of the shortest plan; optimum known for every task, 0.879 on average |

Observation. In the first turn the assistant observes the manual: the right value of every setting and account item, and
the order in which faults have to be repaired. It also observes which items of the account are broken. The customer
observes the present settings of the phone. Later each agent observes the message of the other agent, the result of its
own act, and how many faults are repaired.

Action. The assistant may call one tool: `fix_line()`, `fix_plan()`, `fix_bill()` or `fix_limit()` (other forms: see
`envs.tools.calls`). The customer may write `SET roaming on`; the last such words of a text count. Any other text is a
message, of which the other agent observes the first 40 words. The text `TELL` stands for all private knowledge of its
author. A text without a letter or a digit is no message. In the first turn only messages count. `choices` are such
texts.

Reward. When all faults are repaired, the phone works and the episode ends:

| part | value |
|---|---|
| plan 0 or 1 | the phone works |
| turns | -`turn_cost` for every turn except the last repair, and for every act that repairs nothing |
| words | -`word_cost` for every word of a message |

With `rewards="joint"` both agents receive the sum. With `rewards="individual"` each agent pays twice for its own words
and for its own acts that repair nothing, and nothing for those of its teammate. The mean is the joint reward.

An act repairs a fault if this fault is the next one in the order of the manual. Both agents may repair in the same turn
if their faults follow each other. Any other act changes nothing, and its author observes this. An act with an unknown
setting or tool has the same effect.

Optimum. Both agents send all their knowledge in the first turn. Then they repair the faults by the shortest plan, found
by search over the remaining faults and all joint acts. The return is 1 minus the cost of one turn and of all turns of
the plan except the last. No team can do better, because an act in the first turn does not count. A single agent
observes everything, and may change a setting and call a tool in one text; it needs one turn less. With `word_cost`
above 0 the optimum is not known. `script:optimal` and `script:tells_all` play the optimum. In `script:silent` no agent
sends messages, and each tries one repair after another.

Measured (`env.measure`): turns, words, and the share of episodes in which the phone works.

What it tests. An agent has to instruct a teammate who observes something else, and agents have to act in turn.

Source: written for this package, after the telecom domain of tau2-bench, whose authors model it as a Dec-POMDP. A model
behind a server can act as the customer (`agents.io.load`).

Version history: v0, the first.

Example:
    >>> import llm_dec_pomdp
    >>> env = llm_dec_pomdp.make("repair-v0", settings=2, accounts=1, faults=2)
    >>> print(env.reset(options={"index": 0})[0]["agent_0"].splitlines()[1])
    You know: sim off line ok airplane on now line broken
    >>> _ = env.step({"agent_0": "TELL", "agent_1": "My phone is dead."})
    >>> env.history("agent_0")[-1].text.splitlines()[0]
    'Customer: My phone is dead.'
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple, Unpack, get_args

from llm_dec_pomdp.envs import Tasks, check_int
from llm_dec_pomdp.envs.tools import read_calls
from llm_dec_pomdp.seeding import generator
from llm_dec_pomdp.types import Message, TaskItem, Tool

from .base import DECLARED, LABELS, NOTHING, TELL, ActResult, Dialogue, DialogueOptions

ASSISTANT, CUSTOMER = "agent_0", "agent_1"
SETTINGS = ("airplane", "sim", "data", "roaming", "apn", "vpn", "saver", "wifi")
ACCOUNTS = ("line", "plan", "bill", "limit")
VALUES = ("on", "off")
OK, BROKEN = "ok", "broken"
_SET = re.compile(r"\bSET\s+(\w{1,20})\s+(on|off)\b", re.IGNORECASE | re.ASCII)
_PAIR = re.compile(rf"\b(?:({'|'.join(SETTINGS)}) (on|off)|({'|'.join(ACCOUNTS)}) (ok|broken))\b", re.ASCII)
_MENDED = "Faults mended:"
Pair = tuple[str, str]  # (setting or account item, value)
Rewards = Literal["joint", "individual"]


class World(NamedTuple):
    """The right values in the order of the manual, and the initial values."""

    manual: tuple[Pair, ...]
    phone: Mapping[str, str]

    @property
    def faults(self) -> tuple[Pair, ...]:
        """The repairs that are needed, in order: (name, right value)."""
        return tuple((name, value) for name, value in self.manual if self.phone[name] != value)


class Repair(Dialogue):
    """Environment in which two agents repair a phone. See the module docstring.

    Args:
        settings: The number of settings of the phone, 1 to 8.
        accounts: The number of account items, 0 to 4.
        faults: The number of wrong settings and items, at least 1; at least one is a setting.
        rewards: "joint": both agents receive the same reward; "individual": each agent bears the costs of its own words
            and acts.
        tasks, common: See `Dialogue`; `max_turns` is 8 by default.
    """

    most_wrong = 2
    row_fields = ("manual", "phone")
    declared = replace(
        DECLARED,
        name="repair-v0",
        roles=("assistant", "customer"),
    )

    def __init__(
        self,
        tasks: Tasks = "sample",
        *,
        settings: int = 5,
        accounts: int = 2,
        faults: int = 3,
        rewards: Rewards = "joint",
        **common: Unpack[DialogueOptions],
    ) -> None:
        self.settings = SETTINGS[: check_int("settings", settings, 1, len(SETTINGS))]
        self.accounts = ACCOUNTS[: check_int("accounts", accounts, 0, len(ACCOUNTS))]
        if check_int("faults", faults, 1) > settings + accounts:
            raise ValueError(
                f"faults is {faults}, and only {settings} settings and {accounts} accounts can be wrong; reduce faults"
            )
        if rewards not in get_args(Rewards):
            raise ValueError(f"rewards is {rewards!r}; give {' or '.join(map(repr, get_args(Rewards)))}")
        self.faults = faults
        calls = (f"fix_{name}()" for name in self.accounts)
        words = f"{LABELS} Assistant: Customer: {_MENDED} SET Set on off {OK} {BROKEN} is Please now".split()
        names = (*self.settings, *self.accounts, *calls)
        vocabulary = (*words, *map(str, range(16)), *names)
        self.declared = replace(self.declared, vocabulary=vocabulary, joint_reward=rewards == "joint")
        common.setdefault("max_turns", 8)
        super().__init__(tasks, **common)

    # --- rows ---------------------------------------------------------------------------------------------------------

    def size(self) -> tuple[int, ...]:
        """Return the numbers of settings, account items, and faults."""
        return len(self.settings), len(self.accounts), self.faults

    @staticmethod
    def sample_instance(settings: int, accounts: int, faults: int, split: str, number: int) -> TaskItem:
        """Sample a task: a manual in random order, and random faults, at least one in a setting."""
        random = generator(0, "repair", settings, accounts, faults, split, number)
        names = [*SETTINGS[:settings], *ACCOUNTS[:accounts]]
        order = [names[int(place)] for place in random.permutation(len(names))]
        right = {name: OK if name in ACCOUNTS else VALUES[int(random.integers(2))] for name in order}
        first = SETTINGS[int(random.integers(settings))]
        others = [name for name in (names[int(place)] for place in random.permutation(len(names))) if name != first]
        wrong = {first, *others[: faults - 1]}
        phone = {name: _other(right[name]) if name in wrong else right[name] for name in names}
        fields = {"manual": _spoken((name, right[name]) for name in order), "phone": _spoken(phone.items())}
        return TaskItem(f"{split}-{number}", "A phone has no connection.", split, fields=fields)

    def problem(self, item: TaskItem) -> str:
        """Return why manual or phone are invalid; "" if they are valid."""
        names = {*self.settings, *self.accounts}
        for field in self.row_fields:
            text = " ".join(item.fields[field].split())
            pairs = read_pairs(text)
            if _spoken(pairs) != text or len(dict(pairs)) < len(pairs):
                return f"field {field!r}: {text[:60]!r} is no list such as 'roaming on line ok', each name once"
            if strange := sorted(names.symmetric_difference(dict(pairs))):
                return (
                    f"field {field!r}: {strange[0]!r} is missing or not among the settings and accounts of this size; "
                    "change the row, or the options settings and accounts"
                )
            if field == "manual" and any(value == BROKEN for _, value in pairs):
                return f"field 'manual': has an item that is {BROKEN}; give every account item the value {OK}"
        return "" if self._faults(item) else "field 'phone': has no fault; give a setting another value than the manual"

    # --- the task -----------------------------------------------------------------------------------------------------

    def optimal_turns(self, item: TaskItem) -> int:
        """Return the number of turns of the shortest plan."""
        return shortest(self._faults(item))

    def _faults(self, item: TaskItem) -> tuple[Pair, ...]:
        return _world(*(item.fields[field] for field in self.row_fields)).faults

    def knows(self, item: TaskItem, agent: str) -> str:
        """Return the manual and the broken account items, or the settings of the phone."""
        phone = read_pairs(item.fields["phone"])
        if agent == CUSTOMER:
            return _spoken(pair for pair in phone if pair[0] in SETTINGS)
        broken = [pair for pair in phone if pair[1] == BROKEN]
        return " ".join([*item.fields["manual"].split(), *([_NOW, _spoken(broken)] if broken else [])])

    def introduction(self, item: TaskItem, agent: str, variant: int) -> str:
        """Return the description of the role and of its acts."""
        calls = " or ".join(f"fix_{name}()" for name in self.accounts) or "no tool"
        if agent == ASSISTANT:
            return (
                "You are the assistant. You know the manual: how all has to be, and in which order faults are mended; "
                f"after 'now' stands what is broken in the account. Send a message, or call {calls}.",
                "As the assistant you read the manual, which says how each thing must be; faults are mended in its "
                f"order. 'now' begins what is broken in the account. Write to the customer, or use {calls}.",
                "A customer calls you, the assistant. Your manual lists how all should be, and mending goes in this "
                f"order; behind 'now' is what the account has broken. Say something, or call {calls}.",
            )[variant]
        return (
            "You are the customer. You know how your phone is set; its screen shows no connection. The assistant "
            "knows how it should be. Send a message, or SET a setting on or off, such as SET roaming on.",
            "As the customer you see the settings of your phone and a screen that shows no connection. Write to the "
            "assistant, who has the manual, or SET something, such as SET roaming on.",
            "Your screen, customer, shows no connection. Tell the assistant how your phone is set, and SET what it "
            "asks for on or off: SET roaming on.",
        )[variant]

    def read(self, item: TaskItem, agent: str, text: str) -> tuple[str | Pair | None, str]:
        """Return the first tool call of the assistant, or the last setting of the customer."""
        if agent == CUSTOMER:
            found = _SET.findall(text)
            if not found:
                return None, "SET needs a setting and on or off, such as SET roaming on." if "SET" in text else ""
            name, value = found[-1][0].lower(), found[-1][1].lower()
            return (name, value), ""
        calls = read_calls(text, [tool.name for tool in self.tools(ASSISTANT)])
        return (calls[0].name.removeprefix("fix_"), OK) if calls else None, ""

    def act(self, item: TaskItem, plan: Any, acts: Mapping[str, Pair]) -> ActResult:
        """Repair the next fault, and the one after it if the acts of both agents repair consecutive faults."""
        faults, before = self._faults(item), len(plan)
        mended = mend(faults, before, tuple(acts.values()))
        done = faults[before:mended]
        answers = {agent: self._answer(agent, act, act in done) for agent, act in acts.items()}
        wrong = tuple(agent for agent, act in acts.items() if act not in done)
        progress = {agent: f"{answers.get(agent, '')}\n{_MENDED} {mended}".strip() for agent in self.possible_agents}
        return ActResult(faults[:mended], progress, 1.0 if mended == len(faults) else None, wrong)

    def _answer(self, agent: str, act: Pair, mended: bool) -> str:
        name, value = act
        known = self.settings if agent == CUSTOMER else self.accounts
        if name not in known:
            what = "setting" if agent == CUSTOMER else "tool"
            return f"There is no {what} {name[:40]!r}; there are {', '.join(known) or 'none'}."
        return f"{name} is {value} now." if mended else f"{name} {value} mends nothing now."

    def tools(self, agent: str) -> tuple[Tool, ...]:
        """Return for the assistant one tool for each account item."""
        if agent == CUSTOMER:
            return ()
        return tuple(Tool(f"fix_{name}", f"Mends the {name} of the account.") for name in self.accounts)

    # --- teams without a model ----------------------------------------------------------------------------------------

    def choices(self, agent: str, history: Sequence[Message] = ()) -> Sequence[str]:
        """Return messages about settings, tool calls or settings, all knowledge (`TELL`), and no message."""
        pairs = list(itertools.product(self.settings, VALUES))
        if agent == ASSISTANT:
            calls = (f"fix_{name}()" for name in self.accounts)
            return [TELL, *(f"Please Set {name} {value}" for name, value in pairs), *calls, NOTHING]
        known, acts = (f"{name} is {value}" for name, value in pairs), (f"SET {name} {value}" for name, value in pairs)
        return [TELL, *known, *acts, NOTHING]

    def single_agent_choices(self, history: Sequence[Message] = ()) -> Sequence[str]:
        """Return the acts of both agents, and every pair of a tool call and a setting in one text."""
        acts = super().single_agent_choices(history)
        sets, calls = ([text for text in acts if text.startswith(word)] for word in ("SET", "fix"))
        return [*acts, *map("\n".join, itertools.product(calls, sets))]

    def plays(self, agent: str, private: str, heard: Mapping[str, str], turn: int, observations: Sequence[str]) -> str:
        """Repair the next fault, or the fault after it if a teammate repairs the next; try all without messages."""
        known = [heard.get(ASSISTANT, ""), heard.get(CUSTOMER, "")]
        known[agent == CUSTOMER] = private
        manual, _, broken = known[0].partition(_NOW)
        if not manual or not known[1]:
            tried = [f"fix_{name}()" for name, value in read_pairs(broken) if value == BROKEN]
            if agent == CUSTOMER:
                tried = [f"SET {name} {_other(value)}" for name, value in read_pairs(private)]
            return tried[(turn - 1) % len(tried)] if tried else NOTHING
        phone = dict.fromkeys(ACCOUNTS, OK) | dict(read_pairs(known[1])) | dict(read_pairs(broken))
        faults = World(tuple(read_pairs(manual)), phone).faults
        counts = [line.partition(_MENDED)[2] for text in observations for line in text.split("\n") if _MENDED in line]
        left = faults[int(counts[-1]) if counts else 0 :]
        for pair in left[: 1 + (len(left) > 1 and _owner(left[0]) != _owner(left[1]))]:
            if _owner(pair) == agent:
                return f"SET {pair[0]} {pair[1]}" if agent == CUSTOMER else f"fix_{pair[0]}()"
        return NOTHING


_NOW = "now"  # precedes the broken account items


def mend(faults: Sequence[Pair], mended: int, acts: Sequence[Pair]) -> int:
    """Return the number of repaired faults after the acts of a turn; the order of the acts does not matter."""
    left = list(acts)
    while mended < len(faults) and faults[mended] in left:
        left.remove(faults[mended])
        mended += 1
    return mended


@functools.cache
def shortest(faults: tuple[Pair, ...]) -> int:
    """Return the minimum number of turns that repair all faults, by breadth-first search over all joint acts."""
    by_owner = [[pair for pair in faults if _owner(pair) == agent] for agent in (ASSISTANT, CUSTOMER)]
    joint = [tuple(filter(None, acts)) for acts in itertools.product(*([None, *private] for private in by_owner))]
    reached, turns = {0}, 0
    while len(faults) not in reached:
        reached = {mend(faults, mended, tried) for mended in reached for tried in joint}
        turns += 1
    return turns


def read_pairs(text: str) -> list[Pair]:
    """Return the settings and items that a text states, in order: `roaming on`, `line ok`; other words are ignored."""
    return [(setting or account, value or state) for setting, value, account, state in _PAIR.findall(text)]


def _owner(pair: Pair) -> str:
    return CUSTOMER if pair[0] in SETTINGS else ASSISTANT


def _other(value: str) -> str:
    return {"on": "off", "off": "on", OK: BROKEN, BROKEN: OK}[value]


def _spoken(pairs: Any) -> str:
    return " ".join(f"{name} {value}" for name, value in pairs)


@functools.lru_cache(maxsize=4096)
def _world(manual: str, phone: str) -> World:
    return World(tuple(read_pairs(manual)), dict(read_pairs(phone)))
