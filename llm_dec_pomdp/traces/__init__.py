"""Orchestration traces: what happened in an episode, as a graph of events."""
