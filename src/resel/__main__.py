"""`python -m resel`: the command where it is not on the path; sweeps start their runs with it."""

import sys

from resel.cli import main

sys.exit(main())
