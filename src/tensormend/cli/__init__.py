"""The command line of tensormend: parse, call, write, exit.

It stands beside the library, not inside it, so that its help does not import the library: nothing
here imports `tensormend` before a command runs.
"""

from tensormend.cli.app import main

__all__ = ["main"]
