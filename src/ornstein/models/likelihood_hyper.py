"""Hyperparameters that the rows' log-likelihood takes: drawn as parameters on the real line.

Others need no rows to be drawn, given the parameters (X13). These do, and the steps of the
parameters read rows already.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ornstein._base.errors import InputError
from ornstein._base.precision import double_precision
from ornstein._base.types import Array, PyTree
from ornstein.models import custom
from ornstein.models.hyper_priors import HyperPrior
from ornstein.models.hyperparameters import Constraint
from ornstein.models.posterior import Posterior


class _Split(NamedTuple):
    """Which hyperparameters, by name, are parameters; the others stay what they are."""

    treedef: Any
    constraints: Mapping[str, Constraint]
    moved: tuple[str, ...]

    def whole(self, params: PyTree, rest: Mapping[str, Any]) -> PyTree:
        """All hyperparameters, in their own structure."""
        free = params["hyper"]
        leaves = [
            self.constraints[name].from_real(free[name]) if name in free else rest[name]
            for name in self.constraints
        ]
        return jax.tree.unflatten(self.treedef, leaves)

    def log_slope(self, params: PyTree) -> Array:
        """Logarithm of the map's slope from the real line, summed."""
        parts = []
        for name, free in params["hyper"].items():
            _, slope = jax.jvp(self.constraints[name].from_real, (free,), (jnp.ones_like(free),))
            parts.append(jnp.log(jnp.abs(slope)).sum())
        return sum(parts[1:], start=parts[0])


def as_parameters(post: Posterior, hyper_prior: HyperPrior) -> Posterior:
    """The posterior of parameters and those hyperparameters, ``{"params": ..., "hyper": ...}``.

    Draws keep the parameters' own structure; ``post.every_hyper`` has all hyperparameters.
    """
    if hyper_prior is None or not callable(hyper_prior):
        raise InputError(
            "hyper='draw' needs hyper_prior, the log-density of the hyperparameters' own prior: a "
            "function of their values, such as lambda sigma: -jnp.log(sigma)."
        )
    learnable = post.learnable
    names = learnable.layout.leaf_names()
    values = dict(zip(names, jax.tree.leaves(post.hyperparameters), strict=True))
    constraints = dict(zip(names, learnable.constraints, strict=True))
    depends = custom.hyper_in_likelihood(post.model, post.hyper, post.data)
    moved = tuple(name for name, is_there in zip(names, depends, strict=True) if is_there)
    kept = {name: value for name, value in values.items() if name not in moved}
    split = _Split(learnable.layout.treedef, constraints, moved)
    # Plain variables, not attributes: arrays that functions capture are found by variable.
    whole, log_slope = split.whole, split.log_slope
    their_likelihood, their_prior, their_map = post.log_likelihood, post.log_prior, post.constrain

    def log_likelihood(params: PyTree, row: PyTree, rest: PyTree = None) -> Array:
        return their_likelihood(params["params"], row, whole(params, rest))

    def log_prior(params: PyTree, rest: PyTree = None) -> Array:
        hyper = whole(params, rest)
        return their_prior(params["params"], hyper) + hyper_prior(hyper) + log_slope(params)

    def every_hyper(params: PyTree, rest: PyTree = None) -> PyTree:
        return whole(params, rest)

    def constrain(params: PyTree, rest: PyTree = None) -> PyTree:
        if their_map is None:
            return params["params"]
        return their_map(params["params"], whole(params, rest))

    with double_precision():
        free = {name: np.asarray(constraints[name].to_real(values[name]), float) for name in moved}
    start = {"params": post.init, "hyper": free}
    rest: dict[str, Any] = {}
    if kept:
        ranges = {name: _range(constraints[name]) for name in kept}
        rest = {"hyper": kept, "constraints": ranges, "hyper_prior": in_the_prior}
    joint = Posterior(log_likelihood, log_prior, post.data, start, constrain=constrain, **rest)
    joint.every_hyper = every_hyper
    return joint


def in_the_prior(hyper: PyTree) -> float:
    """A hyperprior of nothing, where the log-prior has the hyperparameters' density, too."""
    del hyper
    return 0.0


def _range(constraint: Constraint) -> Any:
    """As a posterior takes it."""
    return constraint.name if constraint.name != "custom" else constraint[1:]
