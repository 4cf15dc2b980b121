"""The front door for data with holes."""

from tensormend.complete.front import complete, estimate

__all__ = ["complete", "estimate"]
