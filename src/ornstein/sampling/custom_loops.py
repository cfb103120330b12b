"""A plan in a custom loop: as ``init`` and ``step`` functions, or as an optax transformation."""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ornstein._base.checks import random_key, same_layout
from ornstein._base.errors import InputError
from ornstein._base.trees import Layout, cast, num_rows, to_device
from ornstein._base.types import Array, Key, PyTree, Vector
from ornstein.curvature.geometry import Geometry
from ornstein.data.batches import distinct_rows, weights_of
from ornstein.data.readers import Reader
from ornstein.linalg.operators import IDENTITY
from ornstein.models.chain_rule import ChainRule
from ornstein.models.posterior import Posterior
from ornstein.planning.plan_checks import refuse_other_engines
from ornstein.planning.planner import fitting
from ornstein.planning.plans import Plan
from ornstein.planning.rules.contract import Info, Inputs, Rule, State
from ornstein.sampling.loop import Loop, Problem, step_inputs

if TYPE_CHECKING:
    import optax

_DIRECTIONS = 4  # along which a loss's curvature is compared
_CURVATURE = 0.02  # relative error it may have
_DISTANCE = 0.1  # of its optimum from the plan's, in posterior standard deviations


class Rows(NamedTuple):
    """Numbers of a batch's rows, and their weights where they are not drawn alike."""

    numbers: Array
    weights: Array | None


class PlanKernel(NamedTuple):
    """A plan's kernel over the parameters' own pytree; all four are pure functions.

    Attributes
    ----------
    init
        ``(key, position) -> state``.
    step
        ``(key, state, batch, weights=None) -> (state, info)``; ``batch`` is ``batch_size`` rows of
        the posterior's data.
    read
        ``state -> draw``: its position, or for a plan of means of iterates the mean, which is ready
        every ``plan.thin`` steps.
    rows
        ``key -> Rows``: which rows the plan would take.
    """

    init: Callable[[Array, PyTree], State]
    step: Callable[..., tuple[State, Info]]
    read: Callable[[State], PyTree]
    rows: Callable[[Array], Rows]


def kernel(post: Posterior, plan: Plan) -> PlanKernel:
    """A plan's kernel, to be stepped in a custom loop.

    States are NamedTuples in the parameters' own pytree, keys are explicit, and batches are drawn
    by the caller: uniformly, as many rows as the plan's ``batch_size``, afresh at every step; an
    epoch loader only for a plan made for one (X7). Plans that draw rows by their leverage
    (``batches="weighted"``) take rows and weights from ``rows``.

    Parameters
    ----------
    post
        The posterior.
    plan
        From :func:`ornstein.plan`, for that posterior.

    Examples
    --------
    >>> import ornstein as orn
    >>> X = np.linspace(-1, 1, 200)[:, None]
    >>> post = orn.models.linear(X, np.sin(X[:, 0]))
    >>> kernel = orn.kernel(post, orn.plan(post, batch_size=20))
    >>> def step(state, key):
    ...     rows_key, step_key = jax.random.split(key)
    ...     index, weights = kernel.rows(rows_key)
    ...     batch = jax.tree.map(lambda leaf: jnp.asarray(leaf)[index], post.data)
    ...     state, info = kernel.step(step_key, state, batch, weights)
    ...     return state, kernel.read(state)
    >>> start = kernel.init(jax.random.key(0), {"coef": jnp.zeros(1)})
    >>> state, draws = jax.lax.scan(step, start, jax.random.split(jax.random.key(1), 100))
    >>> draws["coef"].shape
    (100, 1)
    """
    refuse_other_engines(plan)
    post = fitting(post, plan)
    layout, dtype = plan.layout, jnp.result_type(float)
    loop = Loop(
        model=ChainRule(post.model),
        reader=Reader(plan.batches, rows_last=False, packed=None),
        dim=plan.dim,
        thin=plan.thin,
        segment_draws=1,
        dtype=str(dtype),
    )
    hyper = ChainRule(post.model).constants(plan.center, IDENTITY, post.hyper, plan.anchored)
    problem = Problem.of(plan, IDENTITY, None, hyper, dtype)
    rule, inputs = problem.rule, step_inputs(loop, problem, to_device(plan.gain.astype(dtype)))
    center = jnp.asarray(plan.center, dtype)

    def shown(state: State) -> State:
        fields = {name: getattr(state, name) for name in rule.vectors}
        fields["position"] = center + fields["position"]
        return state._replace(**{name: layout.unravel(flat) for name, flat in fields.items()})

    def hidden(state: State) -> State:
        fields = {name: layout.vector(getattr(state, name)) for name in rule.vectors}
        fields["position"] = fields["position"] - center
        return state._replace(**fields)

    def init(key: Array, position: PyTree) -> State:
        del key  # no rule begins at random
        same_layout("position", position, layout)
        return shown(rule.begin(layout.vector(position).astype(dtype) - center))

    def step(
        key: Array, state: State, batch: PyTree, weights: Array | None = None
    ) -> tuple[State, Info]:
        _check_batch(batch, weights, post, plan)
        rows = jax.tree.map(lambda leaf: _in(leaf, dtype), batch)
        weighed = None if weights is None else _in(weights, dtype)
        noise = rule.noise(inputs, key, ())
        moved, info = rule.advance(inputs, hidden(state), (rows, weighed), noise)
        return shown(moved), Info(layout.unravel(info.gradient))

    def read(state: State) -> PyTree:
        return layout.unravel(center + rule.read(hidden(state)))

    return PlanKernel(init, step, read, _row_numbers(plan, dtype))


def _row_numbers(plan: Plan, dtype: Any) -> Callable[[Array], Rows]:
    """Draws rows as the plan does, but one batch at a time."""
    batches = plan.batches
    shape = (batches.batch_size,)
    multiplicity = None if plan.anchor is None else plan.anchor.multiplicity
    if multiplicity is not None:
        entries = jnp.asarray(np.repeat(np.arange(batches.num_data, dtype=np.int32), multiplicity))
        weights = jnp.asarray(weights_of(multiplicity), dtype)
    shuffled = jnp.asarray(np.random.default_rng(0).permutation(batches.num_data).astype(np.int32))

    def rows(key: Array) -> Rows:
        if batches.scheme == "epochs":
            raise InputError("the plan is for an epoch loader, which draws its rows in order.")
        if multiplicity is not None:
            index = entries[jax.random.randint(key, shape, 0, len(entries))]
            return Rows(index, weights[index])
        if batches.replacement:
            return Rows(jax.random.randint(key, shape, 0, batches.num_data), None)
        return Rows(distinct_rows(key, batches.batch_size, shuffled), None)

    return rows


def _in(leaf: Any, dtype: Any) -> Array:
    array = jnp.asarray(leaf)
    return array.astype(dtype) if jnp.issubdtype(array.dtype, jnp.floating) else array


def _check_batch(batch: PyTree, weights: Array | None, post: Posterior, plan: Plan) -> None:
    expected, found = (Layout.of(tree).treedef for tree in (post.data, batch))
    if found != expected:
        raise InputError(f"batch must be rows of the posterior's data, {expected}; found {found}.")
    if num_rows(batch) != plan.batch_size:
        raise InputError(
            f"batch has {num_rows(batch)} rows, and the plan was made for {plan.batch_size}."
        )
    if (weights is None) == (plan.batches.scheme == "weighted"):
        has = "has no weights" if weights is None else "has weights"
        raise InputError(
            f"batch {has}, and the plan's rows are {plan.batches.scheme}: take rows and weights "
            "from kernel.rows(key), or plan with batches='independent' and draw rows uniformly."
        )
    if weights is not None and np.shape(weights) != (plan.batch_size,):
        raise InputError(
            f"weights has shape {np.shape(weights)}, and the batch {plan.batch_size} rows."
        )


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
    refuse_other_engines(plan)
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

    def begun(dtype: Any) -> tuple[Rule, State]:
        """The rule, and its state at rest at zero."""
        rule: Rule = cast(plan.rule, dtype)
        return rule, rule.begin(jnp.zeros(layout.dim, dtype))

    def init(params: PyTree) -> TransformState:
        same_layout("params", params, layout)
        _, state = begun(_dtype(params))
        return TransformState(key, tuple(state[1:]))

    def update(
        updates: PyTree, state: TransformState, params: PyTree | None = None
    ) -> tuple[PyTree, TransformState]:
        del params
        same_layout("updates", updates, layout)
        dtype = _dtype(updates)
        rule, rest = begun(dtype)
        factor = None if root is None else root.astype(dtype)
        inputs = Inputs(lambda _, given: given, plan.gain.astype(dtype), factor, layout.dim, dtype)
        ahead, noise_key = jax.random.split(state.key)
        here, noise = type(rest)(rest.position, *state.memory), inputs.noise(noise_key, ())
        moved, _ = rule.advance(inputs, here, layout.vector(updates), noise)
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

    def gradient(flat: Array) -> Array:
        return layout.vector(jax.grad(loss)(layout.unravel(flat)))

    dtype = jnp.result_type(float)
    linearised, product = jax.linearize(gradient, jnp.asarray(geometry.center, dtype))
    slope = np.asarray(linearised, float)
    columns = [np.asarray(product(jnp.asarray(column, dtype)), float) for column in directions.T]
    curvature, wanted = np.stack(columns, axis=1), A @ directions

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
