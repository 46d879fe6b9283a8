"""Write `data/classics/`: the larger problems, from the rules in the papers, and the policies of optimal teams.

    python scripts/build_classics.py

Dec-Tiger and the broadcast channel are short and written by hand. The script takes half a minute.
"""

from __future__ import annotations

import itertools
import json
import runpy
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from llm_dec_pomdp.envs.classics.model import Model, embedded

SOLVER = runpy.run_path(str(Path(__file__).parent.parent / "tests" / "envs" / "classics" / "exact.py"))
HARMLESS = {  # the action after histories of probability 0
    "dectiger": "listen",
    "broadcast": "wait",
    "recycling": "recharge",
    "gridsmall": "stay",
    "firefighting": "house-1",
    "boxpushing": "stay",
}
HORIZONS = (2, 3, 4)
FOLDER = Path(__file__).parent.parent / "llm_dec_pomdp" / "data" / "classics"
Chances = Mapping[str, float]  # probabilities of states, by name
COMPASS = "NESW"
STEPS = {"N": 0, "E": 1, "S": 0, "W": -1}  # directions along the row of the agents of box pushing


def product(*parts: Mapping[str, float], joined: str = "") -> dict[str, float]:
    """Return the joint distribution of independent parts, whose names are joined."""
    joint: dict[str, float] = {}
    for choice in itertools.product(*(part.items() for part in parts)):
        name, chance = joined.join(part for part, _ in choice), 1.0
        for _, factor in choice:
            chance *= factor
        if chance:
            joint[name] = joint.get(name, 0.0) + chance
    return joint


def head(source: str, states: Sequence[str], start: str, actions: str, observations: str) -> Iterator[str]:
    """Return all lines before the tables, for two agents with the same actions and observations."""
    yield f"# {source}\n# Written by scripts/build_classics.py."
    yield "discount: 1\nvalues: reward"
    yield f"states: {' '.join(states)}\nstart: {start}"
    yield f"actions:\n{actions}\n{actions}\nobservations:\n{observations}\n{observations}"


def transitions(
    states: Sequence[str], acting: Sequence[str], follow: Callable[[str, str, str], Chances]
) -> Iterator[str]:
    """Yield the lines T: one per next state if few, else a row; a wildcard if all joint actions have the same."""
    for state in states:
        rows = {(a, b): follow(state, a, b) for a, b in itertools.product(acting, repeat=2)}
        same = all(row == rows[acting[0], acting[0]] for row in rows.values())
        for (a, b), row in list(rows.items())[: 1 if same else None]:
            begin = f"T: {'*' if same else f'{a} {b}'} : {state} : "
            if 4 * len(row) < len(states):
                yield from (f"{begin}{following} : {chance:.10g}" for following, chance in row.items())
            else:
                yield begin + " ".join(f"{row.get(following, 0):.10g}" for following in states)


# --- recycling robots -------------------------------------------------------------------------------------------------

RECYCLING = """Recycling robots: Amato, Bernstein, Zilberstein, "Optimizing memory-bounded controllers for decentralized
# POMDPs", UAI 2007. A state is the battery of both robots, high or low."""
HIGH_AFTER = {  # probability of a full battery, by action and battery
    ("recharge", "H"): 1.0,
    ("small", "H"): 0.7,
    ("large", "H"): 0.5,
    ("recharge", "L"): 1.0,
    ("small", "L"): 0.2,
    ("large", "L"): 0.3,
}


def recycling() -> Iterator[str]:
    """Yield the problem; a battery that runs out costs 10 and is recharged, and no robot collects in that turn."""
    states, acting = ["HH", "HL", "LH", "LL"], ["recharge", "small", "large"]

    def battery(action: str, level: str) -> Chances:
        high = HIGH_AFTER[action, level]
        return {"H": high, "L": 1 - high}

    def reward(state: str, actions: tuple[str, str]) -> float:
        low = [level == "L" and action != "recharge" for level, action in zip(state, actions, strict=True)]
        empty = [HIGH_AFTER[action, "L"] if risk else 0.0 for risk, action in zip(low, actions, strict=True)]
        collected = 2 * actions.count("small") + 5 * (actions == ("large", "large"))
        return (1 - empty[0]) * (1 - empty[1]) * collected - 10 * sum(empty)

    yield from head(RECYCLING, states, "HH", " ".join(acting), "high low")
    yield "agents: robot-1 robot-2"
    yield from transitions(states, acting, lambda s, a, b: product(battery(a, s[0]), battery(b, s[1])))
    for state in states:
        yield f"O: * : {state} : {' '.join('high' if level == 'H' else 'low' for level in state)} : 1"
    for actions, state in itertools.product(itertools.product(acting, repeat=2), states):
        if value := reward(state, actions):
            yield f"R: {' '.join(actions)} : {state} : * : * : {value:.10g}"


# --- meeting on a grid ------------------------------------------------------------------------------------------------

GRID = """Meeting on a 2 x 2 grid: Bernstein, Hansen, Zilberstein, "Bounded policy iteration for decentralized POMDPs",
# IJCAI 2005, with the two observations of Amato, Bernstein, Zilberstein, AAMAS workshop MSDM 2006. A state is the cell
# of both robots: 0 upper left, 1 upper right, 2 lower left, 3 lower right. A move goes as wanted with 0.6, and with 0.1
# each in the three other directions or nowhere; against a wall it goes nowhere."""
MOVES = {"up": -2, "down": 2, "left": -1, "right": 1}


def gridsmall() -> Iterator[str]:
    """Yield the problem; being in the same cell has reward 1, and a robot observes if its wall is left or right."""
    cells, acting = "0123", [*MOVES, "stay"]
    states = [f"{a}{b}" for a in cells for b in cells]

    def moved(cell: str, direction: str) -> str:
        there = int(cell) + MOVES.get(direction, 0)
        sideways = direction in ("left", "right")
        return str(there) if 0 <= there < 4 and (not sideways or there // 2 == int(cell) // 2) else cell

    def move(cell: str, action: str) -> Chances:
        chances: dict[str, float] = {}
        for direction in acting:
            chance = 0.6 if direction == action else 0.1
            chance = float(direction == "stay") if action == "stay" else chance
            chances[moved(cell, direction)] = chances.get(moved(cell, direction), 0.0) + chance
        return {there: round(chance, 10) for there, chance in chances.items()}

    yield from head(GRID, states, "12", " ".join(acting), "left-wall right-wall")
    yield "agents: robot-1 robot-2"
    yield from transitions(states, acting, lambda s, a, b: product(move(s[0], a), move(s[1], b)))
    for state in states:
        seen = " ".join("left-wall" if cell in "02" else "right-wall" for cell in state)
        yield f"O: * : {state} : {seen} : 1"
    yield from (f"R: * : * : {cell}{cell} : * : 1" for cell in cells)


# --- fire fighting ----------------------------------------------------------------------------------------------------

FIRE = """Fire fighting with 3 houses and 3 fire levels: Oliehoek, Spaan, Vlassis, "Optimal and approximate Q-value
# functions for decentralized POMDPs", JAIR 32, 2008. A state is the fire level of every house. Transitions have the two
# decimals that the published values were computed with; where the agents were before does not matter."""


def firefighting() -> Iterator[str]:
    """Yield the problem; the cost is the sum of the next fire levels. Flames are observed with 0.2, 0.5 or 0.8."""
    levels, acting = "012", ["house-1", "house-2", "house-3"]
    states = ["".join(state) for state in itertools.product(levels, repeat=3)]

    def house(state: str, number: int, there: int) -> Chances:
        level = int(state[number])
        near = any(int(state[other]) for other in (number - 1, number + 1) if 0 <= other < 3)
        if there == 2:
            return {"0": 1.0}
        if there == 1:
            down = 0.6 if near else 1.0
            return {str(max(level - 1, 0)): down, str(level): 1 - down} if level else {"0": 1.0}
        up = 0.8 if near else 0.4 if level else 0.0
        return {str(level + 1): up, str(level): 1 - up} if level < 2 else {"2": 1.0}

    def follow(state: str, *actions: str) -> Chances:
        row = product(*(house(state, number, actions.count(acting[number])) for number in range(3)))
        return {following: round(chance, 2) for following, chance in row.items()}

    yield from head(FIRE, states, "uniform", " ".join(acting), "flames no-flames")
    yield "agents: fighter-1 fighter-2"
    yield from transitions(states, acting, follow)
    for actions in itertools.product(range(3), repeat=2):
        for levels_there in itertools.product(levels, repeat=len(set(actions))):
            seen = dict(zip(dict.fromkeys(actions), levels_there, strict=True))
            flames = [(0.2, 0.5, 0.8)[int(seen[number])] for number in actions]
            row = product(*({"f": flame, "n": 1 - flame} for flame in flames)).values()
            for state in states:
                if all(state[number] == level for number, level in seen.items()):
                    yield f"O: {actions[0]} {actions[1]} : {state} : {' '.join(f'{chance:.10g}' for chance in row)}"
    yield from (f"R: * : * : {state} : * : -{sum(map(int, state))}" for state in states[1:])


# --- box pushing ------------------------------------------------------------------------------------------------------

BOXES = """Cooperative box pushing: Seuken, Zilberstein, "Improved memory-bounded dynamic programming for decentralized
# POMDPs", UAI 2007. The agents move in the lower row of a field of 4 columns, agent 1 always left of agent 2; north of
# columns 1 and 4 is a small box, north of 2 and 3 the large one. A state is column and direction of both agents, or
# which boxes have just been pushed to the goal."""


def boxpushing() -> Iterator[str]:
    """Yield the problem; an action succeeds with 0.9, a turn costs 0.1 per agent, and a collision costs 5."""
    acting = ["turn-left", "turn-right", "forward", "stay"]
    places = [f"{a}{d}{b}{e}" for a, d, b, e in itertools.product("1234", COMPASS, "1234", COMPASS) if a < b]
    places.sort(key=lambda s: (s[0], COMPASS.index(s[1]), s[2], COMPASS.index(s[3])))
    done = ["left", "right", "small", "large"]

    def ahead(state: str, agent: int) -> str:
        """Return the object in front of an agent."""
        place, direction = int(state[2 * agent]), state[2 * agent + 1]
        there = place + STEPS[direction]
        if direction == "N":
            return "small-box" if place in (1, 4) else "large-box"
        if direction == "S" or not 1 <= there <= 4:
            return "wall"
        return "other-agent" if str(there) == state[2 - 2 * agent] else "empty-field"

    def turned(direction: str, action: str) -> str:
        by = {"turn-left": -1, "turn-right": 1}.get(action, 0)
        return COMPASS[(COMPASS.index(direction) + by) % 4]

    def pushes(state: str, a: str, b: str) -> list[str]:
        return [ahead(state, agent) if action == "forward" else "" for agent, action in enumerate((a, b))]

    def targets(state: str, pushed: Sequence[str]) -> list[int]:
        """Return the columns that the agents try to enter."""
        steps = [STEPS[state[2 * agent + 1]] if pushed[agent] == "empty-field" else 0 for agent in (0, 1)]
        return [int(state[0]) + steps[0], int(state[2]) + steps[1]]

    def after(state: str, a: str, b: str) -> str:
        """Return the next state if both actions succeed; an action that failed is given as "stay"."""
        pushed = pushes(state, a, b)
        if pushed == ["large-box", "large-box"]:
            return "large"
        small = [facing == "small-box" for facing in pushed]
        if any(small):
            return "small" if all(small) else done[small.index(True)]
        columns = targets(state, pushed)
        if columns[0] == columns[1]:  # neither agent enters the column
            columns = [int(state[0]), int(state[2])]
        return f"{columns[0]}{turned(state[1], a)}{columns[1]}{turned(state[3], b)}"

    def follow(state: str, a: str, b: str) -> Chances:
        if state in done:
            return {"1E4W": 1.0}
        row: dict[str, float] = {}
        for works in itertools.product((True, False), repeat=2):
            following = after(state, a if works[0] else "stay", b if works[1] else "stay")
            chance = 1.0
            for work in works:
                chance *= 0.9 if work else 0.1
            row[following] = row.get(following, 0.0) + chance
        return {following: round(chance, 10) for following, chance in row.items()}

    def reward(state: str, a: str, b: str) -> float:
        pushed = pushes(state, a, b)
        if pushed == ["large-box", "large-box"]:
            return 99.8
        value = -0.2
        for facing in pushed:
            value += {"small-box": 10, "large-box": -5, "wall": -5, "other-agent": -5}.get(facing, 0)
        columns = targets(state, pushed)
        return value - 10 * (columns[0] == columns[1])

    seen = "empty-field wall other-agent small-box large-box"
    yield from head(BOXES, [*done, *places], "1E4W", " ".join(acting), seen)
    yield "agents: agent-1 agent-2"
    yield from transitions([*done, *places], acting, follow)
    for state in done:
        yield f"O: * : {state} : empty-field empty-field : 1"
    for state in places:
        yield f"O: * : {state} : {ahead(state, 0)} {ahead(state, 1)} : 1"
    yield from (f"R: * : {state} : * : * : -0.2" for state in places)
    for state in places:
        for a, b in itertools.product(acting, repeat=2):
            if (value := reward(state, a, b)) != -0.2:
                yield f"R: {a} {b} : {state} : * : * : {value:.10g}"


# --- optimal teams ----------------------------------------------------------------------------------------------------


def optimal_team(model: Model, horizon: int) -> list[list[str]]:
    """Return one digit (an action) per history, in the order of observations, by agent and length of the history."""
    _, policies = SOLVER["Solver"](model, horizon).solve()
    return [digits(model, agent, policy, horizon) for agent, policy in enumerate(policies)]


def digits(model: Model, agent: int, policy: Mapping[tuple[int, ...], int], horizon: int) -> list[str]:
    """Return the digits of one policy; histories of probability 0 have the harmless action."""
    harmless = model.actions[agent].index(HARMLESS[model.name])
    seen = range(len(model.observations[agent]))
    return [
        "".join(str(policy.get(history, harmless)) for history in itertools.product(seen, repeat=length))
        for length in range(horizon)
    ]


def main() -> None:
    """Write the files."""
    for problem in (recycling, gridsmall, firefighting, boxpushing):
        (FOLDER / f"{problem.__name__}.dpomdp").write_text("\n".join(problem()) + "\n", encoding="utf-8")
    teams: dict[str, Any] = {
        name: {str(horizon): optimal_team(embedded(name), horizon) for horizon in HORIZONS} for name in HARMLESS
    }
    rows = [f'"{name}": {json.dumps(by_horizon)}' for name, by_horizon in teams.items()]
    (FOLDER / "optimal.json").write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
