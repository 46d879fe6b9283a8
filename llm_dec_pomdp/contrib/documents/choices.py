"""Sections and decisions by letter: `candidates=True` of document-v0. Its module docstring lists the texts."""

from __future__ import annotations

from collections.abc import Sequence

from llm_dec_pomdp.envs.wrappers.choices import TurnChoices, TurnState

from .document import ACCEPT, State, Stated, corrections, plan_of, revised, sentence


class DocumentChoices(TurnChoices):
    """Environment document-v0 with actions by letter."""

    letters = "ABC"

    def offers(self, state: TurnState, agent: str, observation: str) -> Sequence[str]:
        """Return the three offered texts."""
        inner: State = state.inner
        plan = plan_of(inner.item.fields["outline"], inner.item.fields["notes"])
        if agent == self.env.editor:
            sections = dict(zip(plan.subjects, inner.sections, strict=True))
            shorter = " ".join(f"{subject}: Write a shorter section." for subject in plan.subjects)
            return ACCEPT, corrections(plan.outline, sections), shorter
        place: int = self.env.possible_agents.index(agent)
        subject = plan.subjects[place]
        notes: Sequence[Stated] = plan.notes[place]
        everything = " ".join(map(sentence, notes))
        if inner.sent_back:
            section = inner.sections[place]
            return section, revised(plan.outline[subject], subject, section, inner.returned[place]), everything
        own = [sentence(stated) for stated in notes if stated[0] == subject]
        return " ".join(own), everything, sentence(notes[0])
