"""``python -m tensormend.cli``, for use where the ``tensormend`` script is not on the path."""

import sys

from tensormend.cli import main

if __name__ == "__main__":
    sys.exit(main())
