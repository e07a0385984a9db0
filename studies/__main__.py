"""Write the tables and figures of studies from their data, and the tables in the pages of docs/.

python -m studies               # all studies
python -m studies learners demo  # these
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from studies import STUDIES, analysis
from studies.pages import fill_pages


def main(names: Sequence[str]) -> None:
    """Rebuild the named studies, or all."""
    for name in names or STUDIES:
        analysis(name).write()
    fill_pages()


if __name__ == "__main__":
    main(sys.argv[1:])
