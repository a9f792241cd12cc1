"""Run the command line as ``python -m lazycore.experiments``."""

from __future__ import annotations

import sys

from lazycore.experiments._cli import main

if __name__ == "__main__":
    sys.exit(main())
