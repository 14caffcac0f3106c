"""The section of a model of which nothing particular is known, and why it changed."""

from __future__ import annotations

from typing import Any

from batch2online.app.report.context import ReportContext
from batch2online.app.report.elements import number
from batch2online.app.report.text import why as reason


def why(context: ReportContext, event: Any) -> str:
    """Return the reason of a change, and how far the losses of rows moved."""
    return f"{reason(event)}; it moved by {number(event.magnitude)}"


def section(context: ReportContext) -> str:
    """Return nothing: all that is known stands in the other sections."""
    return ""
