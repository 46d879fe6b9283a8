"""Agent programs as environments, and teams as endpoints for programs."""

from .served import ServedRoles, connect
from .session import Role, Roles, reward
from .task import ProgramError, ProgramTask, from_program

__all__ = ["ProgramError", "ProgramTask", "Role", "Roles", "ServedRoles", "connect", "from_program", "reward"]
