"""Priors of hyperparameters that are drawn: of standard deviations, as people think of them."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import jax.numpy as jnp

from ornstein._base.checks import choice, positive, shown
from ornstein._base.errors import InputError
from ornstein._base.types import Array, PyTree
from ornstein.models.hyperparameters import Learnable


@dataclass(frozen=True)
class HalfNormal:
    """A standard deviation's prior: normal, its absolute value.

    Examples
    --------
    >>> round(float(HalfNormal(2.0).log_density(1.0)), 4)
    -1.0439
    """

    scale: float = 1.0

    def log_density(self, sd: Any) -> Array:
        """At a standard deviation."""
        constant = 0.5 * math.log(2 / math.pi) - math.log(self.scale)
        return constant - 0.5 * (jnp.asarray(sd) / self.scale) ** 2


@dataclass(frozen=True)
class HalfStudentT:
    """A standard deviation's prior with wider tails: Student's t, its absolute value."""

    df: float = 3.0
    scale: float = 2.5

    def log_density(self, sd: Any) -> Array:
        """At a standard deviation."""
        half = 0.5 * (self.df + 1)
        constant = math.lgamma(half) - math.lgamma(self.df / 2) + math.log(2)
        constant -= 0.5 * math.log(math.pi * self.df) + math.log(self.scale)
        return constant - half * jnp.log1p((jnp.asarray(sd) / self.scale) ** 2 / self.df)


@dataclass(frozen=True)
class Exponential:
    """A standard deviation's exponential prior, by its mean."""

    scale: float = 1.0

    def log_density(self, sd: Any) -> Array:
        """At a standard deviation."""
        return -math.log(self.scale) - jnp.asarray(sd) / self.scale


@dataclass(frozen=True)
class LogUniform:
    """Every order of magnitude alike; only where the data hold the standard deviation well."""

    def log_density(self, sd: Any) -> Array:
        """At a standard deviation, up to a constant."""
        return -jnp.log(jnp.asarray(sd))


ScalePrior: TypeAlias = HalfNormal | HalfStudentT | Exponential | LogUniform
HyperPrior: TypeAlias = Mapping[str, ScalePrior] | ScalePrior | Callable[[PyTree], Any] | None
"""What a user may give: a prior for all standard deviations, one by name, or a log-density."""

DEFAULTS: dict[str, ScalePrior] = {
    "prior_precision": HalfStudentT(),
    "noise_scale": LogUniform(),
}
"""Of ready-made models; a precision's is that of the standard deviation ``precision^-1/2``."""


def scale_priors(learnable: Learnable, given: HyperPrior) -> dict[str, ScalePrior]:
    """The priors of a ready-made model's hyperparameters by name, checked."""
    names = learnable.layout.leaf_names()
    if given is None:
        given = {}
    if isinstance(given, ScalePrior):
        given = {"prior_precision": given}
    if not isinstance(given, Mapping):
        raise InputError(
            "hyper_prior of a ready-made model is a prior of its standard deviations, such as "
            f"ornstein.HalfNormal(1.0), or a mapping of these by name; found {shown(given)}."
        )
    for name, prior in given.items():
        choice("hyper_prior", name, names)
        if not isinstance(prior, ScalePrior):
            raise InputError(
                f"hyper_prior[{name!r}] must be HalfNormal, HalfStudentT, Exponential or "
                f"LogUniform, found {shown(prior)}."
            )
        for field in ("scale", "df"):
            if hasattr(prior, field):
                positive(f"hyper_prior[{name!r}].{field}", getattr(prior, field))
    return {name: given.get(name, DEFAULTS[name]) for name in names}
