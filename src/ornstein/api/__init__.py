"""The calls most users need: sample, learn, compare. Begin with ``sampling``."""
