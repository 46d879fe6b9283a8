"""Hierarchies: a main agent delegates subtasks to sub-agents, which it calls."""
