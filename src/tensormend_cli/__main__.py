"""``python -m tensormend_cli``, where the ``tensormend`` script is not on the path."""

import sys

from tensormend_cli import main

if __name__ == "__main__":
    sys.exit(main())
