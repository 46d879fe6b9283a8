"""Durable files, run folders, and the signals that stop a run."""
