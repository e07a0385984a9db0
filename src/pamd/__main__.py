"""Run the `pamd` command with `python -m pamd`."""

import sys

from pamd.cli.main import main

sys.exit(main())
