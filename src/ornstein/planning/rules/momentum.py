"""``v <- m v - K ghat(theta) + Q^(1/2) xi; theta <- theta + v``: SGD with momentum m (X4).

Momentum is optax's and PyTorch's; X4's friction is ``mu = 1 - m``.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax.numpy as jnp

from ornstein import theory
from ornstein._base import checks
from ornstein._base.errors import InputError
from ornstein._base.types import Array, PyTree, Vector
from ornstein.planning.rules.contract import Info, Inputs, LinearChain, Rule, register


class Moving(NamedTuple):
    """Where the chain is and how it moves."""

    position: Array
    velocity: Array


@register
@dataclass(frozen=True)
class Momentum(Rule):
    """A step that keeps the share ``momentum`` of its velocity."""

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
