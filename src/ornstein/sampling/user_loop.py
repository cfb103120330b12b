"""A plan as ``init`` and ``step`` functions, for a custom loop."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from ornstein._base.checks import same_layout
from ornstein._base.errors import InputError
from ornstein._base.trees import Layout, num_rows, to_device
from ornstein._base.types import Array, PyTree
from ornstein.data.batches import distinct_rows, weights_of
from ornstein.data.readers import Reader
from ornstein.linalg.operators import IDENTITY
from ornstein.models.contract import ChainRule
from ornstein.models.posterior import Posterior
from ornstein.planning.planner import fitting
from ornstein.planning.plans import Plan
from ornstein.planning.rules import Info
from ornstein.planning.rules.contract import State
from ornstein.sampling.loop import Loop, Problem, build_kernel


class Rows(NamedTuple):
    """Numbers of a batch's rows, and their weights where they are not drawn alike."""

    numbers: Array
    weights: Array | None


class Step(Protocol):
    """One step."""

    def __call__(
        self, key: Array, state: State, batch: PyTree, weights: Array | None = None
    ) -> tuple[State, Info]:
        """Move."""


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
    step: Step
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
    if not isinstance(plan, Plan):
        raise InputError(f"plan must be made by ornstein.plan, found {type(plan).__name__}.")
    post = fitting(post, plan)
    if not plan.is_chain:
        raise InputError(f"method={plan.method!r} makes no steps of SGD; use method='exact'.")
    layout, dtype = plan.layout, jnp.result_type(float)
    loop = Loop(
        model=ChainRule(post.model),
        reader=Reader(plan.batches, rows_last=False, packed=None),
        dim=plan.dim,
        thin=plan.thin,
        segment_draws=1,
        dtype=str(dtype),
    )
    hyper = ChainRule(post.model).constants(plan.center, IDENTITY, post.hyper, plan.anchor_slope)
    problem = Problem.of(plan, IDENTITY, None, hyper, dtype)
    inner = build_kernel(loop, problem, to_device(plan.gain.astype(dtype)))
    center = jnp.asarray(plan.center, dtype)

    def shown(state: State) -> State:
        fields = {name: getattr(state, name) for name in inner.vectors}
        fields["position"] = center + fields["position"]
        return state._replace(**{name: layout.unravel(flat) for name, flat in fields.items()})

    def hidden(state: State) -> State:
        fields = {name: layout.vector(getattr(state, name)) for name in inner.vectors}
        fields["position"] = fields["position"] - center
        return state._replace(**fields)

    def init(key: Array, position: PyTree) -> State:
        same_layout("position", position, layout)
        return shown(inner.init(key, layout.vector(position).astype(dtype) - center))

    def step(
        key: Array, state: State, batch: PyTree, weights: Array | None = None
    ) -> tuple[State, Info]:
        _check_batch(batch, weights, post, plan)
        rows = jax.tree.map(lambda leaf: _in(leaf, dtype), batch)
        weighed = None if weights is None else _in(weights, dtype)
        moved, info = inner.step(key, hidden(state), (rows, weighed))
        return shown(moved), Info(layout.unravel(info.gradient))

    def read(state: State) -> PyTree:
        return layout.unravel(center + inner.read(hidden(state)))

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
