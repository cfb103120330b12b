"""A model as the sampling loop sees it, and the one place that scales by N and S."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from ornstein._base.types import Array, PyTree, Vector
from ornstein.linalg.operators import Factor

T = TypeVar("T", Array, Vector, float)


def per_example(row_sum: T, num_rows: int, prior_term: T, num_data: int) -> T:
    """Mean over rows of ``l_n = -log p(x_n | theta) - (1/N) log p(theta)``, or of a derivative.

    The one place where anything is scaled by N or S: ``row_sum`` is a sum over ``num_rows`` rows
    (a minibatch, a subsample, all), ``prior_term`` the same derivative of ``-log p(theta)``.
    """
    return row_sum / num_rows + prior_term / num_data


class Minibatch(NamedTuple):
    """Rows, their weights unless drawn with equal probability, and the sizes of batch and data."""

    rows: PyTree
    weights: Array | None
    size: int
    num_data: int

    def per_example(self, row_sum: Array, prior_term: Array) -> Array:
        """Mean over the batch, scaled by :func:`per_example`."""
        return per_example(row_sum, self.size, prior_term, self.num_data)


class LocalProblem(NamedTuple):
    """A model in the coordinates z of ``theta = center + W z``.

    ``model`` gives the gradients by z and is static in compiled code; it takes the rows that
    ``fold`` makes of the data, and the constants ``hyper``, host arrays passed as arguments.
    ``factor`` is the ``W`` in use: a model may replace the one asked for by ``W Q``, Q orthogonal.
    """

    model: "LocalModel"
    fold: Callable[[PyTree], PyTree]
    hyper: PyTree
    factor: Factor


class Anchored(NamedTuple):
    """Gradients counted from those at an anchor, the centre: only what is left is estimated.

    ``slope`` is the gradient of ``-log p(theta | data)`` there. With its ``hessian`` (D, D), the
    batch estimates no more than the remainder of second order (X10); without, that of first (X9).
    """

    slope: Vector
    hessian: Vector | None = None


class LocalModel(ABC):
    """What the sampling loop needs: gradients by z. Hashable, as compiled code is keyed on it."""

    rows_last: bool = False
    """Whether batches are feature-major: rows along the last axis."""

    plain_operations: bool = False
    """Whether gradients consist of matrix-vector products and elementwise functions only."""

    @abstractmethod
    def minibatch_gradient(self, z: Array, batch: Minibatch, hyper: PyTree) -> Array:
        """``ghat_S``, the (weighted) mean gradient of ``l_n`` over a minibatch, by z."""

    @abstractmethod
    def minibatch_loss(self, z: Array, batch: Minibatch, hyper: PyTree) -> Array:
        """The (weighted) mean of ``l_n`` whose gradient that is, less its value at the centre."""

    @abstractmethod
    def row_gradients(self, z: Array, batch: Minibatch, hyper: PyTree) -> Array:
        """The (weighted) gradient of every row's ``-log p(x_n | theta)`` by z, (D, S)."""

    def gradient_moments(self, z: Array, batch: Minibatch, hyper: PyTree) -> tuple[Array, Array]:
        """``ghat_S``, and the unbiased covariance of the rows' gradients, (D, D)."""
        rows = self.row_gradients(z, batch, hyper)
        centred = rows - rows.mean(axis=1, keepdims=True)
        return self.minibatch_gradient(z, batch, hyper), centred @ centred.T / (batch.size - 1)
