"""X14: arrow matrices against dense ones."""

import numpy as np
import pytest

from ornstein import theory
from ornstein._base.types import Vector
from support.arrows import assembled, random_arrow


@pytest.fixture(params=[(1, 1, 7), (3, 2, 5), (4, 3, 4)])
def parts(request: pytest.FixtureRequest) -> tuple[Vector, Vector, Vector]:
    """Head (m, m), cross (G, m, q) and blocks (G, q, q)."""
    arrow = random_arrow(*request.param)
    head, cross, blocks = (np.asarray(part) for part in (arrow.head, arrow.cross, arrow.blocks))
    return head, cross.transpose(2, 0, 1), blocks.transpose(2, 0, 1)


def test_X14_the_schur_complement_is_that_of_the_matrix(
    parts: tuple[Vector, Vector, Vector],
) -> None:
    dense, m = assembled(*parts), len(parts[0])
    inverse = np.linalg.inv(dense)[:m, :m]
    np.testing.assert_allclose(np.linalg.inv(theory.arrow_schur(*parts)), inverse, rtol=1e-9)


def test_X14_draws_have_the_inverse_as_covariance(parts: tuple[Vector, Vector, Vector]) -> None:
    dense, (m, G, q) = assembled(*parts), (len(parts[0]), *parts[1].shape[::2])
    columns = []
    for unit in np.eye(m + G * q):
        phi, groups = theory.arrow_draw(*parts, unit[:m], unit[m:].reshape(G, q))
        columns.append(np.concatenate([phi, groups.ravel()]))
    root = np.stack(columns, axis=1)
    np.testing.assert_allclose(root @ root.T, np.linalg.inv(dense), rtol=1e-9, atol=1e-12)


def test_X14_the_log_determinant_is_that_of_the_matrix(
    parts: tuple[Vector, Vector, Vector],
) -> None:
    dense = np.linalg.slogdet(assembled(*parts))[1]
    assert theory.arrow_logdet(*parts) == pytest.approx(dense, rel=1e-12)
