"""Full-rank Gaussian variational inference by NumPyro, on subsampled rows.

Adam, its step annealed from 0.01 to 0.00001 by a constant factor; then again over twice as many
steps, from where it stands. It stops when two annealings in a row end within 0.01 nats of each
other, or when its time is up.
"""

from functools import partial
from itertools import count
from time import perf_counter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import optax
from numpyro.infer import SVI, Trace_ELBO, init_to_value
from numpyro.infer.autoguide import AutoMultivariateNormal
from numpyro.optim import optax_to_numpyro

import ornstein as orn
from benchmarks.clock import once
from benchmarks.fit import Fit
from benchmarks.problems import Problem
from benchmarks.score import Record, Settings, gaussian_accuracy
from ornstein._base.types import Array, PyTree, Vector
from ornstein.models.families import Bernoulli, Categorical, Gaussian
from ornstein.theory import gaussian_kl

_FIRST_STEP, _LAST_STEP = 1e-2, 1e-5
_ROUND = 500  # steps of a dispatch
_ROUNDS = 4  # of the first annealing
_SETTLED = 0.01  # nats


def svi(problem: Problem, fit: Fit, settings: Settings) -> Record:
    """Fit a full-rank Gaussian, starting at the optimum."""
    post, batch_size = problem.post, problem.batch_size
    rows = {name: jnp.asarray(leaf) for name, leaf in _single(post.data).items()}
    model = partial(_model, post, batch_size)
    start = {"theta": jnp.asarray(fit.center, jnp.float32)}
    guide = AutoMultivariateNormal(model, init_loc_fn=init_to_value(values=start))
    adam = optax.inject_hyperparams(optax.adam)(learning_rate=_FIRST_STEP)
    inference = SVI(model, guide, optax_to_numpyro(adam), Trace_ELBO())

    def one_round(rows: PyTree, state: Any, key: Array, step_sizes: Array) -> Any:
        def one(state: Any, this: tuple[Array, Array]) -> tuple[Any, None]:
            key, step_size = this
            chosen = jax.random.randint(key, (batch_size,), 0, post.num_data)
            batch = jax.tree.map(lambda leaf: leaf[chosen], rows)
            return inference.update(_with_step_size(state, step_size), batch)[0], None

        return jax.lax.scan(one, state, (jax.random.split(key, _ROUND), step_sizes))[0]

    key = jax.random.key(settings.key)
    began = perf_counter()
    state = inference.init(key, jax.tree.map(lambda leaf: leaf[:batch_size], rows))
    some = jnp.zeros(_ROUND, jnp.float32)
    advance = jax.jit(one_round).lower(rows, state, key, some).compile()
    record = Record(compile=perf_counter() - began, setup=fit.optimum_seconds)
    made, settled = 0, False
    last = _moments(inference.get_params(state))
    for rounds in (_ROUNDS * 2**k for k in count()):
        for step_sizes in _annealing(rounds):
            made += 1
            state, seconds = once(
                lambda state=state, made=made, step_sizes=step_sizes: advance(
                    rows, state, jax.random.fold_in(key, made), step_sizes
                )
            )
            record.setup += seconds
        record.gaussian = _moments(inference.get_params(state))
        if record.reached_seconds is None and gaussian_accuracy(*record.gaussian, fit).reached:
            record.reached_seconds = record.setup
        settled = gaussian_kl(last[1], record.gaussian[1], last[0] - record.gaussian[0]) < _SETTLED
        last = record.gaussian
        spent = record.setup - fit.optimum_seconds
        if settled or 3 * spent > settings.budget:  # the next annealing takes twice as long
            break
    record.gradients, record.rows = made * _ROUND, made * _ROUND * batch_size
    record.details |= {"steps": made * _ROUND, "settled": bool(settled)}
    if not settled:
        record.details["note"] = "stopped at the time limit, before its own stopping rule"
    return record


def _annealing(rounds: int) -> Array:
    """Step sizes, one row per dispatch."""
    return jnp.geomspace(_FIRST_STEP, _LAST_STEP, rounds * _ROUND).reshape(rounds, _ROUND)


def _with_step_size(state: Any, step_size: Array) -> Any:
    index, (params, adam) = state.optim_state
    adam = adam._replace(hyperparams=adam.hyperparams | {"learning_rate": step_size})
    return state._replace(optim_state=(index, (params, adam)))


def _single(data: dict[str, Vector]) -> dict[str, Vector]:
    """Numbers in single precision; labels as they are."""
    return {
        name: leaf.astype(np.float32) if leaf.dtype.kind == "f" or name == "x" else leaf
        for name, leaf in data.items()
    }


def _moments(params: dict[str, Array]) -> tuple[Vector, Vector]:
    L = np.asarray(params["auto_scale_tril"], float)
    return np.asarray(params["auto_loc"], float), L @ L.T


def _model(post: orn.Posterior, batch_size: int, batch: PyTree) -> None:
    """The regression in NumPyro's words; ``batch`` holds a subsample of the rows."""
    scale = jnp.asarray(post.hyper["prior_precision"] ** -0.5, jnp.float32)
    theta = numpyro.sample("theta", dist.Normal(jnp.zeros_like(scale), scale).to_event(1))
    family = post.model.family
    if isinstance(family, Categorical):
        eta = batch["x"] @ theta.reshape(family.outputs, -1).T
    else:
        eta = batch["x"] @ theta
    with numpyro.plate("rows", post.num_data, subsample_size=batch_size):
        if isinstance(family, Gaussian):
            likelihood = dist.Normal(eta, jnp.asarray(post.hyper["noise_scale"], jnp.float32))
        elif isinstance(family, Bernoulli):
            likelihood = dist.BernoulliLogits(eta)
        else:
            likelihood = dist.CategoricalLogits(eta)
        numpyro.sample("y", likelihood, obs=batch["y"])
