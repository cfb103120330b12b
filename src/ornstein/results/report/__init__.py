"""One self-contained page about a run, for people: pictures first, nothing fetched from outside."""

from ornstein.results.report._page import render, write
from ornstein.results.report._pictures import Section

__all__ = ["Section", "render", "write"]
