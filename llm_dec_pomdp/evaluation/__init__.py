"""Evaluations: a team plays, what it earned is measured, and how far a number can be trusted."""
