"""Change only the advantages: a learner in which long completions get less credit.

`credit(group)` of `MAGRPO` yields a `Sample` for each completion. Updaters, options and restarts do not change.
"""

from dataclasses import replace

from llm_dec_pomdp.algorithms.magrpo import MAGRPO


class Brief(MAGRPO):
    """MAGRPO in which a long completion gets less credit than a short one."""

    def credit(self, group):
        for sample in super().credit(group):
            tokens = len(sample.completion.token_ids)
            yield replace(sample, advantage=sample.advantage / (1 + tokens / 100))
