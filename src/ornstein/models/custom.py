"""Custom models: a user's own log-likelihood of one row and log-prior."""

from dataclasses import dataclass

import jax
import numpy as np
import numpy.typing as npt

from ornstein._base import captured
from ornstein._base.precision import double_precision
from ornstein._base.trees import Layout, cast
from ornstein._base.types import Array, Constrain, LogLikelihood, LogPrior, PyTree, Vector
from ornstein.data.passes import blocks
from ornstein.linalg.operators import Factor
from ornstein.models.chain_rule import ChainRule
from ornstein.models.contract import LocalProblem, Model

_MAPPED = 1024  # vectors that a user's function is mapped over at once


@dataclass(frozen=True)
class CustomModel(Model):
    """The model of a user's two functions, differentiated automatically."""

    log_likelihood: LogLikelihood
    log_prior: LogPrior
    layout: Layout
    with_hyper: bool = False
    """Whether the two take hyperparameters, ``hyper["hyper"]``, as their last argument."""

    def constants(self) -> PyTree:
        """The arrays that the two functions capture, to be passed as ``hyper``."""
        return {
            "log_likelihood": captured.constants(self.log_likelihood),
            "log_prior": captured.constants(self.log_prior),
        }

    def likelihood(self, hyper: PyTree) -> LogLikelihood:
        """The user's log-likelihood with its constants and hyperparameters filled in."""
        bound = captured.bind(self.log_likelihood, hyper["log_likelihood"])
        if not self.with_hyper:
            return bound
        return lambda params, row: bound(params, row, hyper["hyper"])

    def prior(self, hyper: PyTree) -> LogPrior:
        """The user's log-prior with its constants and hyperparameters filled in."""
        bound = captured.bind(self.log_prior, hyper["log_prior"])
        return (lambda params: bound(params, hyper["hyper"])) if self.with_hyper else bound

    def losses(self, theta: Array, rows: PyTree, hyper: PyTree) -> Array:
        mapped = jax.vmap(self.likelihood(hyper), in_axes=(None, 0))
        return -mapped(self.layout.unravel(theta), rows)

    def prior_loss(self, theta: Array, hyper: PyTree) -> Array:
        return -self.prior(hyper)(self.layout.unravel(theta))

    def localise(
        self,
        center: Vector,
        factor: Factor,
        hyper: PyTree,
        dtype: npt.DTypeLike,
        slope: Vector | None = None,
    ) -> LocalProblem:
        """By the chain rule; rows change their precision only."""
        local = ChainRule(self)
        constants = local.constants(center, factor, hyper, slope)
        return LocalProblem(local, lambda rows: cast(rows, dtype), constants, factor)


def put_hyper(values: PyTree, numbers: PyTree) -> PyTree:
    """The functions' constants with these hyperparameters beside them."""
    return {**numbers, "hyper": values}


def map_vectors(function: Constrain, layout: Layout, flat: Vector) -> PyTree:
    """A user's function of the parameters, mapped over vectors of them (..., D) in float64."""

    @jax.jit
    def some(constants: list[Array], vectors: Array) -> PyTree:
        return jax.vmap(captured.bind(function, constants))(layout.unravel(vectors))

    with double_precision():
        constants = captured.constants(function)
        parts = [
            jax.tree.map(lambda leaf, kept=weights > 0: np.asarray(leaf)[kept], some(constants, v))
            for v, weights in blocks(np.asarray(flat).reshape(-1, layout.dim), _MAPPED)
        ]

    def whole(*leaves: Vector) -> Vector:
        joined = np.concatenate(leaves)
        return joined.reshape(flat.shape[:-1] + joined.shape[1:])

    return jax.tree.map(whole, *parts)
