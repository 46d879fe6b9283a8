"""What tests of several environments share: judging with little patience."""

from __future__ import annotations

import dataclasses

import pytest

from llm_dec_pomdp.envs.coding import reward
from llm_dec_pomdp.sandbox import Job, Limits
from llm_dec_pomdp.types import TaskItem

IMPATIENT = Limits(cpu_seconds=1.0, case_seconds=0.4)


@pytest.fixture
def impatient_judge(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs get a fifth of the usual time: references need far less, and some loop without their helper."""
    usual = reward.job

    def job(item: TaskItem, source: str, check: str | None = None) -> Job:
        return dataclasses.replace(usual(item, source, check), limits=IMPATIENT)

    monkeypatch.setattr(reward, "job", job)
