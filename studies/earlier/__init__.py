"""The first comparison of methods with and without PAMD, with version 0.1.0 (docs/earlier-runs.md)."""
