"""Structures of A and C, one file each, all behind one protocol.

A row here makes a structure known; the order is that in which they are tried as defaults. Begin
with ``contract``.
"""

from ornstein.curvature.structures.contract import (
    STRUCTURES,
    Structure,
    find,
    register,
    registered,
)
from ornstein.curvature.structures.dense import DenseStructure
from ornstein.curvature.structures.diagonal import (
    DiagonalStructure,
    ScalarStructure,
    SquareRootStructure,
)
from ornstein.curvature.structures.kronecker import KroneckerStructure
from ornstein.curvature.structures.per_class import PerClassStructure

__all__ = ["STRUCTURES", "Structure", "find", "register", "registered"]

register(DenseStructure())
register(PerClassStructure())
register(KroneckerStructure())
register(DiagonalStructure())
register(ScalarStructure())
register(SquareRootStructure())
