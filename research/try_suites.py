"""Check every environment of GEM and every game of TextArena that runs without a network, and print tables in Markdown.

    python research/try_suites.py            # both, half an hour on one core
    python research/try_suites.py gem 30     # one suite, at most 30 seconds for a game

The script tries one id of each game of TextArena, the first of its registry, since "-raw", "-train" and sizes only
change the observations. It plays a game with the lowest number of players that the game accepts.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from llm_dec_pomdp import check_env
from llm_dec_pomdp.contrib.external_games.gem import from_gem
from llm_dec_pomdp.contrib.external_games.textarena import from_textarena
from llm_dec_pomdp.envs import CheckFailure
from llm_dec_pomdp.integrations.libraries import library

MOST_PLAYERS = 6
TURNS = 8
SECONDS = 60.0
KEPT = "passes all checks"
NOT_TRIED = "not tried"
CONTEXT = multiprocessing.get_context("fork")  # the libraries take seconds to import


def gem_games() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield names and functions that make the games."""
    for game in library("gem", "gem").envs.registration.ENV_REGISTRY:
        yield game, lambda game=game: from_gem(game, max_turns=TURNS)


def textarena_games() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield names and functions that make the games."""
    tried: set[str] = set()
    for game, spec in library("textarena", "textarena").envs.registration.ENV_REGISTRY.items():
        if spec.entry_point not in tried:
            tried.add(spec.entry_point)
            yield game, lambda game=game: fewest_players(game)


def fewest_players(game: str) -> Any:
    """Return the game with the lowest number of players that it accepts."""
    refused: Exception = ValueError(f"{game} accepts no number of players from 1 to {MOST_PLAYERS}")
    for players in range(1, MOST_PLAYERS + 1):
        roles = [f"player {number}" for number in range(players)] if players > 1 else ("adviser", "player")
        env = from_textarena(game, players=players, roles=roles, max_turns=TURNS)
        try:
            env.reset(seed=0)
        except (AssertionError, ValueError) as error:  # TextArena's error for another number of players
            refused = error
        else:
            return env
    raise refused


def outcome(make: Callable[[], Any]) -> tuple[str, str]:
    """Return the number of players, and a sentence with the outcome: all checks pass, or the failure."""
    players = "-"
    try:
        env = make()
        players = str(env.players)
        env.reset(seed=0)
    except Exception as error:
        cause = error.__cause__ or error
        return players, f"not tried: {type(cause).__name__}: {cause}"
    try:
        check_env(env, rows=1)
    except CheckFailure as error:
        return players, str(error).partition(" ")[2]
    return players, KEPT


def tried(make: Callable[[], Any], seconds: float) -> tuple[str, str]:
    """Return the outcome, computed in a process of its own, without output and in at most `seconds`."""
    here, there = CONTEXT.Pipe(duplex=False)

    def child() -> None:
        with Path(os.devnull).open("w") as nowhere:
            os.dup2(nowhere.fileno(), 1)
            os.dup2(nowhere.fileno(), 2)
            there.send(outcome(make))

    process = CONTEXT.Process(target=child)
    process.start()
    there.close()
    try:
        if not here.poll(seconds):
            return "-", f"not tried to the end: {seconds:.0f} seconds were not enough"
        with contextlib.suppress(EOFError):
            return here.recv()
        return "-", "not tried to the end: its process died"
    finally:
        process.kill()
        process.join()


SUITES = {
    "gem": ("GEM", "gem-llm", gem_games),
    "textarena": ("TextArena", "textarena", textarena_games),
}


def section(suite: str, seconds: float) -> str:
    """Return the tables of a suite; print each outcome on stderr when it is known."""
    title, distribution, games = SUITES[suite]
    rows: list[tuple[str, str, str]] = []
    for name, make in games():
        players, outcome = tried(make, seconds)
        plain = " ".join(re.sub("\x1b\\[[0-9;]*m|[*`]", "", outcome).split()).replace("|", "\\|").replace("<", "&lt;")
        rows.append((name, players, plain[:240]))
        print(*rows[-1], file=sys.stderr, flush=True)
    return f"## {title} {metadata.version(distribution)}\n\n{shown(rows)}"


def shown(rows: Sequence[tuple[str, str, str]]) -> str:
    """Return tables of games that pass, fail or were not tried, from rows of name, players and outcome."""
    kept = [
        f"`{name}`" + (f" ({players})" if players != "1" else "") for name, players, outcome in rows if outcome == KEPT
    ]
    reasons: dict[str, list[str]] = {}
    broken: list[str] = []
    for name, players, outcome in rows:
        if outcome.startswith(NOT_TRIED):
            reasons.setdefault(outcome.removeprefix(f"{NOT_TRIED}: "), []).append(f"`{name}`")
        elif outcome != KEPT:
            broken.append(f"| `{name}` | {players} | {outcome} |")
    alike = [f"| {reason} | {', '.join(names)} |" for reason, names in reasons.items()]
    tables = [
        f"{len(rows)} tried: {len(kept)} pass all checks, {len(broken)} fail one, "
        f"{sum(map(len, reasons.values()))} could not be played here.",
        f"**Pass all checks** (players in brackets if more than one): {', '.join(kept)}.",
        "| fails a check | players | what `check_env` says |\n|---|---|---|\n" + "\n".join(broken),
        "| why not tried | environments |\n|---|---|\n" + "\n".join(alike),
    ]
    return "\n\n".join(tables) + "\n"


def main() -> None:
    chosen, seconds = sys.argv[1:2], float(sys.argv[2]) if len(sys.argv) > 2 else SECONDS
    sections = [section(suite, seconds) for suite in chosen or SUITES]
    print("\n".join(sections))


if __name__ == "__main__":
    main()
