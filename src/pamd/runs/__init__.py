"""Run directories and campaigns: readers and writers that do not need torch."""
