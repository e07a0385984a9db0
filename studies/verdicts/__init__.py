"""Does PAMD help? plan.md states the claims, runs, outcomes and tests; docs/evidence.md has the results."""
