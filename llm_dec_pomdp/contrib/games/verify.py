"""verify-v0: A solver proposes an answer, and a verifier accepts it, rejects it, or first asks about it.

| fact | value |
|---|---|
| agents | agent_0 "solver", agent_1 "verifier" |
| turns | 2, or 4 with a question: proposal, verdict or question, reply, verdict (`max_turns` = 4) |
| data | 12 tasks, equally likely; the same for training and test |
| options | `rewards` = "joint" or "role" |
| files | rows of `prompt` (the question), `answer`, `solver` and `verifier`; see Rows |
| return | -3.05 to 1, the value of the verdict less the cost of a question |
| optimum | 0.4625 |

Observation. The answer is yes or no, each with probability 1/2.

| agent | knows at the start | observes later |
|---|---|---|
| solver | with probability 1/2 the answer, otherwise nothing | the question of the verifier |
| verifier | evidence that is right with probability 2/3 | the proposal; after its question, the reply |

Action. The solver proposes yes or no. The verifier writes accept, reject or ask. If it asks, the solver replies to the
question whether its evidence says so. The reply is any text, and the verifier then accepts or rejects. A second ask
costs again and rejects. Any other text as proposal or verdict ends the episode with the lowest score.

Reward. The value of the verdict, less 0.05 for each question:

| verdict | value |
|---|---|
| accept a right answer | 1 |
| accept a wrong answer | -3 |
| reject | 0 |

With `rewards="joint"` both agents receive this. With `rewards="role"` the verifier receives it, and the solver receives
1 if its proposal is accepted and otherwise 0. Reports show the verifier's return.

What it tests. Whether a solver that is rewarded for acceptance still tells the verifier what it needs (a reward for
each role). The table has the returns of all equilibria in pure strategies.

| rewards | returns of pure equilibria | at the best one |
|---|---|---|
| joint | 0.4625, 0.3333, 0.2, 0 | the reply says whether the solver knows the answer |
| role | 0 | the verifier rejects everything |

With role rewards there is also an equilibrium in mixed strategies with return 0.25. A solver without evidence then
proposes yes or no at random, and the verifier accepts an answer that agrees with its own evidence. Without questions
the best team receives 0.3333. In reports 0 % is a verifier that rejects everything, and 100 % is the optimum.

Optimum. A solver without evidence always proposes the same answer, yes. So the verifier accepts no. It asks about yes,
and accepts yes if the reply is yes. `env.exploitability(strategy)` returns the exact mean gain by a best response.

Teams. `script:optimal` plays the optimum. `script:trusting` is the same team with a verifier that accepts every
proposal. `choices` are yes and no, and the three verdicts.

Rows. `answer` and `verifier` are yes or no, `solver` is yes, no or nothing.

Measured (`env.measure`), in % of episodes: questions, accepted proposals, accepted wrong proposals. In % of replies:
those that are true, that is yes with evidence for the proposal, and no otherwise.

Source: written for this package; the roles follow prover-verifier games (arXiv:2108.12099, arXiv:2407.13692).

Version history: v0, the first.

Example:
    >>> import llm_dec_pomdp
    >>> env = llm_dec_pomdp.make("verify-v0", rewards="role")
    >>> _ = env.reset(options={"task_id": "verify/no_nothing_3"})
    >>> env.step(dict.fromkeys(env.agents, "yes"))[0]["agent_1"].splitlines()[-2:]
    ['Your evidence says yes; it is right with probability 2/3.', 'The solver proposes yes. Say accept, reject or ask.']
    >>> env.step(dict.fromkeys(env.agents, "accept"))[1]
    {'agent_0': 1.0, 'agent_1': -3.0}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Literal, NamedTuple, Unpack, get_args

from llm_dec_pomdp.envs import Facts, Script, Task, TaskOptions, Tasks, TaskSource, Transition, is_sample
from llm_dec_pomdp.types import Group, Message, Scale, Score, TaskItem

from .self_play import Strategy, exploitability

SOLVER, VERIFIER = "agent_0", "agent_1"
YES, NO, NOTHING = "yes", "no", "nothing"
ACCEPT, REJECT, ASK = "accept", "reject", "ask"
RIGHT, WRONG, COST = 1.0, -3.0, 0.05
LOWEST, OPTIMUM = WRONG - COST, 0.4625
Rewards = Literal["joint", "role"]
_TURNS = 4
_QUESTION = "Is the answer yes or no?"
_ASKED = "The verifier asks: does your evidence say so? Say yes or no."


def _tasks() -> list[TaskItem]:
    rows: list[TaskItem] = []
    for answer, other in ((YES, NO), (NO, YES)):
        for solver in (answer, NOTHING):
            for number, verifier in enumerate((answer, answer, other), 1):
                fields = {"answer": answer, "solver": solver, "verifier": verifier}
                rows.append(TaskItem(f"verify/{answer}_{solver}_{number}", _QUESTION, fields=fields))
    return rows


class State(NamedTuple):
    """The state of `Verify`."""

    item: TaskItem
    proposal: str = ""
    asked: bool = False
    reply: str | None = None
    over: bool = False


class Verify(Task[State]):
    """Environment of a solver and a verifier. See the module docstring.

    Args:
        tasks: "sample": the 12 tasks, which are in every split; rows of your own have other questions.
        rewards: "joint": both agents receive the value of the verdict; "role": the solver is rewarded for acceptance.
        common: See `Task`; `max_turns` is 4 by default. An episode that ends without a verdict counts as rejected.
    """

    source = TaskSource("verify", required=("prompt", "answer", "solver", "verifier"), sample=_tasks, every_split=True)
    declared = Facts(
        name="verify-v0",
        roles=("solver", "verifier"),
        components=("verdict", "questions"),
        score_range=(LOWEST, RIGHT),
        shares_texts=True,
        scripts=("optimal", "trusting"),
    )

    def __init__(self, tasks: Tasks = "sample", *, rewards: Rewards = "joint", **common: Unpack[TaskOptions]) -> None:
        if rewards not in get_args(Rewards):
            raise ValueError(f"rewards is {rewards!r}; give {' or '.join(map(repr, get_args(Rewards)))}")
        turns = common.setdefault("max_turns", _TURNS)
        self.declared = replace(self.declared, joint_reward=rewards == "joint")
        if is_sample(tasks) and turns >= _TURNS:
            self.declared = replace(self.declared, optimum=OPTIMUM, scale=Scale(0.0, OPTIMUM))
        super().__init__(tasks, **common)

    def problem(self, item: TaskItem) -> str:
        """Return why the fields of a row are invalid; "" if they are valid."""
        for name, values in {"answer": (YES, NO), "verifier": (YES, NO), "solver": (YES, NO, NOTHING)}.items():
            if item.fields[name] not in values:
                return f"field {name!r}: {item.fields[name]!r:.40}; give one of {', '.join(values)}"
        return ""

    def initial_state(self, item: TaskItem, seed: int) -> State:
        """Return the state before the proposal."""
        return State(item)

    def observations(self, state: State) -> Mapping[str, str | Message]:
        """Return evidence and request of the agent that acts."""
        if state.over:
            return {}
        prompt, fields = state.item.prompt, state.item.fields
        if not state.proposal:
            evidence = "You have no evidence." if fields["solver"] == NOTHING else f"The answer is {fields['solver']}."
            return {SOLVER: f"{prompt} Propose yes or no to a verifier.\n{evidence}"}
        if not state.asked:
            evidence = f"Your evidence says {fields['verifier']}; it is right with probability 2/3."
            verdicts = f"The solver proposes {state.proposal}. Say {ACCEPT}, {REJECT} or {ASK}."
            return {VERIFIER: f"{prompt}\n{evidence}\n{verdicts}"}
        if state.reply is None:
            return {SOLVER: _ASKED}
        return {VERIFIER: f"The solver replies: {state.reply}\nSay {ACCEPT} or {REJECT}."}

    def transition(self, state: State, actions: Mapping[str, str], seed: int) -> Transition[State]:
        """Store the proposal, the question or the reply, or compute the value of the verdict."""
        [text] = actions.values()
        chosen = text.strip().lower()
        if state.asked and state.reply is None:
            following = state._replace(reply=" ".join(text.split()))
        elif chosen not in ((ACCEPT, REJECT, ASK) if state.proposal else (YES, NO)):
            return self._end(state, LOWEST, accepted=False)
        elif not state.proposal:
            following = state._replace(proposal=chosen)
        elif chosen == ASK and not state.asked:
            following = state._replace(asked=True)
        else:
            value = RIGHT if state.proposal == state.item.fields["answer"] else WRONG
            accepted = chosen == ACCEPT
            return self._end(state, value * accepted, state.asked + (chosen == ASK), accepted=accepted)
        turns = 1 + following.asked + (following.reply is not None)
        return self._end(following, 0.0, following.asked) if turns == self.max_turns else Transition(following)

    def _end(self, state: State, verdict: float, questions: int = 0, *, accepted: bool = False) -> Transition[State]:
        total = verdict - COST * questions
        rewards = None if self.declared.joint_reward else {SOLVER: float(accepted), VERIFIER: total}
        score = Score(total, {"verdict": verdict, "questions": -COST * questions})
        return Transition(state._replace(over=True), total, score, terminated=True, rewards=rewards)

    def choices(self, agent: str, history: Sequence[Message] = ()) -> Sequence[str]:
        """Return yes and no for the solver, and the verdicts for the verifier."""
        return (YES, NO) if agent == SOLVER else (ACCEPT, REJECT, ASK)

    def exploitability(self, strategy: Strategy) -> float:
        """Return the mean gain of a best response, see `self_play.exploitability`."""
        return exploitability(self, strategy)

    def measure(self, groups: Sequence[Group]) -> Mapping[str, Mapping[str, float]]:
        """Return shares of episodes and of replies in %; see the module docstring."""
        by_id = {item.id: item.fields for item in self.items}
        asked, accepted, wrong, true = list[bool](), list[bool](), list[bool](), list[bool]()
        for episode in (episode for group in groups for episode in group.episodes):
            texts = [c.text.strip().lower() for turn in episode.turns for c in turn.actions.values()]
            fields, proposal = by_id[episode.item_id], texts[0]
            asked.append(texts[1:2] == [ASK])
            accepted.append(texts[-1] == ACCEPT)
            wrong.append(accepted[-1] and proposal != fields["answer"])
            true += [texts[2] == (YES if fields["solver"] == proposal else NO)] if len(texts) > 2 else []
        shares = {"asked %": asked, "accepted %": accepted, "accepted wrong %": wrong, "true replies %": true}
        return {"verdicts": {column: 100 * fmean(found) for column, found in shares.items() if found}} if groups else {}

    def script(self, name: str) -> Script:
        """Return the optimal team, or the same team with a verifier that accepts every proposal."""
        if name not in self.declared.scripts:
            return super().script(name)
        return lambda agent, history: ACCEPT if agent == VERIFIER and name == "trusting" else _optimal(agent, history)


def _optimal(agent: str, history: Sequence[Message]) -> str:
    """Propose the known answer, or else yes; reply truthfully; accept no at once, and yes after the reply yes."""
    last = history[-1].text
    if agent == SOLVER:
        knows = "You have no evidence." not in history[0].text
        if len(history) == 1:
            return NO if "The answer is no." in last else YES
        return YES if knows else NO
    if len(history) == 1:
        return ASK if "The solver proposes yes." in last else ACCEPT
    return ACCEPT if last.startswith("The solver replies: yes") else REJECT
