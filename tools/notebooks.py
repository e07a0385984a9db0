"""Run the notebooks of docs/tutorials and keep their outputs: `python tools/notebooks.py [NAME...]`.

Jupyter is not required: cells are executed in order in one namespace, in a temporary directory. Printed text and
matplotlib figures become their outputs.
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

__all__ = ["NOTEBOOKS", "as_markdown", "run"]

NOTEBOOKS = sorted((Path(__file__).parents[1] / "docs" / "tutorials").glob("*.ipynb"))


def run(notebook: Path) -> dict[str, Any]:
    """The notebook with the outputs of its code cells. An error of a cell is raised."""
    import matplotlib

    matplotlib.use("agg")
    content: dict[str, Any] = json.loads(notebook.read_text())
    names: dict[str, Any] = {"__name__": "__main__"}
    with tempfile.TemporaryDirectory() as directory, contextlib.chdir(directory):
        for number, cell in enumerate(code_cells(content), 1):
            cell["outputs"], cell["execution_count"] = _outputs("".join(cell["source"]), names), number
    return content


def code_cells(content: dict[str, Any]) -> list[dict[str, Any]]:
    """The code cells of a notebook."""
    return [cell for cell in content["cells"] if cell["cell_type"] == "code"]


def as_markdown(notebook: Path) -> str:
    """The notebook as a page, with its stored outputs."""
    parts = []
    for cell in json.loads(notebook.read_text())["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            if output["output_type"] == "stream":
                parts.append(f"```text\n{''.join(output['text']).rstrip()}\n```")
            else:
                parts.append(f'<img alt="figure" src="data:image/png;base64,{output["data"]["image/png"]}">')
    parts.append(f"This page is the notebook `docs/tutorials/{notebook.name}`.")
    return "\n\n".join(parts) + "\n"


def _outputs(source: str, names: dict[str, Any]) -> list[dict[str, Any]]:
    import matplotlib.pyplot as plt

    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(source, "<cell>", "exec", dont_inherit=True), names)
    outputs: list[dict[str, Any]] = []
    if lines := printed.getvalue().splitlines(keepends=True):
        outputs.append({"output_type": "stream", "name": "stdout", "text": lines})
    for number in plt.get_fignums():
        picture = io.BytesIO()
        plt.figure(number).savefig(picture, format="png", dpi=90, bbox_inches="tight", metadata={"Software": None})
        plt.close(number)
        encoded = base64.b64encode(picture.getvalue()).decode()
        outputs.append({"output_type": "display_data", "metadata": {}, "data": {"image/png": encoded}})
    return outputs


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    for one in NOTEBOOKS:
        if not sys.argv[1:] or one.stem in sys.argv[1:]:
            one.write_text(json.dumps(run(one), indent=1, ensure_ascii=False) + "\n")
            print(one.name)
