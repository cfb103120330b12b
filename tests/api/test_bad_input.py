"""Bad input gets a clear error and loses nothing; awkward input works."""

import datetime
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
import scipy.sparse

import ornstein as orn
from ornstein import models

Floats = npt.NDArray[np.floating]
Build = Callable[[], object]

RNG = np.random.default_rng(0)
N = 60
X = RNG.normal(size=(N, 2))
Y = X[:, 0] + RNG.normal(size=N)
B = (Y > 0).astype(int)
POST = models.linear(X, Y)
THREE = ["first", "second", "third"]


def spoiled(array: Floats, value: float) -> Floats:
    """A copy with one bad entry, in row 3 (and column 1)."""
    copy = array.copy()
    copy[(3, 1) if array.ndim == 2 else 3] = value
    return copy


def frame(**columns: Any) -> pd.DataFrame:
    return pd.DataFrame({"a": X[:, 0], **columns})


def third(column: Floats) -> Floats:
    return np.column_stack([X, column])


def quick(post: orn.Posterior, **options: Any) -> orn.Result:
    """Plan, sample and read a result in every way."""
    result = orn.sample(post, chains=2, draws=10, **{"batch_size": 20, **options})
    assert np.isfinite(result.flat).all()
    assert len(result.summary()) == post.dim
    assert str(result.plan)
    return result


# Tables -----------------------------------------------------------------------------------------

BAD_TABLES: list[tuple[Build, str]] = [
    (lambda: models.linear(spoiled(X, np.nan), Y), r"X has NaN or infinite.*column 1 \(1\).*Drop"),
    (lambda: models.linear(spoiled(X, np.inf), Y), r"X has NaN or infinite.*column 1"),
    (lambda: models.linear(X, spoiled(Y, np.nan)), r"y has NaN or infinite.*row 3"),
    (lambda: models.poisson(X, spoiled(Y, -np.inf)), r"y has NaN or infinite.*row 3"),
    (lambda: models.linear(X.astype(str), Y), r"X must be numeric.*<U.*Convert numbers"),
    (lambda: models.linear(X.astype(object), Y), r"X must be numeric.*object.*astype\(float\)"),
    (lambda: models.linear(X + 1j, Y), r"X must be numeric.*complex.*real and imaginary"),
    (lambda: models.linear(np.full((N, 1), np.datetime64("2020-01-01")), Y), r"X.*datetime.*dates"),
    (lambda: models.linear(scipy.sparse.csr_array(X), Y), r"X is sparse.*toarray"),
    (lambda: models.linear(np.ma.masked_greater(X, 1.0), Y), r"X has masked values"),
    (lambda: models.linear([[1.0, 2.0], [3.0]], [1.0, 2.0]), r"X is not a table"),
    (lambda: models.linear("text", Y), r"X must be numeric"),
    (lambda: models.linear(np.empty((0, 2)), []), r"X is empty: shape \(0, 2\)"),
    (lambda: models.linear(np.empty((N, 0)), Y), r"X is empty"),
    (lambda: models.linear(pd.DataFrame(), []), r"X is empty"),
    (lambda: models.linear(X[:, 0], Y), r"X must be two-dimensional.*\(60,\).*reshape\(-1, 1\)"),
    (lambda: models.linear(X[:, :, None], Y), r"X must be two-dimensional"),
    (lambda: models.linear(X, Y[:-1]), r"X has 60 rows but y has 59"),
    (lambda: models.linear(X, X), r"y must be one-dimensional"),
    (lambda: models.linear(X, np.where(B, "yes", "no")), r"y must be numeric.*e\.g\. '(yes|no)'"),
    (lambda: models.linear(frame(b="text"), Y), r"X\['b'\] must be numeric.*'text'"),
    (lambda: models.linear(frame(b=datetime.date(2020, 1, 1)), Y), r"X\['b'\].*dates"),
    (lambda: models.linear(frame(b=pd.Timestamp("2020")), Y), r"X\['b'\].*dates"),
    (lambda: models.linear(frame(b=pd.Categorical([1, 2] * 30)), Y), r"X\['b'\].*found categories"),
    (lambda: models.linear(frame(b=pd.array([None, 1] * 30, "Int64")), Y), r"NaN.*in b \(30\)"),
    (lambda: models.linear(X, pd.Series([None, 1] * 30, dtype="Int64")), r"y has NaN.*row 0"),
    (lambda: models.linear(X, Y, feature_names=["a"]), r"feature_names has 1 names for 2 columns"),
    (lambda: models.linear(X, Y, feature_names="ab"), r"feature_names must be a list"),
    (lambda: models.logistic(X, np.zeros(N)), r"one class only \(0\)"),
    (lambda: models.logistic(X, np.ones(N)), r"one class only \(1\)"),
    (lambda: models.softmax(X, np.zeros(N), num_classes=3), r"one class only"),
    (lambda: models.logistic(X, 2 * B - 1), r"labels 0 \.\. K-1, found -1.*y > 0"),
    (lambda: models.logistic(X, B + 1), r"no row of class 0.*numpy.unique"),
    (lambda: models.logistic(X, 0.5 * B), r"whole-numbered class labels, found 0\.5"),
    (lambda: models.logistic(X, np.arange(N) % 3), r"3 classes.*softmax"),
    (lambda: models.softmax(X, B * 10**12), r"no row of class 1.*reach 1000000000000"),
    (lambda: models.softmax(X, np.arange(N) % 3, num_classes=2), r"label 2, outside 0 \.\. 1"),
    (lambda: models.softmax(X, B, num_classes=1), r"num_classes must be.*at least 2"),
    (lambda: models.softmax(X, B, num_classes=2.0), r"num_classes.*found 2\.0"),  # type: ignore[arg-type]
    (lambda: models.poisson(X, -B), r"counts"),
    (lambda: models.poisson(X, 0.5 * B), r"counts"),
]


@pytest.mark.parametrize(("build", "message"), BAD_TABLES)
def test_bad_tables(build: Build, message: str) -> None:
    with pytest.raises(orn.InputError, match=message):
        build()


@pytest.mark.parametrize("value", [0, -1, np.nan, np.inf, [1.0], [1.0, -1.0], None, "a"])
def test_bad_prior_precision(value: Any) -> None:
    with pytest.raises(orn.InputError, match="prior_precision"):
        models.linear(X, Y, prior_precision=value)


@pytest.mark.parametrize("value", [0, -1, np.nan, np.inf, "2", None, True, [1.0, 2.0], 1j])
def test_bad_noise_scale(value: Any) -> None:
    with pytest.raises(orn.InputError, match="noise_scale must be a finite number above 0, found"):
        models.linear(X, Y, noise_scale=value)


@pytest.mark.parametrize(
    "column",
    [B, B > 0, pd.array(B, "Int64"), pd.array(B > 0, "boolean"), pd.array(B, "Float64")],
    ids=["int", "bool", "Int64", "boolean", "Float64"],
)
def test_data_frames_of_mixed_types_are_read(column: Any) -> None:
    post = models.linear(frame(b=column), Y)
    assert post.labels == ["coef[a]", "coef[b]"]
    np.testing.assert_array_equal(post.data["x"], np.column_stack([X[:, 0], B]))
    labelled = models.logistic(X, pd.Series(column))
    np.testing.assert_array_equal(labelled.data["y"], B)


def test_large_whole_numbers_are_not_wrapped() -> None:
    """JAX keeps 32 bits of an integer; milliseconds since 1970 need more."""
    times = (1.6e12 + 1e9 * np.arange(N)[:, None]).astype(np.int64)
    whole, floats = (orn.plan(models.linear(t, Y), batch_size=20) for t in (times, 1.0 * times))
    np.testing.assert_array_equal(whole.center, floats.center)


# Arguments of plan and sample -------------------------------------------------------------------

BAD_PLANS: list[Any] = [
    *(({"batch_size": size}, r"batch_size.*between 1 and 60") for size in (0, -1, 61, 5.0, True)),
    ({"method": "sdg"}, r"method='sdg'.*Did you mean 'sgd'"),
    ({"method": "Exact"}, r"Did you mean 'exact'"),
    ({"method": None}, r"method=None.*rotation, exact, sgd"),
    ({"structure": "dens"}, r"structure.*'dens'.*Did you mean 'dense'"),
    ({"batches": "window"}, r"batches='window'.*Did you mean 'windows'"),
    *(({"tolerance": t}, r"tolerance must be a finite number above 0") for t in (0, -1, "a")),
    ({"rhoo": 1.0}, r"no option 'rhoo'.*rho"),
    ({"rhoo": 1.0}, r"Did you mean 'rho'"),
    ({"batchsize": 10}, r"Did you mean 'batch_size'"),
    *(({"rho": rho}, r"rho must be a finite number") for rho in (-1.0, np.nan, np.inf, "a")),
    ({"rho": np.ones(2)}, r"rho must be"),
    *(({"method": "momentum", "momentum": m}, r"momentum") for m in (1, -1, 1.5, np.nan, "a")),
    ({"geometry_rows": 10}, r"rows must be a whole number between 64"),
    ({"at": {"coef": np.array([np.nan, 0.0])}}, r"at\[.coef.\] holds NaN"),
    ({"at": {"coef": np.zeros(3)}}, r"at= does not fit.*\(3,\)"),
    ({"at": {"slope": np.zeros(2)}}, r"at= does not fit.*slope"),
    ({"at": 1.0}, r"at= does not fit"),
    ({"at": {"coef": np.array(["a", "b"])}}, r"at\[.coef.\] must be .* numbers"),
    ({"at": {"coef": np.zeros(2) + 1j}}, r"at\[.coef.\] must be .* numbers"),
    ({"key": -1}, r"key must"),
    ({"method": "sghmc", "corrected": "no"}, r"corrected must be True or False"),
]


@pytest.mark.parametrize(("options", "message"), BAD_PLANS)
def test_bad_plan_arguments(options: dict[str, Any], message: str) -> None:
    with pytest.raises(orn.InputError, match=message):
        orn.plan(POST, **options)


def test_a_geometry_of_what_it_does_not_suit_is_refused() -> None:
    at = {"coef": np.zeros(2)}
    with pytest.raises(orn.InputError, match="'per-class' needs a model of classes"):
        orn.geometry(POST, at, structure="per-class")
    with pytest.raises(orn.InputError, match="post must be an ornstein Posterior, found int"):
        orn.geometry(3, at)  # type: ignore[arg-type]


BAD_RUNS: list[Any] = [
    *(
        ({name: 0}, rf"{name} must be.*(at least|between) 1")
        for name in ("chains", "draws", "thin", "chunk")
    ),
    *(
        ({name: value}, rf"{name} must be a whole number.*found")
        for name in ("chains", "draws", "thin", "warmup")
        for value in (True, 2.0, -1, "3")
    ),
    *(({"dispersion": value}, "dispersion must be") for value in (-1, np.nan, "a")),
    *(({"dtype": value}, "dtype must be float32 or float64") for value in ("float16", "int32")),
    ({"dtype": "single-ish"}, "dtype must be float32"),
    *(({"key": value}, "key must") for value in (-1, 2**32, 1.0, True, None, "0")),
    ({"key": jnp.zeros(3, jnp.uint32)}, "key must"),
    ({"key": jnp.zeros(2)}, "key must"),
    ({"key": jax.random.split(jax.random.key(0))}, r"one JAX key.*shape \(2,\)"),
    *(({"learn_hyper": value}, "learn_hyper must be True or False") for value in (None, "no")),
    ({"target_ess": 0}, "target_ess must be a finite number above 0"),
    ({"target_kl_error": -3}, "target_kl_error must be a finite number above 0"),
    ({"draws": "Auto"}, r"draws must be a whole number at least 1 \(or 'auto'\)"),
    ({"method": "sgd"}, "'method' belongs to plan"),
    ({"draw": 3}, "Did you mean 'draws'"),
]


@pytest.fixture(scope="module")
def made() -> orn.Plan:
    return orn.plan(POST, batch_size=20)


@pytest.mark.parametrize(("options", "message"), BAD_RUNS)
def test_bad_sample_arguments(options: dict[str, Any], message: str, made: orn.Plan) -> None:
    with pytest.raises(orn.InputError, match=message):
        orn.sample(POST, made, **{"draws": 4, **options})


def test_a_mistaken_call_leaves_no_checkpoint_behind(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with pytest.raises(orn.InputError, match="draws"):
        orn.sample(POST, draws=-1, checkpoint=folder)
    assert orn.sample(POST, draws=4, batch_size=20, checkpoint=folder).flat.shape == (4, 4, 2)


@pytest.mark.parametrize(
    ("post", "message"),
    [
        ("text", "post must be an ornstein Posterior, found str"),
        (models.linear(X[1:], Y[1:]), "made for 60 rows, the posterior has 59"),
        (models.linear(X[:, :1], Y), "made for 2 parameters, the posterior has 1"),
        (models.linear(X[:, :1], Y, intercept=True), "plan was made"),
        (models.logistic(X, B), "plan was made"),
    ],
)
def test_a_plan_fits_its_posterior_only(post: Any, message: str, made: orn.Plan) -> None:
    with pytest.raises(orn.InputError, match=message):
        orn.sample(post, made, draws=4)


def test_objects_of_the_wrong_kind(made: orn.Plan) -> None:
    with pytest.raises(orn.InputError, match=r"plan must be made by ornstein\.plan, found str"):
        orn.sample(POST, "exact")  # type: ignore[call-overload]
    with pytest.raises(orn.InputError, match=r"post must be.*found ndarray.*ornstein\.models"):
        orn.plan(X)  # type: ignore[call-overload]
    result = orn.sample(POST, made, draws=3, chains=2)
    with pytest.raises(orn.InputError, match="at least 4 draws"):
        result.summary()
    for target in (np.eye(3), 3.0, "posteriour"):
        with pytest.raises(orn.InputError, match="target"):
            result.measured_kl(target)  # type: ignore[arg-type]


# Awkward input that works -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("post", "options"),
    [
        (POST, {"batch_size": 1}),
        (POST, {"batch_size": N}),
        (models.linear(X[:, :1], Y), {}),
        (models.linear(RNG.normal(size=(3, 4)), np.arange(3.0)), {"batch_size": 2}),
        (models.linear([[1.0, 2.0]], [1.0]), {"batch_size": 1}),
        (models.linear(X, np.zeros(N)), {}),
        (models.linear(np.rint(X).astype(int), Y), {}),
    ],
    ids=["S=1", "S=N", "D=1", "N<D", "N=1", "y=0", "integers"],
)
def test_small_and_degenerate_problems_work(post: orn.Posterior, options: Any) -> None:
    result = quick(post, **options)
    if post.num_data < N:
        assert str(result.diagnose())


@pytest.mark.parametrize("structure", orn.METHODS["sgd"].structures)
def test_sgd_on_all_rows_at_once_is_refused(structure: str) -> None:
    """Without noise there is nothing to sample with."""
    with pytest.raises(orn.UnstablePlanError, match=r"diverge.*coef.*method='exact'.*batch_size"):
        orn.plan(POST, method="sgd", structure=structure, batch_size=N)


COLUMNS: dict[str, tuple[Floats, bool, str]] = {
    "zeros": (third(np.zeros(N)), False, "third"),
    "duplicate": (third(X[:, 0]), False, "first|third"),
    "constant": (third(np.ones(N)), True, "third|intercept"),
    "tiny": (third(1e-12 * np.cos(9 * Y)), False, "third"),
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_columns_the_data_do_not_constrain(kind: str) -> None:
    table, intercept, named = COLUMNS[kind]
    result = quick(models.linear(table, Y, intercept=intercept, feature_names=THREE))
    assert result.plan.predicted_kl < 1e-6
    assert str(result.diagnose())
    (warning,) = result.plan.warnings
    assert re.search(rf"prior dominates the data for .*({named})", warning)


@pytest.mark.parametrize("kind", COLUMNS)
def test_sgd_is_refused_for_such_a_column_by_name(kind: str) -> None:
    table, intercept, named = COLUMNS[kind]
    post = models.linear(table, Y, intercept=intercept, feature_names=THREE)
    with pytest.raises(orn.UnstablePlanError, match=rf"({named}).*method='exact'"):
        orn.plan(post, method="sgd", structure="dense", batch_size=20)


@pytest.mark.parametrize("scale", [1e-12, 1e12])
@pytest.mark.parametrize("name", ["linear", "logistic", "poisson"])
def test_a_columns_unit_changes_nothing(name: str, scale: float) -> None:
    """A prior in the same unit gives the same posterior in that unit."""
    model, target = getattr(models, name), Y if name == "linear" else B
    plain, scaled = (
        orn.plan(model(X * [1.0, c], target, prior_precision=[1.0, c**2]), batch_size=20)
        for c in (1.0, scale)
    )
    unit = np.array([1.0, scale])
    np.testing.assert_allclose(scaled.center * unit, plain.center, rtol=1e-6)
    np.testing.assert_allclose(
        scaled.predicted_cov * unit * unit[:, None], plain.predicted_cov, rtol=1e-6
    )


@pytest.mark.parametrize("structure", ["dense", "diagonal"])
def test_a_columns_unit_changes_nothing_for_sgd(structure: str) -> None:
    plain, scaled = (
        orn.plan(
            models.linear(X * [1.0, c], Y, prior_precision=[1.0, c**2]),
            method="sgd",
            structure=structure,
            batch_size=20,
        )
        for c in (1.0, 1e12)
    )
    assert scaled.relaxation_steps == pytest.approx(plain.relaxation_steps)


COUNTS = np.random.default_rng(3).poisson(1e4 * np.exp(0.1 * X[:, 0]))
LARGE = {
    "counts": models.poisson(X, COUNTS, intercept=True),
    "columns": models.linear(X * [1.0, 1e8], Y),
}


@pytest.mark.parametrize("name", LARGE)
def test_large_numbers_are_planned_for(name: str) -> None:
    assert orn.plan(LARGE[name], batch_size=20).predicted_kl < 1e-6


def test_what_double_precision_can_not_resolve_is_said() -> None:
    plan = orn.plan(models.linear(X + 1e6, Y, intercept=True), batch_size=20)
    assert any("standardise X" in warning for warning in plan.warnings)
    with pytest.raises(orn.UnstablePlanError, match="noise_scale"):
        orn.plan(models.linear(X, 1e12 * Y), batch_size=20, control_variates=False)
    # Anchored gradients do not see the residuals' size.
    assert orn.plan(models.linear(X, 1e12 * Y)).relaxation_steps < 3
