"""Agents on Meta-World, and one agent under conditions that it was not trained in (docs/benchmarks.md)."""
