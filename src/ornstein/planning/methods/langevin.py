"""Methods that inject noise: Fisher scoring, Langevin and Hamiltonian dynamics (R5-R8, X4)."""

from collections.abc import Callable
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from ornstein import theory
from ornstein._base import checks
from ornstein._base.errors import InputError
from ornstein._base.types import Vector
from ornstein.linalg.operators import as_operator
from ornstein.planning.methods.contract import UNITS, Method, Setting, Tuned
from ornstein.planning.rules import Decreasing, Momentum, Running
from ornstein.theory import Recipe
from ornstein.theory.recipes import diagonal

_FISHER_SCORING = {
    "dense": theory.sgfs_full,
    "diagonal": theory.sgfs_diagonal,
    "scalar": theory.sgfs_scalar,
}
_FASTEST = 0.1  # K A of SGFS, at most: its finite steps then cost 0.0007 nats a direction
_SGLD_KL = 0.3  # nats that the step of SGLD may cost unless it is given
_BELOW_LIMIT = 0.95  # of SGHMC's longest step, whose injected noise is singular


def _sgfs(
    structure: str,
    setting: Setting,
    step_size: float,
    extra_noise: Any,
    h_max: float | None,
    estimate: str,
) -> Tuned:
    eps = checks.positive("step_size", step_size)
    C_S, N = setting.batch_noise_cov, setting.num_data
    checks.choice("estimate", estimate, ("optimum", "running"))
    if h_max is not None:
        if structure != "diagonal" or extra_noise is not None or estimate == "running":
            raise InputError(
                "h_max bounds the diagonal gain by noise of its own (R7): use it with "
                "structure='diagonal', estimate='optimum' and without extra_noise."
            )
        return _quiet(theory.sgfs_bounded(C_S, N, eps, checks.positive("h_max", h_max)))
    if estimate == "running" and setting.batch_size < 2:
        raise InputError("estimate='running' needs a batch_size of 2 or more, to see any scatter.")
    if extra_noise is None:
        extra = _own_noise(structure, setting, eps)
    else:
        extra = _given_noise(extra_noise, C_S)
    if C_S.ndim == 2 and structure == "dense" and extra.ndim < 2:
        extra = np.diag(np.broadcast_to(extra, (len(C_S),)))
    if extra.ndim == 0:
        extra = np.broadcast_to(extra, (len(C_S),))
    tuned = _quiet(_FISHER_SCORING[structure](C_S, N, eps, extra))
    if estimate == "optimum":
        return tuned
    rule = Running(structure, eps, float(N), setting.noise_factor, extra, setting.noise_cov)
    return tuned._replace(rule=rule)


def _own_noise(structure: str, setting: Setting, eps: float) -> Vector:
    """``E E'``: as much as the minibatches make, and more where ``K A`` would be large.

    ``K = (2/N) (C_S + E E'/eps)^-1``, so ``E E' >= eps (2 A / (N k) - C_S)`` keeps ``K A <= k``.
    """
    A, C_S, N = setting.hessian, setting.batch_noise_cov, setting.num_data
    if structure != "dense":
        a, c = diagonal(A), diagonal(C_S)
        extra = eps * np.maximum(c, 2 * a / (N * _FASTEST) - c)
        return np.asarray(extra.mean()) if structure == "scalar" else extra
    V, c = theory.joint_diagonalisation(A, C_S)
    noise = eps * np.maximum(c, 2 / (N * _FASTEST) - c)
    back = A @ V  # V^-T, as V'AV = I
    return (back * noise) @ back.T


def _given_noise(extra_noise: Any, C_S: Vector) -> Vector:
    try:
        extra = np.asarray(extra_noise, float)
    except (TypeError, ValueError):
        extra = np.asarray(np.nan)
    dim = len(C_S)
    if extra.shape not in ((), (dim,), (dim, dim)) or not np.all(np.isfinite(extra)):
        raise InputError(
            f"extra_noise is E E', a number, {dim} numbers or a {dim} x {dim} matrix, all finite; "
            f"found {checks.shown(extra_noise)}."
        )
    if extra.ndim == 2 and C_S.ndim == 1:
        raise InputError("extra_noise must be diagonal where only diagonals of C are known.")
    smallest = np.linalg.eigvalsh(extra).min() if extra.ndim == 2 else extra.min()
    symmetric = extra.ndim < 2 or np.allclose(extra, extra.T)
    if not symmetric or smallest < -1e-9 * max(1.0, float(np.abs(extra).max())):
        raise InputError("extra_noise is E E' and must be symmetric without negative eigenvalues.")
    return extra


def _quiet(recipe: Recipe) -> Tuned:
    """The recipe; no injected noise where its covariance is zero."""
    gain, injected, _ = recipe
    if injected is not None and not np.any(injected):
        injected = None
    return Tuned(gain, injected)


def _sgld(
    units: Callable[[Vector], Vector],
    setting: Setting,
    step_size: float | None,
    decay: float,
    decay_steps: float | None,
) -> Tuned:
    N = setting.num_data
    M = units(N * setting.hessian)
    if step_size is None:
        A, C_S, square = _aligned(setting, setting.hessian, setting.batch_noise_cov, M)
        step = theory.sgld_step_size(A, C_S, N, square, _SGLD_KL)
    else:
        step = checks.positive("step_size", step_size)
    gain, injected, _ = theory.sgld(N, step, M)
    power = checks.non_negative("decay", decay)
    if power > 1:
        raise InputError(f"decay must be at most 1, or the chain stops moving; found {decay!r}.")
    if power == 0:
        if decay_steps is not None:
            raise InputError("decay_steps is for decreasing steps: give decay, e.g. 0.55, too.")
        return Tuned(gain, injected)
    if decay_steps is None:
        A, square = _aligned(setting, setting.hessian, gain)
        decay_steps = float(theory.relaxation_steps(theory.modes(square, A).rates).max())
    after = checks.positive("decay_steps", decay_steps)
    return Tuned(gain, injected, Decreasing(power, after))


def _aligned(setting: Setting, *arrays: Vector) -> list[Vector]:
    """Matrices, or batches of 1 x 1 matrices where only diagonals are known."""
    A, dim = as_operator(setting.hessian), len(setting.hessian)
    return [A.aligned(as_operator(array), dim) for array in arrays]


def _sghmc(
    units: Callable[[Vector], Vector],
    setting: Setting,
    momentum: float,
    step_size: float | None,
    corrected: bool,
) -> Tuned:
    A, C_S, N = setting.hessian, setting.batch_noise_cov, setting.num_data
    rule, corrected = Momentum.checked(momentum), checks.flag("corrected", corrected)
    mu, unit = rule.friction, units(A)
    limit = theory.sghmc_step_limit(A, C_S, N, unit, mu)
    step = _BELOW_LIMIT * limit
    if step_size is not None:
        step = checks.positive("step_size", step_size)
        if corrected and step > limit:
            raise InputError(
                f"step_size must be at most {limit:.3g} here: beyond, the minibatches alone make "
                f"more noise than the friction takes away; found {step_size!r}. Lower it, lower "
                "momentum, or raise batch_size."
            )
    gain, injected, _ = theory.sghmc(A, C_S, N, step * unit, mu, corrected)
    return Tuned(gain, injected, rule)


METHODS = (
    Method(
        "sgfs",
        "stochastic gradient Fisher scoring: SGD that also injects noise",
        {
            "dense": ("R5", partial(_sgfs, "dense")),
            "diagonal": ("R6, R7", partial(_sgfs, "diagonal")),
            "scalar": ("R6", partial(_sgfs, "scalar")),
        },
        options=MappingProxyType(
            {"step_size": 1.0, "extra_noise": None, "h_max": None, "estimate": "optimum"}
        ),
    ),
    Method(
        "sgld",
        "stochastic gradient Langevin dynamics, constant or decreasing steps",
        {
            "scalar": ("R8", partial(_sgld, UNITS["scalar"])),
            "diagonal": ("R8, preconditioned", partial(_sgld, UNITS["diagonal"])),
            "dense": ("R8, preconditioned", partial(_sgld, UNITS["dense"])),
        },
        options=MappingProxyType({"step_size": None, "decay": 0.0, "decay_steps": None}),
    ),
    Method(
        "sghmc",
        "stochastic gradient Hamiltonian dynamics, exact at a finite step",
        {structure: ("X4", partial(_sghmc, units)) for structure, units in UNITS.items()},
        options=MappingProxyType({"momentum": 0.5, "step_size": None, "corrected": True}),
        any_step=True,
    ),
)
