"""Conformance checks of environments, `check_env`, and the texts and tool calls that they play."""

from .check import CHECKS, CHILD, CheckFailure, check_env

__all__ = ["CHECKS", "CHILD", "CheckFailure", "check_env"]
