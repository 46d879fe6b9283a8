"""Small games with known values or equilibria: a bandit, matching pennies, Kuhn poker, a stag hunt, a verifier, a debate."""
