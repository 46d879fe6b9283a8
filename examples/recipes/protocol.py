"""Let agents see each other's texts in another way: the first writes a note to all.

`_ask(phase)` returns what agents are told in each phase; `_observed` is what the inner environment told them,
`_texts` what was said since.
"""

from llm_dec_pomdp.algorithms.magrpo import MAGRPO
from llm_dec_pomdp.envs.wrappers import ProtocolWrapper, register_protocol


class Note(ProtocolWrapper):
    """The first agent writes a note to all, and then everybody speaks."""

    def __init__(self, env):
        super().__init__(env, phases=2)

    def _ask(self, phase):
        first = self.possible_agents[0]
        if phase == 0:
            return {first: self._observed[first] + "\n\nFirst write a note to the others."}
        return {agent: f"{text}\n\nNote: {self._texts[first]}" for agent, text in self._observed.items()}


register_protocol("note", Note)


class NotedMAGRPO(MAGRPO):
    """MAGRPO after a note."""

    protocol = "note"
