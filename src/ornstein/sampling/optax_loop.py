"""A plan's update as an optax transformation, and what can be said of the loss behind it."""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ornstein._base.checks import random_key, same_layout
from ornstein._base.errors import InputError
from ornstein._base.trees import Layout, cast
from ornstein._base.types import Array, Key, PyTree, Vector
from ornstein.curvature.geometry import Geometry
from ornstein.planning.plans import Plan
from ornstein.planning.rules import Inputs, Kernel

if TYPE_CHECKING:
    import optax

_DIRECTIONS = 4  # along which a loss's curvature is compared
_CURVATURE = 0.02  # relative error it may have
_DISTANCE = 0.1  # of its optimum from the plan's, in posterior standard deviations


class TransformState(NamedTuple):
    """The key of the noise to come, and what the kernel remembers beside the position."""

    key: Array
    memory: tuple[Array, ...]


def as_optax(
    plan: Plan, key: Key = 0, loss: Callable[[PyTree], Any] | None = None
) -> "optax.GradientTransformation":
    """A plan's update as an optax transformation: a training loop with it becomes the sampler.

    The loop must give the gradient, over ``batch_size`` rows drawn at random at every step, of

        mean over the batch of ``-log p(x_n | theta)``, less ``(1/N) log p(theta)``.

    Nothing is scaled here. With an epoch loader's batches the draws come out too narrow (X7),
    unless the plan was made for one (``batches="epochs"``).

    Parameters
    ----------
    plan
        From :func:`ornstein.plan`.
    key
        Of the injected noise; it is kept in the state. One for each chain.
    loss
        ``params -> loss`` of the loop, over all rows: its slope and curvature at the optimum are
        compared with the plan's, so that a sum in place of a mean, or a missing prior, is found
        before the run.

    Raises
    ------
    InputError
        Where the update needs more than a gradient: control variates, a running estimate of the
        noise, means of iterates; or where ``loss`` is not the posterior's.

    Examples
    --------
    >>> import ornstein as orn
    >>> X = np.linspace(-1, 1, 200)[:, None]
    >>> post = orn.models.linear(X, np.sin(X[:, 0]))
    >>> plan = orn.plan(post, batch_size=20, control_variates=False)
    >>> optimiser = orn.as_optax(plan, key=1, loss=lambda params: post.loss(params, post.data))
    >>> params = {"coef": jnp.zeros(1)}
    >>> state = optimiser.init(params)
    >>> updates, state = optimiser.update({"coef": jnp.ones(1)}, state)
    >>> updates["coef"].shape
    (1,)
    """
    if not isinstance(plan, Plan):
        raise InputError(f"plan must be made by ornstein.plan, found {type(plan).__name__}.")
    if not plan.is_chain:
        raise InputError(f"method={plan.method!r} makes no steps of SGD; use method='exact'.")
    if plan.control_variates:
        raise InputError(
            "the plan anchors its gradients at the optimum, which a loop of plain gradients does "
            "not. Plan with control_variates=False, or use ornstein.kernel."
        )
    if plan.rule.beyond_optax is not None:
        raise InputError(
            f"the plan needs {plan.rule.beyond_optax}, beyond optax: use ornstein.kernel."
        )
    if loss is not None:
        check_loss(loss, plan.layout, plan.geometry)
    return _transformation(plan, random_key(key))


def _transformation(plan: Plan, key: Array) -> "optax.GradientTransformation":
    """From a gradient to the move of the rule's kernel, over the layout's pytree."""
    import optax  # takes long to import

    layout = plan.layout
    root = None if plan.injected_cov is None else plan.injected_cov.sqrt()

    def begun(dtype: Any) -> tuple[Kernel, Any]:
        """The kernel of a gradient that is given, at rest at zero."""
        noise = None if root is None else root.astype(dtype)
        inputs = Inputs(lambda _, given: given, plan.gain.astype(dtype), noise, layout.dim, dtype)
        kernel = cast(plan.rule, dtype).kernel(inputs)
        return kernel, kernel.init(key, jnp.zeros(layout.dim, dtype))

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


def check_loss(loss: Callable[[PyTree], Any], layout: Layout, geometry: Geometry) -> None:
    """Raise unless a loss over all rows has the posterior's slope and curvature at the optimum."""
    if geometry.structure != "dense":
        raise InputError(
            f"loss can be compared with a dense curvature only, and the plan's is "
            f"{geometry.structure}; leave loss out."
        )
    A, N, D = geometry.hessian.dense(geometry.dim), geometry.num_data, geometry.dim
    root = np.linalg.cholesky(A)
    rng = np.random.default_rng(0)
    # Directions in which the loss curves alike.
    directions = np.linalg.solve(root.T, rng.normal(size=(D, _DIRECTIONS)) / math.sqrt(N))
    slope, curvature = _slope_and_curvature(loss, layout, geometry.center, directions)
    wanted = A @ directions

    def size(vectors: Vector) -> float:
        return float(np.linalg.norm(np.linalg.solve(root, vectors)))

    tolerance = max(_CURVATURE, 3 * geometry.relative_error)
    if not size(curvature - wanted) <= tolerance * size(wanted):
        prior = geometry.prior_hessian.dense(D) @ directions
        ratio = float((directions * curvature).sum() / (directions * wanted).sum())
        raise InputError(_mistake(ratio, N, size(curvature + prior - wanted) < 0.1 * size(prior)))
    distance = math.sqrt(N / D) * size(slope - geometry.gradient)
    if not distance <= max(_DISTANCE, 3 * geometry.relative_error):
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
