"""Hierarchies: a main agent delegates subtasks to sub-agents that it calls."""
