"""What every structure of A and C offers, and the registry of structures.

To add one: a file of this room with a subclass of :class:`Structure`, or of
:class:`BasisStructure` where A is diagonal along a basis fitted to it; that basis, or an operator,
in ``linalg``; and a row in ``structures/__init__``. Methods with a recipe for any basis offer it.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar, NamedTuple

import numpy as np

from ornstein._base.checks import choice
from ornstein._base.trees import num_rows
from ornstein._base.types import Key, PyTree, Vector
from ornstein.curvature import row_sums
from ornstein.curvature.deviations import Deviations, PointDeviations
from ornstein.curvature.geometry import Geometry, Missed
from ornstein.curvature.products import LANCZOS, relative_spectrum
from ornstein.linalg.along import AlongDual, BasisRoot
from ornstein.linalg.bases import Basis
from ornstein.linalg.operators import Factor, Operator
from ornstein.models.local import per_example
from ornstein.models.posterior import Posterior


class SizeLimits(NamedTuple):
    """Sizes beyond which a structure is not the default."""

    dense: int = 2000  # parameters: a matrix of so many takes 32 MB, its eigenvalues seconds
    width: int = 4000  # columns whose Gram matrix is made for Kronecker factors
    class_numbers: int = 2**25  # in the blocks of all classes: 256 MiB, some times that to make


LIMITS = SizeLimits()
"""The one place where sizes decide."""


class RowSums(NamedTuple):
    """Sums over rows: gradients, then outer products and Hessians as the structure holds them."""

    gradient: Vector
    outer: Vector
    hessian: Vector


class SearchUnits(NamedTuple):
    """How a structure's units serve the search for the optimum."""

    rows: int  # from which units are found, at least
    tolerance: float  # of the optimum, in posterior standard deviations
    rows_per_parameter: int = 0
    patient: bool = False  # whether every search is twice as long before units are found again
    by_sample: bool = False  # whether one that begins far away first goes to the rows' optimum


class Structure(ABC):
    """How A and C are held."""

    name: ClassVar[str]
    words: ClassVar[str]
    """What follows an equation's id: "X2 in Kronecker factors"."""
    approximate: ClassVar[bool] = False
    """Whether A is held approximately: products with it tell what is missed."""
    estimated: ClassVar[bool] = True
    """Whether A and C can be estimated in it; False for gains alone."""
    anchored: ClassVar[bool] = True
    """Whether gains of this structure anchor gradients unless asked otherwise."""
    second_order: ClassVar[bool] = False
    """Whether it holds A whole, as control variates of second order need it (X10)."""
    search: ClassVar[SearchUnits | None] = None

    def refuse(self, post: Posterior) -> None:
        """Raise where the model is not made for it."""
        del post

    @abstractmethod
    def fits(self, post: Posterior) -> bool:
        """Whether it suits the model, at its size."""

    def suits(self, geometry: Geometry) -> bool:
        """Whether a gain of this structure can be made from what a geometry holds."""
        return geometry.frame.structure == self.name

    @abstractmethod
    def held(self, post: Posterior) -> "Structure":
        """The structure in which A and C are held for a gain of this one."""

    @abstractmethod
    def sums(
        self, post: Posterior, theta: Vector, rows: PyTree, basis: Basis | None, with_noise: bool
    ) -> tuple[Basis | None, RowSums]:
        """Sums over rows, along a basis that is fitted to them unless it is given."""

    @abstractmethod
    def prior(self, post: Posterior, theta: Vector, basis: Basis | None) -> tuple[Vector, Vector]:
        """Gradient and curvature of ``-log p(theta)``."""

    @abstractmethod
    def operator(self, array: Vector, basis: Basis | None) -> Operator:
        """A curvature of this structure."""

    def refuse_anchors(self) -> None:
        """Raise where what it holds is too little for control variates."""
        return

    @abstractmethod
    def deviations(
        self, post: Posterior, geometry: Geometry, cov: Operator, key: Key, order: int = 1
    ) -> Deviations:
        """How rows' gradients deviate from those at an anchor, over a Gaussian around it (X9).

        Or from their tangents there, of order 2 (X10), where the structure is of ``second_order``.
        """

    def fit(self, post: Posterior, theta: Vector, rows: PyTree) -> Basis | None:
        """The basis along which rows are summed; None where there is none."""
        del post, theta, rows
        return None

    def finish(
        self, sums: RowSums, rows: int, prior: Vector, mean: Vector, num_data: int
    ) -> tuple[Vector, Vector]:
        """A and C; C about a mean gradient, given along the basis."""
        hessian = per_example(sums.hessian, rows, prior, num_data)
        return hessian, np.maximum(sums.outer / rows - mean**2, 0.0)

    def units(self, post: Posterior, rows: PyTree, theta: Vector) -> Factor:
        """A root of the posterior's covariance by some rows: units for a search."""
        basis, sums = self.sums(post, theta, rows, None, with_noise=False)
        _, prior = self.prior(post, theta, basis)
        hessian = per_example(sums.hessian, num_rows(rows), prior, post.num_data)
        return self.operator(post.num_data * hessian, basis).inverse().sqrt()

    def missed(
        self, post: Posterior, theta: Vector, hessian: Operator, rows: PyTree, products: int | None
    ) -> Missed | None:
        """What it misses of A; None where that is nothing, or not known."""
        del post, theta, hessian, rows, products
        return None

    def attach(self, post: Posterior, geometry: Geometry) -> Geometry:
        """The geometry, with this structure beside the one in which it is held."""
        del post
        return geometry


class BasisStructure(Structure):
    """A diagonal along a basis that is fitted to it, and what that misses found by products."""

    approximate = True
    products: ClassVar[int] = LANCZOS
    """Products with A from each random direction, to find the ends of its spectrum."""

    def held(self, post: Posterior) -> Structure:
        """Itself."""
        del post
        return self

    def prior(self, post: Posterior, theta: Vector, basis: Basis | None) -> tuple[Vector, Vector]:
        """The curvature along the basis."""
        gradient, diagonal = row_sums.prior_terms(post, theta, dense=False)
        return gradient, _given(basis).prior(diagonal)

    def operator(self, array: Vector, basis: Basis | None) -> AlongDual:
        """``V^-T diag(array) V^-1``."""
        return AlongDual(_given(basis), array)

    def deviations(
        self, post: Posterior, geometry: Geometry, cov: Operator, key: Key, order: int = 1
    ) -> Deviations:
        """By points around the anchor, for any model and any basis."""
        del order
        return PointDeviations(post, geometry, cov, key)

    def missed(
        self, post: Posterior, theta: Vector, hessian: Operator, rows: PyTree, products: int | None
    ) -> Missed:
        """By Lanczos' method, of so many products."""
        root = hessian.inverse().sqrt()
        assert isinstance(root, BasisRoot)
        return relative_spectrum(post, theta, root, rows, products or self.products)


def _given(basis: Basis | None) -> Basis:
    assert basis is not None
    return basis


STRUCTURES: dict[str, Structure] = {}
"""Every structure by name, in the order in which they are tried as defaults."""


def register(structure: Structure) -> None:
    """Make a structure known by its name."""
    STRUCTURES[structure.name] = structure


@contextmanager
def registered(structure: Structure) -> Iterator[None]:
    """The same for a while."""
    register(structure)
    try:
        yield
    finally:
        del STRUCTURES[structure.name]


def find(name: str) -> Structure:
    """The structure of that name, or an error that lists them."""
    return STRUCTURES[choice("structure", name, tuple(STRUCTURES))]
