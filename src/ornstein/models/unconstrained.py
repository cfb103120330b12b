"""Draws as vectors of parameters on the real line, whichever form they are given in."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ornstein._base.checks import shown
from ornstein._base.errors import InputError
from ornstein._base.precision import double_precision
from ornstein._base.trees import Layout
from ornstein._base.types import Array, PyTree, Vector
from ornstein.models import custom
from ornstein.models.posterior import Posterior

_COMPARED = 10  # draws at which unconstrain is tried
_SAME = 1e-4  # of a draw, as single precision may have left it
_WHAT = "draws must hold parameters as the posterior samples them, (chains, draws, D)"
_WHERE = "Of a Result, give result.flat; of NumPyro's MCMC, get_samples(group_by_chain=True)."


class Vectors(NamedTuple):
    """Draws of all chains, (T, D), with those of hyperparameters on the real line, (T, m)."""

    flat: Vector
    eta: Vector | None = None

    @property
    def joined(self) -> Vector:
        """Both side by side."""
        parts = [self.flat] if self.eta is None else [self.flat, self.eta]
        return np.concatenate(parts, axis=1)


def as_vectors(post: Posterior, draws: Any) -> Vectors:
    """An array of parameters, a pytree of them, or of what ``post.constrain`` makes of them."""
    if isinstance(draws, np.ndarray | jax.Array):
        return Vectors(_of_array(post, np.asarray(draws)))
    layout, values = _stacked(_leaves(draws))
    if post.constrain is not None:
        return _unconstrained(post, layout, values)
    if layout != post.layout:
        raise InputError(
            f"{_WHAT}; found {shown(layout.leaf_names())} of shapes {layout.shapes}, expected "
            f"{shown(post.layout.leaf_names())} of shapes {post.layout.shapes}."
        )
    return Vectors(_of_array(post, values))


def _leaves(draws: Any) -> PyTree:
    """A data set of xarray as a dict of its variables; anything else as it is."""
    if hasattr(draws, "data_vars"):
        return {str(name): np.asarray(array) for name, array in draws.data_vars.items()}
    return draws


def _stacked(draws: PyTree) -> tuple[Layout, Vector]:
    """The layout of one of many values, and all in one array (chains, draws, n)."""
    try:
        one = Layout.of(jax.tree.map(lambda leaf: np.asarray(leaf)[0, 0], draws))
        leaves = [np.asarray(leaf, float) for leaf in jax.tree.leaves(draws)]
    except (IndexError, TypeError, ValueError) as error:
        raise InputError(f"{_WHAT}; found {shown(draws)}. {_WHERE}") from error
    if len({leaf.shape[:2] for leaf in leaves}) > 1:
        found = ", ".join(str(leaf.shape[:2]) for leaf in leaves)
        raise InputError(f"{_WHAT}, as many of each parameter; found {found}.")
    flat = [leaf.reshape(*leaf.shape[:2], -1) for leaf in leaves]
    if not flat:
        raise InputError(f"{_WHAT}; found {shown(draws)}. {_WHERE}")
    return one, np.concatenate(flat, axis=-1)


def _of_array(post: Posterior, array: Vector) -> Vector:
    if array.dtype.kind not in "fiu" or array.ndim not in (2, 3) or array.shape[-1] != post.dim:
        raise InputError(
            f"{_WHAT} or (draws, D) with D = {post.dim}; found shape {array.shape} of "
            f"{array.dtype}."
        )
    return _finite(array.reshape(-1, post.dim).astype(float))


def _finite(flat: Vector) -> Vector:
    if not np.isfinite(flat).all():
        raise InputError("draws has NaN or infinite values. Leave those draws out.")
    return flat


def _unconstrained(post: Posterior, layout: Layout, values: Vector) -> Vectors:
    """Draws of constrained values on the real line, by the function that undoes ``constrain``."""
    undo = post.unconstrain
    if undo is None:
        raise InputError(
            f"{_WHAT}, before they are constrained: result.flat or result.unconstrained. Or give "
            "the posterior unconstrain=, a function that undoes constrain."
        )
    flat = _finite(values.reshape(-1, values.shape[-1]))
    found = _parts(post, custom.map_vectors(undo, layout, flat), len(flat))
    eta = None if found.eta is None else found.eta[:_COMPARED]
    some = Vectors(found.flat[:_COMPARED], eta)
    again = post.constrained(some.flat, some.eta)
    there = Layout.of(jax.tree.map(lambda leaf: leaf[0], again))
    _, stacked = _stacked(jax.tree.map(lambda leaf: leaf[None], again))
    back = _parts(post, custom.map_vectors(undo, there, stacked[0]), len(some.flat))
    if not np.allclose(some.joined, back.joined, rtol=_SAME, atol=_SAME):
        raise InputError("unconstrain does not undo constrain: their product moves a draw.")
    return found


def _parts(post: Posterior, found: PyTree, count: int) -> Vectors:
    """Parameters, and hyperparameters on the real line, of what ``unconstrain`` returned."""
    if post.hyperparameters is None:
        return Vectors(_finite(_flat("params", found, post.layout, count)))
    if not isinstance(found, tuple) or len(found) != 2:
        raise InputError("unconstrain must return (params, hyper), as the posterior has a hyper.")
    params, hyper = found
    learnable = post.learnable
    values = _flat("hyper", hyper, learnable.layout, count)
    with double_precision():
        eta = np.asarray(jax.vmap(_real(post))(jnp.asarray(values)))
    return Vectors(_finite(_flat("params", params, post.layout, count)), _finite(eta))


def _real(post: Posterior) -> Callable[[Array], Array]:
    """One vector of hyperparameters on the real line."""
    layout, constraints = post.learnable.layout, post.learnable.constraints

    def real(values: Array) -> Array:
        pairs = zip(constraints, jax.tree.leaves(layout.unravel(values)), strict=True)
        return jnp.concatenate([jnp.ravel(each.to_real(leaf)) for each, leaf in pairs])

    return real


def _flat(name: str, found: PyTree, layout: Layout, count: int) -> Vector:
    """Values of many draws as vectors, after checking their structure."""
    one = Layout.of(jax.tree.map(lambda leaf: leaf[0], found))
    if one != layout:
        raise InputError(
            f"unconstrain must return {name} {shown(layout.leaf_names())} of shapes "
            f"{layout.shapes}; found {shown(one.leaf_names())} of shapes {one.shapes}."
        )
    leaves = [np.asarray(leaf, float).reshape(count, -1) for leaf in jax.tree.leaves(found)]
    return np.concatenate(leaves, axis=1)
