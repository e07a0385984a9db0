"""The two runs of `make demo` on the machine of the published figures (docs/getting-started.md)."""
