"""Run benchmarks, print their tables, and write them as JSON."""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

import benchmarks
from benchmarks.common import Options
from pamd.errors import ConfigError, PamdError, UnknownNameError
from pamd.measure import measured_text, write_measured
from pamd.training.process import available_threads, keep_freed_memory


def discover() -> dict[str, ModuleType]:
    """Return the benchmarks by name: every file of this package that has a function `measure`."""
    names = [module.name for module in pkgutil.iter_modules(benchmarks.__path__) if module.name != "__main__"]
    modules = {name: importlib.import_module(f"benchmarks.{name}") for name in names}
    return {name: module for name, module in modules.items() if hasattr(module, "measure")}


def main(words: Sequence[str] | None = None) -> int:
    """Run the named benchmarks, or all that are not marked `ON_REQUEST`. Return the exit code."""
    known = discover()
    arguments = vars(_parser(known).parse_args(words))
    names, directory = arguments.pop("names"), arguments.pop("json")
    try:
        options = _options(arguments)
        for name in names:
            if name not in known:
                raise UnknownNameError("benchmark", name, known)
        torch.set_num_threads(options.threads)
        keep_freed_memory()
        for name in names or [name for name, module in known.items() if not hasattr(module, "ON_REQUEST")]:
            table = known[name].measure(options)
            sys.stdout.write(measured_text(table, options.threads) + "\n")
            if directory is not None:
                write_measured(table, directory / f"{name}.json", options.threads, options.repetitions)
    except PamdError as error:
        sys.stderr.write(f"benchmarks: {error}\n")
        return 2
    return 0


def _parser(known: dict[str, ModuleType]) -> argparse.ArgumentParser:
    lines = []
    for name, module in known.items():
        (first, *_), reason = (module.__doc__ or "").splitlines(), getattr(module, "ON_REQUEST", None)
        lines.append(f"  {name:<17}{first}" + (f" On request only: it {reason}." if reason else ""))
    made = argparse.ArgumentParser(
        "python -m benchmarks",
        description="Measure pamd, mostly against a reference implementation in the style of typical research code.",
        epilog="\n".join(["benchmarks:", *lines]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("names", nargs="*", metavar="NAME", help="benchmarks to run (default: all but those on request)")
    made.add_argument("--threads", type=int, help="CPU threads of torch (default: all cores)")
    made.add_argument("--repetitions", type=int, default=7, help="measurements after one warm-up (default: 7)")
    made.add_argument("--json", type=Path, metavar="DIR", help="directory for one JSON file per benchmark")
    made.add_argument("--tasks", nargs="*", default=[], help="tasks of learning and encoders (default: all)")
    made.add_argument("--settings", nargs="*", default=[], help="settings of learning (default: all but cpu-0.2)")
    made.add_argument("--methods", nargs="*", default=[], help="methods of learning (default: all)")
    made.add_argument(
        "--seeds",
        nargs="*",
        type=int,
        default=[],
        help="seeds of some benchmarks (default: all)",
    )
    made.add_argument("--limit-minutes", type=float, default=60.0, help="most training time of a run of learning")
    made.add_argument("--runs", type=Path, default=Options.runs, help=f"runs of learning (default: {Options.runs})")
    made.add_argument("--no-train", dest="train", action="store_false", help="build the table of learning only")
    return made


def _options(arguments: dict[str, Any]) -> Options:
    """Return the options. Raise ConfigError if a number is too small."""
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in arguments.items()
    }
    if values["threads"] is None:
        values["threads"] = available_threads()
    options = Options(**values)
    for name, least in (("repetitions", 2), ("threads", 1)):
        if getattr(options, name) < least:
            raise ConfigError(f"{name} must be at least {least}, got {getattr(options, name)}")
    if options.limit_minutes <= 0:
        raise ConfigError(f"limit-minutes must be positive, got {options.limit_minutes:g}")
    return options


if __name__ == "__main__":
    sys.exit(main())
