"""Textbook Dec-POMDPs in words: hidden states, private observations, and a known optimum."""
