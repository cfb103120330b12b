"""``theta <- theta - s_t K ghat(theta) + s_t^(1/2) Q^(1/2) xi``, ``s_t = (1 + t / steps)^-power``.

First-order steps that decrease, gain and noise variance alike (R8).
"""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np

from ornstein import theory
from ornstein._base.types import Array, PyTree, Vector
from ornstein.planning.rules.contract import Info, Inputs, Kernel, LinearChain, Rule, register


@register
@dataclass(frozen=True)
class Decreasing(Rule):
    """A first-order step that is ``(1 + t / steps)^-power`` of the first after t steps."""

    name: ClassVar[str] = "decreasing"
    title: ClassVar[str] = "A decreasing step"
    stationary: ClassVar[bool] = False

    power: float
    steps: float

    def covariance(self, chain: LinearChain) -> Vector:
        """T2 at the first step."""
        return theory.finite_step_covariance(*chain)

    def small_step_covariance(self, chain: LinearChain) -> Vector:
        """T1 at the first step."""
        return theory.ou_covariance(*chain)

    def run_covariance(self, first: int, last: int, chain: LinearChain) -> Vector:
        """R8."""
        K, A, C_S, Q = chain
        injected = np.zeros_like(A) if Q is None else Q
        decay = theory.Decay(self.power, self.steps)
        return theory.decreasing_covariance(K, A, C_S, injected, decay, first, last)

    def kernel(self, inputs: Inputs) -> Kernel:
        """Its kernel."""
        return Kernel(init, inputs.noise, partial(step, self, inputs))

    def lines(self) -> list[tuple[str, str]]:
        """How it decreases."""
        return [("step", f"decreasing as (1 + t / {self.steps:,.0f})^-{self.power:g}")]


class State(NamedTuple):
    """Where the chain is and how many steps it has made."""

    position: Array
    steps: Array


def init(key: Array, position: Array) -> State:
    """Begin at a position, at full step."""
    del key
    return State(position, jnp.zeros((), jnp.int32))


def step(
    rule: Decreasing, inputs: Inputs, state: State, batch: PyTree, noise: Array | None
) -> tuple[State, Info]:
    """Move."""
    slope = inputs.gradient(state.position, batch)
    scale = (1 + state.steps.astype(slope.dtype) / rule.steps) ** -rule.power
    position = state.position - scale * inputs.gain.matvec(slope)
    position = position if noise is None else position + jnp.sqrt(scale) * noise
    return State(position, state.steps + 1), Info(slope)
