"""The registry: every method is a recipe for (gain, injected noise) and one row here.

To add one, write its equation as a function of :mod:`ornstein.theory.recipes` and register it
below; plan, runner, command line and the contract test find it by itself.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from ornstein import _check, theory
from ornstein._check import InputError
from ornstein._types import Vector
from ornstein.theory import Recipe


@dataclass(frozen=True)
class Setting:
    """What a recipe may use: A and ``C_S`` (matrices, or vectors for diagonals), ``C_S/C``, N."""

    hessian: Vector
    batch_noise_cov: Vector
    noise_factor: float
    num_data: int


@dataclass(frozen=True)
class Method:
    """One way to choose gain and noise.

    Attributes
    ----------
    variants
        Equation and recipe per structure of the gain; the first is the default.
    options
        The method's own options with their defaults.
    target
        What the stationary covariance aims at: ``posterior`` or ``sandwich``.
    """

    name: str
    summary: str
    variants: Mapping[str, tuple[str, Callable[..., Recipe]]]
    options: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    target: str = "posterior"

    @property
    def structures(self) -> tuple[str, ...]:
        """Structures of the gain on offer."""
        return tuple(self.variants)

    def recipe(
        self,
        structure: str,
        setting: Setting,
        options: Mapping[str, Any],
        known_elsewhere: tuple[str, ...] = (),
    ) -> Recipe:
        """Gain and injected noise for a setting; suggestions may come from other known words."""
        unknown = sorted(set(options) - set(self.options))
        if unknown:
            known = ", ".join(self.options) or "none"
            raise InputError(
                f"method {self.name!r} has no option {unknown[0]!r}; its options: {known}."
                f"{_check.nearest(unknown[0], (*self.options, *known_elsewhere))}"
            )
        _, function = self.variants[structure]
        return function(setting, **{**self.options, **options})


def _exact(setting: Setting, rho: float) -> Recipe:
    return theory.exact(
        setting.hessian, setting.batch_noise_cov, setting.num_data, _check.non_negative("rho", rho)
    )


def _exact_diagonal(setting: Setting, rho: float) -> Recipe:
    return theory.exact_diagonal(
        setting.hessian, setting.batch_noise_cov, setting.num_data, _check.non_negative("rho", rho)
    )


def _momentum(setting: Setting, momentum: float) -> Recipe:
    mu = _check.positive("momentum", momentum)
    if mu > 1:
        raise InputError(
            f"momentum is the friction mu in (0, 1] (1 means none; 0.1 keeps 90 % of the "
            f"velocity), found {momentum!r}."
        )
    return theory.momentum_sgd(setting.hessian, setting.batch_noise_cov, setting.num_data, mu)


def _sandwich(setting: Setting) -> Recipe:
    return theory.sandwich(setting.hessian, setting.noise_factor, setting.num_data)


def _from_noise(recipe: Callable[[Vector, int], Recipe]) -> Callable[[Setting], Recipe]:
    """A recipe that looks at the noise only, as the paper's do."""
    return lambda setting: recipe(setting.batch_noise_cov, setting.num_data)


_ALL = (
    Method(
        "exact",
        "finite-step exact gain with a little injected noise; robust where data says nothing",
        {"dense": ("X2", _exact), "diagonal": ("X2 on diagonals", _exact_diagonal)},
        MappingProxyType({"rho": 1.0}),
    ),
    Method(
        "sgd",
        "the paper's constant-rate SGD, its gain tuned to the gradient noise",
        {
            "dense": ("R2", _from_noise(theory.full_sgd)),
            "diagonal": ("R3", _from_noise(theory.diagonal_sgd)),
            "scalar": ("R1", _from_noise(theory.constant_sgd)),
            "sqrt": ("R4", _from_noise(theory.square_root_sgd)),
        },
    ),
    Method(
        "momentum",
        "SGD with momentum, exact at a finite step",
        {"dense": ("X4", _momentum)},
        MappingProxyType({"momentum": 0.5}),
    ),
    Method(
        "sandwich",
        "the covariance that stays honest when the model is misspecified",
        {"dense": ("X3", _sandwich)},
        target="sandwich",
    ),
)

METHODS: Mapping[str, Method] = MappingProxyType({method.name: method for method in _ALL})
"""Every method by name."""


def find(name: str) -> Method:
    """The method of that name, or an error that lists them."""
    return METHODS[_check.choice("method", name, tuple(METHODS))]
