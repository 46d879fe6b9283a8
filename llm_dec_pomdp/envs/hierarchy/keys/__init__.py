"""A question over a table, which takes two lookups."""
