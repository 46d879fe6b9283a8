"""Textbook Dec-POMDPs in words: hidden state, chance, private observations, and an optimum that is known."""
