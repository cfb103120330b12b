"""One self-contained HTML page about a run: pictures first, nothing loaded from elsewhere."""

from ornstein._base import extras

extras.require("report", "ornstein.report")

from ornstein.results.answers import cells
from ornstein.results.report.contents import KEPT, Contents, kept
from ornstein.results.report.page import LEFT_OUT, MIXING, contents, render, write, writers
from ornstein.results.report.pictures import Section

__all__ = ["KEPT", "LEFT_OUT", "MIXING", "Contents", "Section", "cells", "contents", "kept"]
__all__ += ["render", "write", "writers"]
