"""The loss around a point: its optimum, its curvature A, and the noise C of the rows' gradients.

A and C are estimated by structure, one file each in ``structures``. Begin with ``geometry``.
"""
