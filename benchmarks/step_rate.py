"""Steps per second of the sampling loop, against plain SGD in ``lax.scan`` in the same process.

Workloads (float32, every tenth iterate kept): W1 linear regression, N=4898, D=11, S=100;
W2 logistic, N=245057, D=3, S=10000; W4 = W1 with 64 chains. Synthetic rows of those shapes.
Medians of interleaved repeats; ratios are what to trust.
"""

import argparse
from collections.abc import Callable
from statistics import median
from time import perf_counter

import jax
import jax.numpy as jnp
import numpy as np

import ornstein as orn


def workload(name: str) -> tuple[orn.Posterior, int, int]:
    """Posterior, batch size and chains."""
    rng = np.random.default_rng(0)
    rows, columns, batch = (245_057, 3, 10_000) if name == "W2" else (4898, 11, 100)
    X = rng.normal(size=(rows, columns))
    eta = X @ rng.normal(size=columns)
    if name == "W2":
        return orn.models.logistic(X, eta + rng.logistic(size=rows) > 0), batch, 1
    return orn.models.linear(X, eta + rng.normal(size=rows)), batch, 64 if name == "W4" else 1


def ours(post: orn.Posterior, batch: int, chains: int, batches: str) -> Callable[[int], float]:
    """Chain-steps per second of ``orn.sample``, from the clock around its loop."""
    plan = orn.plan(post, batch_size=batch, batches=batches)

    def rate(steps: int) -> float:
        result = orn.sample(post, plan, chains=chains, draws=steps // 10, thin=10, dtype="float32")
        return chains * result.steps / result.seconds

    return rate


def plain(post: orn.Posterior, batch: int, chains: int) -> Callable[[int], float]:
    """The loop one would write first: random rows, ``grad`` of the mean loss, a scalar step."""
    X, y = jnp.asarray(post.data["x"], "float32"), jnp.asarray(post.data["y"], "float32")

    def loss(theta: jax.Array, index: jax.Array) -> jax.Array:
        rows = {"x": X[index], "y": y[index]}
        each = jax.vmap(post.log_likelihood, in_axes=(None, 0))({"coef": theta}, rows)
        return -each.mean()

    def step(
        state: tuple[jax.Array, jax.Array], _: None
    ) -> tuple[tuple[jax.Array, jax.Array], None]:
        theta, key = state
        key, draw = jax.random.split(key)
        index = jax.random.randint(draw, (batch,), 0, len(X))
        return (theta - 1e-3 * jax.grad(loss)(theta, index), key), None

    def chain(key: jax.Array, kept: jax.Array) -> jax.Array:
        def keep(
            state: tuple[jax.Array, jax.Array], _: jax.Array
        ) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
            state, _ = jax.lax.scan(step, state, None, length=10)
            return state, state[0]

        return jax.lax.scan(keep, (jnp.zeros(X.shape[1]), key), kept)[1]

    run = jax.jit(jax.vmap(chain, in_axes=(0, None)))
    keys = jax.random.split(jax.random.key(0), chains)

    def rate(steps: int) -> float:
        kept = jnp.arange(max(1, steps // 10))
        began = perf_counter()
        run(keys, kept).block_until_ready()
        return chains * len(kept) * 10 / (perf_counter() - began)

    return rate


def main() -> None:
    """Print medians and ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=9)
    repeats = parser.parse_args().repeats
    print(f"{'':4}{'windows':>14}{'independent':>14}{'plain SGD':>14}{'ratio':>8}")
    for name, steps, plain_steps in (
        ("W1", 200_000, 50_000),
        ("W2", 4_000, 500),
        ("W4", 10_000, 1_000),
    ):
        post, batch, chains = workload(name)
        runs = [
            (ours(post, batch, chains, "windows"), steps),
            (ours(post, batch, chains, "independent"), steps),
            (plain(post, batch, chains), plain_steps),
        ]
        for run, count in runs:
            run(count)  # compiles
        rates = [[run(count) for run, count in runs] for _ in range(repeats)]
        windows, independent, baseline = (median(column) for column in zip(*rates, strict=True))
        figures = f"{windows:14,.0f}{independent:14,.0f}{baseline:14,.0f}"
        print(f"{name:4}{figures}{windows / baseline:8.1f}")


if __name__ == "__main__":
    main()
