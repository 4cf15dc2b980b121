"""Files: `load` and `save`, one file a format, found by suffix."""

from tensormend.data.formats.files import FORMATS, find_format, load, save

__all__ = ["FORMATS", "find_format", "load", "save"]
