"""A family's own parameters in a mixed model: hyperparameters that rows' losses depend on."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from ornstein._base.types import Array, Vector
from ornstein.models.families import Family
from ornstein.models.priors import Normal


@dataclass(frozen=True)
class AuxiliaryPrior:
    """One of them, such as ``log_shape``: normal on the real line, entry by entry.

    An intercept stands for the first ``pinned`` entries, which stay 0: cutpoints have none of their
    own, and their first one moves with all effects.
    """

    name: str
    scalar: bool
    pinned: int
    mean: tuple[float, ...]
    sd: tuple[float, ...]

    @property
    def count(self) -> int:
        """Numbers that are drawn."""
        return len(self.mean)

    def value(self, part: Array) -> Array:
        """As the family takes it, for compiled code."""
        if self.scalar:
            return part[0]
        return jnp.concatenate([jnp.zeros(self.pinned, part.dtype), part])

    def host_value(self, part: Vector) -> Vector:
        """The same of draws (..., count), on the host."""
        if self.scalar:
            return part[..., 0]
        return np.concatenate([np.zeros((*part.shape[:-1], self.pinned)), part], axis=-1)

    def log_density(self, part: Array) -> Array:
        """Up to a constant."""
        mean, sd = (jnp.asarray(values, part.dtype) for values in (self.mean, self.sd))
        return -0.5 * (((part - mean) / sd) ** 2).sum()


def auxiliary_priors(
    family: Family, y: Any, given: Mapping[str, Normal]
) -> tuple[tuple[AuxiliaryPrior, ...], Normal | None]:
    """Priors of all of them, and that of an intercept which stands for the first cutpoint.

    ``given`` are a user's, by the parameters' reported names.
    """
    if not family.auxiliary:
        return (), None
    means, found, first = family.auxiliary_means(np.asarray(y)), [], None
    pinned = 0 if family.intercept else 1
    for one in family.auxiliary:
        prior = given.get(one.reported)
        mean = means[one.name] if prior is None else prior.mean
        sd = one.sd if prior is None else prior.sd
        all_means = np.broadcast_to(mean, one.shape).reshape(-1).tolist()
        all_sds = np.broadcast_to(sd, one.shape).reshape(-1).tolist()
        if pinned:
            first = Normal(-all_means[0], all_sds[0])
        found.append(
            AuxiliaryPrior(
                one.name,
                one.shape == (),
                pinned,
                tuple(all_means[pinned:]),
                tuple(all_sds[pinned:]),
            )
        )
    return tuple(found), first
