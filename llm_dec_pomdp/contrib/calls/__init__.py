"""Function calls by a team: a dispatcher hears the user, and a specialist for each application calls its tools."""
