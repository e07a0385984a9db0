"""`python -m pamd` is the `pamd` command."""

import sys

from pamd.cli.main import main

sys.exit(main())
