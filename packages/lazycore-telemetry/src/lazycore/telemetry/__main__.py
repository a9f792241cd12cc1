"""Run the slice's command line: `python -m lazycore.telemetry`."""

from lazycore.telemetry._cli import main

if __name__ == "__main__":
    raise SystemExit(main())
