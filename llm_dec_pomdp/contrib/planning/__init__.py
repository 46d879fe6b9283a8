"""Planning in dialogue: what an agent knows, the others do not, and only words bring it together."""
