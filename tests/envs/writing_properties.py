"""The properties of two texts about a source, one at a time, for the tests of `quality`."""

from __future__ import annotations

from llm_dec_pomdp.envs.writing import quality

SOURCE = " ".join(f"source{i}" for i in range(60))
FULL = "the cat went to the market and it came home with a fish for the whole family"


def words(prefix: str, count: int) -> str:
    """`count` different words; of five letters and more they have the same stem."""
    return " ".join(f"{prefix}{i}" for i in range(count))


def properties(first: str, second: str, source: str) -> dict[str, float]:
    return quality.HardenedPair(first, second, source).properties()


def of(name: str, first: str, second: str = FULL, source: str = "") -> float:
    return properties(first, second, source)[name]


def between(x: float, zero: float, one: float) -> float:
    return min(1.0, max(0.0, (x - zero) / (one - zero)))
