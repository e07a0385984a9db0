"""Benchmarks that prove the claims of docs/performance.md: `python -m benchmarks [NAME ...]`.

Each file with a function `measure(options) -> Table` is a benchmark. Most compare pamd with a reference implementation
in one process, alternating the two. A file that needs hours or more packages says so in `ON_REQUEST`, and runs only if
it is named. `python benchmarks/fast_paths.py OLD/src NEW/src` compares two versions of the source.
"""
