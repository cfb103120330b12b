"""Large crossed groupings in turn: against dense arrows, and the same posterior."""

from dataclasses import replace
from resource import RUSAGE_SELF, getrusage
from time import perf_counter, process_time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit

import ornstein as orn
from ornstein.curvature.arrow_anchor import around
from ornstein.curvature.arrow_sums import predictor
from ornstein.curvature.turns_anchor import coupling, find_turns, left_by_round
from ornstein.models import Effects
from ornstein.models.random_effects.posterior import MixedPosterior
from ornstein.models.random_effects.turns import Place
from ornstein.planning.mixed import plan_mixed
from ornstein.results.arviz import ess
from ornstein.sampling.mixed import turns
from ornstein.sampling.mixed.coordinates import Around
from support.mixed_models import autodiff, prior_precision
from support.sizes import set_heads


def crossed(family: str, rows: int = 1500, g: int = 30, h: int = 20) -> MixedPosterior:
    """Two large groupings, the first with slopes, and a small one."""
    rng = np.random.default_rng(4)
    first, second, third = (rng.integers(0, levels, rows) for levels in (g, h, 3))
    X = rng.normal(size=(rows, 1))
    eta = 0.3 + 0.5 * X[:, 0] + (0.8 * rng.normal(size=g))[first]
    eta += 0.4 * X[:, 0] * rng.normal(size=g)[first] + (0.5 * rng.normal(size=h))[second]
    if family == "gaussian":
        y = eta + rng.normal(size=rows)
    else:
        y = (rng.uniform(size=rows) < expit(eta)).astype(float)
    groups = {"g": Effects(first, slopes=(0,)), "h": Effects(second), "k": Effects(third)}
    return orn.models.mixed(X, y, groups, family, sample_weight=rng.uniform(0.5, 1.5, rows))


@pytest.fixture
def in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    set_heads(monkeypatch, cheap=0, per_row=0, beside=8)


@pytest.mark.usefixtures("in_turn")
@pytest.mark.parametrize("family", ["gaussian", "bernoulli"])
def test_X14_a_turns_slopes_follow_the_held_effects(family: str) -> None:
    """Those computed anew of a Gaussian family; of others to second order."""
    post = crossed(family, 300)
    anchor = find_turns(post)
    plan = plan_mixed(post)
    arounds, every = jax.tree.map(jnp.asarray, turns.prepared(post, plan, anchor, "float64"))
    step = 1.0 if family == "gaussian" else 1e-4
    rng = np.random.default_rng(0)
    place = Place.of(post.specification, anchor.phi, anchor.b)
    for number, model in enumerate(anchor.models):
        turn, part = model.turn, anchor.parts[number]
        moved = list(place.effects)
        for held in turn.held:
            moved[held] = moved[held] + step * rng.normal(size=moved[held].shape)
        own = model.given(place._replace(effects=tuple(moved)))
        expected = Around.of(own, around(own, part.phi, part.b, part.lam, 0, None), "float64")
        found, chunks = every.rows[number].given(
            turn.spec, arounds[number], tuple(jnp.asarray(moved[held]) for held in turn.held)
        )
        exact: dict[str, Any] = (
            {"rtol": 1e-9, "atol": 1e-9} if family == "gaussian" else {"atol": 1e-5}
        )
        np.testing.assert_allclose(found.slope_phi, expected.slope_phi, **exact)
        np.testing.assert_allclose(found.slope_b, expected.slope_b, **exact)
        np.testing.assert_allclose(found.squares, expected.squares, rtol=1e-10)
        eta = chunks.predictor(turn.spec, found.phi, found.b)
        at = np.sort(np.asarray(eta)[np.asarray(chunks.weight) > 0])
        known = predictor(turn.spec, own.rows.in_memory(), part.phi, part.b)
        np.testing.assert_allclose(at, np.sort(known), rtol=1e-9)


@pytest.mark.parametrize("family", ["gaussian", "bernoulli"])
@pytest.mark.parametrize("beside", [8, 1])
def test_X14_the_coupling_is_that_of_the_dense_hessian(
    family: str, beside: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the effects' precision, the head integrated out, in units of its diagonal blocks.

    With ``beside=1`` the small grouping takes turns, too: there are three.
    """
    set_heads(monkeypatch, cheap=0, per_row=0, beside=beside)
    post = crossed(family, 120, 9, 6)
    spec = post.specification
    anchor = find_turns(post)
    assert len(anchor.models) == (2 if beside > 1 else 3)
    theta = np.concatenate([anchor.phi, anchor.b.ravel()])
    _, hessian = autodiff(post, theta)
    power = float(spec.power(jnp.asarray(anchor.lam)))
    whole = power * hessian + prior_precision(post, anchor.lam)
    places = [slice(spec.head, spec.dim), *spec.places()]
    groups = [np.arange(spec.dim)[places[model.turn.number]] for model in anchor.models]
    order = np.concatenate(groups)
    head = np.setdiff1d(np.arange(spec.dim), order)
    cross = whole[np.ix_(order, head)]
    left = whole[np.ix_(order, order)] - cross @ np.linalg.solve(whole[np.ix_(head, head)], cross.T)
    units, at = np.zeros_like(left), 0
    for group in groups:
        own = slice(at, at + len(group))
        units[own, own] = np.linalg.inv(np.linalg.cholesky(left[own, own]))
        at += len(group)
    expected = 1 - np.linalg.eigvalsh(units @ left @ units.T).min()
    assert coupling(post, anchor) == pytest.approx(expected, abs=2e-3)


def test_rounds_of_turns_forget_as_gauss_seidels_iterations_do() -> None:
    rng = np.random.default_rng(0)
    for count in (2, 3):
        root = rng.normal(size=(3 * count, 3 * count))
        H = root @ root.T + 2 * np.eye(3 * count)
        blocks = [slice(3 * k, 3 * k + 3) for k in range(count)]
        units = np.zeros_like(H)
        sweep = np.eye(3 * count)
        for own in blocks:
            units[own, own] = np.linalg.inv(np.linalg.cholesky(H[own, own]))
            sweep[own] -= np.linalg.solve(H[own, own], H[own] @ sweep)
        coupled = 1 - float(np.linalg.eigvalsh(units @ H @ units.T).min())
        rate = float(np.abs(np.linalg.eigvals(sweep)).max())
        found = left_by_round(coupled, count)
        if count == 2:
            assert found == pytest.approx(rate)
        else:
            assert rate <= found < 1 - (1 - rate) / 2


@pytest.mark.parametrize("family", [pytest.param("gaussian", marks=pytest.mark.slow), "bernoulli"])
def test_X14_turns_have_the_posterior_of_dense_heads(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    post = crossed(family)
    dense = orn.sample(post, key=0, draws=400)
    set_heads(monkeypatch, cheap=0, per_row=0, beside=8)
    found = orn.sample(post, key=1, draws=400)
    assert (dense.plan.steps, found.plan.steps) == (
        "gaussian" if family == "gaussian" else "tested",
        "turns",
    )
    assert found.rates.shape == (3, 2)
    names = [*dense.names, "b[g=3: 1]", "b[g=4: coef[0]]", "b[h=5]", "b[k=1]"]
    for name in names:
        a, b = dense[name], found[name]
        sizes = [min(float(ess(one)), one.size) for one in (a, b)]
        error = a.std() * np.sqrt(1 / sizes[0] + 1 / sizes[1])
        assert abs(a.mean() - b.mean()) < 4 * error, name
        for share in (0.05, 0.25, 0.75, 0.95):
            cut = np.quantile(a, share)
            spread = np.sqrt(share * (1 - share) * (1 / sizes[0] + 1 / sizes[1]))
            assert abs((b < cut).mean() - share) < 4.5 * spread, (name, share)
    right = found.diagnose().accuracy
    assert right is not None
    assert right.labels[:2] == ("coef[0]", "intercept")
    assert not any("[h=" in label for label in right.labels)
    assert (np.abs(right.mean_error) < 0.15 + 4 * right.mean_mc_error).all()
    moved = found.phi + 0.5 * found.phi[..., 0].std() * (np.arange(found.phi.shape[-1]) == 0)
    wrong = replace(found, phi=moved).diagnose().accuracy
    assert wrong is not None
    assert wrong.verdict == "fail"
    assert wrong.mean_error[0] > 0.3


def test_what_one_arrow_cannot_hold_takes_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which used to be refused; a head of columns alone that is too large still is."""
    set_heads(monkeypatch, products=400, beside=5)
    rng = np.random.default_rng(0)
    g, h = rng.integers(0, 40, 400), rng.integers(0, 30, 400)
    y = rng.normal(size=40)[g] + rng.normal(size=30)[h] + rng.normal(size=400)
    post = orn.models.mixed(None, y, {"g": g, "h": h})
    result = orn.sample(post, key=0, draws=100)
    assert result.plan.steps == "turns"
    assert "in turn (X14)" in str(result.plan)
    assert not result.plan.warnings
    assert result.effects("h").shape == (30, 4)
    found = result.diagnose()
    assert "that take turns have moved freely" in str(found)
    assert found.accuracy is not None
    assert found.accuracy.labels == ("intercept", "sd(g)", "sd(h)", "sigma")
    assert (np.abs(found.accuracy.mean_error) < 0.1 + 4 * found.accuracy.mean_mc_error).all()
    assert (np.abs(found.accuracy.sd_error) < 0.1 + 4 * found.accuracy.sd_mc_error).all()
    narrow = result.lam.mean(axis=(0, 1)) + 0.6 * (result.lam - result.lam.mean(axis=(0, 1)))
    wrong = replace(result, lam=narrow).diagnose().accuracy
    assert wrong is not None
    assert wrong.verdict == "fail"
    with pytest.raises(orn.InputError, match="11 fixed coefficients beside the 40 effects of g"):
        orn.models.mixed(rng.normal(size=(400, 10)), y, {"g": g, "h": h})
    with pytest.raises(orn.InputError, match="take turns with all rows; leave batch_size out"):
        orn.plan(post, batch_size=100)


@pytest.mark.usefixtures("in_turn")
def test_groups_that_can_hardly_be_told_apart_are_warned_of() -> None:
    """Two halves of the data share no levels: what one group adds there, the other can take."""
    rng = np.random.default_rng(0)
    half = np.arange(4000) % 2
    g, h = 2 * rng.integers(0, 10, 4000) + half, 2 * rng.integers(0, 6, 4000) + half
    y: Any = rng.normal(size=20)[g] + rng.normal(size=12)[h] + rng.normal(size=4000)
    plan = orn.plan(orn.models.mixed(None, y, {"g": g, "h": h}))
    assert plan.coupling > 0.98
    assert plan.slowest < 0.2
    (warning,) = plan.warnings
    assert "can hardly be told apart" in warning
    assert warning in str(plan)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["gaussian", "bernoulli"])
def test_X14_ratings_of_many_users_and_films_are_drawn(family: str) -> None:
    """Of 25,000 effects; ``-s`` prints seconds of processor time, effective draws and memory."""
    rng, N = np.random.default_rng(0), 500_000
    user, film = rng.integers(0, 20_000, N), rng.integers(0, 5_000, N)
    X = rng.normal(size=(N, 2))
    eta = 0.3 + X @ [0.5, -0.2] + (0.8 * rng.normal(size=20_000))[user]
    eta += (0.5 * rng.normal(size=5_000))[film]
    noisy = eta + rng.normal(size=N)
    y = noisy if family == "gaussian" else (rng.uniform(size=N) < expit(eta)).astype(float)
    began, elapsed = process_time(), perf_counter()
    post = orn.models.mixed(X, y, {"user": user, "film": film}, family)
    plan = orn.plan(post)
    planned = process_time() - began
    result = orn.sample(post, plan, key=1, draws=250, progress=False)
    sizes = {name: round(float(ess(result[name]))) for name in result.names}
    memory = getrusage(RUSAGE_SELF).ru_maxrss / 2**20
    print(plan)
    print(f"plan {planned:.0f} s, all {process_time() - began:.0f} s of processor time", end=", ")
    print(f"{perf_counter() - elapsed:.0f} s; at most {memory:.1f} GiB; effective draws {sizes}")
    assert plan.steps == "turns"
    assert min(sizes.values()) > 400
    truths = {"coef[0]": 0.5, "coef[1]": -0.2, "sd(user)": 0.8, "sd(film)": 0.5}
    for name, truth in truths.items():
        draws = result[name].astype(float)
        assert abs(draws.mean() - truth) < 4 * draws.std(), name
    assert result.diagnose().verdict == "ok"
