"""Measure the size of the source code and of the repository: `python tools/size.py [ROOT]`."""

from __future__ import annotations

import argparse
import ast
import io
import subprocess
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
Function = ast.FunctionDef | ast.AsyncFunctionDef
LAYOUT = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE),
    *(tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER),
}
"""Tokens that are not code."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", nargs="?", type=Path, default=ROOT, help="a checkout of the repository")
    root = parser.parse_args().root
    for name, value in {**source(root / "src" / "pamd"), **repository(root)}.items():
        print(f"{name:<34}{value:>10}")


def source(package: Path) -> dict[str, str]:
    """Return the numbers of a package."""
    texts = [path.read_text() for path in sorted(package.rglob("*.py"))]
    trees = [ast.parse(text) for text in texts]
    comments, code = (sum(count(text) for text in texts) for count in (_comments, _code_lines))
    lengths = sorted(len(text.splitlines()) for text in texts)
    return {
        "files": f"{len(texts):,}",
        "lines": f"{sum(lengths):,}",
        "lines of a file, median": f"{lengths[len(lengths) // 2]}",
        "lines of a file, most": f"{lengths[-1]}",
        "public functions and classes": f"{sum(map(_public, trees)):,}",
        "private functions used once": f"{sum(map(_used_once, trees)):,}",
        "comments per 100 lines of code": f"{100 * comments / code:.1f}",
    }


def repository(root: Path) -> dict[str, str]:
    """Return the number of tracked files and their size."""
    names = subprocess.run(["git", "-C", root, "ls-files", "-z"], capture_output=True, text=True, check=True).stdout
    files = [root / name for name in names.split("\0") if name and (root / name).is_file()]
    size = sum(file.stat().st_size for file in files)
    return {"tracked files": f"{len(files):,}", "size of the tracked files, MB": f"{size / 1e6:.1f}"}


def _public(tree: ast.Module) -> int:
    """Count the functions and classes of a module without an underscore. Constants and imported names do not count."""
    return sum(isinstance(node, Function | ast.ClassDef) and not node.name.startswith("_") for node in tree.body)


def _used_once(tree: ast.Module) -> int:
    """Count the private functions of a module that one place of it refers to."""
    names = [node.name for node in tree.body if isinstance(node, Function) and node.name.startswith("_")]
    uses = Counter(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
    return sum(uses[name] == 1 for name in names)


def _comments(text: str) -> int:
    return sum(token.type == tokenize.COMMENT for token in _tokens(text))


def _code_lines(text: str) -> int:
    """Count the lines without blank lines, comments and docstrings."""
    lines: set[int] = set()
    for token in _tokens(text):
        docstring = token.type == tokenize.STRING and token.line.lstrip().startswith(('"""', 'r"""'))
        if token.type not in LAYOUT and not docstring:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines)


def _tokens(text: str) -> list[tokenize.TokenInfo]:
    return list(tokenize.generate_tokens(io.StringIO(text).readline))


if __name__ == "__main__":
    main()
