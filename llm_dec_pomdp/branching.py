"""Play beyond trajectories side by side: trees of joint actions, crossed texts, and alternatives to what was played.

Both functions work in lockstep, as `rollout` does: all texts of a turn are asked for together, and all joint actions of
a turn are stepped together, with rewards judged concurrently.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from .agents.base import Request, Sampling, Team
from .envs.base import TextDecPOMDP, step_many
from .seeding import derive
from .types import Branch, Completion, Decision, Episode, Group, RolloutPlan, Turn

MAX_JOINT_ACTIONS = 4096  # of one task at one turn
SILENT = Completion("")


@dataclass(slots=True)
class Running:
    """An episode in progress; `points` are its decision points, kept where alternatives are to be tried."""

    env: TextDecPOMDP
    group: int
    item_id: str
    seed: int
    turns: list[Turn] = field(default_factory=list[Turn])
    terminated: bool = False
    points: list[TextDecPOMDP] = field(default_factory=list[TextDecPOMDP])


class Wanted(NamedTuple):
    """A text that is asked for."""

    group: int
    agent: str
    history: tuple[str, ...]
    ids: tuple[int, ...]
    seed: int


class Stepped(NamedTuple):
    """What one step of an environment gave."""

    turn: Turn
    terminated: bool


def ids_said(agent: str, turns: Sequence[Turn]) -> tuple[int, ...]:
    """Token ids of an agent's history up to its last text; empty where it said none, or its policy has no tokens."""
    last = next((turn.actions[agent] for turn in reversed(turns) if agent in turn.actions), SILENT)
    return last.prompt_ids + last.token_ids


def ask(team: Team, sampling: Sampling, wanted: Sequence[Wanted]) -> list[Completion]:
    """One text for each; those with the same group, agent and history share a request, equal ones are drawn once."""
    seeds: dict[tuple[int, str, tuple[str, ...], tuple[int, ...]], dict[int, None]] = {}
    for one in wanted:
        seeds.setdefault(one[:4], {})[one.seed] = None
    requests = [Request(agent, history, tuple(mine), ids) for (_, agent, history, ids), mine in seeds.items()]
    found: dict[Wanted, Completion] = {}
    for key, request, completions in zip(seeds, requests, team.generate(requests, sampling), strict=True):
        for seed, completion in zip(request.seeds, completions, strict=True):
            found[Wanted(*key, seed)] = completion
    return [found[one] for one in wanted]


def step_all(envs: Sequence[TextDecPOMDP], said: Sequence[Mapping[str, Completion]]) -> list[Stepped]:
    """Step all environments; agents that said nothing are silent."""
    observations = [{agent: env.history(agent)[-1] for agent in s} for env, s in zip(envs, said, strict=True)]
    actions = [{agent: s.get(agent, SILENT).text for agent in env.agents} for env, s in zip(envs, said, strict=True)]
    stepped: list[Stepped] = []
    for i, (_, rewards, terminations, _, _) in enumerate(step_many(envs, actions)):
        score = envs[i].last_score if envs[i].scored else None
        turn = Turn(observations[i], said[i], next(iter(rewards.values())), score)
        stepped.append(Stepped(turn, all(terminations.values())))
    return stepped


# --- trees and crossed texts ------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Node:
    """A decision point of a tree, and the turns that led to it."""

    env: TextDecPOMDP
    turns: tuple[Turn, ...]
    reach: float
    actions: dict[str, list[Completion]] = field(default_factory=dict[str, list[Completion]])
    limbs: list[_Limb] = field(default_factory=list["_Limb"])


@dataclass(slots=True)
class _Limb:
    """A joint action of a tree, and the decision point it led to, if any."""

    choice: tuple[int, ...]
    stepped: Stepped
    next: _Node | None


def grow(starts: Sequence[Running], team: Team, sampling: Sampling, width: int, plan: RolloutPlan) -> list[Group]:
    """Play every joint action of G texts per agent, and with `plan.tree` branch again from where each of them leads.

    The same agent with the same own history draws the same texts: it cannot tell such decision points apart, and so
    chance does not either (common random numbers). At the first turn they are the texts of trajectories side by side.

    Args:
        starts: One episode per task, at its start, with the seed of the task.
        team: Who plays.
        sampling: How texts are drawn.
        width: G, texts per agent and decision point.
        plan: Aligned or crossed, one turn or a tree.
    """
    roots = [_Node(start.env, (), 1.0) for start in starts]
    levels: list[list[tuple[int, _Node]]] = []
    level = list(enumerate(roots))
    while level:
        levels.append(level)
        _refuse_turns_without_tree(level, plan)
        _draw(level, starts, team, sampling, width)
        level = _play(level, plan, starts)
    groups: list[Group] = []
    for i, start in enumerate(starts):
        decisions = [_decision(node, t, width) for t, nodes in enumerate(levels) for owner, node in nodes if owner == i]
        groups.append(Group(start.item_id, tuple(_episodes(roots[i], start)), tuple(decisions)))
    return groups


def _refuse_turns_without_tree(level: Sequence[tuple[int, _Node]], plan: RolloutPlan) -> None:
    turns = max(node.env.max_turns for _, node in level)
    if turns > 1 and not plan.tree:
        raise ValueError(
            f"pairing='cross' plays combinations that no single trajectory continues, and the episodes of "
            f"{level[0][1].env.metadata['name']} have {turns} turns; set tree=true, or pairing='aligned'"
        )


def _draw(
    level: Sequence[tuple[int, _Node]], starts: Sequence[Running], team: Team, sampling: Sampling, width: int
) -> None:
    """G texts of every asked agent of every decision point of a turn."""
    wanted: list[tuple[_Node, Wanted]] = []
    for owner, node in level:
        for agent in node.env.agents:
            if node.env.asked(agent):
                history, turn, ids = node.env.history(agent), node.env.turn, ids_said(agent, node.turns)
                address = (agent, turn, *history) if turn else (agent, turn)
                seeds = [derive(derive(starts[owner].seed, g), *address) for g in range(width)]
                wanted += [(node, Wanted(owner, agent, history, ids, seed)) for seed in seeds]
    for (node, one), completion in zip(wanted, ask(team, sampling, [one for _, one in wanted]), strict=True):
        node.actions.setdefault(one.agent, []).append(completion)


def _play(level: Sequence[tuple[int, _Node]], plan: RolloutPlan, starts: Sequence[Running]) -> list[tuple[int, _Node]]:
    """Step every joint action of a turn; returns the decision points of the next one."""
    tried: list[tuple[int, _Node, tuple[int, ...], TextDecPOMDP]] = []
    for owner, node in level:
        tried += [(owner, node, choice, node.env.fork()) for choice in _choices(node, plan.pairing)]
    _refuse_too_many(Counter(owner for owner, *_ in tried), starts)
    said = [
        {agent: texts[k] for (agent, texts), k in zip(node.actions.items(), choice, strict=True)}
        for _, node, choice, _ in tried
    ]
    following: list[tuple[int, _Node]] = []
    results = step_all([env for *_, env in tried], said)
    for (owner, node, choice, env), stepped in zip(tried, results, strict=True):
        turns, reach = (*node.turns, stepped.turn), node.reach / len(_choices(node, plan.pairing))
        child = _Node(env, turns, reach) if env.agents else None
        node.limbs.append(_Limb(choice, stepped, child))
        if child is not None:
            following.append((owner, child))
    return following


def _choices(node: _Node, pairing: Literal["aligned", "cross"]) -> list[tuple[int, ...]]:
    """Which texts are said together: the g-th of every agent, or all combinations."""
    width = max((len(texts) for texts in node.actions.values()), default=1)
    if pairing == "cross":
        return list(itertools.product(range(width), repeat=len(node.actions)))
    return [(g,) * len(node.actions) for g in range(width)]


def _refuse_too_many(counts: Counter[int], starts: Sequence[Running]) -> None:
    for owner, count in counts.items():
        if count > MAX_JOINT_ACTIONS:
            raise ValueError(
                f"task {starts[owner].item_id!r} would play {count} joint actions in one turn, more than "
                f"{MAX_JOINT_ACTIONS}; lower the group size or the number of turns, or do without tree or 'cross'"
            )


def _decision(node: _Node, turn: int, width: int) -> Decision:
    texts = {agent: tuple(said) for agent, said in node.actions.items()}
    branches = tuple(Branch(limb.choice, _rewards(limb)) for limb in node.limbs)
    return Decision(turn, texts, width, branches, node.reach)


def _rewards(limb: _Limb) -> tuple[float, ...]:
    """Reward of a joint action and mean rewards of the turns after it."""
    following = [] if limb.next is None else [_rewards(after) for after in limb.next.limbs]
    return (limb.stepped.turn.reward, *_mean_rewards(following))


def _mean_rewards(rewards: Sequence[Sequence[float]]) -> list[float]:
    """Turn by turn; who ended earns no more, and what could not be scored is left out."""
    means: list[float] = []
    for t in range(max(map(len, rewards), default=0)):
        now = [r[t] if t < len(r) else 0.0 * r[-1] for r in rewards]  # 0 * NaN: ended without a score
        scored = [r for r in now if not math.isnan(r)]
        means.append(math.fsum(scored) / len(scored) if scored else math.nan)
    return means


def _episodes(node: _Node, start: Running) -> list[Episode]:
    """All trajectories through a decision point."""
    found: list[Episode] = []
    for limb in node.limbs:
        if limb.next is None:
            turns, reach = (*node.turns, limb.stepped.turn), node.reach / len(node.limbs)
            found.append(Episode(start.item_id, start.seed, turns, limb.stepped.terminated, reach))
        else:
            found += _episodes(limb.next, start)
    return found


# --- alternatives -----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Try:
    """A joint action that is tried at turn `first` of an episode; `turns` are those before it, it, and what follows."""

    episode: Running
    first: int
    choice: tuple[int, ...]
    env: TextDecPOMDP
    said: dict[str, Completion]
    turns: list[Turn]

    @property
    def rewards(self) -> tuple[float, ...]:
        """From the tried action on."""
        return tuple(turn.reward for turn in self.turns[self.first :])


def try_alternatives(
    episodes: Sequence[Running], team: Team, sampling: Sampling, continuation: Literal["none", "frozen", "resampled"]
) -> dict[int, list[Decision]]:
    """Score what one agent's text is worth beside what the others said: replace it by its texts of the other episodes.

    Args:
        episodes: Whole episodes with their decision points.
        team: Who plays on where `continuation` is "resampled".
        sampling: How texts are drawn.
        continuation: What is said after the replaced turn. "frozen": all texts of the episode as recorded, as long as
            there are any, so nobody is asked again; an agent that would have reacted does not. "resampled": an agent
            whose own history is as recorded says what is recorded, any other draws anew, from the seed it had.

    Returns:
        By group, the decision points of all its episodes.
    """
    if continuation == "none":
        return {}
    decisions: dict[int, list[Decision]] = {}
    tries: list[_Try] = []
    pending: list[tuple[Running, int, dict[str, tuple[Completion, ...]], list[Branch], list[_Try]]] = []
    for episode in episodes:
        others = [other for other in episodes if other.group == episode.group and other is not episode]
        for t, turn in enumerate(episode.turns):
            texts = {agent: (own, *_texts(others, t, agent)) for agent, own in turn.actions.items()}
            known, unknown = _alternatives(episode, t, texts)
            pending.append((episode, t, texts, known, unknown))
            tries += unknown
    _play_on(tries, team, sampling, continuation)
    for episode, t, texts, known, unknown in pending:
        branches = [*known, *(Branch(one.choice, one.rewards) for one in unknown)]
        decisions.setdefault(episode.group, []).append(Decision(t, texts, 1, tuple(branches)))
    return decisions


def _texts(others: Sequence[Running], t: int, agent: str) -> list[Completion]:
    """What the agent said at that turn of the other episodes."""
    return [
        other.turns[t].actions[agent] for other in others if len(other.turns) > t and agent in other.turns[t].actions
    ]


def _alternatives(
    episode: Running, t: int, texts: Mapping[str, Sequence[Completion]]
) -> tuple[list[Branch], list[_Try]]:
    """The joint action as played and every one in which a single text is another; the same text earns the same."""
    played = tuple(turn.reward for turn in episode.turns[t:])
    known = [Branch((0,) * len(texts), played)]
    unknown: list[_Try] = []
    for place, (agent, said) in enumerate(texts.items()):
        for k in range(1, len(said)):
            choice = tuple(k if i == place else 0 for i in range(len(texts)))
            if said[k].text == said[0].text:
                known.append(Branch(choice, played))
            else:
                borrowed = dataclasses.replace(said[k], prompt_ids=said[0].prompt_ids)  # said after what is shown here
                actions = {**episode.turns[t].actions, agent: borrowed}
                unknown.append(_Try(episode, t, choice, episode.points[t].fork(), actions, episode.turns[:t]))
    return known, unknown


def _play_on(tries: list[_Try], team: Team, sampling: Sampling, continuation: Literal["frozen", "resampled"]) -> None:
    """Play all alternatives to their ends, in lockstep."""
    live = tries
    while live:
        _step_once(live)
        live = [one for one in live if one.env.agents]
        if continuation == "frozen":
            live = [one for one in live if one.env.turn < len(one.episode.turns)]
            for one in live:
                one.said = dict(one.episode.turns[one.env.turn].actions)
        else:
            _say_on(live, team, sampling)


def _step_once(live: Sequence[_Try]) -> None:
    """Step every environment; those in the same state with the same texts are judged once, and copied."""
    first: dict[tuple[int, str, tuple[str, ...]], _Try] = {}
    copies: list[tuple[_Try, _Try]] = []
    for one in live:
        texts = tuple(one.said.get(agent, SILENT).text for agent in one.env.agents)
        original = first.setdefault((one.episode.group, one.env.state(), texts), one)
        if original is not one:
            copies.append((one, original))
    originals = list(first.values())
    for one, stepped in zip(originals, step_all([o.env for o in originals], [o.said for o in originals]), strict=True):
        one.turns.append(stepped.turn)
    for one, original in copies:
        one.env = original.env.fork()
        one.turns.append(dataclasses.replace(original.turns[-1], actions=one.said))


def _say_on(live: Sequence[_Try], team: Team, sampling: Sampling) -> None:
    """What is said next where texts are drawn anew."""
    wanted: list[tuple[_Try, Wanted]] = []
    for one in live:
        one.said = {}
        turn, recorded = one.env.turn, one.episode.points
        for agent in one.env.agents:
            if not one.env.asked(agent):
                continue
            history = one.env.history(agent)
            if turn < len(recorded) and recorded[turn].history(agent) == history:
                one.said[agent] = one.episode.turns[turn].actions[agent]
            else:
                seed = derive(one.episode.seed, agent, turn)
                ids = ids_said(agent, one.turns)
                wanted.append((one, Wanted(one.episode.group, agent, history, ids, seed)))
    for (one, request), completion in zip(wanted, ask(team, sampling, [w for _, w in wanted]), strict=True):
        one.said[request.agent] = completion
