"""Completion of data with missing entries: the entry point `complete` and its parts."""
