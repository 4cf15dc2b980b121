"""Data with missing entries: accepted containers, file formats and data sets."""
