"""A question about a table of facts that takes two lookups."""
