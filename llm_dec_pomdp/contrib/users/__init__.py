"""Assistants of users who have a goal, patience and a memory."""
