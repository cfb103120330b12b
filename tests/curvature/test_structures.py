"""The contract of structures: every registered one, and a toy of two dense blocks defined here."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import pytest

import ornstein as orn
from ornstein._base.types import PyTree, Vector
from ornstein.curvature import row_sums, structures
from ornstein.curvature.optimum import find_optimum
from ornstein.curvature.structures.contract import BasisStructure, RowSums
from ornstein.curvature.structures.dense import DenseDeviations
from ornstein.linalg.bases import AnyArray, Basis
from ornstein.linalg.operators import Dense
from ornstein.models.posterior import Posterior
from ornstein.storage import codec
from support.problems import softmax_table, zoo
from support.sizes import set_limits


@codec.register
@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class TwoRotations(Basis):
    """``V = diag(U_1, U_2)``, both orthogonal."""

    first: AnyArray
    second: AnyArray

    structure: ClassVar[str] = "two-blocks"

    def _by_blocks(self, vector: AnyArray, first: AnyArray, second: AnyArray) -> AnyArray:
        xp: Any = np if isinstance(vector, np.ndarray) else jnp
        cut = self.first.shape[0]
        return xp.concatenate([vector[..., :cut] @ first, vector[..., cut:] @ second], axis=-1)

    @property
    def dual(self) -> "TwoRotations":
        return self

    def to_params(self, z: AnyArray) -> AnyArray:
        return self._by_blocks(z, self.first.T, self.second.T)

    def adjoint(self, vector: AnyArray) -> AnyArray:
        return self._by_blocks(vector, self.first, self.second)

    def prior(self, precision: Vector) -> Vector:
        found = self._by_blocks(precision, np.asarray(self.first**2), np.asarray(self.second**2))
        return np.asarray(found)

    def squares(self, values: AnyArray) -> AnyArray:
        return self._by_blocks(values, self.first.T**2, self.second.T**2)

    def logdet(self, values: AnyArray) -> float:
        return float(np.log(values).sum())

    def astype(self, dtype: npt.DTypeLike) -> "TwoRotations":
        return TwoRotations(np.asarray(self.first, dtype), np.asarray(self.second, dtype))


class TwoBlocks(BasisStructure):
    """The first half of the parameters and the second, correlations between them ignored."""

    name = "two-blocks"
    words = "in two blocks"

    def fits(self, post: Posterior) -> bool:
        del post
        return False  # never by default

    def sums(
        self, post: Posterior, theta: Vector, rows: PyTree, basis: Basis | None, with_noise: bool
    ) -> tuple[Basis, RowSums]:
        del with_noise
        gradient, outer, hessian = row_sums.second_order(post, theta, rows, dense=True)
        cut = post.dim // 2
        if basis is None:
            blocks = hessian[:cut, :cut], hessian[cut:, cut:]
            basis = TwoRotations(*(np.linalg.eigh(block)[1] for block in blocks))
        along = (
            np.diag(basis.adjoint(np.asarray(basis.adjoint(matrix)).T))
            for matrix in (outer, hessian)
        )
        return basis, RowSums(gradient, *(np.array(part) for part in along))


@pytest.fixture(autouse=True)
def _toy() -> Iterator[None]:
    with structures.registered(TwoBlocks()):
        yield


def problem(name: str, rows: int = 900) -> orn.Posterior:
    """A softmax; for the toy, two groups of columns that are correlated within."""
    if name != "two-blocks":
        X, y = softmax_table(rows)
        return orn.models.softmax(X, y, prior_precision=[1.0, 2.0, 3.0, 0.5, 4.0])
    rng = np.random.default_rng(1)
    shared = np.repeat(rng.normal(size=(rows, 2)), 3, axis=1)
    X = np.linspace(0.3, 3, 6) * (shared + 0.5 * rng.normal(size=(rows, 6)))
    return orn.models.logistic(X, rng.random(rows) < 1 / (1 + np.exp(-X[:, 0])))


ESTIMATED = [s.name for s in structures.STRUCTURES.values() if s.estimated] + ["two-blocks"]
APPROXIMATE = [s.name for s in structures.STRUCTURES.values() if s.approximate] + ["two-blocks"]


@lru_cache
def at_optimum(name: str) -> tuple[orn.Posterior, Any, orn.Geometry]:
    """The problem, its optimum, and the matrices there."""
    post = problem(name)
    at = post.layout.unravel(find_optimum(post))
    return post, at, orn.geometry(post, at)


@pytest.mark.parametrize("name", ESTIMATED)
def test_operators_agree_with_their_matrices(name: str) -> None:
    post, at, _ = at_optimum(name)
    D, rng = post.dim, np.random.default_rng(0)
    geometry = orn.geometry(post, at, name)
    assert geometry.structure == name
    for operator in (geometry.covariance, geometry.covariance.scaled(3.0)):
        M, root = operator.dense(D), operator.sqrt()
        np.testing.assert_allclose(root.dense(D) @ root.dense(D).T, M, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(operator.variances(D), np.diag(M), rtol=1e-9)
        np.testing.assert_allclose(operator.trace(D), np.trace(M), rtol=1e-9)
        np.testing.assert_allclose(operator.logdet(D), np.linalg.slogdet(M)[1], rtol=1e-9)
        v = rng.normal(size=(3, D))
        np.testing.assert_allclose(operator.matvec(v), v @ M, rtol=1e-8, atol=1e-12)
        np.testing.assert_allclose(root.matvec(root.solve(v)), v, rtol=1e-7, atol=1e-9)
        assert root.dense(D).shape == (D, root.coordinates(D))
    np.testing.assert_allclose(operator.like(operator.array).dense(D), operator.dense(D))
    single = operator.astype(np.float32)
    assert np.asarray(single.matvec(v.astype(np.float32))).dtype == np.float32
    on_device = jax.jit(lambda op, x: op.matvec(x))(jax.tree.map(jnp.asarray, operator), v)
    np.testing.assert_allclose(on_device, operator.matvec(v), rtol=1e-9, atol=1e-12)
    shares = geometry.hessian.relative(geometry.prior_hessian)
    assert np.all((shares > 0) & (shares <= 1 + 1e-9))


@pytest.mark.parametrize("name", APPROXIMATE)
def test_X6_what_a_structure_misses_is_measured(name: str) -> None:
    post, at, dense = at_optimum(name)
    geometry = orn.geometry(post, at, name)
    assert geometry.missed is not None
    R = geometry.hessian.inverse().sqrt().dense(post.dim)
    relative = np.linalg.eigvalsh(R.T @ dense.hessian.dense(post.dim) @ R)[-post.dim :]
    nodes, shares = geometry.missed.spectrum
    np.testing.assert_allclose([nodes.min(), nodes.max()], relative[[0, -1]], rtol=0.05)
    np.testing.assert_allclose(shares.sum(), 1)
    truth = np.trace(dense.covariance.dense(post.dim))
    found = geometry.calibrated_covariance.trace(post.dim)
    np.testing.assert_allclose(found, truth, rtol=0.15)


@pytest.mark.parametrize("name", ["dense", *APPROXIMATE])
def test_units_make_the_loss_round(name: str) -> None:
    post, _, dense = at_optimum(name)
    with jax.enable_x64(True):
        units = structures.find(name).units(post, post.data, dense.center)
    W, precision = units.dense(post.dim), dense.precision.dense(post.dim)
    values = np.linalg.eigvalsh(W.T @ precision @ W)[-post.dim :]
    bare = np.linalg.eigvalsh(precision)
    assert values[-1] / values[0] < 0.3 * bare[-1] / bare[0]
    if name == "dense":
        np.testing.assert_allclose(values, 1, rtol=1e-9)


@pytest.mark.parametrize("name", APPROXIMATE)
def test_X9_deviations_are_nearly_those_of_matrices(name: str) -> None:
    post, at, dense = at_optimum(name)
    geometry = orn.geometry(post, at, name)
    cov = geometry.covariance
    index, weights = np.arange(post.num_data), np.ones((1, post.num_data))
    with jax.enable_x64(True):
        own = structures.find(name).deviations(post, geometry, cov, 0)
        whole = DenseDeviations(post, dense, Dense(cov.dense(post.dim)), 0)
        leverages, numbers = own.leverages(None)
        wanted, _ = whole.leverages(None)
        second, matrix = own.sums(index, weights)[0], whole.sums(index, weights)[0]
        held = geometry.hessian.like(np.asarray(second))
        beyond, _ = own.beyond(index, weights[0], held)
    assert np.array_equal(numbers, index)
    np.testing.assert_allclose(leverages.mean(), wanted.mean(), rtol=0.15)
    V = geometry.covariance.like(np.ones_like(np.asarray(cov.array))).sqrt().dense(post.dim)
    along = np.diag(V.T @ matrix @ V)
    if name != "per-class":  # whose coordinates are more than the parameters
        np.testing.assert_allclose(second, along, rtol=0.2, atol=0.05 * along.max())
    assert beyond >= 0


@pytest.mark.parametrize("name", ["dense", *APPROXIMATE])
@pytest.mark.parametrize("method", ["exact", "laplace"])
def test_T2_plans_predict_and_chains_obey(
    name: str, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    post = problem(name, rows=1500)
    if name in APPROXIMATE:
        set_limits(monkeypatch, dense=2)
    plan = orn.plan(post, method, structure=name)
    assert plan.structure == plan.gain.structure == name
    assert json.loads(plan.to_json())["structure"] == name
    assert structures.find(name).words in plan.equation or name == "dense"
    result = orn.sample(post, plan, key=2, chains=4, draws=800, dispersion=1.0)
    assert result.status.ok
    total = result.flat.reshape(-1, post.dim).var(axis=0).sum()
    np.testing.assert_allclose(total, plan.predicted_trace, rtol=0.12)
    again = orn.sample(post, plan, key=2, chains=1, draws=8)
    assert np.array_equal(again.flat, orn.sample(post, plan, key=2, chains=1, draws=8).flat)


@pytest.mark.parametrize("name", APPROXIMATE)
def test_checkpoints_keep_plans_of_every_structure(
    name: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, dense=2)
    options: dict[str, Any] = {"structure": name, "draws": 16, "chains": 2, "key": 5}
    post = problem(name, rows=400)
    first = orn.sample(post, checkpoint=tmp_path / "run", **options)
    again = orn.sample(post, checkpoint=tmp_path / "run", **options)
    assert np.array_equal(first.flat, again.flat)
    assert str(first.plan) == str(again.plan)


def test_models_that_a_structure_is_not_made_for_are_refused() -> None:
    linear = zoo()["linear"]
    with pytest.raises(orn.InputError, match="model of classes"):
        orn.plan(linear, structure="per-class")
    with pytest.raises(orn.InputError, match="not known; choose one of"):
        orn.plan(linear, structure="arrow")
    assert orn.plan(linear, structure="two-blocks").structure == "two-blocks"


def test_a_structure_is_forgotten_with_its_context() -> None:
    with structures.registered(TwoBlocks()):
        assert "two-blocks" in structures.STRUCTURES
    assert "two-blocks" not in structures.STRUCTURES
    structures.register(TwoBlocks())  # for the fixture, which takes it out
