"""The same chains by other JAX libraries, as their documentation has them written.

Both draw a batch by ``jax.random.randint``, take the gradient of a log-likelihood by ``jax.grad``
and compile the whole run as a ``lax.scan``; an inner scan makes the steps between kept iterates,
and several chains run under ``vmap``.
"""

from collections.abc import Callable
from time import perf_counter
from typing import Any, TypeAlias

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import optax

from benchmarks.interleave import Contestant
from benchmarks.workloads import THIN, Workload

Batch: TypeAlias = tuple[jax.Array, jax.Array]
Start: TypeAlias = Callable[[jax.Array], Any]
Step: TypeAlias = Callable[[jax.Array, Any, Batch], Any]

_LOG_LIKELIHOODS: dict[str, Callable[[jax.Array, jax.Array], jax.Array]] = {
    "linear": lambda eta, y: -0.5 * (eta - y) ** 2,
    "logistic": lambda eta, y: -optax.sigmoid_binary_cross_entropy(eta, y),
    "softmax": lambda eta, y: -optax.softmax_cross_entropy(eta, y),
}


def blackjax_sgld(work: Workload, steps: int) -> Contestant:
    """``blackjax.sgld`` with its own estimator of the gradient."""

    def log_likelihood(theta: jax.Array, row: Batch) -> jax.Array:
        x, y = row
        return _LOG_LIKELIHOODS[work.family](x @ theta.T, y)

    gradient = blackjax.sgmcmc.gradients.grad_estimator(_log_prior, log_likelihood, len(work.X))
    sgld = blackjax.sgld(gradient)
    step_size = work.step_size / len(work.X)

    def step(key: jax.Array, theta: jax.Array, batch: Batch) -> jax.Array:
        return sgld.step(key, theta, batch, step_size)

    return _contestant(work, steps, sgld.init, step)


def optax_sgd(work: Workload, steps: int, labels: bool = False) -> Contestant:
    """``optax.sgd`` on the mean loss of a batch.

    Softmax by default in the faster of two forms, weights (K, D) against rows of 0 and 1; with
    ``labels`` as first written, weights (D, K) against whole numbers.
    """
    optimiser = optax.sgd(work.step_size)

    def loss(theta: jax.Array, batch: Batch) -> jax.Array:
        x, y = batch
        if labels:
            each = -optax.softmax_cross_entropy_with_integer_labels(x @ theta, y)
        else:
            each = _LOG_LIKELIHOODS[work.family](x @ theta.T, y)
        return -each.mean() - _log_prior(theta) / len(work.X)

    def step(key: jax.Array, state: Any, batch: Batch) -> Any:
        del key
        theta, memory = state
        updates, memory = optimiser.update(jax.grad(loss)(theta, batch), memory)
        return optax.apply_updates(theta, updates), memory

    return _contestant(work, steps, lambda theta: (theta, optimiser.init(theta)), step, labels)


def _log_prior(theta: jax.Array) -> jax.Array:
    return -0.5 * (theta**2).sum()


def _contestant(
    work: Workload, steps: int, start: Start, step: Step, labels: bool = False
) -> Contestant:
    """A compiled run of all chains, kept iterates and all."""
    X = jnp.asarray(work.X)
    y, theta = jnp.asarray(work.y, X.dtype), jnp.zeros(X.shape[1])
    if labels:
        y, theta = jnp.asarray(work.y, jnp.int32), jnp.zeros((X.shape[1], work.outputs))
    elif work.family == "softmax":
        y, theta = jax.nn.one_hot(work.y, work.outputs), jnp.zeros((work.outputs, X.shape[1]))

    def chain(key: jax.Array) -> jax.Array:
        def one(state: Any, key: jax.Array) -> tuple[Any, None]:
            batch_key, step_key = jax.random.split(key)
            index = jax.random.randint(batch_key, (work.batch_size,), 0, len(X))
            return step(step_key, state, (X[index], y[index])), None

        def keep(state: Any, key: jax.Array) -> tuple[Any, jax.Array]:
            state, _ = jax.lax.scan(one, state, jax.random.split(key, THIN))
            return state, jax.tree.leaves(state)[0]

        return jax.lax.scan(keep, start(theta), jax.random.split(key, steps // THIN))[1]

    run = jax.jit(jax.vmap(chain))
    keys = jax.random.split(jax.random.key(0), work.chains)

    def rate() -> float:
        began = perf_counter()
        kept = run(keys).block_until_ready()
        seconds = perf_counter() - began
        if not np.isfinite(kept[:, -1]).all():
            raise FloatingPointError(f"{work.name} diverged at step size {work.step_size}")
        return kept.shape[0] * kept.shape[1] * THIN / seconds

    return rate
