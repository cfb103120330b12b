"""One self-contained page about a run, for people: pictures first, nothing fetched from outside."""

from ornstein.report._page import Section, render, write

__all__ = ["Section", "render", "write"]
