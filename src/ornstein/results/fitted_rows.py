"""A ready-made model at its optimum: rows, residuals, and targets as it would simulate them."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import jax
import numpy as np
import numpy.typing as npt

from ornstein._base.types import Array, PyTree, Vector
from ornstein.models.families import Family
from ornstein.models.families.durations import Waiting
from ornstein.models.glm import Glm
from ornstein.models.hyper_targets import DrawnHyper
from ornstein.models.posterior import Posterior
from ornstein.planning.plans import Plan

_MOST_ROWS = 10_000
_WORK = 5e9  # multiplications for products of rows with a matrix, in all simulations
_LEAST_ROWS = 1_000
_STEPS = 3  # of Newton's method from the plan's point to the optimum


@dataclass(frozen=True, eq=False)
class FittedRows:
    """Some rows of a table and the model at its optimum, in double precision.

    ``design`` is (rows, F), ``coef``, ``prior`` (precisions) and ``prior_mean`` are (K, F), ``y``
    is as the family takes it, ``hyper`` has the family's numbers, ``index`` says which rows.
    """

    family: Family
    design: Vector
    offset: Vector
    trials: Vector | None
    y: Vector
    coef: Vector
    hyper: dict[str, Any]
    prior: Vector
    prior_mean: Vector
    index: npt.NDArray[np.intp]

    @cached_property
    def own(self) -> Vector:
        """The likelihood's share of the posterior's precision, (K F, K F)."""
        outputs, width = self.coef.shape
        curvature = np.asarray(_curvature(self.family, self.predictor, self.y, self.hyper))
        curvature = curvature.reshape(-1, outputs, outputs)
        if self.trials is not None:
            curvature = curvature * self.trials[:, None, None]
        found = np.empty((outputs, width, outputs, width))
        for i, j in np.ndindex(outputs, outputs):
            found[i, :, j] = self.design.T @ (curvature[:, i, j, None] * self.design)
        return found.reshape(self.coef.size, self.coef.size)

    @cached_property
    def inverse(self) -> Vector:
        """The posterior's covariance, where it is Gaussian."""
        values, vectors = np.linalg.eigh(self.own + np.diag(self.prior.reshape(-1)))
        kept = np.maximum(values, 1e-12 * values[-1])
        return np.asarray((vectors / kept) @ vectors.T)

    @property
    def gradient(self) -> Vector:
        """Of the loss and the prior, by the coefficients."""
        return self._gradient(self.y)

    def _gradient(self, y: Vector) -> Vector:
        rows = self.residuals(y, self.predictor).T @ self.design
        return np.asarray(rows + self.prior * (self.coef - self.prior_mean)).reshape(-1)

    @property
    def predictor(self) -> Vector:
        """(rows,), or (rows, K)."""
        return self._predictor(self.coef)

    def _predictor(self, coef: Vector) -> Vector:
        eta = np.asarray(self.design @ coef.T + self.offset[:, None])
        return eta if self.family.outputs > 1 else eta[:, 0]

    def residuals(self, y: Vector, eta: Vector) -> Vector:
        """First derivatives of the loss by the predictor, (rows, K)."""
        found = np.asarray(_residual(self.family, eta, y, self.hyper)).reshape(len(y), -1)
        return found if self.trials is None else found * self.trials[:, None]

    @property
    def own_curvature(self) -> Vector:
        """Every row's second derivative of the loss by its predictor, all outputs together."""
        found = np.asarray(_curvature(self.family, self.predictor, self.y, self.hyper))
        found = (
            found.reshape(len(self.y), -1).sum(axis=1)
            if self.family.outputs == 1
            else (np.trace(found, axis1=1, axis2=2))
        )
        return found if self.trials is None else found * self.trials

    def scores(self, y: Vector, eta: Vector) -> Vector:
        """Residuals in standard deviations; of classes the root of twice the loss."""
        if self.family.most_classes:
            loss = np.asarray(_loss(self.family, eta, y, self.hyper))
            return np.sqrt(2 * np.maximum(loss, 0.0))
        target = y if self.trials is None else y * self.trials
        mean = self.family.expectation(eta[None], self.numbers)[0]
        with np.errstate(all="ignore"):
            variance = np.asarray(self.family.variance(eta[None], self.numbers))[0]
        if not np.isfinite(variance).all():  # of Student's t with few degrees of freedom
            variance = np.exp(2 * self.hyper["log_noise_scale"])
        return np.asarray((target - mean) / np.sqrt(np.maximum(variance, 1e-300)))

    def simulations(self, count: int, seed: int = 0) -> Iterator[tuple[Vector, Vector]]:
        """Targets drawn from the model, and the predictor of a fit to them by a Newton step."""
        rng, eta = np.random.default_rng(seed), self.predictor
        host = eta[None] if eta.ndim == 1 else eta.T[None]
        for _ in range(count):
            y = self.family.simulate(host, self.numbers, rng)[0]
            y = y.astype(int) if self.family.outputs > 1 else y
            y = y if self.trials is None else y / self.trials
            moved = self.coef - (self.inverse @ self._gradient(y)).reshape(self.coef.shape)
            yield y, self._predictor(moved)

    @property
    def numbers(self) -> dict[str, Any]:
        """What the family's functions on the host take."""
        found = {name: np.asarray(value, float)[None, None] for name, value in self.hyper.items()}
        return found if self.trials is None else {**found, "trials": self.trials[None]}


@partial(jax.jit, static_argnums=0)
def _residual(family: Family, eta: Array, y: Array, hyper: PyTree) -> Array:
    return family.residual(eta, y, hyper)


@partial(jax.jit, static_argnums=0)
def _loss(family: Family, eta: Array, y: Array, hyper: PyTree) -> Array:
    return family.loss(eta, y, hyper)


@partial(jax.jit, static_argnums=0)
def _curvature(family: Family, eta: Array, y: Array, hyper: PyTree) -> Array:
    return family.curvature(eta, y, hyper)


def fitted_rows(
    post: Posterior, plan: Plan, simulations: int, drawn: DrawnHyper | None
) -> FittedRows | None:
    """Rows of a ready-made model; None of others, of streams and of rows with other weights."""
    model, rows = post.model, post.data
    if not isinstance(model, Glm) or plan.geometry.approximate or not isinstance(rows, dict):
        return None
    if not set(rows) <= {"x", "y", "w", "offset"}:
        return None
    if issubclass(type(model.family), Waiting) and (np.asarray(rows["y"]) < 0).any():
        return None  # how waits are censored is not modelled
    weighted = "w" in rows and model.family.name != "binomial"
    if weighted or float(post.hyper.get("past", {}).get("weight", 0.0)) > 0:
        return None
    return _at_optimum(post, plan, model, simulations, drawn)


def _at_optimum(
    post: Posterior, plan: Plan, model: Glm, simulations: int, drawn: DrawnHyper | None
) -> FittedRows:
    family, rows, hyper = model.family, post.data, dict(post.hyper)
    if drawn is not None:
        middle = np.median(drawn.eta.reshape(-1, drawn.eta.shape[-1]), axis=0)
        hyper = dict(post.with_hyper(post.learnable.host_values(middle)).hyper)
    index = _some_rows(post.num_data, max(_LEAST_ROWS, int(_WORK / (simulations * plan.dim**2))))
    x, y = (np.asarray(rows[name][index], float) for name in ("x", "y"))
    params, precision, mean = (
        post.layout.unravel(np.asarray(part, float))
        for part in (plan.center, hyper["prior_precision"], _prior_mean(hyper, plan.dim))
    )
    numbers = {one.name: params[one.name] for one in family.auxiliary}
    if "noise_scale" in hyper and not family.auxiliary:
        numbers["noise_scale"] = np.asarray(hyper["noise_scale"], float)
    some = FittedRows(
        family=family,
        design=np.column_stack([x, np.ones(len(x))]) if model.intercept else x,
        offset=np.asarray(rows["offset"][index], float) if "offset" in rows else np.zeros(len(x)),
        trials=np.asarray(rows["w"][index], float) if "w" in rows else None,
        y=y.astype(int) if family.most_classes > 2 else y,
        coef=_joined(params, model.intercept),
        hyper=numbers,
        # Of some of the rows, a share of the prior.
        prior=_joined(precision, model.intercept) * (len(index) / post.num_data),
        prior_mean=_joined(mean, model.intercept),
        index=index,
    )
    for _ in range(_STEPS):
        some = replace(
            some, coef=some.coef - (some.inverse @ some.gradient).reshape(some.coef.shape)
        )
    return some


def _some_rows(rows: int, most: int) -> npt.NDArray[np.intp]:
    count = min(_MOST_ROWS, most)
    if rows <= count:
        return np.arange(rows)
    return np.sort(np.random.default_rng(0).choice(rows, count, replace=False))


def _prior_mean(hyper: PyTree, dim: int) -> Vector:
    return np.asarray(hyper.get("prior_mean", 0.0), float) * np.ones(dim)


def _joined(params: Any, intercept: bool) -> Vector:
    """Coefficients and intercepts, (K, F)."""
    coef = np.atleast_2d(np.asarray(params["coef"], float))
    if not intercept:
        return coef
    return np.column_stack([coef, np.reshape(np.asarray(params["intercept"], float), -1)])
