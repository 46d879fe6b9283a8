"""A custom section of reports: the number of words per action and role."""

from statistics import fmean

from llm_dec_pomdp.evaluation.sections import Section, register_section


class Words(Section):
    """Mean number of words per action, by role."""

    title = "Words per text"

    def measure(self, env, groups):
        counts = {}
        for turn in (turn for group in groups for episode in group.episodes for turn in episode.turns):
            for agent, completion in turn.actions.items():
                counts.setdefault(env.role(agent), []).append(len(completion.text.split()))
        return {role: fmean(numbers) for role, numbers in counts.items()}


register_section("acme/words", Words)
