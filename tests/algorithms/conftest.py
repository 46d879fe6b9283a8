"""A team of two small language models and what it said, for tests that change copies of it alone."""

from __future__ import annotations

import pytest
from models import separate_team
from updates import play

from llm_dec_pomdp.agents import Team
from llm_dec_pomdp.types import Group


@pytest.fixture(scope="session")
def team() -> Team:
    return separate_team(seed=1, double=True)


@pytest.fixture(scope="session")
def groups(team: Team) -> list[Group]:
    """Nine texts of each agent, of different lengths."""
    played = play(team)
    lengths = {len(c.token_ids) for g in played for e in g.episodes for c in e.turns[0].actions.values()}
    assert min(lengths) < 4
    assert len(lengths) > 3
    return played
