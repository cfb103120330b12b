"""Update rules: what a chain does with gradient and noise.

A rule carries its constants, predicts the covariance of its draws, makes its steps and records
itself. To add one, write a class like ``FirstOrder`` and import it here; plans, runs, checkpoints
and the contract test find it by its name in :data:`RULES`.
"""

from ornstein.planning.rules.contract import RULES, Rule
from ornstein.planning.rules.fixed_gain import Averaged, Decreasing, FirstOrder, Momentum
from ornstein.planning.rules.rotation import Rotation
from ornstein.planning.rules.running import Running

__all__ = [
    "RULES",
    "Averaged",
    "Decreasing",
    "FirstOrder",
    "Momentum",
    "Rotation",
    "Rule",
    "Running",
]
