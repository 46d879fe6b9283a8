"""A custom protocol, in which the first agent writes a note to all agents.

`_ask(phase)` returns the observations of each phase. `_observed` has the observations of the inner environment, and
`_texts` the actions since then.
"""

from llm_dec_pomdp.algorithms.magrpo import MAGRPO
from llm_dec_pomdp.envs.wrappers import ProtocolWrapper, register_protocol


class Note(ProtocolWrapper):
    """A protocol in which the first agent writes a note to all, and then all agents act."""

    def __init__(self, env):
        super().__init__(env, phases=2)

    def _ask(self, phase):
        first = self.possible_agents[0]
        if phase == 0:
            return {first: self._observed[first] + "\n\nFirst write a note to the others."}
        return {agent: f"{text}\n\nNote: {self._texts[first]}" for agent, text in self._observed.items()}


register_protocol("note", Note)


class NotedMAGRPO(MAGRPO):
    """MAGRPO with the protocol "note"."""

    protocol = "note"
