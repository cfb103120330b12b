"""What every method offers: a recipe for gain and noise, by structure."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ornstein._base import checks
from ornstein._base.errors import InputError
from ornstein._base.types import Vector
from ornstein.curvature.structures import STRUCTURES
from ornstein.linalg.eigen import inverse
from ornstein.planning.rules import FirstOrder, Rule
from ornstein.theory import Recipe
from ornstein.theory.recipes import diagonal


@dataclass(frozen=True)
class Setting:
    """What a recipe may use; A and C along the coordinates of the gain's structure."""

    hessian: Vector  # A and C as arrays: matrices or diagonals
    noise_cov: Vector
    noise_factor: float  # C_S / C
    num_data: int
    batch_size: int
    anchored: bool = False  # gradients have no noise at the optimum (X9): some must be injected
    cluster_noise_cov: Vector | None = None  # what stands for C where rows are dependent
    rate: float = 1.0  # the fastest by which what the gain's structure misses of A costs little

    @property
    def batch_noise_cov(self) -> Vector:
        """``C_S``."""
        return self.noise_cov * self.noise_factor


class Tuned(NamedTuple):
    """What a chain is to do: gain and noise as in a recipe, and what a step does with them."""

    gain: Vector
    injected_cov: Vector | None = None
    rule: Rule = FirstOrder()


Tune: TypeAlias = Callable[..., Recipe | Tuned]
"""``(setting, **options) -> what a chain is to do``; a recipe is taken in first-order steps."""


UNITS: Mapping[str, Callable[[Vector], Vector]] = MappingProxyType(
    {"dense": inverse, "diagonal": lambda A: 1 / diagonal(A), "scalar": lambda _: np.asarray(1.0)}
)
"""What a matrix makes the unit of a gain, by the gain's structure."""


@dataclass(frozen=True)
class Method:
    """One way to choose gain and noise.

    Attributes
    ----------
    variants
        Equation and recipe per structure of the gain; the first is the default.
    along
        Equation and recipe for a gain of any approximate structure, along its basis; None where
        the method has none.
    options
        The method's own options with their defaults.
    target
        What the stationary covariance aims at: ``posterior`` or ``sandwich``.
    control_variates
        Whether gradients are anchored at the optimum (X9) unless asked otherwise; None where the
        method injects no noise and relies on that of plain gradients.
    any_step
        Whether large batches, which make large steps, cost no accuracy.
    clusters
        Whether it can aim at a covariance for rows that depend on one another in clusters.
    kick
        Of the method's options: by how much a step multiplies the batch's gradient, in units of
        Newton's step; batches are so large that its noise costs nothing. None where the quickest
        are taken.
    engine
        What makes the draws: ``chain``, or one of ``sampling.engines``. For the latter, the
        recipe's injected covariance is that of the draws.
    """

    name: str
    summary: str
    variants: Mapping[str, tuple[str, Tune]]
    along: tuple[str, Tune] | None = None
    options: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    target: str = "posterior"
    control_variates: bool | None = False
    any_step: bool = False
    clusters: bool = False
    kick: Callable[[Mapping[str, Any]], float] | None = None
    engine: str = "chain"

    @property
    def reads_disks(self) -> bool:
        """Whether rows may stay on disk, or with other hosts."""
        return self.engine in ("chain", "laplace")

    @property
    def structures(self) -> tuple[str, ...]:
        """Structures of the gain on offer."""
        if self.along is None:
            return tuple(self.variants)
        approximate = (s.name for s in STRUCTURES.values() if s.approximate)
        return tuple(dict.fromkeys((*self.variants, *approximate)))

    def variant(self, structure: str) -> tuple[str, Tune]:
        """Equation and recipe for a structure of the gain."""
        if structure in self.variants or self.along is None:
            return self.variants[structure]
        equation, recipe = self.along
        return f"{equation} {STRUCTURES[structure].words}", recipe

    def all_options(
        self, options: Mapping[str, Any], known_elsewhere: tuple[str, ...] = ()
    ) -> dict[str, Any]:
        """The given options and the others' defaults; suggestions may come from other words."""
        unknown = sorted(set(options) - set(self.options))
        if unknown:
            offered = ", ".join(self.options) or "none"
            raise InputError(
                f"method {self.name!r} has no option {unknown[0]!r}; its options: {offered}."
                f"{checks.nearest(unknown[0], (*self.options, *known_elsewhere))}"
            )
        return {**self.options, **options}

    def check_batches(self, batches: str, known: Iterable[str]) -> None:
        """Raise where a scheme is unknown, or of no use to a method that has no minibatches."""
        checks.choice("batches", batches, ("auto", *known))
        if self.engine != "chain" and batches not in ("auto", "independent"):
            raise InputError(
                f"method={self.name!r} has no use for batches={batches!r}; leave batches out."
            )

    def tune(self, structure: str, setting: Setting, options: Mapping[str, Any]) -> Tuned:
        """Gain and noise for a setting; ``options`` are all of the method's."""
        _, function = self.variant(structure)
        made = function(setting, **options)
        return made if isinstance(made, Tuned) else Tuned(made.gain, made.injected_cov)
