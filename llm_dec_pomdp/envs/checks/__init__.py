"""Conformance checks of environments (`check_env`), and the actions and tool calls that they try."""

from .check import CHECKS, CHILD, CheckFailure, check_env

__all__ = ["CHECKS", "CHILD", "CheckFailure", "check_env"]
