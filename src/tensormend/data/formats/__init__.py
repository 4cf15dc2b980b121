"""Files: `load` and `save`, and one module per format, found by suffix in `registry`."""

from tensormend.data.formats.files import load, save
from tensormend.data.formats.registry import FORMATS, find_format

__all__ = ["FORMATS", "find_format", "load", "save"]
