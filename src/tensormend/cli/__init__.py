"""The command line of tensormend: one file for each command.

Modules of the library that need NumPy are imported inside functions, when a command runs, so that
help and shell completion answer at once.
"""

from tensormend.cli.app import main

__all__ = ["main"]
