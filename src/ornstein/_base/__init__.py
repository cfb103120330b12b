"""What every room stands on, nothing of it statistical.

Types, pytrees as vectors, precision, checks and errors, random numbers, memory, the processes of
one run, progress bars, Ctrl-C. Begin with ``trees``: a `Layout` is how parameters lie in a flat
vector.
"""
