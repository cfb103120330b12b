"""What a family is: the contract, and what most families share.

``eta`` is the linear predictor. Compiled functions get one entry per row, or one row of K entries
where a family has K outputs, and ``hyper``, the model's mapping of numbers: fixed ones, and the
family's auxiliary parameters on the real line. Functions for predictions run on the host, in NumPy;
they get (draws, rows) or (draws, K, rows), and ``numbers`` that broadcast with those: one for every
draw, and of rows what they bring with them, such as their ``trials``.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Self, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special

from ornstein._base.checks import a_or_an, names_of, shown
from ornstein._base.errors import InputError
from ornstein._base.precision import double_precision
from ornstein._base.types import Array, PyTree, Vector
from ornstein.data.on_disk import AnyRows
from ornstein.models.families.auxiliary import Auxiliary

FEW_NUMBERS = 30
"""Distinct whole numbers up to which a target may be of classes as well as of quantities."""

_CLASS_WORDS = {"class", "classes", "label", "labels", "species", "category", "type", "kind"}
_CLASS_WORDS |= {"cluster", "genre", "digit", "letter", "diagnosis", "variety", "outcome"}

Numbers: TypeAlias = Mapping[str, Any]
Rng: TypeAlias = np.random.Generator


@dataclass(frozen=True, eq=False)
class TargetColumn:
    """The column of a table that is to be predicted.

    ``levels`` are its distinct values as text, in order; ``values`` its numbers, None where it has
    labels.
    """

    name: str
    levels: Sequence[str]
    values: Vector | None

    @property
    def span(self) -> str:
        """The smallest and the largest number."""
        assert self.values is not None
        return f"{self.values.min():g} to {self.values.max():g}"

    @property
    def whole(self) -> bool:
        """Whether it has whole numbers throughout."""
        return self.values is not None and np.array_equal(self.values, np.rint(self.values))

    @property
    def doubt(self) -> str | None:
        """Why its numbers may be classes, in a sentence; None if they are quantities.

        Few distinct whole numbers may be, and whole numbers under a name such as class or species.
        """
        if self.values is None or not self.whole or len(self.levels) < 3:
            return None
        if 2 * len(self.levels) > len(self.values):
            return None
        found = f"{shown(self.name)} has {len(self.levels):,} distinct whole numbers, {self.span}"
        if _CLASS_WORDS & set(re.findall("[a-z]+", self.name.lower())):
            return f"{found}, and a name that classes have."
        return f"{found}." if len(self.levels) <= FEW_NUMBERS else None

    def refuse_constant(self) -> None:
        """Raise if there is one value only."""
        if len(self.levels) < 2:
            raise InputError(
                f"The target {shown(self.name)} has one value only, {names_of(self.levels)}: there "
                "is nothing to explain."
            )


@dataclass(frozen=True)
class Family(ABC):
    """A distribution of targets given a linear predictor.

    A family must have a ``name``, ``loss``, ``mean``, ``expectation``, ``variance`` and
    ``simulate``; one of classes has ``probabilities`` instead of the two before.

    Attributes
    ----------
    outputs
        Entries of ``eta`` per row.
    name
        The model's name, as users know it.
    balanced
        Whether a row's residuals sum to zero, whatever ``eta`` is.
    quadratic
        Whether the loss is quadratic in ``eta``.
    canonical
        Whether the residual is the mean less the target, up to a factor.
    scaled
        Whether the target has a unit: tables then standardise it, and ``hyper["noise_scale"]`` is
        the standard deviation of its noise.
    most_classes, if_more
        Classes the target may have, 0 where it is a number; what to do if it has more.
    meaning
        What whole numbers are to this family, where a user is asked about them; empty for a family
        that is not offered.
    discrete
        Whether targets are counts or classes, which have probabilities and not densities.
    may_be_censored
        Whether a negative target says that it is larger than its size, and no more.
    ratio
        What the exponential of a coefficient is, such as an odds ratio; empty where it is nothing.
    latent
        The distribution of the noise behind classes, ``logistic``; empty where there is none.
    intercept
        Whether it may have an intercept; other parameters may take its place.
    """

    outputs: int = 1

    name: ClassVar[str]
    balanced: ClassVar[bool] = False
    quadratic: ClassVar[bool] = False
    canonical: ClassVar[bool] = True
    scaled: ClassVar[bool] = False
    most_classes: ClassVar[int] = 0
    if_more: ClassVar[str] = ""
    meaning: ClassVar[str] = ""
    discrete: ClassVar[bool] = False
    may_be_censored: ClassVar[bool] = False
    ratio: ClassVar[str] = ""
    latent: ClassVar[str] = ""
    intercept: ClassVar[bool] = True

    @property
    def auxiliary(self) -> tuple[Auxiliary, ...]:
        """Parameters beside the coefficients, drawn with them; ``hyper`` has them by name.

        Their names follow ``intercept`` in the alphabet, which is the order of parameters.
        """
        return ()

    def auxiliary_means(self, y: Vector) -> dict[str, Vector]:
        """Means of their default priors, which may count in the target's unit."""
        return {one.name: np.asarray(one.mean, float) for one in self.auxiliary}

    def auxiliary_reported(
        self, values: Mapping[str, Vector], shift: Vector | float = 0.0, scale: float = 1.0
    ) -> dict[str, Vector]:
        """Draws of them as users know them, for a predictor to which ``shift`` is added.

        ``scale`` is the unit of a target that was divided by it.
        """
        return {
            one.reported: np.asarray(one.range.host(values[one.name])) for one in self.auxiliary
        }

    # Compiled --------------------------------------------------------------------------------

    @abstractmethod
    def loss(self, eta: Array, y: Array, hyper: PyTree) -> Array:
        """``-log p(y | eta)`` of every row, constants included."""

    @abstractmethod
    def mean(self, eta: Array, hyper: PyTree) -> Array:
        """The target that leaves no residual at eta."""

    def residual(self, eta: Array, y: Array, hyper: PyTree) -> Array:
        """First derivative of the loss by eta."""
        if self.canonical:
            return self.mean(eta, hyper) - y
        return jax.grad(lambda at: self.loss(at, y, hyper).sum())(eta)

    def curvature(self, eta: Array, y: Array, hyper: PyTree) -> Array:
        """Second derivative by eta, (rows,) or (rows, K, K)."""
        ones = jnp.ones_like(eta)
        return jax.jvp(lambda at: self.residual(at, y, hyper), (eta,), (ones,))[1]

    def fold(self, x: Vector, offset: Vector, y: Vector) -> dict[str, Vector]:
        """Rows for a loop in which ``eta = along + offset``, with as few numbers as it needs.

        ``y`` has targets, or means where a canonical family's gradients are anchored.
        """
        return {"x": x, "offset": offset, "y": y}

    def fold_anchored(
        self, x: Vector, offset: Vector, y: Vector, hyper: PyTree, order: int = 1
    ) -> dict[str, Vector]:
        """Rows whose residuals are counted from those at the offset (X9), or their tangents (X10).

        A family that knows the curvature from these rows needs no more; others get it beside.
        """
        with double_precision():
            target = np.asarray(y, float)
            there, curvature = map(np.asarray, _at_anchor(self, offset, target, hyper))
        folded = self.fold(x, offset, there if self.canonical else y)
        if not self.canonical:
            folded["residual"] = there
        if order == 2 and self.outputs == 1:
            folded["curvature"] = curvature
        return folded

    def folded_residual(self, along: Array, rows: PyTree, hyper: PyTree) -> Array:
        """First derivative by ``along`` for folded rows, outputs along the first axis."""
        residual = self.residual(along + rows["offset"], rows["y"], hyper)
        return residual - rows["residual"] if "residual" in rows else residual

    def folded_remainder(self, along: Array, rows: PyTree, hyper: PyTree) -> Array:
        """The same less its tangent at the offset (X10), for rows folded of order 2."""
        return self.folded_residual(along, rows, hyper) - rows["curvature"] * along

    def folded_loss(self, along: Array, rows: PyTree, hyper: PyTree) -> Array:
        """Of every folded row the loss less that at the offset, as :meth:`folded_residual` counts.

        Its derivative by ``along`` is that residual.
        """
        change = self._folded_change(along, rows, hyper)
        return change - rows["residual"] * along if "residual" in rows else change

    def folded_remainder_loss(self, along: Array, rows: PyTree, hyper: PyTree) -> Array:
        """The same for :meth:`folded_remainder`."""
        return self.folded_loss(along, rows, hyper) - 0.5 * rows["curvature"] * along**2

    def _folded_change(self, along: Array, rows: PyTree, hyper: PyTree) -> Array:
        offset, y = rows["offset"], rows["y"]
        return self.loss(along + offset, y, hyper) - self.loss(offset, y, hyper)

    # Predictions -----------------------------------------------------------------------------

    def expectation(self, eta: Vector, numbers: Numbers) -> Vector:
        """The target's mean for every draw and row."""
        raise InputError(
            f"{a_or_an(self.name)} model predicts classes; ask for their probabilities."
        )

    def variance(self, eta: Vector, numbers: Numbers) -> Vector:
        """The target's own variance by draw and row; of families that predict a mean only."""
        raise NotImplementedError

    def probabilities(self, eta: Vector, numbers: Numbers) -> Vector:
        """Of every class, (draws, classes, rows)."""
        raise InputError(f"{a_or_an(self.name)} model has no class probabilities.")

    @abstractmethod
    def simulate(self, eta: Vector, numbers: Numbers, rng: Rng) -> Vector:
        """One target for every draw and row; class numbers for classes."""

    def interval(
        self, eta: Vector, numbers: Numbers, mass: float, rng: Rng
    ) -> tuple[Vector, Vector]:
        """Ends of central intervals of every row's target, by simulated ones."""
        tail = (1 - mass) / 2
        low, high = np.quantile(self.simulate(eta, numbers, rng), [tail, 1 - tail], axis=0)
        return low, high

    def log_density(self, eta: Vector, y: Vector, numbers: Numbers) -> Vector:
        """Of every row's target, or its probability, by draw and row."""
        by_output = np.moveaxis(eta, 1, -1) if eta.ndim == 3 else eta
        kind = np.int32 if self.most_classes > 2 else float
        targets = np.broadcast_to(np.asarray(y, kind), by_output.shape[:2])
        with double_precision():
            found = self.loss(jnp.asarray(by_output), jnp.asarray(targets), dict(numbers))
            return -np.asarray(found)

    def log_score(self, eta: Vector, y: Vector, numbers: Numbers) -> Vector:
        """Log predictive density of every row's target: the draws' densities averaged."""
        found = self.log_density(eta, y, numbers)
        return np.asarray(scipy.special.logsumexp(found, axis=0) - np.log(len(found)))

    # Targets ---------------------------------------------------------------------------------

    @classmethod
    def of(cls, classes: int) -> Self:
        """The family for so many classes; they do not matter where targets are numbers."""
        return cls()

    @classmethod
    def of_draws(cls, coef: Vector, auxiliary: Mapping[str, Vector]) -> Self:
        """The family of draws of its parameters, draws along their first axes."""
        return cls.of(coef.shape[1])

    @classmethod
    def of_target(cls, y: AnyRows, classes: int | None = None) -> tuple[Self, AnyRows]:
        """The family, and the target as its functions take it; raises if that does not suit."""
        return cls(), y.astype(float)

    @classmethod
    def recognise(cls, column: TargetColumn) -> str | None:
        """Why a column calls for this family, in a sentence; None if it does not."""
        return None

    @classmethod
    def check_column(cls, column: TargetColumn) -> None:
        """Raise if a table's target does not suit."""
        name = shown(column.name)
        if column.values is None and not cls.most_classes:
            raise InputError(
                f"The target {name} has labels, such as {shown(column.levels[0])}, and a "
                f"{cls.name} model needs numbers. Choose logistic for two classes, "
                "model='softmax' for more."
            )
        column.refuse_constant()
        if 0 < cls.most_classes < len(column.levels):
            if column.values is not None and not column.whole:
                raise InputError(
                    f"The target {name} has numbers such as {column.levels[0]}, and a {cls.name} "
                    "model needs classes. Choose a model of numbers: model='linear'."
                )
            raise InputError(
                f"The target {name} has {len(column.levels):,} classes, such as "
                f"{names_of(column.levels[:3])}; {a_or_an(cls.name)} model takes at most "
                f"{cls.most_classes}. {cls.if_more}"
            )

    @classmethod
    def note_on(cls, classes: Sequence[str]) -> list[str]:
        """What a user should know of how the target's classes are taken, a sentence each."""
        return []

    @classmethod
    def parameter_labels(cls, features: Sequence[str], classes: Sequence[str]) -> list[str]:
        """Names of all coefficients, then intercepts, for a table's summary."""
        return [*features, "intercept"]


@partial(jax.jit, static_argnums=(0,))
def _at_anchor(
    family: Family, offset: Array, y: Array, hyper: PyTree
) -> tuple[Array, Array | None]:
    """The mean of a canonical family, which leaves no residual there, or the residual of others.

    With the curvature where there is one output.
    """
    here = family.mean(offset, hyper) if family.canonical else family.residual(offset, y, hyper)
    return here, family.curvature(offset, y, hyper) if family.outputs == 1 else None
