"""Search for an offer by scouts, with a coordinator that decides when to stop."""
