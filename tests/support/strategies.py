"""Random quadratic problems for the theory tests, and measures of error free of units.

A problem is given in random units: with ``theta = D theta'`` the Hessian and the noise become
``D A D`` and ``D C D``, the gain and every covariance of the parameters ``D^-1 . D^-1``. Errors
are therefore measured relative to standard deviations, entry by entry.
"""

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from hypothesis import settings
from hypothesis import strategies as st

Matrix: TypeAlias = npt.NDArray[np.floating[Any]]

EPS = float(np.finfo(float).eps)

theory_settings = settings(deadline=None, derandomize=True, max_examples=50)
"""Shared by every property test: the same examples in each run, whatever the machine's speed."""


@dataclass(frozen=True)
class Problem:
    """A quadratic loss with constant gradient noise, and a stable way to drive it."""

    hessian: Matrix
    noise_cov: Matrix
    gain: Matrix
    injected_cov: Matrix
    factor: Matrix
    """Fewer columns than rows: ``factor @ factor.T`` is a singular noise in the Hessian's units."""
    num_data: int
    batch_size: int
    units: Matrix
    condition: float
    """The largest condition number of the matrices above, in common units."""
    fastest: float
    """The largest eigenvalue of ``K A``."""
    spread: float
    """The largest over the smallest eigenvalue of ``K A``."""

    @property
    def dim(self) -> int:
        return len(self.hessian)

    @property
    def batch_noise_cov(self) -> Matrix:
        return self.noise_cov / self.batch_size

    @property
    def singular_cov(self) -> Matrix:
        """A singular covariance of gradients, of the size of ``batch_noise_cov``."""
        return self.factor @ self.factor.T / self.batch_size

    @property
    def posterior_cov(self) -> Matrix:
        """``(N A)^-1``."""
        return inverse(self.num_data * self.hessian)


def random_spd(rng: np.random.Generator, dim: int, log_cond: float) -> Matrix:
    """A symmetric matrix in a random basis with eigenvalues from ``10^-log_cond`` to 1."""
    exponents = np.append(rng.uniform(0, log_cond, max(dim - 2, 0)), [log_cond, 0.0])[-dim:]
    rotation = np.linalg.qr(rng.normal(size=(dim, dim)))[0]
    matrix = (rotation * 10.0**-exponents) @ rotation.T
    return 0.5 * (matrix + matrix.T)


@st.composite
def problems(
    draw: st.DrawFn,
    *,
    min_dim: int = 1,
    max_log_cond: float = 6.0,
    max_log_units: float = 4.0,
    max_rate: float = 1.9,
) -> Problem:
    """Problems with non-commuting matrices, each of its own condition number.

    ``max_rate`` bounds the eigenvalues of ``K A``.
    """
    dim = draw(st.integers(min_dim, 6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    log_cond = st.floats(0.0, max_log_cond)
    A, C, K, Q = (random_spd(rng, dim, draw(log_cond)) for _ in range(4))
    rates = np.linalg.eigvals(K @ A).real
    top = max_rate * 10.0 ** -draw(st.floats(0.0, 2.0))
    K *= top / rates.max()
    Q *= draw(st.floats(0.1, 10.0)) * np.trace(K @ C @ K) / np.trace(Q)
    log_units = draw(st.sampled_from([0.0, max_log_units]))
    units = 10.0 ** rng.uniform(-log_units, log_units, dim)
    outer = units[:, None] * units
    factor = rng.normal(size=(dim, draw(st.integers(0, dim - 1))))
    return Problem(
        hessian=A * outer,
        noise_cov=C * outer,
        gain=K / outer,
        injected_cov=Q / outer,
        factor=factor * units[:, None],
        num_data=draw(st.integers(100, 10**6)),
        batch_size=draw(st.integers(1, 100)),
        units=units,
        condition=max(float(np.linalg.cond(M)) for M in (A, C, K, Q)),
        fastest=top,
        spread=float(rates.max() / rates.min()),
    )


def inverse(matrix: Matrix) -> Matrix:
    """Inverse of a positive definite matrix after giving it a unit diagonal."""
    scale = 1 / np.sqrt(np.diag(matrix))
    outer = scale[:, None] * scale
    return np.linalg.inv(matrix * outer) * outer


def dense(value: Matrix | None, dim: int) -> Matrix:
    """The matrix of a recipe's gain or noise: a number, a diagonal, a matrix or nothing."""
    if value is None:
        return np.zeros((dim, dim))
    if value.ndim == 2:
        return value
    return np.diag(np.broadcast_to(value, (dim,)))


def mismatch(actual: Matrix, expected: Matrix) -> float:
    """Largest difference of two covariances, in units of the expected standard deviations."""
    sd = np.sqrt(np.diag(expected))
    return float(np.max(np.abs(actual - expected) / (sd[:, None] * sd)))


def close(actual: Any, expected: Any, rtol: float, atol: float = 0.0) -> bool:
    """Whether two numbers agree; unlike numpy's, with no absolute tolerance unless asked for."""
    a, b = np.asarray(actual).item(), np.asarray(expected).item()
    return math.isclose(a, b, rel_tol=rtol, abs_tol=atol)
