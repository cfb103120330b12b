"""Update rules: what a chain does with gradient and noise, one file each.

A rule carries its constants, predicts the covariance of its draws, builds its kernel and records
itself. To add one, write a file like ``first_order`` and import it here; plans, runs, checkpoints
and the contract test find it by its name in :data:`RULES`.
"""

from ornstein.planning.rules.averaged import Averaged
from ornstein.planning.rules.contract import (
    RULES,
    Info,
    Inputs,
    Kernel,
    LinearChain,
    Rule,
    register,
)
from ornstein.planning.rules.decreasing import Decreasing
from ornstein.planning.rules.first_order import FirstOrder
from ornstein.planning.rules.momentum import Momentum
from ornstein.planning.rules.running import Running

__all__ = [
    "RULES",
    "Averaged",
    "Decreasing",
    "FirstOrder",
    "Info",
    "Inputs",
    "Kernel",
    "LinearChain",
    "Momentum",
    "Rule",
    "Running",
    "register",
]
