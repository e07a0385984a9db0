"""SAC and DrQ-v2 without a method (docs/performance.md)."""
