"""Benchmarks: suites of environments x methods x models x seeds, run and evaluated."""
