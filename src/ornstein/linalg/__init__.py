"""Matrices by structure, and products, solves, square roots and determinants of them.

The rest of the library receives these operators and never looks at the shapes of their arrays.
Begin with ``operators``.
"""
