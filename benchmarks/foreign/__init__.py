"""Samplers of other frameworks, each in a virtual environment of its own."""
