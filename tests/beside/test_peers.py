"""One environment with PyMC 6, NumPyro, blackjax and ArviZ 1: all sample, and share a DataTree.

They are installed where the newest versions are tried (``make test-matrix``, ``.ci/run``), and
required there; elsewhere the tests are skipped.
"""

import os
from importlib.util import find_spec
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ornstein as orn
from ornstein._base.types import Vector
from ornstein.results.arviz import ess

NEEDED = ("arviz_plots", "blackjax", "numpyro", "pymc")
REQUIRED = os.environ.get("ORNSTEIN_REQUIRE_PEERS") == "1"

pytestmark = [
    pytest.mark.skipif(
        not REQUIRED and not all(map(find_spec, NEEDED)), reason=f"needs {', '.join(NEEDED)}"
    ),
    # Others' code meets strict promotion, key reuse and warnings as errors nowhere else.
    pytest.mark.filterwarnings("default"),
]

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 2))
Y = X @ [1.0, -0.5] + RNG.normal(size=200)
DRAWS = 1000


@pytest.fixture(scope="module")
def ours() -> orn.Result:
    return orn.sample(orn.models.linear(X, Y, noise_scale=1.0), draws=DRAWS, key=1)


@pytest.fixture(scope="module")
def theirs() -> Any:
    """The same posterior by PyMC."""
    import pymc

    with pymc.Model():
        coef = pymc.Normal("coef", 0.0, 1.0, shape=2)
        pymc.Normal("y", X @ coef, 1.0, observed=Y)
        return pymc.sample(DRAWS, chains=4, cores=1, random_seed=1, progressbar=False)


def agree(result: orn.Result, other: Vector) -> None:
    """Mean and spread of ours and of others' draws, in Monte-Carlo standard errors."""
    mine = np.asarray(result.draws["coef"])
    error = np.sqrt(1 / ess(mine) + 1 / ess(other))
    mean, sd = other.mean(axis=(0, 1)), other.std(axis=(0, 1))
    assert (np.abs(mine.mean(axis=(0, 1)) - mean) < 4 * sd * error).all()
    assert (np.abs(np.log(mine.std(axis=(0, 1)) / sd)) < 4 * error / np.sqrt(2)).all()


def test_pymc_samples_the_same_posterior(ours: orn.Result, theirs: Any) -> None:
    assert type(ours.to_arviz()) is type(theirs)
    agree(ours, np.asarray(theirs["posterior"]["coef"].transpose("chain", "draw", ...)))


def test_arviz_draws_both_in_one_picture(ours: orn.Result, theirs: Any) -> None:
    import arviz_plots

    trace = arviz_plots.plot_trace(ours.to_arviz(), backend="matplotlib")
    assert "trace" in trace.viz
    both = {"ornstein": ours.to_arviz(), "pymc": theirs}
    for tree in both.values():
        tree["posterior"] = (
            tree["posterior"]
            .to_dataset()
            .drop_vars([name for name in tree["posterior"].coords if name not in ("chain", "draw")])
        )
    forest = arviz_plots.plot_forest(both, backend="matplotlib")
    assert forest.viz["trunk"]["model"].values.tolist() == list(both)


def test_numpyro_and_blackjax_sample_beside_us(ours: orn.Result) -> None:
    import numpyro
    import numpyro.distributions as dist
    from numpyro.infer import MCMC, NUTS

    def model(x: Any, y: Any) -> None:
        coef = numpyro.sample("coef", dist.Normal(0.0, 1.0).expand([2]).to_event(1))
        with numpyro.plate("data", len(x)):
            numpyro.sample("y", dist.Normal(x @ coef, 1.0), obs=y)

    sampler = MCMC(NUTS(model), num_warmup=500, num_samples=DRAWS, num_chains=4, progress_bar=False)
    # NumPyro's own code was not written for these tests' strictness.
    with (
        jax.debug_key_reuse(False),
        jax.numpy_dtype_promotion("standard"),
        jax.numpy_rank_promotion("allow"),
    ):
        sampler.run(jax.random.key(3), jnp.asarray(X), jnp.asarray(Y))
    agree(ours, np.asarray(sampler.get_samples(group_by_chain=True)["coef"]))
    post = orn.from_numpyro(model, X, Y)
    for method in ("exact", "nuts"):  # ours, and blackjax's
        result = orn.sample(post, orn.plan(post, method), draws=DRAWS, key=2)
        summary = result.summary()
        assert (summary["r_hat"] < 1.02).all()
        off = np.abs(summary["mean"].to_numpy() - np.linalg.solve(X.T @ X + np.eye(2), X.T @ Y))
        assert (off < 4 * summary["mcse_mean"].to_numpy() + 1e-6).all()
