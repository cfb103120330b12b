"""``draw <- (1/T) sum of the last T iterates of another rule``: means as draws (X5)."""

from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, NamedTuple, Self

import jax.numpy as jnp

from ornstein import theory
from ornstein._base.types import Array, PyTree, Vector
from ornstein.linalg.operators import Factor
from ornstein.planning.rules.contract import Info, Inputs, Kernel, LinearChain, Rule, register
from ornstein.planning.rules.first_order import FirstOrder


@register
@dataclass(frozen=True)
class Averaged(Rule):
    """Means of ``window`` successive iterates; ``inner`` makes these and remembers nothing else."""

    name: ClassVar[str] = "averaged"
    title: ClassVar[str] = "Averaging"
    beyond_optax: ClassVar[str | None] = "means of iterates"

    window: int = field(metadata={"static": True})
    inner: FirstOrder = field(default_factory=FirstOrder)

    def covariance(self, chain: LinearChain) -> Vector:
        """X5."""
        K, A, C_S, Q = chain
        return theory.averaged_covariance(K, A, C_S, self.window, Q)

    def small_step_covariance(self, chain: LinearChain) -> Vector:
        """X5 for a window far above the relaxation time."""
        return theory.averaged_covariance_limit(
            chain.hessian, chain.batch_noise_cov, 1, self.window
        )

    @property
    def min_thin(self) -> int:
        """The window."""
        return self.window

    def whitened(self, factor: Factor, dim: int) -> Self:
        """Means are in the iterates' coordinates."""
        return type(self)(self.window, self.inner.whitened(factor, dim))

    def kernel(self, inputs: Inputs) -> Kernel:
        """Its kernel; a draw is ready every ``thin`` steps."""
        inner = self.inner.kernel(inputs)
        return Kernel(
            partial(init, inner),
            inner.noise,
            partial(step, self, inner, inputs.thin),
            # A product: compiled in another context, a division may round differently.
            lambda state: state.total * (1 / self.window),
            vectors=("position", "total"),
        )

    def lines(self) -> list[tuple[str, str]]:
        """What a draw is."""
        return [("averaging", f"over {self.window:,} successive iterates a draw")]


class State(NamedTuple):
    """Where the chain is, the sum of this window's iterates, and the steps since the last draw."""

    position: Array
    total: Array
    steps: Array


def init(inner: Kernel, key: Array, position: Array) -> State:
    """Begin at a position, with an empty window."""
    begun = inner.init(key, position)
    return State(begun.position, jnp.zeros_like(begun.position), jnp.zeros((), jnp.int32))


def step(
    rule: Averaged, inner: Kernel, thin: int, state: State, batch: PyTree, noise: Array | None
) -> tuple[State, Info]:
    """Move, and add to the sum within the last ``window`` of ``thin`` steps."""
    moved, info = inner.advance(inner.init(None, state.position), batch, noise)  # type: ignore[arg-type]
    total = jnp.where(state.steps > 0, state.total, 0)
    total = jnp.where(state.steps >= thin - rule.window, total + moved.position, total)
    steps = jnp.where(state.steps + 1 >= thin, 0, state.steps + 1)
    return State(moved.position, total, steps), info
