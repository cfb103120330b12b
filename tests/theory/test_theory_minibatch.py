"""How minibatches are drawn (X7): noise of one batch, and of an epoch loader."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given
from hypothesis import strategies as st

from ornstein.theory import batch_noise_factor, epoch_covariance, finite_step_covariance, modes
from support.strategies import EPS, Matrix, Problem, close, mismatch, problems, theory_settings


def centred_population(size: int, dim: int = 2) -> Matrix:
    gradients = np.random.default_rng(size).normal(size=(size, dim))
    return np.asarray(gradients - gradients.mean(axis=0))


def loader_covariance(
    gain: Matrix, hessian: Matrix, epoch_noise: Matrix, batches: int, injected_cov: Matrix
) -> Matrix:
    """Average over the epoch, from the joint covariance of its batches (M D x M D)."""
    D = len(hessian)
    step = np.eye(D) - gain @ hessian

    def added(m: int) -> Matrix:
        """Covariance that the first m steps of an epoch add."""
        powers = [np.linalg.matrix_power(step, m - 1 - t) for t in range(m)]
        path = np.hstack([power @ gain for power in powers])
        return np.asarray(
            path @ epoch_noise[: m * D, : m * D] @ path.T
            + sum(power @ injected_cov @ power.T for power in powers)
        )

    whole = np.linalg.matrix_power(step, batches)
    start = scipy.linalg.solve_discrete_lyapunov(whole, added(batches), method="direct")
    phases = []
    for m in range(1, batches + 1):
        carried = np.linalg.matrix_power(step, m)
        phases.append(carried @ start @ carried.T + added(m))
    return np.asarray(np.mean(phases, axis=0))


def epoch_noise(C_S: Matrix, batches: int) -> Matrix:
    """``C_S`` on the diagonal blocks, ``-C_S / (M - 1)`` off them."""
    off = -1 / (batches - 1) if batches > 1 else 0.0
    return np.asarray(np.kron(np.full((batches, batches), off) + (1 - off) * np.eye(batches), C_S))


@pytest.mark.parametrize("size", [1, 2, 5])
def test_X7_factor_without_replacement_over_all_subsets(size: int) -> None:
    for batch in range(1, size + 1):
        gradients = centred_population(size)
        C = gradients.T @ gradients / size
        means = np.array(
            [np.mean(rows, axis=0) for rows in itertools.combinations(gradients, batch)]
        )
        expected = means.T @ means / len(means)
        factor = batch_noise_factor(size, batch, replacement=False)
        np.testing.assert_allclose(factor * C, expected, atol=1e-15)


@pytest.mark.parametrize("batch", [1, 2, 4])
def test_X7_factor_with_replacement_over_all_tuples(batch: int) -> None:
    gradients = centred_population(4)
    C = gradients.T @ gradients / 4
    means = np.array([np.mean(rows, axis=0) for rows in itertools.product(gradients, repeat=batch)])
    factor = batch_noise_factor(4, batch, replacement=True)
    np.testing.assert_allclose(factor * C, means.T @ means / len(means), atol=1e-15)


def test_X7_full_batch_has_no_noise() -> None:
    assert batch_noise_factor(50, 50, replacement=False) == 0
    assert batch_noise_factor(50, 1, replacement=False) == 1


@pytest.mark.parametrize("rate", [0.05, 0.6, 1.7])
def test_X7_epoch_over_all_shuffles(rate: float) -> None:
    """The loader's noise counted over every order of six rows in three batches of two."""
    rows, batch, D = 6, 2, 2
    gradients = centred_population(rows, D)
    orders = np.array(list(itertools.permutations(range(rows))))
    batches = gradients[orders].reshape(len(orders), rows // batch, batch, D).mean(axis=2)
    flat = batches.reshape(len(orders), -1)
    noise = flat.T @ flat / len(orders)
    A = np.array([[1.0, 0.3], [0.3, 0.5]])
    K = rate * np.array([[0.7, -0.2], [-0.2, 1.0]])
    Q = 0.1 * np.eye(D)
    C_S = batch_noise_factor(rows, batch, replacement=False) * gradients.T @ gradients / rows
    expected = loader_covariance(K, A, noise, rows // batch, Q)
    assert mismatch(epoch_covariance(K, A, C_S, rows // batch, Q), expected) < 1e-12


@theory_settings
@given(problems(max_log_cond=2.0, max_log_units=0.0), st.integers(1, 12))
def test_X7_epoch_against_the_joint_noise(p: Problem, batches: int) -> None:
    args = (p.gain, p.hessian, p.batch_noise_cov)
    noise = epoch_noise(p.batch_noise_cov, batches)
    for Q in (p.injected_cov, np.zeros_like(p.gain)):
        expected = loader_covariance(p.gain, p.hessian, noise, batches, Q)
        cov = epoch_covariance(*args, batches, Q)
        assert mismatch(cov, expected) < 1e4 * EPS * p.spread**2 / p.fastest**2


@theory_settings
@given(problems(max_log_cond=2.0))
def test_X7_one_batch_per_epoch_is_T2(p: Problem) -> None:
    args = (p.gain, p.hessian, p.batch_noise_cov)
    plain = finite_step_covariance(*args, p.injected_cov)
    cov = epoch_covariance(*args, 1, p.injected_cov)
    assert mismatch(cov, plain) < 1e3 * EPS * p.spread / p.fastest


@theory_settings
@given(problems(max_log_cond=1.0))
def test_X7_long_epochs_tend_to_T2_at_first_order(p: Problem) -> None:
    args = (p.gain, p.hessian, p.batch_noise_cov)
    plain = finite_step_covariance(*args, p.injected_cov)
    gaps = [
        mismatch(epoch_covariance(*args, 2**doublings, p.injected_cov), plain)
        for doublings in (20, 21, 22)
    ]
    assert gaps[-1] < 0.01
    assert np.max(np.abs(-np.diff(np.log2(gaps)) - 1)) < 0.01


@theory_settings
@given(problems(max_log_cond=2.0, max_rate=0.99), st.integers(2, 1000))
def test_X7_epoch_loader_is_too_narrow(p: Problem, batches: int) -> None:
    """Every mode that does not oscillate has less variance than under independent draws."""
    args = (p.gain, p.hessian, p.batch_noise_cov)
    to_modes = np.linalg.inv(modes(p.gain, p.hessian).basis)
    loader, independent = (
        np.diag(to_modes @ cov @ to_modes.T)
        for cov in (epoch_covariance(*args, batches), finite_step_covariance(*args))
    )
    assert np.all(loader < independent)


def test_X7_injected_noise_is_not_narrowed() -> None:
    """Only the gradient noise cancels over an epoch."""
    K, A, Q = 0.2 * np.eye(2), np.diag([1.0, 3.0]), np.array([[2.0, 0.5], [0.5, 1.0]])
    silent = np.zeros((2, 2))
    expected = finite_step_covariance(K, A, silent, Q)
    np.testing.assert_allclose(epoch_covariance(K, A, silent, 7, Q), expected, rtol=1e-13)


@pytest.mark.parametrize("k", [2.0, 2.5, -0.5, 0.0])
def test_X7_unstable_gives_nan(k: float) -> None:
    assert np.all(np.isnan(epoch_covariance(np.eye(2), np.diag([0.5, k]), np.eye(2), 10)))


@theory_settings
@given(rates=st.lists(st.floats(1e-2, 1.99), min_size=1, max_size=6), batches=st.integers(1, 100))
def test_X7_batch_of_numbers_is_a_diagonal_problem(rates: list[float], batches: int) -> None:
    k = np.array(rates)
    a, c, q = 1 + k, 3 - k, k**2
    K, A, C_S, Q = (np.asarray(x)[:, None, None] for x in (k / a, a, c, q))
    batch = epoch_covariance(K, A, C_S, batches, Q)
    K, A, C_S, Q = (np.diag(x) for x in (k / a, a, c, q))
    whole = epoch_covariance(K, A, C_S, batches, Q)
    np.testing.assert_allclose(np.diag(batch[:, 0, 0]), whole, rtol=1e-9, atol=0)


def epoch_variance_in_fractions(rate: float, batches: int) -> Fraction:
    """One dimension, ``A = C_S = 1``, without rounding."""
    r, M = 1 - Fraction(rate), batches

    def added(m: int) -> Fraction:
        single = sum((r ** (2 * t) for t in range(m)), Fraction(0))
        path = sum((r**t for t in range(m)), Fraction(0))
        return single + (single - path**2) / (M - 1)

    start = added(M) / (1 - r ** (2 * M))
    phases = sum((r ** (2 * m) * start + added(m) for m in range(1, M + 1)), Fraction(0))
    return Fraction(rate) ** 2 * phases / M


@pytest.mark.parametrize("rate", [1.9, 0.5, 1e-2])
def test_X7_epoch_in_exact_arithmetic(rate: float) -> None:
    one = np.eye(1)
    expected = float(epoch_variance_in_fractions(rate, 10))
    assert close(epoch_covariance(rate * one, one, one, 10).item(), expected, rtol=1e-11)


@pytest.mark.parametrize("rate", [1e-6, 1e-9])
def test_X7_epoch_keeps_its_digits_at_slow_rates(rate: float) -> None:
    one = np.eye(1)
    expected = float(epoch_variance_in_fractions(rate, 10))
    assert close(epoch_covariance(rate * one, one, one, 10).item(), expected, rtol=1e-6)
