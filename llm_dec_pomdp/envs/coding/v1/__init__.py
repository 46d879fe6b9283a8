"""The code environments with the reward of v1."""
