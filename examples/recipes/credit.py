"""Change only the advantages: a learner in which a long text gets less credit.

`credit(group)` of `MAGRPO` yields a `Sample` for each text; updaters, options and restarts stay as they are.
"""

from dataclasses import replace

from llm_dec_pomdp.algorithms.magrpo import MAGRPO


class Brief(MAGRPO):
    """MAGRPO in which a long text gets less credit than a short one."""

    def credit(self, group):
        for sample in super().credit(group):
            tokens = len(sample.completion.token_ids)
            yield replace(sample, advantage=sample.advantage / (1 + tokens / 100))
