"""Credit assignment: the advantage of each completion. One file per kind, with its rollout, samples and options."""

from .base import Credit
from .call import CallCredit
from .counterfactual import CounterfactualCredit
from .crossed import CrossedCredit
from .joint import JointCredit
from .message import MessageCredit

CREDITS: dict[str, type[Credit]] = {
    "joint": JointCredit,
    "crossed": CrossedCredit,
    "counterfactual": CounterfactualCredit,
    "message": MessageCredit,
    "call": CallCredit,
}

__all__ = [
    "CREDITS",
    "CallCredit",
    "CounterfactualCredit",
    "Credit",
    "CrossedCredit",
    "JointCredit",
    "MessageCredit",
]
