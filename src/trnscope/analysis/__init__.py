"""Questions asked of a capture, each answered by documented SQL."""

from trnscope.analysis.question import ask
from trnscope.analysis.summary import Summary, compare_captures, compare_regions, summarize

__all__ = ["Summary", "ask", "compare_captures", "compare_regions", "summarize"]
