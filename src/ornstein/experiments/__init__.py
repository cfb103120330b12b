"""The paper's experiments, on the public API only."""

from ornstein._base import extras

extras.require("report", "ornstein reproduce")
