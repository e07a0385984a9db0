"""Residual fitting in three settings, and fits of exact metrics (docs/diagnostics.md)."""
