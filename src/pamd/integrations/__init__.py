"""Thin adapters that put a `Representation` into the training code of other libraries, one module per library."""
