"""Other ways to a posterior: ``(problem, fit, settings) -> record`` each.

All start at the optimum, and the search for it counts as their setup.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from time import perf_counter

import jax
import jax.numpy as jnp
import numpy as np

import ornstein as orn
from benchmarks.fit import Fit
from benchmarks.nuts import nuts, nuts_given_metric
from benchmarks.problems import Problem
from benchmarks.score import Advance, Record, Settings, accuracy, grow, marginal_kl
from benchmarks.svi import svi
from ornstein._base.trees import cast, to_device
from ornstein._base.types import Array, PyTree, Vector

__all__ = ["laplace", "nuts", "nuts_given_metric", "sgld", "svi"]

_GRID = tuple(4.0**-k for k in range(1, 7))  # of the largest stable step
_THIN = 50  # steps of SGLD per kept draw
_BLOCK = 64  # draws of a dispatch, at most
_THREADS = 2


def laplace(problem: Problem, fit: Fit, settings: Settings) -> Record:
    """Draws of the Gaussian at the optimum, and nothing more."""
    del problem
    rng = np.random.default_rng(settings.key)
    record = Record(compile=fit.compile_seconds, setup=fit.seconds)
    began = perf_counter()
    factor = fit.factor
    record.setup += perf_counter() - began

    def advance(count: int) -> Vector:
        return fit.center + rng.normal(size=(settings.chains, count, len(factor))) @ factor.T

    grow(advance, record, fit, settings)
    return record


def sgld(problem: Problem, fit: Fit, settings: Settings) -> Record:
    """SGLD at the best of six constant steps, each tried for a sixth of the budget.

    The best has the least divergence, or the least sum of marginal ones where the draws of a trial
    are fewer than the parameters.
    """
    chains = _Sgld(problem, fit, settings)
    largest = 4 / np.linalg.eigvalsh(fit.precision)[-1]
    short = replace(settings, budget=settings.budget / len(_GRID))
    tried, marginal, tuning = [], [], 0.0
    for share in _GRID:
        trial = Record()
        grow(chains.start(largest * share), trial, fit, short)
        tuning += trial.sampling
        tried.append(accuracy(trial.draws, fit).kl)
        marginal.append(marginal_kl(trial.draws, fit))
    tried = tried if np.isfinite(tried).any() else marginal
    best = _GRID[int(np.argmin(tried))]
    record = Record(compile=chains.compile_seconds, setup=fit.optimum_seconds + tuning)
    grow(chains.start(largest * best), record, fit, settings)
    steps = record.draws.shape[0] * record.draws.shape[1] * _THIN
    record.gradients, record.rows = steps, steps * problem.batch_size
    record.details |= {
        "tuning_seconds": tuning,
        "step_size": largest * best,
        "share_of_stable": best,
        "grid_kl": dict(zip(map(str, _GRID), tried, strict=True)),
    }
    return record


class _Sgld:
    """Compiled chains of ``theta <- theta + eps/2 grad log p + sqrt(eps) normal``."""

    def __init__(self, problem: Problem, fit: Fit, settings: Settings) -> None:
        post = problem.post
        self.keys = list(jax.random.split(jax.random.key(settings.key), settings.chains))
        self.rows = to_device(cast(post.data, np.float32))
        self.hyper = to_device(cast(post.hyper, np.float32))
        self.theta = jnp.asarray(fit.center, jnp.float32)
        self.pool = ThreadPoolExecutor(_THREADS)
        run = jax.jit(partial(self._some_draws, post, problem.batch_size))
        began = perf_counter()
        args = (self.rows, self.hyper, self.keys[0], self.theta, jnp.float32(1), jnp.asarray(1))
        self.run = run.lower(*args).compile()
        self.compile_seconds = perf_counter() - began

    def start(self, step_size: float) -> Advance:
        """Chains at the optimum."""
        eps, made = jnp.float32(step_size), 0
        positions = [self.theta] * len(self.keys)

        def advance(count: int) -> Vector:
            nonlocal positions, made
            count, made = min(count, _BLOCK), made + 1

            def one(key: Array, theta: Array) -> tuple[Vector, Array]:
                key = jax.random.fold_in(key, made)
                kept, last = self.run(self.rows, self.hyper, key, theta, eps, jnp.asarray(count))
                return np.asarray(kept, float)[:count], last

            parts = list(self.pool.map(one, self.keys, positions))
            positions = [last for _, last in parts]
            return np.stack([kept for kept, _ in parts])

        return advance

    @staticmethod
    def _some_draws(
        post: orn.Posterior,
        S: int,
        rows: PyTree,
        hyper: PyTree,
        key: Array,
        theta: Array,
        eps: Array,
        count: Array,
    ) -> tuple[Array, Array]:
        N, D = post.num_data, post.dim

        def step(theta: Array, random: tuple[Array, Array]) -> tuple[Array, None]:
            chosen, noise = random
            batch = jax.tree.map(lambda leaf: leaf[chosen], rows)
            gradient = N / S * post.model.gradient_sum(theta, batch, hyper)
            gradient += post.model.prior_gradient(theta, hyper)
            return theta - 0.5 * eps * gradient + jnp.sqrt(eps) * noise, None

        def draw(i: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
            theta, kept = carry
            which, noise = jax.random.split(jax.random.fold_in(key, i))
            chosen = jax.random.randint(which, (_THIN, S), 0, N)
            ready = chosen, jax.random.normal(noise, (_THIN, D), theta.dtype)
            theta, _ = jax.lax.scan(step, theta, ready)
            return theta, kept.at[i].set(theta)

        kept = jnp.zeros((_BLOCK, D), theta.dtype)
        theta, kept = jax.lax.fori_loop(0, count, draw, (theta, kept))
        return kept, theta
