"""Classes in an order: cumulative logits."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Self

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special

from ornstein._base.checks import shown
from ornstein._base.types import Array, PyTree, Vector
from ornstein.data import inputs
from ornstein.data.on_disk import AnyRows
from ornstein.models.families.auxiliary import ORDERED, Auxiliary, cutpoints
from ornstein.models.families.classes import drawn_classes, softplus
from ornstein.models.families.family import Family, Numbers, Rng


@dataclass(frozen=True)
class Ordinal(Family):
    """``y`` in ``0 .. K-1``, ``P(y <= k) = sigmoid(cutpoints[k] - eta)``; no intercept.

    The prior of the cutpoints is centred on classes of equal shares.
    """

    classes: int = 3

    name = "ordinal"
    latent = "logistic"
    meaning = "ratings"
    discrete = True
    canonical = False
    most_classes = 20
    if_more = "Group neighbouring ones, or, if it is a quantity, choose linear."
    intercept = False

    @property
    def auxiliary(self) -> tuple[Auxiliary, ...]:
        shares = [k / self.classes for k in range(1, self.classes)]
        at = [math.log(share / (1 - share)) for share in shares]
        gaps = [math.log(b - a) for a, b in pairwise(at)]
        sds = (2.5, *[1.0] * len(gaps))
        return (Auxiliary("raw_cutpoints", "cutpoints", ORDERED, (at[0], *gaps), sds),)

    def auxiliary_reported(
        self, values: Mapping[str, Vector], shift: Vector | float = 0.0, scale: float = 1.0
    ) -> dict[str, Vector]:
        return {"cutpoints": cutpoints(values["raw_cutpoints"]) - np.asarray(shift)[..., None]}

    def loss(self, eta: Array, y: Array, hyper: PyTree) -> Array:
        """By ``sigmoid(u) - sigmoid(l) = sigmoid(u) sigmoid(-l) (1 - exp(l - u))``."""
        raw = hyper["raw_cutpoints"].astype(eta.dtype)
        raw = raw.reshape(*[1] * (eta.ndim + 1 - raw.ndim), *raw.shape)
        cuts = ORDERED.compiled(raw)
        is_class = jax.nn.one_hot(y, self.classes, dtype=eta.dtype)
        not_last, not_first = is_class[..., :-1], is_class[..., 1:]
        along = eta[..., None]
        loss = (not_last * softplus(along - cuts) + not_first * softplus(cuts - along)).sum(axis=-1)
        gaps = jnp.exp(raw[..., 1:])
        return loss - (is_class[..., 1:-1] * jnp.log(-jnp.expm1(-gaps))).sum(axis=-1)

    def mean(self, eta: Array, hyper: PyTree) -> Array:
        return eta

    def probabilities(self, eta: Vector, numbers: Numbers) -> Vector:
        cuts = cutpoints(np.asarray(numbers["raw_cutpoints"]))
        below = scipy.special.expit(np.moveaxis(cuts - eta[..., None], -1, 1))
        ends = np.zeros_like(below[:, :1])
        return np.diff(np.concatenate([ends, below, ends + 1], axis=1), axis=1)

    def simulate(self, eta: Vector, numbers: Numbers, rng: Rng) -> Vector:
        return drawn_classes(self.probabilities(eta, numbers), rng)

    @classmethod
    def of(cls, classes: int) -> Self:
        return cls(classes=max(classes, 2))

    @classmethod
    def of_draws(cls, coef: Vector, auxiliary: Mapping[str, Vector]) -> Self:
        return cls(classes=auxiliary["raw_cutpoints"].shape[-1] + 1)

    @classmethod
    def of_target(cls, y: AnyRows, classes: int | None = None) -> tuple[Self, AnyRows]:
        target, found = inputs.labels(y, classes)
        return cls(classes=found), target

    @classmethod
    def note_on(cls, classes: Sequence[str]) -> list[str]:
        order = " < ".join(map(shown, classes))
        return [
            f"The classes are in this order: {order}. Numbers are ordered by size, categories "
            "by their own order, text by the alphabet."
        ]

    @classmethod
    def parameter_labels(cls, features: Sequence[str], classes: Sequence[str]) -> list[str]:
        return list(features)
