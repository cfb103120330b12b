"""Rotation steps: exact motion in the Gaussian at the optimum, kicked by what is not Gaussian."""

from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp

from ornstein import theory
from ornstein._base.types import Array, PyTree, Vector
from ornstein.planning.rules.contract import Info, Inputs, LinearChain, Rule, register
from ornstein.planning.rules.fixed_gain import Moving


@register
@dataclass(frozen=True)
class Rotation(Rule):
    """``v <- r v + Q^(1/2) xi``, turn, ``v <- v - 2 sin(h/2) (K ghat - x)``, turn (X11).

    Positions x count from the optimum; a turn is a rotation of (x, v) by half the angle h.
    """

    name: ClassVar[str] = "rotation"
    title: ClassVar[str] = "A rotation step"
    beyond_optax: ClassVar[str | None] = "gradients at points between two positions"
    vectors: ClassVar[tuple[str, ...]] = ("position", "velocity")

    angle: float  # h
    keep: float  # r

    def covariance(self, chain: LinearChain) -> Vector:
        K, A, C_S, Q = chain
        return theory.rotation_covariance(K, A, C_S, self.angle, self.keep, Q)

    def small_step_covariance(self, chain: LinearChain) -> Vector:
        """The same: steps of any angle are exact."""
        return self.covariance(chain)

    @property
    def stability_limit(self) -> float:
        return theory.rotation_limit(self.angle)

    @property
    def kick(self) -> float:
        return theory.kick(self.angle)

    def relaxation_steps(self, rates: Vector) -> Vector:
        return theory.rotation_relaxation(rates, self.angle, self.keep)

    def begin(self, position: Array) -> Moving:
        return Moving(position, jnp.zeros_like(position))

    def advance(
        self, inputs: Inputs, state: Moving, batch: PyTree, noise: Array | None
    ) -> tuple[Moving, Info]:
        half = 0.5 * jnp.asarray(self.angle, state.position.dtype)
        cos, sin = jnp.cos(half), jnp.sin(half)
        v = self.keep * state.velocity
        v = v if noise is None else v + noise
        x, v = cos * state.position + sin * v, cos * v - sin * state.position
        slope = inputs.gradient(x, batch)
        v = v - 2 * sin * (inputs.gain.matvec(slope) - x)
        return Moving(cos * x + sin * v, cos * v - sin * x), Info(slope)

    def lines(self) -> list[tuple[str, str]]:
        return [("rotation", f"by {self.angle:.3g} a step; the velocity keeps {self.keep:.2g}")]
