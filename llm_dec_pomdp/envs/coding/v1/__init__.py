"""The code environments with a reward for what both agents contribute."""
