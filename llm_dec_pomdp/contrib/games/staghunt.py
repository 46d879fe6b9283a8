"""staghunt-v0: Hunters share what they observe, then hunt a stag together or a hare by themselves.

| fact | value |
|---|---|
| agents | agent_0 ... "hunter" |
| turns | 2: a message to all teammates, then the choice; `max_turns` H: H - 1 rounds of messages |
| data | 2 n tasks, equally likely: n with a stag and n without; the same for training and test |
| options | `n_agents` n = 2 (2 to 6), `rewards` = "joint" or "individual", `hare` r = 0.5 (above 0, below 1) |
| files | rows of `prompt` (the request) and `warned`, the number of the hunter that sees old tracks; 0 means a stag |
| return | 0 to 1, the mean payoff of the hunters |
| optimum | (1 + r) / 2 with messages; without messages the larger of r and (1 + r/n) / 2 |

Observation. With a stag all hunters see fresh tracks. Without one a single hunter sees old tracks. Nobody else knows of
them, and each hunter is equally likely to see them. After its message each hunter observes the messages of all others.

| agent | knows at the start | knows before the choice |
|---|---|---|
| hunter with old tracks | that there is no stag | the same, and the messages |
| hunter with fresh tracks | that there is a stag with probability n / (2n - 1) | the messages, which may warn |

Action. A message is any text. A choice is the text stag or hare; any other text has payoff 0.

Reward. The payoffs of the last turn are:

| choice | payoff of this hunter |
|---|---|
| stag | 1 if there is a stag and all hunters choose stag, otherwise 0 |
| hare | r, whatever the others choose |

With `rewards="individual"` each hunter receives its own payoff, with `rewards="joint"` all receive the mean payoff.
Reports show the mean payoff in both cases.

What it tests. Whether a joint reward lets learners avoid a poor equilibrium (arXiv:2508.04652). With both rewards the
game has several equilibria:

| equilibrium | return | with which rewards |
|---|---|---|
| payoff-dominant: hunters warn of old tracks, and choose stag if nobody warns | (1 + r) / 2 | both |
| no warnings: hunters with fresh tracks choose stag | (1 + r/n) / 2 | individual if r < n / (2n - 1), joint always |
| one-sided, n = 2: only one hunter warns | (4 + 3 r) / 8 | as in the row above |
| safe: all choose hare | r | both |

With individual rewards a hunter with old tracks receives r whatever it says, so it gains nothing by a warning. In
reports the return of the payoff-dominant equilibrium is 100 %, and that of the safe one is 0 %.

Suppose that messages are ignored, and that every teammate chooses stag with probability p. A hunter with fresh tracks
then gains by choosing stag if

    p ** (n - 1) * n / (2n - 1) > r        with individual rewards
    p ** (n - 1) * n / (2n - 1) > r / n    with the joint reward

The first condition is that its own payoff rises, the second that the mean payoff rises. With two hunters and p = 1/2 it
gains for r below 1/3 with individual rewards, and for r below 2/3 with the joint reward. So r decides whether a team
that starts at random moves towards the stag. `env.exploitability(strategy)` returns the exact mean gain by a best
response.

Teams. `script:optimal` plays the payoff-dominant equilibrium, `script:safe` always answers hare. `choices` are stag and
hare in both turns, where hare as a message can warn.

Measured (`env.measure`): in % of episodes with a stag, those in which all choose stag; in % of the choices of stag,
those in vain.

Source: the stag hunt of Rousseau, with signals; risk dominance after Harsanyi and Selten, A General Theory of
Equilibrium Selection in Games, 1988.

Version history: v0, the first.

Example:
    >>> import llm_dec_pomdp
    >>> env = llm_dec_pomdp.make("staghunt-v0", rewards="individual")
    >>> env.reset(options={"task_id": "staghunt/warned_2"})[0]["agent_1"].splitlines()[-1]
    'You see old tracks: there is no stag.'
    >>> env.step({"agent_0": "stag", "agent_1": "hare"})[0]["agent_0"]
    'Hunter 2 says: hare\\nChoose stag or hare.'
    >>> env.step({"agent_0": "stag", "agent_1": "hare"})[1]
    {'agent_0': 0.0, 'agent_1': 0.5}
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Literal, NamedTuple, Unpack, get_args

from llm_dec_pomdp.envs import Facts, Script, Task, TaskOptions, Tasks, TaskSource, Transition, check_int, is_sample
from llm_dec_pomdp.types import Group, Message, Scale, Score, TaskItem

from .self_play import Strategy, exploitability

STAG, HARE = "stag", "hare"
Rewards = Literal["joint", "individual"]
_FRESH, _OLD = "You see fresh tracks.", "You see old tracks: there is no stag."
_CHOOSE = f"Choose {STAG} or {HARE}."
_SPEAK = f"First send a message to all: {STAG} or {HARE}, or other words."
_REQUEST = (
    "You are one of several hunters. A stag is worth 1 to each of you if there is one and all choose stag, otherwise "
    "those who choose stag get nothing. With probability 1/2 there is a stag. If there is none, one of you sees old "
    "tracks."
)


def _tasks(n: int) -> list[TaskItem]:
    warned = {f"stag_{k}": 0 for k in range(1, n + 1)} | {f"warned_{k}": k for k in range(1, n + 1)}
    return [TaskItem(f"staghunt/{name}", _REQUEST, fields={"warned": str(k)}) for name, k in warned.items()]


class State(NamedTuple):
    """The state of `StagHunt`."""

    item: TaskItem
    messages: tuple[tuple[str, ...], ...] = ()  # the messages of each round, in agent order
    over: bool = False


class StagHunt(Task[State]):
    """Environment of a stag hunt with private signals and messages. See the module docstring.

    Args:
        tasks: "sample": the 2 n tasks, which are in every split; rows of your own have another request.
        n_agents: The number of hunters, 2 to 6.
        rewards: "joint": all hunters receive the mean payoff; "individual": each receives its own payoff.
        hare: The payoff of a hare r, in (0, 1).
        common: See `Task`; `max_turns` is 2 by default.
    """

    declared = Facts(
        name="staghunt-v0",
        components=("payoff",),
        score_range=(0.0, 1.0),
        shares_texts=True,
        scripts=("optimal", "safe"),
    )

    def __init__(
        self,
        tasks: Tasks = "sample",
        *,
        n_agents: int = 2,
        rewards: Rewards = "joint",
        hare: float = 0.5,
        **common: Unpack[TaskOptions],
    ) -> None:
        n = check_int("n_agents", n_agents, 2, 6)
        if rewards not in get_args(Rewards):
            raise ValueError(f"rewards is {rewards!r}; give {' or '.join(map(repr, get_args(Rewards)))}")
        if isinstance(hare, bool) or not isinstance(hare, (int, float)) or not 0 < hare < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"hare is {hare!r}; it is the payoff of a hare, give a number above 0 and below 1")
        self.hare = float(hare)
        self.source = TaskSource(  # type: ignore[misc]
            "staghunt", required=("prompt", "warned"), sample=functools.partial(_tasks, n), every_split=True
        )
        turns = common.setdefault("max_turns", 2)
        without_messages = max(self.hare, (1 + self.hare / n) / 2)
        best = (1 + self.hare) / 2 if turns > 1 else without_messages
        self.declared = replace(
            self.declared,
            roles=("hunter",) * n,
            joint_reward=rewards == "joint",
            optimum=best if is_sample(tasks) else None,
            scale=Scale(self.hare, best) if best > self.hare else None,
        )
        super().__init__(tasks, **common)

    def problem(self, item: TaskItem) -> str:
        """Return why the field `warned` of a row is invalid; "" if it is valid."""
        numbers = [*map(str, range(len(self.possible_agents) + 1))]
        warned = item.fields["warned"]
        return "" if warned in numbers else f"field 'warned': {warned!r:.40}; give one of {', '.join(numbers)}"

    def initial_state(self, item: TaskItem, seed: int) -> State:
        """Return the state before the first message."""
        return State(item)

    def observations(self, state: State) -> Mapping[str, str | Message]:
        """Return the tracks at the start, the messages of the last round, and a request for a message or a choice."""
        if state.over:
            return {}
        rounds_left = self.max_turns - 1 - len(state.messages)
        request = _SPEAK if rounds_left else _CHOOSE
        texts: dict[str, str] = {}
        for place, agent in enumerate(self.possible_agents, 1):
            if state.messages:
                said = enumerate(state.messages[-1], 1)
                lines = [f"Hunter {other} says: {text}" for other, text in said if other != place]
                texts[agent] = "\n".join([*lines, request])
            else:
                tracks = _OLD if state.item.fields["warned"] == str(place) else _FRESH
                payoff = f"A hare is worth {self.hare:g} to the one who chooses it. {request}"
                texts[agent] = f"{state.item.prompt} {payoff}\nYou are hunter {place}.\n{tracks}"
        return texts

    def transition(self, state: State, actions: Mapping[str, str], seed: int) -> Transition[State]:
        """Pass the messages on, or compute the payoffs of the choices."""
        texts = [actions[agent] for agent in self.possible_agents]
        if len(state.messages) < self.max_turns - 1:
            said = tuple(" ".join(text.split()) for text in texts)
            return Transition(state._replace(messages=(*state.messages, said)))
        chosen = [text.strip().lower() for text in texts]
        caught = state.item.fields["warned"] == "0" and set(chosen) == {STAG}
        payoffs = [self.hare if choice == HARE else float(caught) for choice in chosen]
        rewards = None if self.declared.joint_reward else dict(zip(self.possible_agents, payoffs, strict=True))
        mean = fmean(payoffs)
        score = Score(mean, {"payoff": mean})
        return Transition(state._replace(over=True), mean, score, terminated=True, rewards=rewards)

    def choices(self, agent: str, history: Sequence[Message] = ()) -> Sequence[str]:
        """Return stag and hare, as messages and as choices."""
        return STAG, HARE

    def exploitability(self, strategy: Strategy) -> float:
        """Return the mean gain of a best response, see `self_play.exploitability`."""
        return exploitability(self, strategy)

    def measure(self, groups: Sequence[Group]) -> Mapping[str, Mapping[str, float]]:
        """Return the share of stags that are caught, and the share of choices of stag that are in vain, in %."""
        there = {item.id: item.fields["warned"] == "0" for item in self.items}
        caught, vain = list[bool](), list[bool]()
        for episode in (episode for group in groups for episode in group.episodes):
            chosen = [completion.text.strip().lower() for completion in episode.turns[-1].actions.values()]
            success = there[episode.item_id] and set(chosen) == {STAG}
            caught += [success] if there[episode.item_id] else []
            vain += [not success for choice in chosen if choice == STAG]
        shares = {"stags caught %": caught, "stag in vain %": vain}
        return {"hunts": {name: 100 * fmean(found) for name, found in shares.items() if found}} if groups else {}

    def script(self, name: str) -> Script:
        """Return the team of the payoff-dominant equilibrium, or the team that always answers hare."""
        if name not in self.declared.scripts:
            return super().script(name)
        return lambda agent, history: HARE if name == "safe" else _optimal(history)


def _optimal(history: Sequence[Message]) -> str:
    """Answer hare if this hunter sees old tracks or a teammate has sent hare, otherwise stag."""
    observed = [message.text for message in history if message.role == "observation"]
    warned = any(line.endswith(f"says: {HARE}") for text in observed for line in text.splitlines())
    return HARE if warned or _OLD in observed[0] else STAG
