"""The writing environments with a reward that only texts about the source can earn."""
