"""X11: rotation steps, exact for Gaussians at any angle, their noise made up for."""

import numpy as np
import pytest
import scipy.linalg

from ornstein import theory

ANGLES = (0.05, 0.4, 1.2, np.pi / 2, 2.5)


def matrices(seed: int, dim: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """A positive definite A and a C that does not commute with it."""
    rng = np.random.default_rng(seed)
    a, c = rng.normal(size=(2, dim, dim))
    return a @ a.T + np.eye(dim), 0.02 * c @ c.T


def phase_space(
    K: np.ndarray, A: np.ndarray, C_S: np.ndarray, angle: float, keep: float, Q: np.ndarray
) -> np.ndarray:
    """Covariance of position and velocity by SciPy's Lyapunov solver, all steps as matrices."""
    one, none, c, s = np.eye(len(A)), 0 * A, np.cos(angle / 2), np.sin(angle / 2)
    turn = np.block([[c * one, s * one], [-s * one, c * one]])
    push = np.block([[one, none], [-2 * s * (K @ A - one), one]])
    refresh = np.block([[one, none], [none, keep * one]])
    after = turn @ push @ turn
    injected = after @ np.block([[none, none], [none, Q]]) @ after.T
    kicked = turn @ np.block([[none, none], [none, 4 * s**2 * K @ C_S @ K.T]]) @ turn.T
    return np.asarray(scipy.linalg.solve_discrete_lyapunov(after @ refresh, injected + kicked))


@pytest.mark.parametrize("angle", ANGLES)
@pytest.mark.parametrize("keep", [0.0, 0.3, 0.9])
def test_X11_covariance_solves_the_phase_space_recursion(angle: float, keep: float) -> None:
    A, C_S = matrices(0)
    for K in (np.linalg.inv(A), 0.7 * np.linalg.inv(A + 0.1 * np.eye(3))):
        found = theory.rotation_covariance(K, A, C_S, angle, keep, 0.3 * np.eye(3))
        expected = phase_space(K, A, C_S, angle, keep, 0.3 * np.eye(3))[:3, :3]
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("angle", ANGLES[:-1])
@pytest.mark.parametrize("seed", [0, 1])
def test_X11_the_recipe_gives_the_posterior_at_any_angle(angle: float, seed: int) -> None:
    A, C_S = matrices(seed)
    for keep in (0.0, theory.critical_keep(angle)):
        noise = 0.2 * C_S / np.linalg.eigvalsh(theory.kick(angle) ** 2 * 50 * C_S).max()
        K, Q, _ = theory.rotation(A, noise, 50, angle, keep)
        assert Q is not None
        cov = theory.rotation_covariance(K, A, noise, angle, keep, Q)
        np.testing.assert_allclose(50 * cov @ A, np.eye(3), atol=1e-9)
        a, c = np.diag(A), np.diag(noise)
        gain, injected, _ = theory.rotation_diagonal(a, c, 50, angle, keep)
        assert injected is not None
        own = [m[:, None, None] for m in (gain, a, c, injected)]
        single = theory.rotation_covariance(own[0], own[1], own[2], angle, keep, own[3])
        np.testing.assert_allclose(single.ravel(), 1 / (50 * a), rtol=1e-9)


def test_X11_noise_injected_without_keep_in_closed_form() -> None:
    """``1 - k / (4 cos^2(h/2))``, and ``1 - r^2`` without any noise of the kick."""
    for angle in ANGLES:
        k = np.array([0.0, 0.1, 1.0])
        expected = 1 - k / (4 * np.cos(angle / 2) ** 2)
        np.testing.assert_allclose(theory.velocity_noise(angle, 0.0, k), expected)
        assert theory.velocity_noise(angle, 0.6, np.zeros(()))[()] == pytest.approx(0.64)


@pytest.mark.parametrize("angle", ANGLES)
def test_X11_a_constant_force_moves_the_mean_as_it_moves_the_posteriors(angle: float) -> None:
    """To first order in the remainder the mean is right at any angle: ``kappa = 2 sin(h/2)``."""
    c, s = np.cos(angle / 2), np.sin(angle / 2)
    turn = np.array([[c, s], [-s, c]])
    for keep in (0.0, 0.5):
        step = turn @ turn @ np.diag([1.0, keep])
        push = -theory.kick(angle) * turn[:, 1]
        mean = np.linalg.solve(np.eye(2) - step, push)
        np.testing.assert_allclose(mean, [-1.0, 0.0], atol=1e-12)


@pytest.mark.parametrize("angle", ANGLES)
def test_X11_limit_and_relaxation_are_those_of_a_steps_eigenvalues(angle: float) -> None:
    c, s, keep = np.cos(angle / 2), np.sin(angle / 2), 0.3
    turn = np.array([[c, s], [-s, c]])
    limit = theory.rotation_limit(angle)

    def radius(rate: float) -> float:
        push = np.array([[1, 0], [-2 * s * (rate - 1), 1]])
        return float(np.abs(np.linalg.eigvals(turn @ push @ turn @ np.diag([1, keep]))).max())

    assert radius(0.999 * limit) < 1 < radius(1.001 * limit)
    for rate in (0.2, 1.0, 0.9 * limit):
        found = theory.rotation_relaxation(np.array([rate]), angle, keep)
        np.testing.assert_allclose(found, 1 / (1 - radius(rate)), rtol=1e-6)
    K, one, C = (np.full((1, 1), value) for value in (1.1 * limit, 1.0, 0.1))
    beyond = theory.rotation_covariance(K, one, C, angle, 0.0)
    assert np.isnan(beyond).all()


def test_X11_the_critical_keep_forgets_soonest() -> None:
    for angle in (0.2, 0.8, 1.4):
        best = theory.critical_keep(angle)
        others = [best + change for change in (-0.02, 0.02) if 0 <= best + change < 1]
        steps = [theory.rotation_relaxation(np.ones(1), angle, keep)[0] for keep in (best, *others)]
        assert np.argmin(steps) == 0
