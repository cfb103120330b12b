"""``theta <- theta - K ghat(theta) + Q^(1/2) xi``: SGD, preconditioned SGD, SGFS and SGLD (T2)."""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar, NamedTuple

from ornstein import theory
from ornstein._base.types import Array, PyTree, Vector
from ornstein.planning.rules.contract import Info, Inputs, Kernel, LinearChain, Rule, register


@register
@dataclass(frozen=True)
class FirstOrder(Rule):
    """A step along the gradient, and noise."""

    name: ClassVar[str] = "first_order"
    title: ClassVar[str] = "A first-order step"

    def covariance(self, chain: LinearChain) -> Vector:
        """T2."""
        return theory.finite_step_covariance(*chain)

    def small_step_covariance(self, chain: LinearChain) -> Vector:
        """T1."""
        return theory.ou_covariance(*chain)

    def epoch_covariance(self, per_epoch: int, chain: LinearChain) -> Vector:
        """X7."""
        K, A, C_S, Q = chain
        return theory.epoch_covariance(K, A, C_S, per_epoch, Q)

    def kernel(self, inputs: Inputs) -> Kernel:
        """Its kernel."""
        return Kernel(init, inputs.noise, partial(step, inputs))


class State(NamedTuple):
    """Where the chain is."""

    position: Array


def init(key: Array, position: Array) -> State:
    """Begin at a position."""
    del key
    return State(position)


def step(inputs: Inputs, state: State, batch: PyTree, noise: Array | None) -> tuple[State, Info]:
    """Move."""
    slope = inputs.gradient(state.position, batch)
    position = state.position - inputs.gain.matvec(slope)
    return State(position if noise is None else position + noise), Info(slope)
