"""What mkdocs does beyond its plugins: pages from files outside docs/, notebooks as pages, links out of docs/."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
sys.path.insert(0, str(Path(__file__).parent))

from notebooks import NOTEBOOKS, as_markdown  # noqa: E402

OUTSIDE = {"index.md": "README.md", "changelog.md": "CHANGELOG.md", "contributing.md": "CONTRIBUTING.md"}
"""Pages of the site that are files of the repository."""
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages from outside, the notebooks, and every file outside docs/ that a page links to."""
    sources = {page.src_uri: Path(str(page.abs_src_path)) for page in files.documentation_pages()}
    for page, name in OUTSIDE.items():
        sources[page] = ROOT / name
    for notebook in NOTEBOOKS:
        sources[f"tutorials/{notebook.stem}.md"] = notebook
    wanted: set[Path] = set()
    waiting = list(sources.items())
    while waiting:
        page, source = waiting.pop()
        text = as_markdown(source) if source.suffix == ".ipynb" else source.read_text()
        if page == "api.md":  # In the repository the page is a list; here mkdocstrings shows each name in full.
            text = re.sub(r"^- \[`(pamd[\w.]+)`\].*$", r"::: \1\n", text, flags=re.MULTILINE)
        text, linked = relinked(text, page, source)
        # A linked page of a study becomes a page of the site, and its links are followed as well.
        waiting += [(_copy(path), path) for path in sorted(linked - wanted) if path.suffix == ".md"]
        wanted |= linked
        if (known := files.get_file_from_path(page)) is not None:
            files.remove(known)
        files.append(File.generated(config, page, content=text))
    for path in sorted(path for path in wanted if path.suffix != ".md"):
        files.append(File.generated(config, _copy(path), abs_src_path=str(path)))
    return files


def on_page_content(html: str, page: Any, config: Any, files: Files) -> str:
    """A pipe inside code inside a table is written `\\|`, and this Markdown keeps the backslash, unlike others."""
    return re.sub(r"<td>.*?</td>", lambda cell: cell[0].replace("\\|", "|"), html, flags=re.DOTALL)


def relinked(text: str, page: str, source: Path) -> tuple[str, set[Path]]:
    """`text` with links that work on the site, and the files outside docs/ that it links to."""
    outside = {str(ROOT / name): uri for uri, name in OUTSIDE.items()}
    wanted: set[Path] = set()

    def replace(found: re.Match[str]) -> str:
        mark, label, target = found.groups()
        bare, hash_, anchor = target.partition("#")
        if not bare or "://" in bare or bare.startswith("mailto:"):
            return found[0]
        path = Path(os.path.normpath(source.parent / bare))
        if path.is_dir():
            name = str(path.relative_to(ROOT))
            return f"`{name}`" if label.strip("`") == name else f"{label} (`{name}`)"
        if str(path) in outside:
            uri = outside[str(path)]
        elif path.is_relative_to(DOCS) and path.suffix != ".ipynb":
            uri = path.relative_to(DOCS).as_posix()
        elif path in NOTEBOOKS:
            uri = f"tutorials/{path.stem}.md"
        else:
            wanted.add(path)
            uri = _copy(path)
        return f"{mark}[{label}]({os.path.relpath(uri, os.path.dirname(page) or '.')}{hash_}{anchor})"

    parts = re.split(r"(^```.*?^```)", text, flags=re.DOTALL | re.MULTILINE)
    return "".join(part if part.startswith("```") else LINK.sub(replace, part) for part in parts), wanted


def _copy(path: Path) -> str:
    """Where the site keeps a file of the repository."""
    return f"files/{path.relative_to(ROOT).as_posix()}"
