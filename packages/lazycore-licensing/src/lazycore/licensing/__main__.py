"""Run the command line: ``python -m lazycore.licensing``."""

import sys

from lazycore.licensing._cli import main

if __name__ == "__main__":
    sys.exit(main())
