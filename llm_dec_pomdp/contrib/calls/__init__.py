"""Function calls by a team: a dispatcher observes the user, and specialists call tools of applications."""
