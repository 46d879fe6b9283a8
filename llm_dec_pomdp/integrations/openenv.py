# pyright: basic, reportMissingImports=false
"""A typed OpenEnv client for an environment that `llm-dec-pomdp serve` serves.

    from llm_dec_pomdp.integrations.openenv import TeamAction, TeamClient

    with TeamClient("http://127.0.0.1:8000").sync() as env:      # llm-dec-pomdp serve tldr-v0
        result = env.reset(seed=0)                               # also task_id=... or index=...
        result = env.step(TeamAction(texts={agent: "..." for agent in result.observation.texts}))

OpenEnv's `GenericEnvClient` works too, with dictionaries. If the server needs a token, write it into the address,
`http://me:TOKEN@host:port`, since the client has no other place for it.
"""

from __future__ import annotations

from typing import Any

from .libraries import require

require("openenv")

from openenv.core.client_types import StepResult  # noqa: E402  # after the check that it is installed
from openenv.core.env_client import EnvClient  # noqa: E402
from openenv.core.env_server.types import Action, Observation, State  # noqa: E402


class TeamAction(Action):
    """A joint action: the texts of all live agents."""

    texts: dict[str, str]


class TeamObservation(Observation):
    """The observations of a team. The base class adds `done` and the team's `reward` (None if nothing was scored).

    Attributes:
        texts: The observation of each live agent.
        roles: The role of each live agent.
        asked: The agents that have to act; actions of other agents are ignored.
        rewards: The reward of each agent at this turn; NaN if it could not be scored.
        infos: Components of the reward, by agent.
        events: Occurrences that are not observations or actions, such as tool calls: kind, agent, details.
    """

    texts: dict[str, str]
    roles: dict[str, str]
    asked: list[str]
    rewards: dict[str, float]
    infos: dict[str, dict[str, float]]
    events: list[tuple[str, str, dict[str, str]]]


class TeamState(State):
    """The whole state as JSON text; see `TextDecPOMDP.state`."""

    state: str


class TeamClient(EnvClient[TeamAction, TeamObservation, TeamState]):
    """A session with one environment, which lasts as long as the connection."""

    def _step_payload(self, action: TeamAction) -> dict[str, Any]:
        return {"texts": action.texts}

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[TeamObservation]:
        beside = {"reward": payload["reward"], "done": payload["done"]}
        return StepResult(TeamObservation(**payload["observation"], **beside), **beside)

    def _parse_state(self, payload: dict[str, Any]) -> TeamState:
        return TeamState(**payload)
