"""One self-contained HTML page about a run: pictures first, nothing loaded from elsewhere."""

from ornstein._base import extras

extras.require("report", "ornstein.report")

from ornstein.results.answers import cells
from ornstein.results.report.page import LEFT_OUT, render, write
from ornstein.results.report.pictures import Section

__all__ = ["LEFT_OUT", "Section", "cells", "render", "write"]
