"""What a contestant did and how good its answer is.

Divergence is that of the draws' mean and covariance from the Gaussian at the optimum,
``N(theta*, (N A)^-1)``, which is the posterior of a linear regression only; ``judged`` has the
verdict of the posterior itself on the others. Few parameters: an answer is reached at 0.05 nats.
Beyond fifty, exact draws too would need too long for that (378 parameters: 700,000 draws); there
the Monte-Carlo floor that ``measured_kl`` estimates from the draws' own scatter is subtracted and
the rest divided by the number of parameters, to be at most what 0.05 nats are to wine's eleven.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, TypeAlias

import numpy as np

from benchmarks.fit import Fit
from benchmarks.problems import Problem
from ornstein._base.types import Vector
from ornstein.results.measure import measured_kl, min_ess
from ornstein.theory import gaussian_kl

TARGET_KL = 0.05
PER_PARAMETER = TARGET_KL / 11
_MANY = 50  # parameters
_FIRST = 16  # draws a chain, doubled from there
_ENOUGH_ESS = 400.0
_ENOUGH_SECONDS = 0.3
_ENOUGH_DRAWS = 20_000

Advance: TypeAlias = Callable[[int], Vector]
"""Makes some more draws, (chains, count, D)."""


@dataclass(frozen=True)
class Settings:
    """How long and how widely a contestant may run."""

    budget: float
    """Seconds of sampling; tuning is bounded by it too."""
    chains: int = 4
    key: int = 0
    to_answer: bool = True
    """Whether to go on until the answer is reached, or only until the rate is known."""


@dataclass(frozen=True)
class Accuracy:
    """Divergence from the reference, in nats."""

    kl: float
    floor: float
    per_parameter: float
    """``(kl - floor) / D``."""
    reached: bool


@dataclass
class Record:
    """What a contestant did; ``setup`` is all it does before the first draw that counts."""

    draws: Vector | None = None
    gaussian: tuple[Vector, Vector] | None = None
    compile: float | None = None
    setup: float = 0.0
    sampling: float = 0.0
    reached_seconds: float | None = None
    """Setup and sampling until the answer was reached."""
    gradients: int = 0
    rows: int = 0
    """Rows whose gradient was evaluated while sampling."""
    details: dict[str, Any] = field(default_factory=dict)


Contestant: TypeAlias = Callable[[Problem, Fit, Settings], Record]


def accuracy(draws: Vector, reference: Fit) -> Accuracy:
    """Divergence of draws, (chains, draws, D)."""
    dim = draws.shape[-1]
    if draws.shape[0] * draws.shape[1] <= dim or not np.isfinite(draws).all():
        return Accuracy(math.inf, math.nan, math.inf, False)
    kl, floor = measured_kl(draws, reference.center, reference.cov)
    rest = (kl - floor) / dim
    reached = kl <= TARGET_KL if dim <= _MANY else rest <= PER_PARAMETER
    return Accuracy(kl, floor, rest, bool(reached))


def marginal_kl(draws: Vector, reference: Fit) -> float:
    """Divergence direction by direction where the reference is standard normal, added up.

    For draws too few for :func:`accuracy`.
    """
    z = (draws.reshape(-1, draws.shape[-1]) - reference.center) @ np.linalg.cholesky(
        reference.precision
    )
    if len(z) < 2 or not np.isfinite(z).all():
        return math.inf
    variance = z.var(axis=0, ddof=1)
    return float(0.5 * (variance + z.mean(axis=0) ** 2 - 1 - np.log(variance)).sum())


def gaussian_accuracy(mean: Vector, cov: Vector, reference: Fit) -> Accuracy:
    """Divergence of a Gaussian whose moments are known; no Monte-Carlo error."""
    dim = len(mean)
    L = np.linalg.cholesky(reference.precision)
    if not (np.isfinite(mean).all() and np.isfinite(cov).all()):
        return Accuracy(math.inf, 0.0, math.inf, False)
    kl = float(gaussian_kl(L.T @ cov @ L, np.eye(dim), L.T @ (mean - reference.center)))
    reached = kl <= TARGET_KL if dim <= _MANY else kl / dim <= PER_PARAMETER
    return Accuracy(kl, 0.0, kl / dim, bool(reached))


def bulk_ess(draws: Vector) -> float:
    """Effective draws of the worst parameter."""
    if draws.shape[1] < 4 or not np.isfinite(draws).all():
        return math.nan
    return min_ess(draws)


def grow(advance: Advance, record: Record, reference: Fit, settings: Settings) -> None:
    """Draw in doubling lengths until the answer is reached and the rate known, or time is up.

    Fills in the record's draws, sampling seconds and the time the answer took.
    """
    parts: list[Vector] = []
    made, length, budget = 0, _FIRST, settings.budget
    while True:
        while made < length and record.sampling < budget:
            affordable = length
            if made:
                affordable = max(1, int((budget - record.sampling) * made / record.sampling / 2))
            began = perf_counter()
            part = advance(min(length - made, affordable, 1 if made == 0 else length))
            record.sampling += perf_counter() - began
            parts.append(np.asarray(part, float))
            made += part.shape[1]
        record.draws = np.concatenate(parts, axis=1)
        mark(record, reference)
        if finished(record, settings) or record.sampling >= budget:
            return
        length *= 2


def mark(record: Record, reference: Fit) -> None:
    """Note time and draws if the answer is reached for the first time."""
    if record.reached_seconds is None and accuracy(record.draws, reference).reached:
        record.reached_seconds = record.setup + record.sampling
        record.details["draws_to_kl"] = record.draws.shape[0] * record.draws.shape[1]


def finished(record: Record, settings: Settings) -> bool:
    """Whether the answer is reached and effective draws per second are known well enough."""
    made = record.draws.shape[0] * record.draws.shape[1]
    if settings.to_answer and record.reached_seconds is None:
        return False
    if record.sampling < _ENOUGH_SECONDS and made < _ENOUGH_DRAWS:
        return False
    return bulk_ess(record.draws) >= _ENOUGH_ESS


def summary(record: Record, reference: Fit) -> dict[str, Any]:
    """A record as plain numbers."""
    known: dict[str, Any] = {
        "compile_seconds": record.compile,
        "setup_seconds": record.setup,
        "sampling_seconds": record.sampling,
        "seconds_to_kl": record.reached_seconds,
        "gradients": record.gradients,
        "rows": record.rows,
        **record.details,
    }
    if record.gaussian is not None:
        known |= vars(gaussian_accuracy(*record.gaussian, reference))
    if record.draws is None:
        return _plain(known)
    ess = bulk_ess(record.draws)
    rate = ess / record.sampling
    known |= vars(accuracy(record.draws, reference)) | {
        "chains": record.draws.shape[0],
        "draws": record.draws.shape[1],
        "ess": ess,
        "ess_per_second": rate,
        "ess_per_second_with_setup": ess / (record.sampling + record.setup),
        "seconds_to_1000_ess": record.setup + 1000 / rate,
        "rows_per_ess": record.rows / ess,
    }
    return _plain(known)


def _plain(known: dict[str, Any]) -> dict[str, Any]:
    """Numbers that JSON knows; what is not finite becomes None."""

    def one(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: one(entry) for name, entry in value.items()}
        if isinstance(value, list | tuple):
            return [one(entry) for entry in value]
        if isinstance(value, float | np.floating):
            return float(value) if math.isfinite(value) else None
        return value.item() if isinstance(value, np.generic) else value

    return one(known)
