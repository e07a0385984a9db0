"""Our own campaigns: one folder each, with its plan, its data, its analysis, its tables and its figures.

They are not part of the package. Run them from the root of the repository: `python -m studies.verdicts --help`.
"""
