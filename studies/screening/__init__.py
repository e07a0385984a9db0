"""Pilots that chose the sizes and learning rates of the scales, one seed each (docs/performance.md)."""
