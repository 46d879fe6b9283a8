"""Algorithms: how a team acts, and how it learns from groups of episodes. Never imports an environment."""
