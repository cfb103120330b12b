"""Exact or nearly exact samplers of others, with and without subsampling, for the duels.

Each prepares a posterior once and then makes rounds of draws. Chains that need a start have the
optimum; its cost, and that of the Hessian, is part of their setup.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from operator import attrgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import HMCECS, MCMC, NUTS

import ornstein as orn
from benchmarks.fit import Fit
from benchmarks.foreign.driver import call
from ornstein._base.types import Array, Vector

CHAINS = 2
_SUBSAMPLE = 1000  # rows, and blocks of them, as in NumPyro's own example of HMCECS
_BLOCKS = 100


class Round(NamedTuple):
    """Draws (chains, draws, D), the seconds they took without warm-up, and rows evaluated.

    ``setup`` is what a round of this sampler does before its first kept draw.
    """

    draws: Vector
    seconds: float
    rows: float
    setup: float = 0.0


class Prepared(NamedTuple):
    """What makes a round of draws from its number, and the seconds of setup."""

    round: Callable[[int], Round]
    setup: float


class Sampler(Protocol):
    """Prepares a posterior, of which the Gaussian at the optimum is known, for rounds of draws."""

    def __call__(self, post: orn.Posterior, fit: Fit, draws: int, warmup: int) -> Prepared:
        """Draws and warm-up are those of a chain."""
        ...


class Unavailable(Exception):  # noqa: N818 - a fact, not an error
    """Why a sampler cannot be run here."""


def numpyro_nuts(post: orn.Posterior, fit: Fit, draws: int, warmup: int) -> Prepared:
    """NumPyro's NUTS on all rows, metric and step size learned by window adaptation."""

    def model(X: Array, y: Array) -> None:
        coef = _prior(post)
        with numpyro.plate("rows", post.num_data):
            numpyro.sample("y", dist.Bernoulli(logits=X @ coef), obs=y)

    return _numpyro(NUTS(model), post, fit, draws, warmup, "num_steps", post.num_data)


def hmcecs(post: orn.Posterior, fit: Fit, draws: int, warmup: int) -> Prepared:
    """NumPyro's HMCECS: NUTS on a thousand rows with a Taylor proxy of second order."""

    def model(X: Array, y: Array) -> None:
        coef = _prior(post)
        with numpyro.plate("rows", post.num_data, subsample_size=_SUBSAMPLE):
            rows = numpyro.subsample(X, event_dim=1)
            labels = numpyro.subsample(y, event_dim=0)
            numpyro.sample("y", dist.Bernoulli(logits=rows @ coef), obs=labels)

    proxy = HMCECS.taylor_proxy({"coef": jnp.asarray(fit.center, jnp.float32)})
    kernel = HMCECS(NUTS(model), num_blocks=_BLOCKS, proxy=proxy)
    return _numpyro(kernel, post, fit, draws, warmup, "hmc_state.num_steps", _SUBSAMPLE)


def _prior(post: orn.Posterior) -> Array:
    scale = float(np.ravel(post.hyper["prior_precision"])[0]) ** -0.5
    return numpyro.sample("coef", dist.Normal(0.0, scale).expand([post.dim]).to_event(1))


def _numpyro(
    kernel: Any,
    post: orn.Posterior,
    fit: Fit,
    draws: int,
    warmup: int,
    steps: str,
    rows: int,
) -> Prepared:
    """Chains on threads, in single precision, from the optimum.

    ``MCMC.run`` compiles its loop at every call, so rounds have a loop of their own.
    """
    X = jnp.asarray(post.data["x"], jnp.float32)
    y = jnp.asarray(post.data["y"], jnp.float32)
    mcmc = MCMC(
        kernel,
        num_warmup=warmup,
        num_samples=1,
        num_chains=CHAINS,
        chain_method="sequential",
        progress_bar=False,
    )
    start = {"coef": jnp.tile(jnp.asarray(fit.center, jnp.float32), (CHAINS, 1))}
    began = perf_counter()
    mcmc.warmup(jax.random.key(0), X, y, init_params=start)
    warming = perf_counter() - began
    states = [jax.tree.map(lambda leaf, i=i: leaf[i], mcmc.last_state) for i in range(CHAINS)]

    @jax.jit
    def some(state: Any, X: Array, y: Array) -> tuple[Any, tuple[Array, Array]]:
        def one(state: Any, _: None) -> tuple[Any, tuple[Array, Array]]:
            state = kernel.sample(state, (X, y), {})
            return state, (state.z["coef"], attrgetter(steps)(state))

        return jax.lax.scan(one, state, None, length=draws)

    def round_of(number: int) -> Round:
        nonlocal states
        del number
        began = perf_counter()
        with ThreadPoolExecutor(CHAINS) as pool:
            made = list(pool.map(lambda state: jax.block_until_ready(some(state, X, y)), states))
        seconds = perf_counter() - began
        states = [state for state, _ in made]
        draws = np.stack([np.asarray(coef, float) for _, (coef, _) in made])
        return Round(draws, seconds, rows * sum(float(count.sum()) for _, (_, count) in made))

    return Prepared(round_of, fit.seconds + warming)


def mh_ss(post: orn.Posterior, fit: Fit, draws: int, warmup: int) -> Prepared:
    """``PyMHSS`` in an environment of its own; one chain of random-walk proposals.

    Rows are at most as many: those of proposals that its first stage rejects are counted, too.
    """
    del warmup

    def one(number: int) -> Round:
        with TemporaryDirectory() as folder:
            np.savez(
                Path(folder) / "rows.npz",
                X=np.asarray(post.data["x"], float),
                y=np.asarray(post.data["y"], float),
                optimum=fit.center,
                cov=fit.cov,
                draws=draws,
                seed=number,
            )
            said = call("pymhss", "pymhss_draws", folder)
            if "unavailable" in said:
                raise Unavailable(str(said["unavailable"]))
            found = np.load(Path(folder) / "draws.npy")
        seconds, rows, setup = (float(str(said[part])) for part in ("seconds", "rows", "setup"))
        return Round(found[None], seconds, rows, setup)

    return Prepared(one, fit.seconds)
