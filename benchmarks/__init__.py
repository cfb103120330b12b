"""Measurements of speed and of accuracy, on real data, against other tools."""
