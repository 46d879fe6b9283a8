"""Evaluation of teams: episodes, metrics, confidence intervals and comparisons."""
