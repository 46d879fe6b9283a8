"""Simulate error rates of verdicts and coverage of intervals, and print Markdown tables.

    python research/measure_intervals.py [--draws 2000]

Scores are in percentage points. A world sets the standard deviations of methods: over seeds, over tasks, and of the
residual. `--draws` is the number of simulations. With 2,000, a share of 5 % has a standard error of 0.5 points.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from llm_dec_pomdp.evaluation.comparisons import interquartile_interval, interquartile_mean, performance_profile
from llm_dec_pomdp.evaluation.intervals import LEVEL, Interval, holm, mean_interval, mixed_model, percent_interval
from llm_dec_pomdp.evaluation.sections.best_of_k import pass_at_k

Array = NDArray[np.float64]
METHODS, TASKS = 10, 32
SEEDS, MANY_TASKS = (3, 5, 10), (10, 32, 100)
Draw = Callable[[np.random.Generator, tuple[int, ...]], Array]  # distributions with mean 0 and standard deviation 1


def normal(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Sample from a normal distribution: most seeds are similar."""
    return rng.standard_normal(shape)


def heavy(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Sample from Student's t with three degrees of freedom."""
    return rng.standard_t(3, shape) / np.sqrt(3)


def stuck(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Sample seeds of which a fifth is far below the others, which differ a little."""
    return (0.2 - (rng.random(shape) < 0.2)) / 0.4 + 0.05 * rng.standard_normal(shape)


@dataclass(frozen=True)
class World:
    """Standard deviations of a method, in points; `ratio` is the last method's over seeds divided by the first's."""

    seeds: float
    tasks: float
    rest: float
    ratio: float = 1.0
    over_seeds: Draw = normal

    def scores(self, draws: int, methods: int, seeds: int, tasks: int = TASKS) -> Array:
        """Sample scores around 0 of shape (draws, methods, seeds, tasks)."""
        rng = np.random.default_rng([draws, methods, seeds, tasks])
        spread = self.seeds * np.geomspace(self.ratio**-0.5, self.ratio**0.5, methods)[:, None, None]
        of_seeds = spread * self.over_seeds(rng, (draws, methods, seeds, 1))
        of_tasks = self.tasks * rng.standard_normal((draws, methods, 1, tasks))
        return of_seeds + of_tasks + self.rest * rng.standard_normal((draws, methods, seeds, tasks))


WORLDS = {
    "seeds and noise": World(5, 0, 5),
    "tasks more than seeds": World(1, 10, 5),
    "seeds, tasks and noise alike": World(5, 5, 5),
    "noise alone": World(0, 0, 10),
    "seeds, of the last method 9 times as much as of the first": World(5, 3, 5, ratio=9),
    "seeds, heavy tails": World(5, 5, 5, over_seeds=heavy),
    "a fifth of all seeds 25 points lower": World(10, 3, 5, over_seeds=stuck),
    "a fifth of the seeds lower, by 8 (first method) to 75 points (last)": World(10, 3, 5, ratio=9, over_seeds=stuck),
}


def pairs_of(family: str) -> list[tuple[int, int]]:
    """Return the pairs of methods that are tested together."""
    every = list(itertools.combinations(range(METHODS), 2))
    return {"1": every[:1], "9": every[: METHODS - 1], "45": every}[family]


def different(scores: Array, pairs: Sequence[tuple[int, int]]) -> NDArray[np.bool_]:
    """Return whether pairs get a verdict, of shape (draws, pairs)."""
    p = np.stack([mixed_model(scores[:, a] - scores[:, b])[2] for a, b in pairs], axis=1)
    return np.array([holm(row) for row in p.tolist()]) < LEVEL


def verdicts(draws: int) -> Iterable[list[str]]:
    """Yield rows: the share of any false verdict on equal methods, and of a difference of 10 points that is found."""
    for name, world in WORLDS.items():
        found = {(f, n): different(world.scores(draws, METHODS, n), pairs_of(f)) for f in ("9", "45") for n in SEEDS}
        yield [name, *(percent(wrong.any(axis=1)) for wrong in found.values())]


def power(draws: int) -> Iterable[list[str]]:
    """Yield rows: the share of verdicts on a pair with a true difference of 10 points."""
    for spread in (2, 4, 7):
        row = [f"{spread}"]
        for family, seeds in itertools.product(("1", "9", "45"), SEEDS):
            scores = World(spread, 4, 18).scores(draws, METHODS, seeds)
            scores[:, 0] += 10
            pairs = pairs_of(family)
            row.append(percent(different(scores, pairs)[:, [a == 0 for a, _ in pairs]]))
        yield row


# --- coverage ---------------------------------------------------------------------------------------------------------


def held(intervals: Iterable[Interval], mean: float) -> str:
    """Return the share of intervals that contain the mean, in %."""
    return percent([i.low - 1e-9 <= mean <= i.high + 1e-9 for i in intervals])


def percent(outcomes: Sequence[bool] | NDArray[np.bool_]) -> str:
    """Return the share of true outcomes as text, in %."""
    return f"{100 * np.mean(outcomes):.0f}"


def over_seeds_and_tasks(draws: int) -> Iterable[list[str]]:
    """Simulate the mean of a method over seeds and tasks; differences of two methods are computed in the same way."""
    for name, world in WORLDS.items():
        if world.ratio == 1:
            found = [mixed_model(world.scores(draws, 1, seeds)[:, 0]) for seeds in SEEDS]
            yield ["seeds and tasks", name, *(percent(np.abs(mean) <= half) for mean, half, _ in found)]


def over_seeds(draws: int) -> Iterable[list[str]]:
    """Simulate the mean of a number per seed."""
    for name, draw in (("normal", normal), ("heavy tails", heavy), ("a fifth of the seeds stuck", stuck)):
        rng = np.random.default_rng(0)
        tables = [draw(rng, (draws, seeds)).tolist() for seeds in SEEDS]
        yield ["seeds", name, *(held(map(mean_interval, table), 0.0) for table in tables)]


def over_tasks(draws: int) -> Iterable[list[str]]:
    """Simulate a mean over the tasks of one seed, by the number of tasks."""
    rng = np.random.default_rng(0)

    def solved(n: int, k: int, chance: float) -> Callable[[tuple[int, ...]], Array]:
        at_k = np.array([pass_at_k(n, c, k) for c in range(n + 1)])
        return lambda shape: 100 * at_k[rng.binomial(n, rng.beta(chance, 1 - chance, shape))]

    worlds: Mapping[str, tuple[Callable[[tuple[int, ...]], Array], float]] = {
        "return around 60 %": (lambda shape: 100 * rng.beta(3, 2, shape), 60.0),
        "return around 97 %, few tasks far below": (lambda shape: 100 * rng.beta(2.91, 0.09, shape), 97.0),
        "solved or not, 20 %": (lambda shape: 100.0 * (rng.random(shape) < 0.2), 20.0),
        "solved or not, 5 %": (lambda shape: 100.0 * (rng.random(shape) < 0.05), 5.0),
        "pass@1 of 15 samples, 20 %": (solved(15, 1, 0.2), 20.0),
        "pass@1 of 15 samples, 5 %": (solved(15, 1, 0.05), 5.0),
    }
    for name, (draw, mean) in worlds.items():
        tables = [draw((draws, tasks)).tolist() for tasks in MANY_TASKS]
        yield ["tasks of one seed", name, *(held(map(percent_interval, table), mean) for table in tables)]


def over_episodes(draws: int) -> Iterable[list[str]]:
    """Simulate the regret of one seed over 400 episodes, a few of which cost much (an opened door of Dec-Tiger)."""
    rng = np.random.default_rng(0)
    for chance in (0.3, 0.02):
        totals = -4 - 50.0 * (rng.random((draws, 400)) < chance)
        row = ["episodes of one seed, 400", f"a loss of 50 in {100 * chance:.0f} % of the episodes"]
        yield [*row, "", "", held(map(mean_interval, totals.tolist()), -4 - 50 * chance)]


def over_environments(draws: int) -> Iterable[list[str]]:
    """Simulate the interquartile mean and the profile over two to six environments."""
    rng = np.random.default_rng(0)
    for environments, (name, draw) in itertools.product((2, 4, 6), (("normal", normal), ("a fifth stuck", stuck))):
        middle = np.linspace(30, 70, environments)

        def runs(*shape: int, draw: Draw = draw, middle: Array = middle) -> Array:
            return middle + 10 * draw(rng, (*shape, len(middle)))

        true, thresholds = runs(100_000), np.array([20.0, 50.0, 80.0])
        iqm = interquartile_mean(true)
        share = (true.reshape(1, -1) > thresholds[:, None]).mean(axis=1)
        tables = {seeds: runs(draws, seeds) for seeds in SEEDS}
        where = f"{environments} environments, {name}"
        found = {n: [interquartile_interval(scores) for scores in table] for n, table in tables.items()}
        yield ["interquartile mean", where, *(held(intervals, iqm) for intervals in found.values())]
        ends = {n: np.stack([performance_profile(s, thresholds)[1:] for s in table]) for n, table in tables.items()}
        inside = [percent((e[:, 0] <= share) & (share <= e[:, 1])) for e in ends.values()]
        yield ["performance profile, at 20, 50 and 80 %", where, *inside]


def ranges(draws: int) -> Iterable[list[str]]:
    """Simulate the range of the seeds, which is the band of learning curves."""
    for name, draw in (("normal", normal), ("a fifth of the seeds stuck", stuck)):
        rng = np.random.default_rng(0)
        tables = [draw(rng, (draws, seeds)) for seeds in SEEDS]
        inside = [percent((table.min(axis=1) <= 0) & (table.max(axis=1) >= 0)) for table in tables]
        yield ["range of the seeds", name, *inside]


def show(head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a Markdown table."""
    print("| " + " | ".join(head) + " |\n" + "|---" * len(head) + "|")
    for row in rows:
        print("| " + " | ".join(row) + " |", flush=True)
    print()


def main() -> None:
    """Simulate, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=2000)
    draws: int = parser.parse_args().draws
    by_seeds = [f"{n} seeds" for n in SEEDS]
    print(f"Any false verdict among {METHODS} equal methods on {TASKS} tasks, in %:\n")
    show(["what differs", *(f"{pairs} pairs, {n}" for pairs in (9, 45) for n in by_seeds)], verdicts(draws))
    print(
        "A pair with a true difference of 10 points gets a verdict, in %; spread over tasks 4, otherwise 18 points:\n"
    )
    head = [f"{pairs} pair{'s' * (pairs > 1)}, {n}" for pairs in (1, 9, 45) for n in by_seeds]
    show(["spread over seeds", *head], power(draws))
    print("The 95 % interval holds the mean, in %:\n")
    seeds_alone = itertools.chain(over_seeds_and_tasks(draws), over_seeds(draws), ranges(draws))
    few = min(draws, 500)
    show(["over", "what differs", *by_seeds], itertools.chain(seeds_alone, over_environments(few)))
    tasks_alone = itertools.chain(over_tasks(draws), over_episodes(draws))
    show(["over", "what is measured", *(f"{n} tasks" for n in MANY_TASKS)], tasks_alone)


if __name__ == "__main__":
    main()
