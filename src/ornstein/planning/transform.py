"""A plan's update as an optax transformation, and what can be said of the loss behind it."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from ornstein._base.checks import same_layout
from ornstein._base.errors import InputError
from ornstein._base.trees import Layout, cast
from ornstein._base.types import Array, PyTree, Vector
from ornstein.curvature.estimation import Geometry
from ornstein.linalg.operators import Operator
from ornstein.planning.kernels import Kernel, rules

_DIRECTIONS = 4  # along which a loss's curvature is compared
_CURVATURE = 0.02  # relative error it may have
_DISTANCE = 0.1  # of its optimum from the plan's, in posterior standard deviations


class TransformState(NamedTuple):
    """The key of the noise to come, and what the kernel remembers beside the position."""

    key: Array
    memory: tuple[Array, ...]


def transformation(
    layout: Layout,
    rule: str,
    constants: PyTree,
    gain: Operator,
    injected_cov: Operator | None,
    key: Array,
) -> optax.GradientTransformation:
    """The transformation from a gradient to a kernel's move, over the layout's pytree."""
    root = None if injected_cov is None else injected_cov.sqrt()

    def begun(dtype: Any) -> tuple[Kernel, Any]:
        """The kernel of a gradient that is given, at rest at zero."""
        noise = None if root is None else root.astype(dtype)
        built = rules.build(
            rule,
            lambda _, gradient: gradient,
            layout.dim,
            dtype,
            gain.astype(dtype),
            noise,  # type: ignore[arg-type]
            cast(constants, dtype),
        )
        return built, built.init(key, jnp.zeros(layout.dim, dtype))

    def init(params: PyTree) -> TransformState:
        same_layout("params", params, layout)
        _, state = begun(_dtype(params))
        return TransformState(key, tuple(state[1:]))

    def update(
        updates: PyTree, state: TransformState, params: PyTree | None = None
    ) -> tuple[PyTree, TransformState]:
        del params
        same_layout("updates", updates, layout)
        kernel, rest = begun(_dtype(updates))
        here = type(rest)(rest.position, *state.memory)
        ahead, noise_key = jax.random.split(state.key)
        moved, _ = kernel.step(noise_key, here, layout.vector(updates))
        made = jax.tree.map(
            lambda new, old: new.astype(old.dtype), layout.unravel(moved.position), updates
        )
        return made, TransformState(ahead, tuple(moved[1:]))

    return optax.GradientTransformation(init, update)


def _dtype(tree: PyTree) -> Any:
    """The precision of parameters or their gradient."""
    dtype = jnp.result_type(*jax.tree.leaves(tree))
    return dtype if jnp.issubdtype(dtype, jnp.floating) else jnp.result_type(float)


def check_loss(loss: Callable[[PyTree], Any], layout: Layout, known: Geometry) -> None:
    """Raise unless a loss over all rows has the posterior's slope and curvature at the optimum."""
    if known.structure != "dense":
        raise InputError(
            f"loss can be compared with a dense curvature only, and the plan's is "
            f"{known.structure}; leave loss out."
        )
    A, N, D = known.hessian, known.num_data, len(known.center)
    root = np.linalg.cholesky(A)
    rng = np.random.default_rng(0)
    # Directions in which the loss curves alike.
    directions = np.linalg.solve(root.T, rng.normal(size=(D, _DIRECTIONS)) / math.sqrt(N))
    slope, curvature = _slope_and_curvature(loss, layout, known.center, directions)
    wanted = A @ directions

    def size(vectors: Vector) -> float:
        return float(np.linalg.norm(np.linalg.solve(root, vectors)))

    tolerance = max(_CURVATURE, 3 * known.relative_error)
    if not size(curvature - wanted) <= tolerance * size(wanted):
        prior = known.prior_hessian @ directions
        ratio = float((directions * curvature).sum() / (directions * wanted).sum())
        raise InputError(_mistake(ratio, N, size(curvature + prior - wanted) < 0.1 * size(prior)))
    distance = math.sqrt(N / D) * size(slope - known.gradient)
    if not distance <= max(_DISTANCE, 3 * known.relative_error):
        raise InputError(
            f"loss has its minimum {distance:.2g} posterior standard deviations from the plan's "
            "optimum: it must be the posterior's loss over the rows of the plan."
        )


def _slope_and_curvature(
    loss: Callable[[PyTree], Any], layout: Layout, center: Vector, directions: Vector
) -> tuple[Vector, Vector]:
    """Gradient (D,), and the Hessian's products with the columns of ``directions``."""
    dtype = jnp.result_type(float)

    def gradient(flat: Array) -> Array:
        return layout.vector(jax.grad(loss)(layout.unravel(flat)))

    here = jnp.asarray(center, dtype)
    slope, product = jax.linearize(gradient, here)
    columns = [np.asarray(product(jnp.asarray(column, dtype)), float) for column in directions.T]
    return np.asarray(slope, float), np.stack(columns, axis=1)


def _mistake(ratio: float, num_data: int, without_prior: bool) -> str:
    found = f"loss has {ratio:.3g} times the curvature of the posterior's mean loss"
    if without_prior:
        return f"{found}, as if without its prior: add -(1/N) log p(theta), N = {num_data}."
    if abs(ratio / num_data - 1) < 0.1:
        return f"{found}, the number of rows: give the mean over rows, not the sum."
    return (
        f"{found}: give the mean over all rows of -log p(x_n | theta), less (1/N) log p(theta), "
        f"N = {num_data}."
    )
