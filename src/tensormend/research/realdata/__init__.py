"""Completion of real data: data sets, ways to lose entries, contestants, records and a page."""
