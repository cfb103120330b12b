"""``theta <- theta - K ghat(theta) + Q^(1/2) xi``: SGD, preconditioned SGD, SGFS and SGLD (T2).

With steps that may decrease (R8), and means of iterates as draws (X5).
"""

from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np

from ornstein import theory
from ornstein._base.types import Array, PyTree, Vector
from ornstein.planning.rules.contract import Info, Inputs, LinearChain, Rule, register


class Here(NamedTuple):
    """Where the chain is."""

    position: Array


@register
@dataclass(frozen=True)
class FirstOrder(Rule):
    """A step along the gradient, and noise."""

    name: ClassVar[str] = "first_order"
    title: ClassVar[str] = "A first-order step"

    def epoch_covariance(self, per_epoch: int, chain: LinearChain) -> Vector:
        K, A, C_S, Q = chain
        return theory.epoch_covariance(K, A, C_S, per_epoch, Q)

    def begin(self, position: Array) -> Here:
        return Here(position)

    def advance(
        self, inputs: Inputs, state: Here, batch: PyTree, noise: Array | None
    ) -> tuple[Here, Info]:
        slope = inputs.gradient(state.position, batch)
        position = state.position - inputs.gain.matvec(slope)
        return Here(position if noise is None else position + noise), Info(slope)


class Counted(NamedTuple):
    """Where the chain is and how many steps it has made."""

    position: Array
    steps: Array


@register
@dataclass(frozen=True)
class Decreasing(Rule):
    """Gain and noise variance are ``(1 + t / steps)^-power`` of the first after t steps (R8).

    Their covariance is that of the first step; :meth:`run_covariance` is that of the draws.
    """

    name: ClassVar[str] = "decreasing"
    title: ClassVar[str] = "A decreasing step"
    stationary: ClassVar[bool] = False

    power: float
    steps: float

    def run_covariance(self, first: int, last: int, chain: LinearChain) -> Vector:
        K, A, C_S, Q = chain
        injected = np.zeros_like(A) if Q is None else Q
        decay = theory.Decay(self.power, self.steps)
        return theory.decreasing_covariance(K, A, C_S, injected, decay, first, last)

    def begin(self, position: Array) -> Counted:
        return Counted(position, jnp.zeros((), jnp.int32))

    def advance(
        self, inputs: Inputs, state: Counted, batch: PyTree, noise: Array | None
    ) -> tuple[Counted, Info]:
        slope = inputs.gradient(state.position, batch)
        scale = (1 + state.steps.astype(slope.dtype) / self.steps) ** -self.power
        position = state.position - scale * inputs.gain.matvec(slope)
        position = position if noise is None else position + jnp.sqrt(scale) * noise
        return Counted(position, state.steps + 1), Info(slope)

    def lines(self) -> list[tuple[str, str]]:
        return [("step", f"decreasing as (1 + t / {self.steps:,.0f})^-{self.power:g}")]


class Summed(NamedTuple):
    """Where the chain is, the sum of this window's iterates, and the steps since the last draw."""

    position: Array
    total: Array
    steps: Array


@register
@dataclass(frozen=True)
class Averaged(Rule):
    """Means of ``window`` successive iterates of ``inner`` (X5), within the steps of a draw."""

    name: ClassVar[str] = "averaged"
    title: ClassVar[str] = "Averaging"
    beyond_optax: ClassVar[str | None] = "means of iterates"
    vectors: ClassVar[tuple[str, ...]] = ("position", "total")

    window: int = field(metadata={"static": True})
    inner: FirstOrder = field(default_factory=FirstOrder)

    def covariance(self, chain: LinearChain) -> Vector:
        K, A, C_S, Q = chain
        return theory.averaged_covariance(K, A, C_S, self.window, Q)

    def small_step_covariance(self, chain: LinearChain) -> Vector:
        """X5 for a window far above the relaxation time."""
        _, A, C_S, _ = chain
        return theory.averaged_covariance_limit(A, C_S, 1, self.window)

    @property
    def min_thin(self) -> int:
        return self.window

    def begin(self, position: Array) -> Summed:
        return Summed(position, jnp.zeros_like(position), jnp.zeros((), jnp.int32))

    def advance(
        self, inputs: Inputs, state: Summed, batch: PyTree, noise: Array | None
    ) -> tuple[Summed, Info]:
        """Move, and add to the sum within the last ``window`` of ``thin`` steps."""
        moved, info = self.inner.advance(inputs, Here(state.position), batch, noise)
        total = jnp.where(state.steps > 0, state.total, 0)
        total = jnp.where(state.steps >= inputs.thin - self.window, total + moved.position, total)
        steps = jnp.where(state.steps + 1 >= inputs.thin, 0, state.steps + 1)
        return Summed(moved.position, total, steps), info

    def read(self, state: Summed) -> Array:
        # A product: compiled in another context, a division may round differently.
        return state.total * (1 / self.window)

    def lines(self) -> list[tuple[str, str]]:
        return [("averaging", f"over {self.window:,} successive iterates a draw")]
