"""What every update rule offers: predictions for the plan, steps for the loop, a record."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self, TypeAlias, TypeVar

import jax

from ornstein import theory
from ornstein._base import random_numbers
from ornstein._base.errors import InputError
from ornstein._base.types import Array, PyTree, Vector
from ornstein.linalg.operators import Factor, Operator
from ornstein.storage import codec

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


def _no_moments(position: Array, batch: PyTree) -> tuple[Array, Array]:
    raise NotImplementedError("the rows' own gradients are not at hand")


def _no_loss(position: Array, batch: PyTree) -> Array:
    raise NotImplementedError("the loss itself is not at hand")


class Inputs(NamedTuple):
    """What a step uses beside the rule's constants.

    ``gradient``, ``moments`` and ``loss`` take a position and a batch; the second gives the
    minibatch gradient and the covariance of its rows' gradients, the third what the gradient is of.
    """

    gradient: Callable[[Array, PyTree], Array]
    gain: Operator  # K
    noise_factor: Factor | None  # of Q; None injects no noise
    dim: int
    dtype: Any
    thin: int = 1  # steps per draw
    moments: Callable[[Array, PyTree], tuple[Array, Array]] = _no_moments
    loss: Callable[[Array, PyTree], Array] = _no_loss

    def noise(self, key: Array, shape: tuple[int, ...]) -> Array | None:
        """The injected noise ``N(0, F F')`` of so many steps, (*shape, D); None for no noise."""
        factor = self.noise_factor
        if factor is None:
            return None
        size = factor.coordinates(self.dim)
        return factor.matvec(random_numbers.normals(key, (*shape, size), self.dtype))  # type: ignore[return-value]


@dataclass(frozen=True)
class Rule(ABC):
    """An update rule; its fields are its constants.

    A registered rule is a pytree: its fields are arguments of compiled code, those marked
    ``static`` are part of it. Covariances are those of a first-order step unless overridden.
    Steps are pure functions, their noise given so that many steps' is drawn at once.

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
    vectors
        Fields of the state that are vectors in the parameters' space.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    beyond_optax: ClassVar[str | None] = None
    stationary: ClassVar[bool] = True
    plain_operations: ClassVar[bool] = True
    vectors: ClassVar[tuple[str, ...]] = ("position",)

    # What it will draw

    def covariance(self, chain: LinearChain) -> Vector:
        """Covariance of the draws (T2)."""
        return theory.finite_step_covariance(*chain)

    def small_step_covariance(self, chain: LinearChain) -> Vector:
        """The same in the small-step limit (T1)."""
        return theory.ou_covariance(*chain)

    def epoch_covariance(self, per_epoch: int, chain: LinearChain) -> Vector:
        """The same under an epoch loader (X7); refused unless the rule predicts it."""
        del per_epoch, chain
        raise InputError(f"{self.title} under an epoch loader is not planned for; use windows.")

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
    def kick(self) -> float | None:
        """By how much a step multiplies the gradient, in units of Newton's; None: by its gain."""
        return None

    @property
    def min_thin(self) -> int:
        """Fewest steps per draw."""
        return 1

    @property
    def own_noise(self) -> Vector | None:
        """``E E'`` of the noise that a step multiplies by a gain of its own; None without."""
        return None

    # How it moves

    def whitened(self, factor: Factor, dim: int) -> Self:
        """The rule for the coordinates z of ``theta = center + W z`` (X8), W the factor."""
        del factor, dim
        return self

    def noise_factor(self, root: Factor | None) -> Factor | None:
        """Factor of the noise a step takes, from that of ``Q``, in this rule's coordinates."""
        return root

    def noise(self, inputs: Inputs, key: Array, shape: tuple[int, ...]) -> PyTree:
        """The noise of so many steps, for :meth:`advance`; None where a step takes none."""
        return inputs.noise(key, shape)

    @abstractmethod
    def begin(self, position: Array) -> State:
        """The state before the first step."""

    @abstractmethod
    def advance(
        self, inputs: Inputs, state: State, batch: PyTree, noise: Array | None
    ) -> tuple[State, Info]:
        """One step."""

    def read(self, state: State) -> Array:
        """The draw that a state stands for."""
        position: Array = state.position
        return position

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
