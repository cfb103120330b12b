"""The densities of a mixed model, for compiled code: everything but the rows.

Parameters are a head, (m,), and the leaves, (q, G): the effects of the grouping with the most. The
head has the fixed coefficients first, then the effects of the other groupings, each (q, levels)
flat. Hyperparameters ``lam`` are on the real line, grouping by grouping, the family's own last: a
Gaussian's ``log sigma``, or auxiliary parameters such as ``log_shape``.
"""

import itertools
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from ornstein._base.types import Array, PyTree, Vector
from ornstein.models.families import Family
from ornstein.models.hyper_priors import ScalePrior
from ornstein.models.random_effects.auxiliary import AuxiliaryPrior
from ornstein.models.random_effects.groupings import Grouping


@dataclass(frozen=True)
class Specification:
    """Hashable: part of compiled code. ``groupings`` has the leaves' first."""

    family: Family
    fixed: int  # coefficients
    groupings: tuple[Grouping, ...]
    noise_prior: ScalePrior | None = None
    auxiliary: tuple[AuxiliaryPrior, ...] = ()

    @property
    def leaf(self) -> Grouping:
        """The grouping that is eliminated."""
        return self.groupings[0]

    @property
    def others(self) -> tuple[Grouping, ...]:
        """Groupings whose effects are in the head."""
        return self.groupings[1:]

    @property
    def head(self) -> int:
        """M."""
        return self.fixed + sum(grouping.size for grouping in self.others)

    @property
    def dim(self) -> int:
        """Parameters."""
        return self.head + self.leaf.size

    @property
    def count(self) -> int:
        """Hyperparameters."""
        return self.scales + self.own

    @property
    def scales(self) -> int:
        """Hyperparameters of effects: they depend on nothing else, given these."""
        return sum(g.count for g in self.groupings)

    @property
    def own(self) -> int:
        """Hyperparameters of the family."""
        return (self.noise_prior is not None) + sum(one.count for one in self.auxiliary)

    def places(self) -> list[slice]:
        """Of the other groupings' effects in the head."""
        ends = np.cumsum([self.fixed, *(g.size for g in self.others)])
        return [slice(int(a), int(b)) for a, b in itertools.pairwise(ends)]

    def parts(self, lam: Any) -> list[Any]:
        """Hyperparameters of every grouping."""
        ends = np.cumsum([0, *(g.count for g in self.groupings)])
        return [lam[..., a:b] for a, b in itertools.pairwise(ends)]

    def power(self, lam: Array) -> Array:
        """By which rows' losses, of unit noise, are multiplied."""
        one = jnp.ones((), lam.dtype)
        return one if self.noise_prior is None else jnp.exp(-2 * lam[-1])

    def numbers(self, lam: Array) -> PyTree:
        """What the family's functions take for rows: unit noise, and auxiliary parameters."""
        found = {"noise_scale": jnp.ones((), lam.dtype)}
        return found | {one.name: one.value(part) for one, part in self._auxiliary(lam)}

    def leaf_precision(self, lam: Array) -> Array:
        """Prior precision of a leaf, (q, q)."""
        return self.leaf.precision(self.parts(lam)[0])

    def head_precision(self, lam: Array, fixed: Array) -> Array:
        """Prior precision of the head, (m, m), with that of the fixed coefficients, (p,)."""
        m = self.head
        diagonal = np.arange(self.fixed)
        found = jnp.zeros((m, m), lam.dtype).at[diagonal, diagonal].set(fixed)
        for grouping, place, part in self._others(lam):
            precision = grouping.precision(part)
            index = np.arange(place.start, place.stop).reshape(grouping.width, -1)
            for i in range(grouping.width):
                for j in range(grouping.width):
                    found = found.at[index[i], index[j]].set(
                        jnp.broadcast_to(precision[i, j], (grouping.levels,))
                    )
        return found

    def head_prior_gradient(self, lam: Array, phi: Array, prior: PyTree) -> Array:
        """Of ``-log p(head)``."""
        pieces = [prior["precision"] * (phi[: self.fixed] - prior["mean"])]
        for grouping, place, part in self._others(lam):
            effects = phi[place].reshape(grouping.width, -1)
            pieces.append((grouping.precision(part) @ effects).reshape(-1))
        return jnp.concatenate(pieces)

    def leaf_energy(self, lam: Array, b: Array) -> Array:
        """``b_g' P b_g / 2`` of every leaf, (G,)."""
        return 0.5 * ((self.leaf_precision(lam) @ b) * b).sum(axis=0)

    def head_energy(self, lam: Array, phi: Array, prior: PyTree) -> Array:
        """The quadratic part of ``-log p(head)``."""
        from_mean = phi[: self.fixed] - prior["mean"]
        found = 0.5 * (prior["precision"] * from_mean**2).sum()
        for grouping, place, part in self._others(lam):
            effects = phi[place].reshape(grouping.width, -1)
            found = found + 0.5 * ((grouping.precision(part) @ effects) * effects).sum()
        return found

    def log_hyper(self, lam: Array) -> Array:
        """Log-density of the hyperparameters, with the effects' normalising constants."""
        found = jnp.zeros((), lam.dtype)
        for grouping, part in zip(self.groupings, self.parts(lam), strict=True):
            found = found + grouping.log_prior(part)
            found = found + 0.5 * grouping.levels * grouping.log_determinant(part)
        if self.noise_prior is not None:
            found = found + self.noise_prior.log_density(jnp.exp(lam[-1])) + lam[-1]
        for one, part in self._auxiliary(lam):
            found = found + one.log_density(part)
        return found

    def log_scales(self, lam: Array) -> Array:
        """Log-density of the hyperparameters of effects alone, without any effects."""
        pairs = zip(self.groupings, self.parts(lam), strict=True)
        return jnp.stack([grouping.log_prior(part) for grouping, part in pairs]).sum()

    def rescaled(self, phi: Array, b: Array, lam: Array, other: Array) -> tuple[Array, Array]:
        """Head and leaves under other hyperparameters, effects in units of their own unchanged."""
        first, *others = zip(self.groupings, self.parts(lam), self.parts(other), strict=True)
        pieces = [phi[: self.fixed]]
        for place, (grouping, here, there) in zip(self.places(), others, strict=True):
            effects = phi[place].reshape(grouping.width, -1)
            pieces.append(grouping.rescaled(effects, here, there).reshape(-1))
        return jnp.concatenate(pieces), first[0].rescaled(b, *first[1:])

    def scatters(self, phi: Array, b: Array) -> list[Array]:
        """``sum b b'`` of every grouping: what hyperparameters depend on."""
        found = [b @ b.T]
        for grouping, place in zip(self.others, self.places(), strict=True):
            effects = phi[place].reshape(grouping.width, -1)
            found.append(effects @ effects.T)
        return found

    def log_given(self, lam: Array, scatters: list[Array]) -> Array:
        """Log-density of hyperparameters given effects by their scatters, but for the family's."""
        found = self.log_hyper(lam)
        for grouping, part, scatter in zip(self.groupings, self.parts(lam), scatters, strict=True):
            found = found - 0.5 * (grouping.precision(part) * scatter).sum()
        return found

    def _others(self, lam: Array) -> list[tuple[Grouping, slice, Array]]:
        return list(zip(self.others, self.places(), self.parts(lam)[1:], strict=True))

    def _auxiliary(self, lam: Any) -> list[tuple[AuxiliaryPrior, Any]]:
        """Each with its part of hyperparameters (..., n)."""
        found, at = [], self.scales
        for one in self.auxiliary:
            found.append((one, lam[..., at : at + one.count]))
            at += one.count
        return found

    def host_numbers(self, draws: Vector) -> dict[str, Vector]:
        """Auxiliary parameters of draws (..., n), on the real line."""
        return {one.name: one.host_value(part) for one, part in self._auxiliary(draws)}

    def hyper_labels(self) -> list[str]:
        """Names of what :meth:`described` gives."""
        named = [label for grouping in self.groupings for label in grouping.hyper_labels()]
        for one, prior in zip(self.family.auxiliary, self.auxiliary, strict=True):
            count = prior.pinned + prior.count
            several = [f"{one.reported}[{i}]" for i in range(count)]
            named += [one.reported] if prior.scalar else several
        return named if self.noise_prior is None else [*named, "sigma"]

    def described(self, draws: Vector, shift: Vector | float = 0.0, scale: float = 1.0) -> Vector:
        """Standard deviations, correlations and the family's own of draws (..., n).

        ``shift`` is an intercept that stands for the first cutpoint, ``scale`` the unit of a target
        that was divided by it.
        """
        found = [
            grouping.described(part)
            for grouping, part in zip(self.groupings, self.parts(draws), strict=True)
        ]
        if self.noise_prior is not None:
            found.append(np.exp(draws[..., -1:]))
        if self.auxiliary:
            own = self.family.auxiliary_reported(self.host_numbers(draws), shift, scale)
            for one, values in zip(self.auxiliary, own.values(), strict=True):
                found.append(values[..., None] if one.scalar else values)
        return np.concatenate(found, axis=-1)
