"""Adapters that add a `Representation` to other libraries, one module per library."""
