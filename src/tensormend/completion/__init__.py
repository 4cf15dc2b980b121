"""Completion of data with missing entries: the entry point `complete` and all that it needs."""
