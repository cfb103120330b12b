"""NumPyro models with their arguments, one of each kind that can be taken."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro import handlers
from numpyro.infer.reparam import LocScaleReparam

RNG = np.random.default_rng(0)
N = 40
X = RNG.normal(size=(N, 3))
Y = X @ np.array([1.0, -0.5, 0.2]) + 0.5 * RNG.normal(size=N)
COUNTS = RNG.poisson(2.0, size=N)
LABELS = RNG.integers(0, 3, size=N)
GROUPS = RNG.integers(0, 4, size=N)
TWO = np.stack([Y, -Y], axis=1)


class Example(NamedTuple):
    """A model, what it is called with, and where it differs a model of the same density."""

    model: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] = MappingProxyType({})
    plain: Callable[..., Any] | None = None


def regression(x: Any, y: Any) -> None:
    scale = numpyro.sample("scale", dist.HalfNormal(1.0))
    with numpyro.plate("columns", x.shape[1]):
        w = numpyro.sample("w", dist.Normal(0.0, scale))
    noise = numpyro.sample("noise", dist.Gamma(2.0, 2.0))
    numpyro.deterministic("ratio", scale / noise)
    with numpyro.plate("data", x.shape[0]):
        mean = numpyro.deterministic("mean", x @ w)
        numpyro.sample("y", dist.Normal(mean, noise), obs=y)


def poisson(counts: Any, exposure: Any = 1.0) -> None:
    rate = numpyro.sample("rate", dist.Gamma(2.0, 1.0))
    with numpyro.plate("data", len(counts)):
        numpyro.sample("count", dist.Poisson(rate * exposure), obs=counts)


def softmax(x: Any, label: Any) -> None:
    w = numpyro.sample("w", dist.Normal(0.0, 1.0).expand([x.shape[1], 3]).to_event(2))
    with numpyro.plate("data", x.shape[0]):
        numpyro.sample("label", dist.Categorical(logits=x @ w), obs=label)


def subsampled(x: Any, y: Any) -> None:
    w = numpyro.sample("w", dist.Normal(0.0, 1.0).expand([x.shape[1]]).to_event(1))
    with numpyro.plate("data", N, subsample_size=7) as index:
        numpyro.sample("y", dist.Normal(x[index] @ w, 1.0), obs=y[index])


def subsampled_by_numpyro(x: Any, y: Any) -> None:
    w = numpyro.sample("w", dist.Normal(0.0, 1.0).expand([x.shape[1]]).to_event(1))
    with numpyro.plate("data", N, subsample_size=7):
        mine, its = numpyro.subsample(x, event_dim=1), numpyro.subsample(y, event_dim=0)
        numpyro.sample("y", dist.Normal(mine @ w, 1.0), obs=its)


def whole(x: Any, y: Any) -> None:
    w = numpyro.sample("w", dist.Normal(0.0, 1.0).expand([x.shape[1]]).to_event(1))
    with numpyro.plate("data", N):
        numpyro.sample("y", dist.Normal(x @ w, 1.0), obs=y)


def scaled_to_all_rows(x: Any, y: Any) -> None:
    """A minibatch scaled by hand: by 1 when all rows are given."""
    w = numpyro.sample("w", dist.Normal(0.0, 1.0).expand([x.shape[1]]).to_event(1))
    with numpyro.plate("data", x.shape[0]), handlers.scale(scale=N / x.shape[0]):
        numpyro.sample("y", dist.Normal(x @ w, 1.0), obs=y)


def two_outputs(x: Any, y: Any) -> None:
    corr = numpyro.sample("corr", dist.LKJCholesky(2, 1.5))
    w = numpyro.sample("w", dist.Normal(0.0, 1.0).expand([3, 2]).to_event(2))
    with numpyro.plate("data", x.shape[0]):
        numpyro.sample("y", dist.MultivariateNormal(x @ w, scale_tril=corr), obs=y)


def inner_plate(x: Any, y: Any) -> None:
    w = numpyro.sample("w", dist.Normal(0.0, 1.0).expand([3]).to_event(1))
    with numpyro.plate("data", x.shape[0], dim=-2), numpyro.plate("outputs", 2, dim=-1):
        numpyro.sample("y", dist.StudentT(4.0, (x @ w)[:, None], 1.0), obs=y)


def captured_outputs(x: Any) -> None:
    """Observed values that are no argument, rows along their last axis."""
    w = numpyro.sample("w", dist.Normal(0.0, 1.0).expand([3]).to_event(1))
    with numpyro.plate("outputs", 2, dim=-2), numpyro.plate("data", x.shape[0], dim=-1):
        numpyro.sample("y", dist.Normal(x @ w, 1.0), obs=TWO.T)


def grouped(group: Any, y: Any, slope: Any) -> None:
    """Random effects of groups; a dict of arguments, and a fixed array."""
    spread = numpyro.sample("spread", dist.HalfCauchy(1.0))
    with numpyro.plate("groups", 4):
        level = numpyro.sample("level", dist.Normal(0.0, spread))
    with numpyro.plate("data", N):
        mean = level[group["of"]] + group["x"] @ slope
        numpyro.sample("y", dist.Normal(mean, 1.0), obs=y)


def mixture(y: Any) -> None:
    weights = numpyro.sample("weights", dist.Dirichlet(jnp.ones(3)))
    means = numpyro.sample(
        "means", dist.TransformedDistribution(
            dist.Normal(0.0, 1.0).expand([3]).to_event(1), dist.transforms.OrderedTransform()
        ),
    )  # fmt: skip
    with numpyro.plate("data", len(y)):
        parts = dist.Normal(means, 1.0)
        numpyro.sample("y", dist.MixtureSameFamily(dist.Categorical(weights), parts), obs=y)


def empirical(x: Any, y: Any) -> None:
    """A prior, and a support, that look at the rows."""
    level = numpyro.sample("level", dist.Normal(y.mean(), 2.5 * y.std()))
    noise = numpyro.sample("noise", dist.Uniform(0.0, 2 * y.std()))
    slope = numpyro.sample("slope", dist.Uniform(-noise, noise))
    with numpyro.plate("data", len(y)):
        numpyro.sample("y", dist.Normal(level + slope * x[:, 0], noise), obs=y)


def factored(x: Any, y: Any) -> None:
    """Potentials inside the plate and outside, a mask and an improper prior."""
    w = numpyro.sample("w", dist.ImproperUniform(dist.constraints.real, (), (3,)))
    numpyro.factor("ridge", -0.5 * jnp.sum(w**2))
    with numpyro.plate("data", x.shape[0]):
        numpyro.factor("tail", -(jnp.abs(x @ w) ** 1.5))
        with handlers.mask(mask=y > 0):
            numpyro.sample("y", dist.Normal(x @ w, 1.0), obs=y)


EXAMPLES = {
    "regression": Example(regression, (X, Y)),
    "float32 and jax": Example(regression, (jnp.asarray(X), Y.astype(np.float32))),
    "poisson": Example(poisson, (COUNTS,), {"exposure": 1.0 + np.arange(N) / N}),
    "softmax": Example(softmax, (X, LABELS)),
    "subsampled": Example(subsampled, (X, Y), plain=whole),
    "subsampled by numpyro": Example(subsampled_by_numpyro, (X, Y), plain=whole),
    "scaled to all rows": Example(scaled_to_all_rows, (X, Y), plain=whole),
    "two outputs": Example(two_outputs, (X, TWO)),
    "inner plate": Example(inner_plate, (X, TWO)),
    "captured outputs": Example(captured_outputs, (X,)),
    "grouped": Example(grouped, ({"of": GROUPS, "x": X}, Y), {"slope": np.array([0.3, 0.1, 0.0])}),
    "mixture": Example(mixture, (Y,)),
    "empirical": Example(empirical, (X, Y)),
    "factored": Example(factored, (X, Y)),
    "reparametrised": Example(
        handlers.reparam(regression, config={"w": LocScaleReparam(0.0)}), (X, Y)
    ),
}


def substituted(example: Example) -> Callable[..., Any]:
    """The model whose potential is the truth."""
    return example.plain or example.model
