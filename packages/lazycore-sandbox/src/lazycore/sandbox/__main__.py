"""Run the command line as `python -m lazycore.sandbox`."""

from lazycore.sandbox._cli import main

if __name__ == "__main__":
    main()
