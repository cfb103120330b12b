"""What every update rule offers: predictions for the plan, a kernel for the loop, a record."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, ClassVar, NamedTuple, Protocol, Self, TypeAlias, TypeVar

import jax

from ornstein import theory
from ornstein._base import random_numbers
from ornstein._base.errors import InputError
from ornstein._base.types import Array, PyTree, Vector
from ornstein.data.batches import Batches
from ornstein.linalg.operators import Factor, Operator
from ornstein.storage import codec

Gradient: TypeAlias = Callable[[Array, PyTree], Array]
"""``(position, batch) -> minibatch gradient``."""

Moments: TypeAlias = Callable[[Array, PyTree], tuple[Array, Array]]
"""``(position, batch) -> minibatch gradient, covariance of its rows' gradients``."""

State: TypeAlias = Any
"""A NamedTuple with a ``position`` first, then what else the next step needs."""


class LinearChain(NamedTuple):
    """A chain near its optimum, where the loss is quadratic and the noise constant.

    ``K``, ``A``, ``C_S`` and ``Q`` (None: no injected noise) as matrices, or as batches of 1 x 1
    matrices where only diagonals are known.
    """

    gain: Vector
    hessian: Vector
    batch_noise_cov: Vector
    injected_cov: Vector | None


class Info(NamedTuple):
    """Diagnostics of a step."""

    gradient: Array


class Advance(Protocol):
    """One step, its randomness given."""

    def __call__(self, state: State, batch: PyTree, noise: Array | None) -> tuple[State, Info]:
        """Move."""


Noise: TypeAlias = Callable[[Array, tuple[int, ...]], Array]
"""``(key, shape) -> noise`` of shape ``(*shape, D)``."""


class Kernel(NamedTuple):
    """A rule's step, split so that the noise of many steps can be drawn at once.

    Attributes
    ----------
    init
        ``(key, position) -> state``.
    noise
        ``(key, shape) -> injected noise of that many steps``, or None where none is injected.
    advance
        ``(state, batch, noise) -> (state, info)``.
    read
        ``state -> the draw it stands for``: its position, unless said otherwise.
    vectors
        Fields of the state that are vectors in the parameters' space.
    """

    init: Callable[[Array, Array], State]
    noise: Noise | None
    advance: Advance
    read: Callable[[State], Array] = attrgetter("position")
    vectors: tuple[str, ...] = ("position",)

    def step(self, key: Array, state: State, batch: PyTree) -> tuple[State, Info]:
        """One step, drawing its own noise."""
        return self.advance(state, batch, None if self.noise is None else self.noise(key, ()))


def _no_moments(position: Array, batch: PyTree) -> tuple[Array, Array]:
    raise NotImplementedError("the rows' own gradients are not at hand")


class Inputs(NamedTuple):
    """What a kernel is built from.

    Attributes
    ----------
    gradient
        Of a minibatch.
    gain, noise_factor
        ``K`` and a factor of ``Q``; None injects no noise.
    dim, dtype
        Of positions.
    thin
        Steps per draw.
    moments
        The gradient and the covariance of the rows' gradients, where these are at hand.
    """

    gradient: Gradient
    gain: Operator
    noise_factor: Factor | None
    dim: int
    dtype: Any
    thin: int = 1
    moments: Moments = _no_moments

    @property
    def noise(self) -> Noise | None:
        """Draws ``N(0, F F')``; None for no noise."""
        factor = self.noise_factor
        if factor is None:
            return None
        size = factor.coordinates(self.dim)

        def draw(key: Array, shape: tuple[int, ...]) -> Array:
            return factor.matvec(random_numbers.normals(key, (*shape, size), self.dtype))  # type: ignore[return-value]

        return draw


@dataclass(frozen=True)
class Rule(ABC):
    """An update rule; its fields are its constants.

    A registered rule is a pytree: its fields are arguments of compiled code, those marked
    ``static`` are part of it.

    Attributes
    ----------
    name
        By which records name it.
    title
        What refusals call it, at the beginning of a sentence.
    beyond_optax
        What a step needs that a gradient transformation does not have; None where optax suffices.
    stationary
        Whether the draws' covariance is the same however long the run is.
    plain_operations
        Whether a step makes no calls, of LAPACK say, that one compiled kernel cannot hold.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    beyond_optax: ClassVar[str | None] = None
    stationary: ClassVar[bool] = True
    plain_operations: ClassVar[bool] = True

    # What it will draw

    @abstractmethod
    def covariance(self, chain: LinearChain) -> Vector:
        """Covariance of the draws."""

    @abstractmethod
    def small_step_covariance(self, chain: LinearChain) -> Vector:
        """The same in the small-step limit."""

    def epoch_covariance(self, per_epoch: int, chain: LinearChain) -> Vector:
        """The same under an epoch loader (X7); refused unless the rule knows it."""
        del per_epoch, chain
        raise InputError(f"{self.title} under an epoch loader is not planned for; use windows.")

    def covariance_under(self, batches: Batches, chain: LinearChain) -> Vector:
        """Covariance of the draws for these batches; refuses those it cannot be planned for."""
        if batches.scheme == "epochs":
            return self.epoch_covariance(batches.per_epoch, chain)
        return self.covariance(chain)

    def run_covariance(self, first: int, last: int, chain: LinearChain) -> Vector:
        """Mean covariance of the iterates ``first`` to ``last``, for a rule not ``stationary``."""
        raise NotImplementedError

    @property
    def stability_limit(self) -> float:
        """The rate ``K A`` at which the chain diverges."""
        return theory.stability_limit()

    def relaxation_steps(self, rates: Vector) -> Vector:
        """Steps in which modes of these rates ``K A`` forget."""
        return theory.relaxation_steps(rates)

    @property
    def min_thin(self) -> int:
        """Fewest steps per draw."""
        return 1

    # How it moves

    def whitened(self, factor: Factor, dim: int) -> Self:
        """The rule for the coordinates z of ``theta = center + W z`` (X8), W the factor."""
        del factor, dim
        return self

    def noise_factor(self, root: Factor | None) -> Factor | None:
        """Factor of the noise a step takes, from that of ``Q``, in this rule's coordinates."""
        return root

    @abstractmethod
    def kernel(self, inputs: Inputs) -> Kernel:
        """The kernel; the rule's constants may be traced arrays here."""

    # What it says

    def lines(self) -> list[tuple[str, str]]:
        """Labels and texts for ``print(plan)``, of what is not a plain first-order step."""
        return []


RULES: dict[str, type[Rule]] = {}
"""Every rule by name."""

R = TypeVar("R", bound=Rule)


def register(kind: type[R]) -> type[R]:
    """Enter a rule's class under its name, and make its instances pytrees."""
    if kind.name in RULES:
        raise InputError(f"a rule of the name {kind.name!r} is registered already.")
    jax.tree_util.register_dataclass(kind)
    RULES[kind.name] = kind
    return codec.register(kind)
