"""Eigenvalues of one matrix relative to another."""

import numpy as np
import pytest

from ornstein.linalg.eigen import relative_eigh


def test_directions_diagonalise_both() -> None:
    base, other = np.array([[4.0, 1.0], [1.0, 9e6]]), np.array([[1.0, 0.2], [0.2, 5.0]])
    found = relative_eigh(base, other)
    W = found.directions
    np.testing.assert_allclose(W.T @ base @ W, np.eye(2), atol=1e-12)
    np.testing.assert_allclose(W.T @ other @ W, np.diag(found.values), atol=1e-12)


@pytest.mark.parametrize(
    "base", [np.diag([1.0, -1.0]), np.diag([1.0, 0.0]), np.diag([1.0, np.inf]), np.ones((2, 2))]
)
def test_a_matrix_that_is_not_positive_definite_is_refused(base: np.ndarray) -> None:
    with pytest.raises(np.linalg.LinAlgError):
        relative_eigh(base, np.eye(2))
