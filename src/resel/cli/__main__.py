"""`python -m resel.cli`, which sweeps start their runs with."""

import sys

from resel.cli import main

sys.exit(main())
