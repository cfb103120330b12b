"""Between the units of a user's columns and the standardised ones a posterior works in."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ornstein._base.types import Vector


class Units(NamedTuple):
    """What is subtracted from and divides the columns and the target."""

    centre: Vector
    scale: Vector
    target_centre: float = 0.0
    target_scale: float = 1.0

    def encode(self, table: Vector) -> Vector:
        """The columns, standardised."""
        encoded: Vector = (table - self.centre) / self.scale
        return encoded

    def encode_target(self, target: Vector) -> Vector:
        """The target, standardised."""
        return (target - self.target_centre) / self.target_scale

    def own(self, params: Mapping[str, Vector]) -> tuple[Vector, Vector]:
        """Coefficients and intercepts in the units of the columns and of the target.

        ``params`` has ``coef``, (..., columns), and if the model has one the ``intercept``.
        """
        coef = params["coef"]
        intercept = params.get("intercept", np.zeros(coef.shape[:-1]))
        per_unit: Vector = np.asarray(coef / self.scale, np.float64)
        shift = self.target_scale * (intercept - per_unit @ self.centre)
        return self.target_scale * per_unit, self.target_centre + shift
