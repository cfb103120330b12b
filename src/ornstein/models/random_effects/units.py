"""How a mixed model's columns and target were standardised, and draws in the user's units."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ornstein._base.types import Vector
from ornstein.models.random_effects.groupings import Grouping


@dataclass(frozen=True, eq=False)
class MixedUnits:
    """What was taken from columns, and what they and the target were divided by.

    ``centre`` and ``scale`` are those of the fixed coefficients' columns, without the intercept;
    ``effects`` has of every grouping what its columns were divided by, (q,), of a fixed factor's
    level by level, (1, levels): infinity of a baseline. Without an intercept nothing may have been
    taken.
    """

    centre: Vector
    scale: Vector
    effects: tuple[Vector, ...]
    target_centre: float = 0.0
    target_scale: float = 1.0

    @classmethod
    def none(cls, columns: int, effects: tuple[Vector, ...]) -> "MixedUnits":
        """No column or target was standardised."""
        return cls(np.zeros(columns), np.ones(columns), effects)

    def fixed(self, draws: Vector) -> Vector:
        """Coefficients (..., p), the intercept last where there is one."""
        count = len(self.scale)
        per_unit = draws[..., :count].astype(float) / self.scale
        found = self.target_scale * per_unit
        if draws.shape[-1] == count:
            return found
        moved = draws[..., count] - per_unit @ self.centre
        shift = self.target_centre + self.target_scale * moved
        return np.concatenate([found, shift[..., None]], axis=-1)

    def effect_scale(self, number: int) -> Vector:
        """By which the effects (q, levels) of a grouping are multiplied."""
        scale = np.asarray(self.target_scale / self.effects[number])
        return scale if scale.ndim == 2 else scale[:, None]

    def hyper_scale(self, groupings: Sequence[Grouping]) -> Vector:
        """The same of standard deviations and correlations."""
        pieces: list[Vector] = [np.ones(0)]
        for number, grouping in enumerate(groupings):
            if not grouping.fixed:
                scale = self.effect_scale(number)[:, 0]
                pieces += [scale, np.ones(grouping.count - grouping.width)]
        return np.concatenate(pieces)
