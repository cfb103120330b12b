"""NUTS on all rows, by blackjax: the reference for posteriors that are not Gaussian.

Chains move in the coordinates z of ``theta = theta* + W z``, ``W W' = (N A)^-1``, in which the
posterior is near a standard normal and window adaptation begins near its end. Every chain adapts by
itself, on a thread: mapped together, all would wait for the longest trajectory.
"""

import os
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Lock
from time import perf_counter
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ornstein._base import extras
from ornstein._base.errors import DivergenceWarning
from ornstein._base.precision import double_precision
from ornstein._base.trees import cast, to_device
from ornstein._base.types import Array, PyTree, Vector
from ornstein.curvature.row_sums import block_rows
from ornstein.data.passes import blocks
from ornstein.linalg.operators import Factor
from ornstein.models.contract import Model
from ornstein.models.posterior import Posterior
from ornstein.planning.plans import Plan
from ornstein.sampling.engines.laplace import local_root
from ornstein.sampling.settings import OpenProgress, Run, Settings, Status

_BUFFER = 64  # draws of a dispatch, at most


def run(post: Posterior, plan: Plan, key: Array, settings: Settings, progress: OpenProgress) -> Run:
    """Adapt and draw, in float64; the plan's option is ``tune``, the steps of adaptation.

    ``steps`` counts gradients over all rows, a chain's on average. ``path`` holds, for every chain,
    ``gradients``, ``step_size`` and ``divergences`` (after adaptation).
    """
    extras.require("reference", "method='nuts'")
    began = perf_counter()
    tune = plan.options.get("tune", 500)
    factor = local_root(plan)
    with double_precision():
        problem = _problem(post, plan.center, factor)
    total = tune + settings.draws
    with (
        ThreadPoolExecutor(min(settings.chains, os.cpu_count() or 1)) as pool,
        progress(total) as report,
    ):
        lock, done = Lock(), 0

        def count(steps: int) -> None:
            nonlocal done
            with lock:
                done += steps
                report(done // settings.chains, total)

        one = partial(_run_chain, post.model, problem, tune, settings, key, count)
        draws, chains = zip(*pool.map(one, range(settings.chains)), strict=True)
    flat = plan.center + np.asarray(factor.matvec(np.stack(draws)))
    names = "gradients", "step_size", "divergences"
    path = {name: np.array([getattr(chain, name) for chain in chains], float) for name in names}
    status = _ending(draws, chains)
    steps = -(-int(path["gradients"].sum()) // settings.chains)
    return Run(flat if status.ok else flat[:, :0], status, steps, perf_counter() - began, path)


class Density(NamedTuple):
    """Arrays of the density: rows and their weights in blocks, and where z lies."""

    rows: PyTree
    weights: Array
    hyper: PyTree
    center: Array
    factor: Factor


class NutsChain(NamedTuple):
    """Where a chain is, its tuning, and counts since the beginning."""

    state: Any
    step_size: Array
    inverse_mass: Array
    gradients: Array
    divergences: Array


def _problem(post: Posterior, center: Vector, factor: Factor) -> Density:
    """All rows on the device, in double precision, cut where gradients would not fit memory."""
    parts = list(blocks(cast(post.data, np.float64), block_rows(post)))
    rows = jax.tree.map(lambda *leaves: np.stack(leaves), *(rows for rows, _ in parts))
    weights = np.stack([weights for _, weights in parts])
    return to_device(Density(rows, weights, post.hyper, center, factor))  # type: ignore[arg-type]


def _run_chain(
    model: Model,
    problem: Density,
    tune: int,
    settings: Settings,
    key: Array,
    count: Callable[[int], None],
    number: int,
) -> tuple[Vector, NutsChain]:
    """The draws (draws, D) of one chain by z, from an over-dispersed start, and its end."""
    key = jax.random.fold_in(key, number)
    start_key, tune_key, draw_key = (jax.random.fold_in(key, i) for i in range(3))
    with double_precision():
        normal = jax.random.normal(start_key, problem.center.shape, np.float64)
        chain = _adapt(model, tune, problem, tune_key, settings.dispersion * normal)
        count(tune)
        kept = []
        for first in range(0, settings.draws, _BUFFER):
            size = min(_BUFFER, settings.draws - first)
            span = np.asarray([first, first + size])
            z, chain = _draw(model, problem, draw_key, chain, span)
            kept.append(np.asarray(z)[:size])
            count(size)
    return np.concatenate(kept), chain


@partial(jax.jit, static_argnums=(0, 1))
def _adapt(model: Model, tune: int, problem: Density, key: Array, start: Array) -> NutsChain:
    """Window adaptation of step size and diagonal metric."""
    import blackjax
    from blackjax.adaptation.base import get_filter_adapt_info_fn

    adaptation = blackjax.window_adaptation(
        blackjax.nuts,
        partial(_log_density, model, problem),
        adaptation_info_fn=get_filter_adapt_info_fn(info_keys={"num_integration_steps"}),
    )
    (state, tuned), trace = adaptation.run(key, start, num_steps=tune)
    gradients = trace.info.num_integration_steps.sum()
    none = jnp.zeros_like(gradients)
    return NutsChain(state, tuned["step_size"], tuned["inverse_mass_matrix"], gradients, none)


@partial(jax.jit, static_argnums=(0,))
def _draw(
    model: Model, problem: Density, key: Array, chain: NutsChain, span: Array
) -> tuple[Array, NutsChain]:
    """The draws of a span of numbers, at the head of a buffer of fixed length."""
    import blackjax

    density = partial(_log_density, model, problem)
    kernel = blackjax.nuts(density, chain.step_size, chain.inverse_mass)

    def one(number: Array, carry: tuple[Array, NutsChain]) -> tuple[Array, NutsChain]:
        kept, chain = carry
        state, info = kernel.step(jax.random.fold_in(key, number), chain.state)
        chain = chain._replace(
            state=state,
            gradients=chain.gradients + info.num_integration_steps,
            divergences=chain.divergences + info.is_divergent,
        )
        return kept.at[number - span[0]].set(state.position), chain

    kept = jnp.zeros((_BUFFER, chain.state.position.size), chain.state.position.dtype)
    return jax.lax.fori_loop(span[0], span[1], one, (kept, chain))


def _log_density(model: Model, problem: Density, z: Array) -> Array:
    """``log p(theta, data)``."""
    theta = problem.center + problem.factor.matvec(z)
    return -_loss(model, theta, problem) - model.prior_loss(theta, problem.hyper)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _loss(model: Model, theta: Array, problem: Density) -> Array:
    """``-log p(data | theta)``, block by block."""
    return _loss_and_slope(model, theta, problem)[0]


def _loss_and_slope(model: Model, theta: Array, problem: Density) -> tuple[Array, Array]:
    def add(sums: PyTree, block: tuple[PyTree, Array]) -> tuple[PyTree, None]:
        rows, weights = block

        def loss(theta: Array) -> Array:
            return weights @ model.losses(theta, rows, problem.hyper)

        return jax.tree.map(jnp.add, sums, jax.value_and_grad(loss)(theta)), None

    nothing = jnp.zeros((), theta.dtype), jnp.zeros_like(theta)
    sums, _ = jax.lax.scan(add, nothing, (problem.rows, problem.weights))
    return sums


def _backward(model: Model, slope: Array, change: Array) -> tuple[Array, None]:
    del model
    return change * slope, None


_loss.defvjp(_loss_and_slope, _backward)


def _ending(draws: Sequence[Vector], chains: Sequence[NutsChain]) -> Status:
    """Whether all chains could move; warns of trajectories that diverged."""
    for number, (z, chain) in enumerate(zip(draws, chains, strict=True)):
        if not (np.isfinite(chain.state.logdensity) and np.isfinite(z).all()):
            return Status(
                False,
                f"the density is not finite where chain {number} is: there are no draws. Try "
                "starts nearer the optimum (dispersion=1), or a tighter prior.",
                number,
                kind="diverged",
            )
    diverged = sum(int(chain.divergences) for chain in chains)
    if diverged:
        warnings.warn(
            f"{diverged} of {sum(map(len, draws)):,} NUTS trajectories diverged: the draws may "
            "miss a part of the posterior. A stronger prior helps, or a larger tune, or parameters "
            "in which the posterior's curvature varies less.",
            DivergenceWarning,
            stacklevel=5,
        )
    return Status(True, "ok")
