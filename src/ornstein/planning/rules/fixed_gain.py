"""Rules of a fixed gain: first-order steps, decreasing ones, means of iterates, and momentum."""

from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np

from ornstein import theory
from ornstein._base import checks
from ornstein._base.errors import InputError
from ornstein._base.types import Array, PyTree, Vector
from ornstein.planning.rules.contract import Info, Inputs, LinearChain, Rule, register


class Here(NamedTuple):
    """Where the chain is."""

    position: Array


@register
@dataclass(frozen=True)
class FirstOrder(Rule):
    """``theta <- theta - K ghat(theta) + Q^(1/2) xi``: SGD, SGFS and SGLD (T2)."""

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


class Moving(NamedTuple):
    """Where the chain is and how it moves."""

    position: Array
    velocity: Array


@register
@dataclass(frozen=True)
class Momentum(Rule):
    """``v <- m v - K ghat(theta) + Q^(1/2) xi; theta <- theta + v``: SGD with momentum m (X4).

    Momentum is optax's and PyTorch's; X4's friction is ``mu = 1 - m``.
    """

    name: ClassVar[str] = "momentum"
    title: ClassVar[str] = "Momentum"
    vectors: ClassVar[tuple[str, ...]] = ("position", "velocity")

    momentum: float

    @classmethod
    def checked(cls, momentum: object) -> "Momentum":
        """The rule for an option, between 0 and 1."""
        value = checks.non_negative("momentum", momentum)
        if value >= 1:
            raise InputError(
                "momentum is the share of the velocity that a step keeps, as in optax and PyTorch: "
                f"at least 0 (none) and below 1, 0.9 keeps 90 %; found {momentum!r}."
            )
        return cls(value)

    @property
    def friction(self) -> float:
        """``mu``, the share of the velocity that is lost."""
        return 1 - self.momentum

    def covariance(self, chain: LinearChain) -> Vector:
        K, A, C_S, Q = chain
        return theory.momentum_covariance(K, A, C_S, self.friction, Q)

    def small_step_covariance(self, chain: LinearChain) -> Vector:
        """T1 for ``K / mu`` and ``Q / mu^2``."""
        (K, A, C_S, Q), mu = chain, self.friction
        return theory.ou_covariance(K / mu, A, C_S, None if Q is None else Q / mu**2)

    @property
    def stability_limit(self) -> float:
        return theory.stability_limit(self.friction)

    def relaxation_steps(self, rates: Vector) -> Vector:
        return theory.relaxation_steps(rates, self.friction)

    def begin(self, position: Array) -> Moving:
        return Moving(position, jnp.zeros_like(position))

    def advance(
        self, inputs: Inputs, state: Moving, batch: PyTree, noise: Array | None
    ) -> tuple[Moving, Info]:
        slope = inputs.gradient(state.position, batch)
        velocity = self.momentum * state.velocity - inputs.gain.matvec(slope)
        velocity = velocity if noise is None else velocity + noise
        return Moving(state.position + velocity, velocity), Info(slope)

    def lines(self) -> list[tuple[str, str]]:
        return [("momentum", f"{self.momentum:g} (friction {self.friction:g})")]
