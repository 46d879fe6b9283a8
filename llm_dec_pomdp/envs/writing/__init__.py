"""Environments in which two agents write related texts."""
