"""The writing environments with a reward that an LLM judge measures."""
