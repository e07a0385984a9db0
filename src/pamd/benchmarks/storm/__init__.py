"""What the reliability benchmarks share: small runs, faults, processes that are interrupted, and what they leave."""
