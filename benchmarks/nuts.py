"""NUTS by blackjax on all rows.

Two chains, each on a thread: every chain warms up by itself, so more of them would cost more.
Mapping chains by ``vmap`` would make all wait for the longest trajectory, and on large problems its
gradients take longer than one chain's after another (a million rows of ten columns: six times).
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import Any, NamedTuple, TypeAlias

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
from blackjax.adaptation.base import AdaptationInfo
from blackjax.adaptation.step_size import dual_averaging_adaptation

import ornstein as orn
from benchmarks.clock import median_seconds, once
from benchmarks.density import centred
from benchmarks.fit import Fit
from benchmarks.problems import Problem
from benchmarks.score import Record, Settings, grow
from ornstein._base.types import Array, PyTree, Vector

CHAINS = 2
_WARMUP = 1000  # steps of window adaptation
_STEP_WARMUP = 50  # steps that tune the step size where the metric is given
_DENSE = 100  # parameters up to which window adaptation learns a dense metric
_BLOCK = 256  # draws of a dispatch, at most
_ACCEPTANCE = 0.8
_LEAST_LEAPFROGS = 3  # of a trajectory, for the least that a warm-up can take

Target: TypeAlias = Callable[[Array], Array]


class Tuned(NamedTuple):
    """A chain and its tuning; ``leapfrogs`` counts the last stretch."""

    state: Any
    step_size: Array
    inverse_mass: Array
    leapfrogs: Array


def nuts(problem: Problem, fit: Fit, settings: Settings) -> Record:
    """NUTS from the optimum, metric and step size learned by window adaptation."""
    return _run(problem.post, fit, settings, given_metric=False)


def nuts_given_metric(problem: Problem, fit: Fit, settings: Settings) -> Record:
    """NUTS at its best: Laplace's covariance is its metric, only the step size is tuned."""
    return _run(problem.post, fit, settings, given_metric=True)


def _run(post: orn.Posterior, fit: Fit, settings: Settings, given_metric: bool) -> Record:
    rows, density = centred(post, fit.center)
    factor = jnp.asarray(fit.factor, jnp.float32)

    def target(data: PyTree) -> Target:
        rows, factor = data
        return lambda z: density(rows, factor @ z if given_metric else z)

    def warm_up(data: PyTree, key: Array, z: Array) -> Tuned:
        return (_tune_step if given_metric else _tune_all)(target(data), key, z)

    def some(data: PyTree, key: Array, tuned: Tuned, count: Array) -> tuple[Array, Tuned]:
        return _some_draws(target(data), key, tuned, count)

    data, start = (rows, factor), jnp.zeros(post.dim, jnp.float32)
    gradient = jax.jit(lambda data, z: jax.value_and_grad(target(data))(z))
    seconds = median_seconds(lambda: gradient(data, start))
    record = Record(details={"gradient_seconds": seconds})
    steps = _STEP_WARMUP if given_metric else _WARMUP
    least = steps * _LEAST_LEAPFROGS * seconds
    if least > settings.budget:
        record.details["note"] = (
            f"not run: {steps} steps of warm-up take at least {least:,.0f} s, "
            f"{_LEAST_LEAPFROGS} gradients of {seconds:.2g} s each"
        )
        return record

    keys = jax.random.split(jax.random.key(settings.key), CHAINS)
    began = perf_counter()
    prepared = jax.jit(warm_up).lower(data, keys[0], start).compile()
    tuned = jax.eval_shape(warm_up, data, keys[0], start)
    drawn = jax.jit(some).lower(data, keys[0], tuned, jnp.asarray(1)).compile()
    record.compile = perf_counter() - began

    with ThreadPoolExecutor(CHAINS) as pool:
        chains, warming = once(lambda: list(pool.map(lambda key: prepared(data, key, start), keys)))
        record.setup = warming + (fit.seconds if given_metric else fit.optimum_seconds)
        warm = sum(int(chain.leapfrogs) for chain in chains)
        leapfrogs = 0

        def advance(count: int) -> Vector:
            nonlocal chains, keys, leapfrogs
            count = min(count, _BLOCK)
            keys = jax.vmap(jax.random.fold_in, in_axes=(0, None))(keys, 1)

            def one(key: Array, chain: Tuned) -> tuple[Vector, Tuned]:
                kept, chain = drawn(data, key, chain, jnp.asarray(count))
                return np.asarray(kept, float)[:count], chain

            parts = list(pool.map(one, keys, chains))
            chains = [chain for _, chain in parts]
            leapfrogs += sum(int(chain.leapfrogs) for chain in chains)
            positions = np.stack([kept for kept, _ in parts])
            return fit.center + (positions @ fit.factor.T if given_metric else positions)

        grow(advance, record, fit, settings)
    made = record.draws.shape[0] * record.draws.shape[1]
    record.gradients = leapfrogs
    record.rows = leapfrogs * post.num_data
    record.details |= {"leapfrogs_per_draw": leapfrogs / made, "warmup_gradients": warm}
    return record


def _tune_all(target: Target, key: Array, z: Array) -> Tuned:
    """Window adaptation of metric and step size."""
    warmup = blackjax.window_adaptation(
        blackjax.nuts,
        target,
        is_mass_matrix_diagonal=len(z) > _DENSE,
        target_acceptance_rate=_ACCEPTANCE,
        adaptation_info_fn=_leapfrogs_only,
    )
    (state, known), info = warmup.run(key, z, num_steps=_WARMUP)
    return Tuned(state, known["step_size"], known["inverse_mass_matrix"], info.info.sum())


def _leapfrogs_only(state: Any, info: Any, adaptation: Any) -> AdaptationInfo:
    del state, adaptation
    return AdaptationInfo(None, info.num_integration_steps, None)


def _tune_step(target: Target, key: Array, z: Array) -> Tuned:
    """Dual averaging of the step size; the metric is the identity in z."""
    unit = jnp.ones_like(z)
    init, update, final = dual_averaging_adaptation(_ACCEPTANCE)

    def one(carry: tuple[Any, Any], key: Array) -> tuple[tuple[Any, Any], Array]:
        state, averaging = carry
        kernel = blackjax.nuts(target, jnp.exp(averaging.log_step_size), unit)
        state, info = kernel.step(key, state)
        return (state, update(averaging, info.acceptance_rate)), info.num_integration_steps

    start = blackjax.nuts(target, 1.0, unit).init(z)
    first = init(jnp.asarray(len(z) ** -0.25, z.dtype))
    keys = jax.random.split(key, _STEP_WARMUP)
    (state, averaging), leapfrogs = jax.lax.scan(one, (start, first), keys)
    return Tuned(state, final(averaging), unit, leapfrogs.sum())


def _some_draws(target: Target, key: Array, tuned: Tuned, count: Array) -> tuple[Array, Tuned]:
    """``count`` draws, at the head of a buffer of fixed length."""
    kernel = blackjax.nuts(target, tuned.step_size, tuned.inverse_mass)

    def one(i: Array, carry: tuple[Any, Array, Array]) -> tuple[Any, Array, Array]:
        state, leapfrogs, kept = carry
        state, info = kernel.step(jax.random.fold_in(key, i), state)
        leapfrogs += info.num_integration_steps
        return state, leapfrogs, kept.at[i].set(state.position)

    kept = jnp.zeros((_BLOCK, len(tuned.state.position)), tuned.state.position.dtype)
    none = jnp.zeros_like(tuned.leapfrogs)
    state, leapfrogs, kept = jax.lax.fori_loop(0, count, one, (tuned.state, none, kept))
    return kept, tuned._replace(state=state, leapfrogs=leapfrogs)
