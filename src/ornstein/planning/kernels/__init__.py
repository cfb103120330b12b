"""Kernels: how a state moves, given a gradient and noise.

Each file builds a :class:`~ornstein.planning.kernels.contract.Kernel` with the field's convention
``init(key, position) -> state`` and ``step(key, state, batch) -> (state, info)``.
"""

from ornstein.planning.kernels import averaged, decreasing, first_order, fisher, momentum, rules
from ornstein.planning.kernels.contract import Info, Kernel

__all__ = ["Info", "Kernel", "averaged", "decreasing", "first_order", "fisher", "momentum", "rules"]
