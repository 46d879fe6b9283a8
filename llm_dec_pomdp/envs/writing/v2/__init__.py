"""The writing environments with a reward that a language model judges."""
