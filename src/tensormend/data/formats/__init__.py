"""Files: `load` and `save`, one file a format, found by suffix in the table of `registry`."""

from tensormend.data.formats.files import load, save
from tensormend.data.formats.registry import FORMATS, find_format

__all__ = ["FORMATS", "find_format", "load", "save"]
