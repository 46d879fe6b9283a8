# pyright: basic, reportMissingImports=false
"""OpenEnv's client for an environment that `llm-dec-pomdp serve` serves, with types.

    from llm_dec_pomdp.integrations.openenv import TeamAction, TeamClient

    with TeamClient("http://127.0.0.1:8000").sync() as env:      # llm-dec-pomdp serve tldr-v0
        result = env.reset(seed=0)                               # also task_id=... or index=...
        result = env.step(TeamAction(texts={agent: "..." for agent in result.observation.texts}))

OpenEnv's `GenericEnvClient` does as well, with dictionaries. A server with a token is asked as `http://me:TOKEN@host:port`,
since the client has no other place for it.
"""

from __future__ import annotations

from typing import Any

from .libraries import require

require("openenv")

from openenv.core.client_types import StepResult  # noqa: E402  # not before it is known to be there
from openenv.core.env_client import EnvClient  # noqa: E402
from openenv.core.env_server.types import Action, Observation, State  # noqa: E402


class TeamAction(Action):
    """A joint action: the texts of every agent that is there."""

    texts: dict[str, str]


class TeamObservation(Observation):
    """What a team is told; `done` and the team's `reward` (None where nothing was or could be scored) are beside it.

    Attributes:
        texts: What each agent that is there is told.
        roles: What each of them is for.
        asked: Who owes an answer; texts of the others are ignored.
        rewards: What the turn paid each of them; NaN where it could not be scored.
        infos: Parts of the reward, by agent.
        events: What happened beside texts: kind, agent, details.
    """

    texts: dict[str, str]
    roles: dict[str, str]
    asked: list[str]
    rewards: dict[str, float]
    infos: dict[str, dict[str, float]]
    events: list[tuple[str, str, dict[str, str]]]


class TeamState(State):
    """The whole state, as `TextDecPOMDP.state` gives it: JSON text."""

    state: str


class TeamClient(EnvClient[TeamAction, TeamObservation, TeamState]):
    """A session with one environment, for as long as it is connected."""

    def _step_payload(self, action: TeamAction) -> dict[str, Any]:
        return {"texts": action.texts}

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[TeamObservation]:
        beside = {"reward": payload["reward"], "done": payload["done"]}
        return StepResult(TeamObservation(**payload["observation"], **beside), **beside)

    def _parse_state(self, payload: dict[str, Any]) -> TeamState:
        return TeamState(**payload)
