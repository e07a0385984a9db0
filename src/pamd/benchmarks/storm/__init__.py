"""Utilities shared by the reliability benchmarks: small runs, faults, interrupted processes and their results."""
