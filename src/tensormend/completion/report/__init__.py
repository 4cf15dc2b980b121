"""The report: one HTML page about a completion that needs nothing else to be read."""

from tensormend.completion.report.page import render_report, write_report

__all__ = ["render_report", "write_report"]
