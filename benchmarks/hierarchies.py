"""Hierarchies and a horseshoe as NumPyro models, with their data: where Gaussians fail.

Every model says its priors. A hierarchy names the sites that are compared; two models of one
posterior, such as eight schools centred and not, share a reference.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import numpyro
import numpyro.distributions as dist

Floats = npt.NDArray[np.floating]
Ints = npt.NDArray[np.integer]

_FIRST = 5  # of many effects, how many a reference keeps


@dataclass(frozen=True)
class Hierarchy:
    """A NumPyro model, its arguments, and what of it is compared."""

    model: Callable[..., None]
    args: tuple[Any, ...]
    sites: tuple[str, ...]
    """Sites of which a reference is kept; of long ones the first five entries."""
    rows: int
    reference: str
    """The name under which the reference is kept."""
    target_accept: float = 0.8


class MixedRows(NamedTuple):
    """Rows of a mixed logistic regression, in order of their groups."""

    group: Ints
    x: Floats
    y: Ints
    groups: int


def mixed_rows(groups: int, rows: int) -> MixedRows:
    """``y ~ sigmoid(intercept + slope x + b[group])``; sd of b 1, slope 1, intercept -0.5."""
    rng = np.random.default_rng([groups, rows])
    group = np.repeat(np.arange(groups), rows)
    x = rng.normal(size=groups * rows)
    eta = -0.5 + x + rng.normal(size=groups)[group]
    y = (rng.random(len(x)) < 1 / (1 + np.exp(-eta))).astype(np.int64)
    return MixedRows(group, x, y, groups)


def mixed_model(rows: MixedRows) -> None:
    """Random intercepts, not centred: sd ~ half-normal(1); intercept, slope ~ N(0, 10^2)."""
    intercept = numpyro.sample("intercept", dist.Normal(0.0, 10.0))
    slope = numpyro.sample("slope", dist.Normal(0.0, 10.0))
    sd = numpyro.sample("sd", dist.HalfNormal(1.0))
    with numpyro.plate("groups", rows.groups):
        z = numpyro.sample("z", dist.Normal(0.0, 1.0))
    effect = numpyro.deterministic("effect", sd * z)
    eta = intercept + slope * rows.x + effect[rows.group]
    with numpyro.plate("rows", len(rows.x)):
        numpyro.sample("y", dist.Bernoulli(logits=eta), obs=jnp.asarray(rows.y))


class SchoolRows(NamedTuple):
    """A row for each of the eight schools: its effect and the standard error of that."""

    school: Ints
    effect: Floats
    error: Floats


SCHOOLS = SchoolRows(
    np.arange(8),
    np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0]),
    np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0]),
)


def schools_not_centred(rows: SchoolRows) -> None:
    """Eight schools, theta = mu + tau z: mu ~ N(0, 5^2), tau ~ half-Cauchy(5)."""
    mu = numpyro.sample("mu", dist.Normal(0.0, 5.0))
    tau = numpyro.sample("tau", dist.HalfCauchy(5.0))
    with numpyro.plate("schools", 8):
        z = numpyro.sample("z", dist.Normal(0.0, 1.0))
    _observed(numpyro.deterministic("theta", mu + tau * z), rows)


def schools_centred(rows: SchoolRows) -> None:
    """Eight schools as they are written down, theta ~ N(mu, tau^2): a funnel."""
    mu = numpyro.sample("mu", dist.Normal(0.0, 5.0))
    tau = numpyro.sample("tau", dist.HalfCauchy(5.0))
    with numpyro.plate("schools", 8):
        theta = numpyro.sample("theta", dist.Normal(mu, tau))
    _observed(theta, rows)


def _observed(theta: jax.Array, rows: SchoolRows) -> None:
    with numpyro.plate("rows", len(rows.school)):
        mean, error = theta[rows.school], jnp.asarray(rows.error)
        numpyro.sample("y", dist.Normal(mean, error), obs=jnp.asarray(rows.effect))


class TallRows(NamedTuple):
    """Rows of the hierarchy with many rows per group."""

    group: Ints
    X: Floats
    y: Ints
    groups: int


def tall_rows(groups: int = 100, rows: int = 20_000) -> TallRows:
    """Groups of unequal size; three columns; sd of the groups' intercepts 0.7."""
    rng = np.random.default_rng([groups, rows, 7])
    group = rng.choice(groups, p=rng.dirichlet(np.full(groups, 2.0)), size=rows)
    X = rng.normal(size=(rows, 3))
    eta = -1 + X @ np.array([0.5, -0.5, 0.2]) + 0.7 * rng.normal(size=groups)[group]
    y = (rng.random(rows) < 1 / (1 + np.exp(-eta))).astype(np.int64)
    return TallRows(group, X, y, groups)


def tall_model(rows: TallRows) -> None:
    """Logistic, not centred: tau ~ half-normal(1); mu, coef ~ N(0, 1)."""
    mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
    tau = numpyro.sample("tau", dist.HalfNormal(1.0))
    with numpyro.plate("columns", rows.X.shape[1]):
        coef = numpyro.sample("coef", dist.Normal(0.0, 1.0))
    with numpyro.plate("groups", rows.groups):
        z = numpyro.sample("z", dist.Normal(0.0, 1.0))
    effect = numpyro.deterministic("effect", tau * z)
    with numpyro.plate("rows", len(rows.y)):
        eta = mu + jnp.asarray(rows.X) @ coef + effect[rows.group]
        numpyro.sample("y", dist.Bernoulli(logits=eta), obs=jnp.asarray(rows.y))


def horseshoe_rows() -> tuple[Floats, Floats]:
    """200 rows of 40 columns; five coefficients are not zero."""
    rng = np.random.default_rng(8)
    X = rng.normal(size=(200, 40))
    coef = np.zeros(40)
    coef[:5] = [2.0, -1.5, 1.0, 0.5, 0.3]
    return X, X @ coef + rng.normal(size=200)


def horseshoe_model(X: Floats, y: Floats) -> None:
    """Coefficients tau lambda z: tau ~ half-Cauchy(0.1), lambda ~ half-Cauchy(1).

    The noise's sigma ~ half-normal(2). Half-Cauchy variables are written as ratios of a half-normal
    and the root of a Gamma variable, whose tails are short.
    """
    columns = X.shape[1]
    sigma = numpyro.sample("sigma", dist.HalfNormal(2.0))
    tau = 0.1 * _half_cauchy("tau", ())
    local = _half_cauchy("lambda", (columns,))
    z = numpyro.sample("z", dist.Normal(0.0, 1.0).expand([columns]).to_event(1))
    coef = numpyro.deterministic("coef", tau * local * z)
    numpyro.deterministic("log_tau", jnp.log(tau))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Normal(jnp.asarray(X) @ coef, sigma), obs=jnp.asarray(y))


def _half_cauchy(name: str, shape: tuple[int, ...]) -> jax.Array:
    """A standard half-Cauchy variable: ``|normal| / sqrt(Gamma(1/2, 1/2))``."""
    event = len(shape)
    size = numpyro.sample(f"{name}_size", dist.HalfNormal(1.0).expand(shape).to_event(event))
    rate = numpyro.sample(f"{name}_rate", dist.Gamma(0.5, 0.5).expand(shape).to_event(event))
    return size / jnp.sqrt(rate)


def _mixed(groups: int, rows: int) -> Hierarchy:
    sites = ("sd", "slope", "intercept", "effect")
    data = mixed_rows(groups, rows)
    return Hierarchy(mixed_model, (data,), sites, len(data.x), f"mixed_{groups}x{rows}", 0.9)


def _schools(model: Callable[..., None]) -> Hierarchy:
    return Hierarchy(model, (SCHOOLS,), ("mu", "tau", "theta"), 8, "schools", 0.99)


def _tall() -> Hierarchy:
    data = tall_rows()
    return Hierarchy(tall_model, (data,), ("tau", "mu", "coef", "effect"), len(data.y), "tall")


def _horseshoe() -> Hierarchy:
    X, y = horseshoe_rows()
    return Hierarchy(
        horseshoe_model, (X, y), ("log_tau", "sigma", "coef"), len(y), "horseshoe", 0.99
    )


HIERARCHIES: Mapping[str, Callable[[], Hierarchy]] = MappingProxyType(
    {
        "mixed_100x20": lambda: _mixed(100, 20),
        "mixed_300x4": lambda: _mixed(300, 4),
        "schools": lambda: _schools(schools_not_centred),
        "schools_centred": lambda: _schools(schools_centred),
        "tall": _tall,
        "horseshoe": _horseshoe,
    }
)
"""Every hierarchy by name."""


def kept(site: str, values: Floats) -> dict[str, Floats]:
    """Entries of a site that a reference keeps, by label; values are (chains, draws, ...)."""
    if values.ndim == 2:
        return {site: values}
    last = values.shape[2] if site in ("coef", "theta") else _FIRST
    return {f"{site}[{i}]": values[:, :, i] for i in range(last)}
