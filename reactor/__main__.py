"""`python -m reactor`: the command line."""

import sys

from reactor.cli import main

if __name__ == "__main__":
    sys.exit(main())
