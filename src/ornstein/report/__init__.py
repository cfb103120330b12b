"""One self-contained page about a run, for people: pictures first, nothing fetched from outside."""

from ornstein.report._page import render, write
from ornstein.report._pictures import Section

__all__ = ["Section", "render", "write"]
