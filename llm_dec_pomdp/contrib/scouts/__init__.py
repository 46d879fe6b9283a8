"""Scouts that search a text for a leader."""
