"""Learners outside the core, found through the entry point group of algorithms."""
