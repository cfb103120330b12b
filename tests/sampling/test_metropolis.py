"""Rotation steps that pass a Metropolis test with all rows: the posterior itself (X11)."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import ornstein as orn
from ornstein.models.local import Anchored, Minibatch
from ornstein.planning import planner
from ornstein.planning.rules import Rotation
from ornstein.results.measure import min_ess
from support.problems import as_generic, zoo

EVENTS, EXPOSURE = 3.0, 2.0
SHARES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)


def log_rates() -> orn.Posterior:
    """Two log rates of few events: exponentials of gamma variates, far from Gaussian."""

    def log_likelihood(params: Any, row: Any) -> Any:
        return jnp.sum(row * (EVENTS * params - EXPOSURE * jnp.exp(params)))

    def flat(params: Any) -> Any:
        return 0.0 * jnp.sum(params)

    return orn.Posterior(log_likelihood, flat, np.full((10, 2), 0.1), np.zeros(2))


def assert_gamma(draws: Any, within: float = 4.0) -> None:
    """Shares below the exact quantiles, of chains' draws (chains, draws, 2)."""
    exact = np.log(scipy.stats.gamma(EVENTS, scale=1 / EXPOSURE).ppf(SHARES))
    below = (draws[..., None] < exact).astype(float)
    for parameter in range(2):
        for index, share in enumerate(SHARES):
            own = below[:, :, parameter, index]
            error = np.sqrt(share * (1 - share) / min_ess(own[..., None]))
            assert abs(own.mean() - share) < within * error, (parameter, share)


@pytest.mark.parametrize(("angle", "kicks"), [(np.pi / 2, 1), (0.6, 1), (0.4, 4)])
def test_X11_tested_steps_draw_from_the_posterior_itself(angle: float, kicks: int) -> None:
    post = log_rates()
    options: dict[str, Any] = {"batch_size": 10, "angle": angle, "control_variates": False}
    plan = planner.plan(post, "rotation", metropolis=True, kicks=kicks, **options)
    result = orn.sample(post, plan, key=1, draws=8000, dtype="float64")
    assert_gamma(result.flat)
    stayed = (np.diff(result.flat, axis=1) == 0).all(axis=-1).mean()
    assert 0 < stayed < 0.5
    if angle < 1:  # where steps that are not tested are nearly right too
        return
    untested = planner.plan(post, "rotation", **options)
    with pytest.raises(AssertionError):
        assert_gamma(orn.sample(post, untested, key=1, draws=8000, dtype="float64").flat)


def test_X11_tests_are_made_in_the_parameters_own_coordinates_too() -> None:
    """Where the gain is a matrix and not the identity."""
    post = log_rates()
    options: dict[str, Any] = {"batch_size": 10, "control_variates": False, "metropolis": True}
    kernel = orn.kernel(post, planner.plan(post, "rotation", **options))
    state = kernel.init(jax.random.key(0), jnp.zeros(2))

    def chain(key: jax.Array) -> jax.Array:
        def step(state: Any, key: jax.Array) -> Any:
            state, _ = kernel.step(key, state, post.data)
            return state, kernel.read(state)

        return jax.lax.scan(step, state, jax.random.split(key, 4000))[1]

    with jax.debug_key_reuse(False):  # of keys that a scan takes one by one
        draws = np.asarray(jax.jit(jax.vmap(chain))(jax.random.split(jax.random.key(1), 4)))
    assert_gamma(draws[:, 100:])


def test_X11_a_step_to_where_the_loss_is_not_a_number_is_refused() -> None:
    def log_likelihood(params: Any, row: Any) -> Any:
        return row * (2 * jnp.log(params[0]) - 2 * params[0])

    post = orn.Posterior(log_likelihood, lambda params: 0.0 * params[0], np.ones(2), np.ones(1))
    plan = planner.plan(post, "rotation", batch_size=2, metropolis=True)
    result = orn.sample(post, plan, key=0, draws=2000, dispersion=0.0)
    assert result.status.ok
    assert (result.flat > 0).all()
    exact = scipy.stats.gamma(5.0, scale=1 / 4)
    error = exact.std() / np.sqrt(min_ess(result.flat))
    assert abs(result.flat.mean() - exact.mean()) < 4 * error


def separated(dim: int) -> orn.Posterior:
    """A logistic regression whose columns separate the classes: far from Gaussian."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, dim))
    return orn.models.logistic(X, X[:, 0] > 0, prior_precision=0.05)


@pytest.mark.slow
@pytest.mark.pilot
def test_X11_steps_of_several_kicks_where_single_ones_are_refused() -> None:
    post = separated(20)
    plan = orn.plan(post)
    assert isinstance(plan.rule, Rotation)
    assert plan.rule.kicks > 1
    assert "times by" in str(plan)
    result = orn.sample(post, plan, key=1)
    assert result.summary()["r_hat"].max() < 1.02
    assert orn.check(post, result.flat).verdict == "ok"


@pytest.mark.pilot
def test_steps_are_tested_where_parameters_are_too_many_to_be_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for place in ("judged", "pilots"):
        monkeypatch.setattr(f"ornstein.api.{place}.MATRICES", 19)
    plan = orn.plan(separated(20))
    assert isinstance(plan.rule, Rotation)
    assert plan.rule.is_tested
    assert plan.rule.kicks > 1
    assert plan.predicted_error is None
    assert "more than" in plan.unmeasured


def test_tests_need_all_rows() -> None:
    post = zoo(rows=200)["logistic"]
    with pytest.raises(orn.InputError, match="batch_size=200 and leave batches out"):
        orn.plan(post, "rotation", batch_size=20, metropolis=True)
    with pytest.raises(orn.InputError, match="metropolis"):
        orn.plan(post, "rotation", batch_size=200, metropolis="yes")
    with pytest.raises(orn.InputError, match="kicks=4 are of steps that pass a Metropolis test"):
        orn.plan(post, "rotation", kicks=4)
    with pytest.raises(orn.InputError, match="below pi, half a turn; found 4 \\(4 kicks\\)"):
        orn.plan(post, "rotation", batch_size=200, metropolis=True, angle=1.0, kicks=4)
    plan = planner.retuned(planner.plan(post, batches="weighted"), 200, metropolis=True)
    assert plan.batches.scheme == "windows"
    assert isinstance(plan.rule, Rotation)
    assert plan.rule.tested == 200


@pytest.mark.parametrize("name", ["linear", "logistic", "softmax", "poisson"])
@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize("order", [0, 1, 2])
def test_the_loss_of_a_minibatch_has_its_gradient(name: str, closed: bool, order: int) -> None:
    post = zoo(rows=60, intercept=True)[name]
    post = post if closed else as_generic(post)
    known = orn.geometry(post, post.layout.unravel(np.full(post.dim, 0.05)))
    slope, hessian = 60 * known.gradient, known.precision.dense(post.dim)
    anchored = (None, Anchored(slope), Anchored(slope, hessian))[order]
    root = known.covariance.sqrt()
    local = post.model.localise(known.center, root, post.hyper, np.float64, anchored)
    folded = jax.tree.map(lambda leaf: jnp.asarray(leaf[:40]), local.fold(post.data))
    if local.model.rows_last:
        folded = jax.tree.map(lambda leaf: jnp.moveaxis(leaf, 0, -1), folded)
    batch = Minibatch(folded, jnp.linspace(0.5, 1.5, 40), 40, 60)
    z = jnp.asarray(np.random.default_rng(1).normal(size=post.dim))

    def loss(z: jax.Array) -> jax.Array:
        return local.model.minibatch_loss(z, batch, local.hyper)

    found = local.model.minibatch_gradient(z, batch, local.hyper)
    np.testing.assert_allclose(jax.grad(loss)(z), found, rtol=1e-7, atol=1e-9)
    assert abs(loss(jnp.zeros_like(z))) < 1e-12
