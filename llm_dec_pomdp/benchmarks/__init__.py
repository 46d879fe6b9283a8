"""Benchmarks: environments x methods x models x seeds as values, run and reported."""
