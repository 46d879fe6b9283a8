"""Small games with known values or equilibria: a bandit, matching pennies, Kuhn poker."""
