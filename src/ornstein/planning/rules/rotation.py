"""Rotation steps: exact motion in the Gaussian at the optimum, kicked by what is not Gaussian."""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import jax
import jax.numpy as jnp

from ornstein import theory
from ornstein._base.types import Array, PyTree, Vector
from ornstein.planning.rules.contract import Info, Inputs, LinearChain, Rule, register
from ornstein.planning.rules.fixed_gain import Moving

_VARIED = 0.2  # of an angle, to either side


@register
@dataclass(frozen=True)
class Rotation(Rule):
    """``v <- r v + Q^(1/2) xi``, turn, ``v <- v - 2 sin(h/2) (K ghat - x)``, turn (X11).

    Positions x count from the optimum; a turn is a rotation of (x, v) by half the angle h. Turns
    and kicks keep volumes and can be undone, so that a Metropolis test of a step's energy, which
    takes all rows, makes the draws those of the posterior itself. Such a step may make several
    kicks, by narrower angles, before it is tested: its angles together are then about the same
    for all, and differ at random so that no motion returns to where it began.
    """

    name: ClassVar[str] = "rotation"
    title: ClassVar[str] = "A rotation step"
    beyond_optax: ClassVar[str | None] = "gradients at points between two positions"
    vectors: ClassVar[tuple[str, ...]] = ("position", "velocity")

    angle: float  # h
    keep: float  # r
    tested: float | None = None  # N, where steps are subject to a Metropolis test
    kicks: int = 1  # of a step that is tested

    @property
    def is_tested(self) -> bool:
        """Whether steps are subject to a Metropolis test."""
        return self.tested is not None

    def covariance(self, chain: LinearChain) -> Vector:
        K, A, C_S, Q = chain
        return theory.rotation_covariance(K, A, C_S, self._whole, self.keep, Q)

    @property
    def _whole(self) -> float:
        """The angle of all kicks of a step together."""
        return self.kicks * self.angle

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
        return theory.rotation_relaxation(rates, self._whole, self.keep)

    def noise(self, inputs: Inputs, key: Array, shape: tuple[int, ...]) -> PyTree:
        """The velocity's; with that of the tests and of the angles, if there are any."""
        if not self.is_tested:
            return inputs.noise(key, shape)
        own, tests, angles = jax.random.split(key, 3)
        return (
            inputs.noise(own, shape),
            -jax.random.exponential(tests, shape, inputs.dtype),
            jax.random.uniform(angles, shape, inputs.dtype, 1 - _VARIED, 1 + _VARIED),
        )

    def begin(self, position: Array) -> Moving:
        return Moving(position, jnp.zeros_like(position))

    def advance(
        self, inputs: Inputs, state: Moving, batch: PyTree, noise: PyTree
    ) -> tuple[Moving, Info]:
        angle = jnp.asarray(self.angle, state.position.dtype)
        if self.tested is None:
            return self._turned(inputs, self._refreshed(state, noise), batch, angle)
        normal, log_uniform, varied = noise
        before = self._refreshed(state, normal)
        angle = jnp.where(self.kicks > 1, varied, jnp.ones_like(varied)) * angle
        begun = before, Info(jnp.zeros_like(before.position))
        after, info = jax.lax.fori_loop(
            0, self.kicks, lambda _, now: self._turned(inputs, now[0], batch, angle), begun
        )
        change = self._energy(inputs, after, batch) - self._energy(inputs, before, batch)
        accepted = log_uniform < -self.tested * change  # False where that is not a number
        # A step that is refused turns round: with the velocity kept it could not be undone.
        stayed = Moving(before.position, -before.velocity)
        return jax.tree.map(partial(jnp.where, accepted), after, stayed), info

    def _refreshed(self, state: Moving, noise: Array | None) -> Moving:
        v = self.keep * state.velocity
        return Moving(state.position, v if noise is None else v + noise)

    def _turned(
        self, inputs: Inputs, state: Moving, batch: PyTree, angle: Array
    ) -> tuple[Moving, Info]:
        cos, sin = jnp.cos(0.5 * angle), jnp.sin(0.5 * angle)
        x, v = state.position, state.velocity
        x, v = cos * x + sin * v, cos * v - sin * x
        slope = inputs.gradient(x, batch)
        v = v - 2 * sin * (inputs.gain.matvec(slope) - x)
        return Moving(cos * x + sin * v, cos * v - sin * x), Info(slope)

    def _energy(self, inputs: Inputs, state: Moving, batch: PyTree) -> Array:
        """Of a row: the loss, and half the velocity's square in units of the posterior."""
        v = state.velocity
        return inputs.loss(state.position, batch) + 0.5 * v @ inputs.gain.inverse().matvec(v)

    def lines(self) -> list[tuple[str, str]]:
        tested = "; every step passes a Metropolis test" if self.is_tested else ""
        often = f"{self.kicks} times " if self.kicks > 1 else ""
        about = f"{often}by {self.angle:.3g} a step; the velocity keeps {self.keep:.2g}{tested}"
        return [("rotation", about)]
