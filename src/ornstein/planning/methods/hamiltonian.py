"""Rotation steps: the method for posteriors that are not Gaussian (X11)."""

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from ornstein import theory
from ornstein._base import checks
from ornstein._base.errors import InputError
from ornstein.planning.methods.contract import Method, Setting, Tuned
from ornstein.planning.rules import Rotation

ANGLES = (math.pi / 2, 1.2, 0.8, 0.4, 0.2, 0.1)
"""Angles to try: the widest first, which draws independently where the posterior is Gaussian."""

_NARROWER = 0.5  # of an angle, where none of them bears the minibatches' noise
_REFRESHED = 0.5  # of a velocity's refreshment that is injected, at least


def _rotation(
    setting: Setting, angle: float | None, keep: float | None, metropolis: bool, kicks: int
) -> Tuned:
    A, C_S, N = setting.hessian, setting.batch_noise_cov, setting.num_data
    if checks.flag("metropolis", metropolis) and setting.noise_factor > 0:
        raise InputError(
            "metropolis=True tests every step with all rows, which minibatches do not have: use "
            f"batch_size={N} and leave batches out, or leave metropolis out."
        )
    if checks.whole("kicks", kicks) > 1 and not metropolis:
        raise InputError(
            f"kicks={kicks} are of steps that pass a Metropolis test: use metropolis=True, or "
            "leave kicks out."
        )
    noise = float(theory.relative_eigenvalues(A, N * C_S).max())
    h = _bearable(noise) / kicks if angle is None else checks.positive("angle", angle)
    if kicks * h >= math.pi:
        raise InputError(
            f"the angle of a step must be below pi, half a turn; found {kicks * h:.3g}"
            f"{f' ({kicks} kicks)' if kicks > 1 else ''}."
        )
    r = theory.critical_keep(kicks * h) if keep is None else checks.non_negative("keep", keep)
    if r >= 1:
        raise InputError(
            "keep is the share of the velocity that a step keeps: at least 0 (none) and below 1; "
            f"found {keep!r}."
        )
    if theory.velocity_noise(h, r, np.asarray(theory.kick(h) ** 2 * noise)) < 0:
        raise InputError(
            f"angle={h:.3g} is too wide for the minibatches' noise, which alone would make the "
            "draws wider than the posterior. Leave angle and keep out, or raise batch_size."
        )
    gain, injected, _ = theory.rotation(A, C_S, N, h, r)
    return Tuned(gain, injected, Rotation(h, r, float(N) if metropolis else None, kicks))


def _bearable(noise: float) -> float:
    """The widest angle at which most of the velocity's noise is injected."""

    def bears(angle: float) -> bool:
        keep = theory.critical_keep(angle)
        injected = theory.velocity_noise(angle, keep, np.asarray(theory.kick(angle) ** 2 * noise))
        return float(injected) >= _REFRESHED * (1 - keep**2)

    found = next((angle for angle in ANGLES if bears(angle)), None)
    if found is not None:
        return found
    angle = ANGLES[-1]
    while not bears(angle):
        angle *= _NARROWER
    return angle


def _kick(options: Mapping[str, Any]) -> float:
    return theory.kick(options["angle"] or ANGLES[0])


METHODS = (
    Method(
        "rotation",
        "Hamiltonian steps that are exact where the posterior is Gaussian, and near it elsewhere",
        {"dense": ("X11", _rotation)},
        options=MappingProxyType({"angle": None, "keep": None, "metropolis": False, "kicks": 1}),
        control_variates=True,
        any_step=True,
        kick=_kick,
    ),
)
