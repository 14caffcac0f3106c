"""The report of a run: one HTML file that needs nothing else, for screens, phones and paper."""

from batch2online.report.page import html

__all__ = ["html"]
