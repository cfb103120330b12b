"""A user's own functions: the arrays they capture, in either precision, and their mistakes."""

from collections.abc import Callable
from functools import partial, update_wrapper, wraps
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse

import ornstein as orn
from ornstein._base import captured

Function = Callable[..., Any]

ONES = np.array([1.0, 1.0])
TWOS = np.array([2.0, 2.0])


def from_global(p: Any) -> Any:
    return jnp.sum(p * ONES)


def from_helper(p: Any) -> Any:
    return from_global(p) + jnp.sum(p * TWOS)


def from_default(p: Any, weight: Any = TWOS) -> Any:
    return jnp.sum(p * weight)


def from_keyword(p: Any, *, weight: Any = TWOS) -> Any:
    return jnp.sum(p * weight)


def from_closure(weight: Any = None) -> Function:
    held = np.array([3.0, 4.0]) if weight is None else weight

    def inner(p: Any) -> Any:
        return (lambda q: jnp.sum(q * held))(p)

    return inner


def from_recursion(p: Any, depth: int = 2) -> Any:
    return jnp.sum(p * ONES) if depth == 0 else from_recursion(p, depth - 1)


def from_nested_lambda(p: Any) -> Any:
    return (lambda q: (lambda r: jnp.sum(r * ONES))(q))(p)


def twice_the_same() -> Function:
    held = np.array([3.0, 4.0])
    inner = from_closure(held)
    return lambda p: inner(p) + jnp.sum(p * held) + from_global(p)


@jax.jit
def from_jitted(p: Any) -> Any:
    return jnp.sum(p * ONES)


@wraps(from_global)
def from_wrapper(*arguments: Any) -> Any:
    return 2.0 * from_global(*arguments)


CAPTURING: dict[str, tuple[Function, int]] = {
    "global": (from_global, 1),
    "helper": (from_helper, 2),
    "default": (from_default, 1),
    "keyword default": (from_keyword, 1),
    "closure": (from_closure(), 1),
    "nested lambda": (from_nested_lambda, 1),
    "partial": (partial(from_default, weight=ONES), 2),
    "partial by position": (partial(lambda weight, p: jnp.sum(p * weight), ONES), 1),
    "jitted": (from_jitted, 1),
    "jitted closure": (jax.jit(from_closure()), 1),
    "wrapper": (from_wrapper, 1),
    "one array three times": (twice_the_same(), 3),
    "none": (jnp.sum, 0),
}


@pytest.mark.parametrize("kind", CAPTURING)
def test_constants_are_found_and_bound(kind: str) -> None:
    function, count = CAPTURING[kind]
    p = jnp.array([0.5, 0.25])
    before = float(function(p))
    found = captured.constants(function)
    assert len(found) == count
    assert float(captured.bind(function, found)(p)) == before
    if count:
        doubled = captured.bind(function, [2 * array for array in found])
        assert float(doubled(p)) == 2 * before
    assert float(function(p)) == before, "the user's function is left alone"


def test_constants_are_copies() -> None:
    weight = np.array([1.0, 2.0])
    (found,) = captured.constants(from_closure(weight))
    weight[:] = 0.0
    assert found.tolist() == [1.0, 2.0]


def test_recursion_ends_and_keeps_its_value() -> None:
    found = captured.constants(from_recursion)
    assert float(captured.bind(from_recursion, found)(jnp.ones(2))) == 2.0


class Scaled:
    """A decorator as an object: unwrapping it would lose the factor."""

    def __init__(self, function: Function) -> None:
        update_wrapper(self, function)
        self.function = function

    def __call__(self, p: Any) -> Any:
        return 3.0 * self.function(p)


def with_own_derivative() -> Function:
    weight = np.array([1.0, 1.0])

    @jax.custom_jvp
    def inner(p: Any) -> Any:
        return jnp.sum(p * weight)

    @inner.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        return inner(*primals), 7.0 * jnp.sum(tangents[0])

    return lambda p: inner(p)


@pytest.mark.parametrize(
    "function",
    [
        from_closure(),
        with_own_derivative(),
        Scaled(from_closure()),
    ],
    ids=["closure", "custom_jvp", "object"],
)
def test_binding_keeps_value_and_derivative(function: Function) -> None:
    bound = captured.bind(function, captured.constants(function))
    p = jnp.array([0.5, 0.25])
    for expected, found in zip(
        jax.value_and_grad(function)(p), jax.value_and_grad(bound)(p), strict=True
    ):
        np.testing.assert_array_equal(found, expected)


# In a posterior, in both precisions --------------------------------------------------------------

RNG = np.random.default_rng(0)
X = RNG.normal(size=(50, 2))
Y = X[:, 0] + RNG.normal(size=50)
ROWS = {"x": X, "y": Y}
CENTER = np.array([1.0, 2.0])  # for the functions below only: JAX remembers arrays it has met
DEEP = np.array([1.0, 2.0])
LISTED = [np.array([1.0, 2.0])]
SWAP = np.array([1, 0])
JITTED = np.array([1.0, 2.0])


def likelihood(p: Any, row: Any) -> Any:
    return -0.5 * (row["y"] - row["x"] @ p["w"]) ** 2


def prior(p: Any) -> Any:
    return -0.5 * jnp.sum(p["w"] ** 2)


def own(data: Any = ROWS, init: Any = None, ll: Any = likelihood, lp: Any = prior) -> Any:
    return orn.Posterior(ll, lp, data, init={"w": np.zeros(2)} if init is None else init)


def square(p: Any, center: Any) -> Any:
    return -0.5 * jnp.sum((p["w"] - center) ** 2)


def helped_prior(p: Any) -> Any:
    return square(p, CENTER)


def test_captured_arrays_work_in_both_precisions() -> None:
    scale = np.array([2.0])

    @jax.jit
    def log_likelihood(p: Any, row: Any) -> Any:
        return likelihood(p, row) / scale[0]

    with jax.enable_x64(False):
        post = own(ll=log_likelihood, lp=helped_prior)
        single = orn.sample(post, batch_size=10, chains=1, draws=4)
        assert float(helped_prior({"w": jnp.zeros(2)})) == -2.5, "the user's own still works"
    with jax.enable_x64(True):
        double = orn.sample(post, batch_size=10, chains=1, draws=4)
    assert (single.settings.dtype, double.settings.dtype) == ("float32", "float64")
    np.testing.assert_array_equal(single.plan.center, double.plan.center)
    with jax.enable_x64(False):
        assert np.isfinite(orn.sample(post, single.plan, chains=1, draws=4).flat).all()
        row = {"x": jnp.zeros(2), "y": jnp.ones(())}
        assert float(log_likelihood({"w": jnp.zeros(2)}, row)) == -0.25


class Centred:
    """A prior as a method."""

    def __init__(self) -> None:
        self.center = np.array([1.0, 2.0])

    def log_prior(self, p: Any) -> Any:
        return square(p, self.center)

    __call__ = log_prior


HELD = Centred()


def default_prior(p: Any, center: Any = np.array([1.0, 2.0])) -> Any:  # noqa: B008
    return square(p, center)


def recursive_prior(p: Any, depth: int = 2) -> Any:
    return square(p, DEEP) if depth == 0 else recursive_prior(p, depth - 1)


@jax.jit
def jitted_global(p: Any) -> Any:
    return square(p, JITTED)


@pytest.mark.parametrize(
    "log_prior",
    [
        default_prior,
        recursive_prior,
        lambda p: square(p, jnp.asarray(0.0)) + p["w"][SWAP][0],
        Centred().log_prior,
        lambda p: square(p, LISTED[0]),
        lambda p: jitted_global(p),
        Centred(),
        lambda p: square(p, HELD.center),
    ],
    ids=[
        "default",
        "recursion",
        "integers",
        "method",
        "list",
        "jitted global",
        "callable object",
        "global object",
    ],
)
def test_arrays_in_any_place_work_from_single_precision(log_prior: Function) -> None:
    """A posterior is made and sampled in the user's precision, but planned for in float64."""
    with jax.enable_x64(False):
        post = own(lp=log_prior)
        assert orn.plan(post, batch_size=10).predicted_kl < 1e-9
        gradient = jax.jit(post.model.prior_gradient)(jnp.ones(2), post.hyper)
    assert gradient.dtype == np.float32


# What functions, data and starts may be -----------------------------------------------------------


def flat(p: Any) -> Any:
    """An improper prior."""
    return 0.0 * jnp.sum(p["w"])


def failing(*_: Any) -> Any:
    raise RuntimeError("boom")


BAD_POSTERIORS: list[Any] = [
    (lambda: own({"x": X, "y": np.append(Y[1:], np.nan)}), r"data\['y'\] has 1 NaN"),
    (lambda: own({"x": X * [1.0, np.inf], "y": Y}), r"data\['x'\] has 50 NaN or infinite"),
    (lambda: own({"x": X, "y": Y.astype(str)}), r"data\['y'\] must be numeric, found dtype <U"),
    (lambda: own({"x": X, "y": Y + 1j}), r"data\['y'\] must be numeric.*complex"),
    (lambda: own({"x": X, "y": Y.astype(object)}), r"data\['y'\] must be numeric.*object"),
    (lambda: own({"x": X, "y": Y[:5]}), r"5 rows and data.*50.*share a leading axis"),
    (lambda: own({"x": X[:0], "y": Y[:0]}), r"leading axis of rows"),
    (lambda: own({}), r"data holds no arrays"),
    (lambda: own({"x": scipy.sparse.csr_array(X), "y": Y}), r"data\['x'\].*sparse"),
    (lambda: own({"x": X, "y": 1.0}), r"data\['y'\].*rows"),
    (lambda: own({"x": X, "y": np.ma.masked_greater(Y, 1)}), "mask"),
    (lambda: own(init={"w": np.array([np.nan, 0.0])}), r"init.*holds NaN"),
    (lambda: own(init={}), r"init holds no numbers"),
    (lambda: own(init={"w": "a"}), r"init.*array of numbers"),
    (lambda: own(init={"w": np.zeros(2) + 1j}), r"init.*array of numbers"),
    (
        lambda: orn.plan(orn.Posterior(likelihood, prior, ROWS)),
        r"Pass init= to Posterior, or at= to plan",
    ),
    (lambda: own(ll=3), r"log_likelihood must be a function, found int"),
    (lambda: own(lp=None), r"log_prior must be a function, found NoneType"),
    (lambda: own(ll=lambda p, r: r["x"] * p["w"]), r"log_likelihood.*one number.*\(2,\)"),
    (lambda: own(lp=lambda p: p["w"]), r"log_prior must return one number.*\(2,\)"),
    (lambda: own(ll=lambda _p, _r: None), r"log_likelihood.*one number"),
    (lambda: own(lp=lambda p: {"a": p["w"][0]}), r"log_prior.*one number"),
    (lambda: orn.plan(own(lp=lambda _: 0)), r"log_prior.*float"),
    (lambda: own(ll=failing), r"log_likelihood.*boom"),
    (lambda: own(lp=lambda p: p["v"]), r"log_prior.*'v'"),
    (lambda: own(init={"w": np.zeros(3)}), r"log_likelihood"),
]


@pytest.mark.parametrize(("build", "message"), BAD_POSTERIORS)
def test_bad_posteriors(build: Function, message: str) -> None:
    with pytest.raises(orn.InputError, match=message):
        build()


def logistic(p: Any, row: Any) -> Any:
    return row["y"] * (row["x"] @ p["w"]) - jnp.logaddexp(0.0, row["x"] @ p["w"])


APART = {"x": (Z := np.random.default_rng(1).normal(size=(50, 2))), "y": 1.0 * (Z[:, 0] > 0)}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lp": lambda p: jnp.log(-1 - p["w"][0] ** 2)}, "not finite at init"),
        ({"ll": lambda p, r: jnp.where(r["y"] > 1, jnp.nan, p["w"][0])}, "not finite at init"),
        ({"ll": lambda p, r: -jnp.abs(r["y"] - r["x"] @ p["w"])}, "smooth"),
        ({"ll": lambda p, _: jnp.sum(p["w"] ** 2), "lp": flat}, "proper prior"),
        ({"init": {"w": np.zeros(2), "unused": 0.0}}, "proper prior"),
        ({"data": APART, "ll": logistic, "lp": flat}, "prior"),
    ],
)
def test_losses_without_a_strict_minimum(changes: Any, message: str) -> None:
    with pytest.raises(orn.OptimumError, match=message):
        orn.plan(own(**changes), batch_size=20)


def test_planning_at_a_point_that_is_not_convex() -> None:
    double_well = own(ll=lambda p, _: -((p["w"][0] ** 2 - 1) ** 2))
    with pytest.raises(orn.UnstablePlanError, match="not convex"):
        orn.plan(double_well, at={"w": np.zeros(2)}, batch_size=20)
