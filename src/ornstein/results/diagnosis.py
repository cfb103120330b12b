"""Did the theory hold? One row per assumption, each with a number, a verdict and a remedy."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import scipy.special

from ornstein import theory
from ornstein._base.precision import double_precision
from ornstein._base.types import Vector
from ornstein.curvature.products import hessian_products
from ornstein.curvature.row_sums import joint_losses
from ornstein.linalg.eigen import scaled_eigh
from ornstein.linalg.operators import as_matrix
from ornstein.models.posterior import Posterior
from ornstein.planning.plans import Plan
from ornstein.results.arviz import arviz_module
from ornstein.results.measure import measured_kl
from ornstein.results.noise import Noise, cumulants, look_at_noise, spaced

_DRAWS = 32  # draws at which the loss is looked at again
_PARAMETERS = 256  # whose stationarity is looked at, where there are very many


@dataclass(frozen=True)
class Check:
    """One row: ``verdict`` is ``ok``, ``warn`` or ``fail``."""

    name: str
    assumption: str
    number: float
    meaning: str
    verdict: str
    remedy: str


@dataclass(frozen=True)
class Diagnosis:
    """All checks; ``print`` shows a table, ``diagnosis["A4"]`` is one row.

    Attributes
    ----------
    checks
        One per assumption.
    noise
        The gradient noise that A2 looked at; None where it was not.
    roughest
        The direction that A1 speaks of; None where there is none.
    """

    checks: tuple[Check, ...]
    noise: Noise | None = field(default=None, repr=False, compare=False)
    roughest: Vector | None = field(default=None, repr=False, compare=False)

    @property
    def ok(self) -> bool:
        """Whether no check failed."""
        return all(check.verdict != "fail" for check in self.checks)

    def __getitem__(self, name: str) -> Check:
        """The check of that name."""
        return next(check for check in self.checks if check.name == name)

    def __iter__(self) -> Iterator[Check]:
        """All checks in order."""
        return iter(self.checks)

    def __str__(self) -> str:
        """A readable table."""
        lines = []
        for check in self.checks:
            lines.append(
                f"{check.verdict:<4}  {check.name:<12} {check.number:>9.3g}  {check.assumption}"
            )
            lines.append(f"{'':<30}{check.meaning}")
            if check.verdict != "ok":
                lines.append(f"{'':<30}-> {check.remedy}")
        return "\n".join(lines)


def _verdict(number: float, warn: float, fail: float) -> str:
    """Verdict by thresholds; a NaN fails."""
    return "ok" if number <= warn else "warn" if number <= fail else "fail"


def diagnose(post: Posterior, plan: Plan, draws: Vector) -> Diagnosis:
    """Check A1-A4, the model, stationarity and the prediction of draws (chains, draws, D)."""
    flat = draws.reshape(-1, plan.dim)
    if plan.geometry.approximate:
        return _without_matrices(post, plan, draws)
    with double_precision():
        seen = _of_chains(post, plan, flat) if plan.is_chain else Diagnosis(())
        checks = (
            *seen.checks,
            _quadratic_loss(post, plan, spaced(flat, _DRAWS)),
            _specification(plan),
            _stationarity(draws),
            _covariance(plan, draws),
        )
    return replace(seen, checks=checks)


def _without_matrices(post: Posterior, plan: Plan, draws: Vector) -> Diagnosis:
    """The checks that need no D x D matrix: A1-A3 and the covariance's entries are left out."""
    some = spaced(draws.reshape(-1, plan.dim), _DRAWS)
    columns = np.linspace(0, plan.dim - 1, min(plan.dim, _PARAMETERS)).astype(int)
    with double_precision():
        checks = (
            _quadratic_loss(post, plan, some),
            _specification_along(plan),
            _stationarity(draws[..., columns]),
            _total_variance(plan, draws),
        )
    return Diagnosis(checks)


def _of_chains(post: Posterior, plan: Plan, flat: Vector) -> Diagnosis:
    """What only iterates of SGD assume."""
    noise = look_at_noise(post, plan, flat)
    gaussian, roughest = _gaussian_noise(post, plan, flat)
    checks = [gaussian, _constant_noise(plan, noise)]
    if plan.control_variates:
        checks.append(_anchor(plan, noise))
    return Diagnosis((*checks, _discretisation(plan)), noise, roughest)


def _dense_problem(plan: Plan) -> tuple[Vector, Vector, Vector, Vector | None]:
    """K, A, C_S, Q as matrices."""
    Q = None if plan.injected_cov is None else plan.injected_cov.dense(plan.dim)
    C_S = plan.noise_cov.dense(plan.dim) * plan.batches.noise_factor
    return plan.gain.dense(plan.dim), plan.geometry.hessian.dense(plan.dim), C_S, Q


def _gaussian_noise(post: Posterior, plan: Plan, draws: Vector) -> tuple[Check, Vector]:
    """A1: excess kurtosis that the minibatch noise leaves in the draws, and the mode that has most.

    A batch mean has 1/S of a row's excess kurtosis, and a mode that forgets slowly averages over
    many batches: the draws keep ``(1 - r^2) / (1 + r^2)`` of it, ``r = 1 - k``.
    """
    K, A, C_S, Q = _dense_problem(plan)
    rates, basis = theory.modes(K, A)
    at = spaced(draws, 8) if plan.control_variates else plan.center[None]
    variance, fourth = cumulants(post, plan, at, basis)
    share = theory.noise_shares(theory.Modes(rates, basis), C_S, Q)
    with np.errstate(invalid="ignore", divide="ignore"):
        row = np.where(variance > 1e-14 * variance.max(), fourth / variance**2, 0.0)
    batch = np.abs(row) / plan.batch_size * share**2
    r2 = (1 - rates) ** 2
    left = batch * (1 - r2) / (1 + r2)
    number = float(np.max(left))
    check = Check(
        "A1",
        "gradient noise is Gaussian",
        number,
        f"excess kurtosis left in the draws ({batch.max():.2g} in a step's noise)",
        _verdict(number, 0.3, 1.0),
        "a few rows dominate the gradient: raise batch_size, or look at those rows",
    )
    return check, basis[:, np.argmax(left)]


def _constant_noise(plan: Plan, noise: Noise) -> Check:
    """A2: change of the predicted variances when the noise is averaged over the draws."""
    C_S = plan.noise_cov.dense(plan.dim) * plan.batches.noise_factor
    changed = C_S + (noise.drawn - noise.planned) * plan.batches.noise_factor
    old, new = plan.covariance_given(C_S), plan.covariance_given(changed)
    number = float("nan")
    if np.all(np.isfinite(new)):
        ratios = _variance_ratios(old, new)
        # Over few draws the anchored noise of single directions scatters; its mean does not.
        number = float(np.abs(ratios.mean() - 1 if plan.control_variates else ratios - 1).max())
    kind = "mean" if plan.control_variates else "largest"
    return Check(
        "A2",
        "gradient noise over the posterior is as planned",
        number,
        f"{kind} relative change of a predicted variance",
        _verdict(number, 0.1, 0.3),
        "the noise grows away from the optimum: raise batch_size, or use more data or prior",
    )


def _anchor(plan: Plan, noise: Noise) -> Check:
    """X9: what the control variates leave of the noise where the draws are."""
    gain = plan.gain.dense(plan.dim)
    left, plain = (float(np.trace(gain @ cov)) for cov in (noise.drawn, noise.plain))
    number = left / plain if plain > 0 else 0.0
    return Check(
        "anchor",
        "control variates take noise away",
        number,
        "of the plain gradients' noise is left at the draws",
        _verdict(number, 0.5, 1.0),
        "the draws are too far from the anchor: use control_variates=False",
    )


def _variance_ratios(old: Vector, new: Vector) -> Vector:
    """Eigenvalues of one covariance relative to another, where that one has any variance."""
    found = scaled_eigh(old)
    kept = found.values > 1e-12 * found.values[-1]
    root = found.directions[:, kept] / np.sqrt(found.values[kept])
    return np.linalg.eigvalsh(root.T @ new @ root)


def _discretisation(plan: Plan) -> Check:
    """A3: nats that the finite step costs, beyond the small-step limit (T2 against T1)."""
    precision: Vector = np.linalg.pinv(as_matrix(plan.target_cov), hermitian=True)
    finite_kl, limit_kl = (
        _kl_or_inf(as_matrix(cov), precision) for cov in (plan.predicted_cov, plan.limit_cov)
    )
    number = max(0.0, finite_kl - limit_kl) if np.isfinite(limit_kl) else 0.0
    return Check(
        "A3",
        "steps are small",
        number,
        "nats the finite step costs by the plan (T2 against T1)",
        _verdict(number, 0.05, 0.5),
        "lower batch_size (the step follows it), or use method='exact', which is exact at any step",
    )


def _kl_or_inf(cov: Vector, precision: Vector) -> float:
    try:
        return theory.gaussian_kl(cov, precision)
    except np.linalg.LinAlgError:
        return float("inf")


def _quadratic_loss(post: Posterior, plan: Plan, draws: Vector) -> Check:
    """A4: how far the log posterior is from its quadratic where the draws are, in nats.

    With Delta the difference of the two, the divergence of the Gaussian from the posterior is
    ``1/2 Var(Delta)`` to second order.
    """
    thetas = np.concatenate([plan.center[None], draws])
    losses = joint_losses(post, thetas)
    offset = draws - plan.center
    if plan.geometry.approximate:
        bent = plan.num_data * hessian_products(post, plan.center, offset, post.data)
    else:
        bent = np.asarray(plan.geometry.precision.matvec(offset))
    quadratic = 0.5 * (offset * bent).sum(axis=1)
    number = 0.5 * float(np.var(losses[1:] - losses[0] - quadratic))
    return Check(
        "A4",
        "loss is quadratic over the posterior",
        number,
        "nats between the posterior and its Gaussian approximation",
        _verdict(number, 0.05, 0.3),
        "the posterior is not Gaussian: transform the parameters, or use a full sampler (NUTS)",
    )


def _specification_along(plan: Plan) -> Check:
    """The information equality along the basis, where the rows know more than the prior.

    Single directions scatter, so it is their mean that is judged.
    """
    geometry = plan.geometry
    likelihood, prior = np.asarray(geometry.likelihood.array), geometry.prior_hessian.array
    informed = likelihood > prior
    noise = np.asarray(geometry.noise_cov.array)
    ratios = noise[informed] / likelihood[informed] if informed.any() else np.ones(1)
    mean = float(max(ratios.mean(), 1e-12))
    return Check(
        "model",
        "noise matches curvature (C = A)",
        max(mean, 1 / mean),
        f"mean C / A along the basis, from {ratios.min():.2g} to {ratios.max():.2g}",
        _verdict(max(mean, 1 / mean), 2.0, 4.0),
        f"the model looks misspecified, its intervals {'too narrow' if mean > 1 else 'too wide'}: "
        "check the model",
    )


def _total_variance(plan: Plan, draws: Vector) -> Check:
    """Sum of the draws' variances against the plan's, relative to it."""
    chains, count, dim = draws.shape
    found = draws.reshape(-1, dim).var(axis=0, ddof=1).sum() if chains * count > 1 else np.nan
    number = abs(float(found) / plan.predicted_trace - 1)
    return Check(
        "covariance",
        "draws have the predicted total variance",
        number,
        f"relative difference ({found:.4g} measured, {plan.predicted_trace:.4g} predicted); too "
        "many parameters to compare covariances entry by entry",
        _verdict(number, 0.1, 0.3),
        "the plan's assumptions do not hold here: see the rows above",
    )


def _specification(plan: Plan) -> Check:
    """The information equality: where the model is right, C equals the likelihood's share of A."""
    geometry, dim = plan.geometry, plan.dim
    A, C = geometry.hessian.dense(dim), geometry.noise_cov.dense(dim)
    V, prior = theory.joint_diagonalisation(A, geometry.prior_hessian.dense(dim))
    informed = V[:, prior < 0.5]
    if informed.shape[1] == 0:
        low = high = 1.0
    else:
        # In V's coordinates A is the identity and the likelihood's share of it 1 - prior.
        scale = 1 / np.sqrt(1 - prior[prior < 0.5])
        ratios = np.linalg.eigvalsh((informed.T @ C @ informed) * scale[:, None] * scale)
        low, high = float(max(ratios[0], 1e-12)), float(ratios[-1])
    number = max(high, 1 / low)
    narrow = "too narrow" if high * low > 1 else "too wide"
    return Check(
        "model",
        "noise matches curvature (C = A)",
        number,
        f"C / A lies between {low:.2g} and {high:.2g}",
        _verdict(number, 2.0, 4.0),
        f"the model looks misspecified, its intervals {narrow}: check noise_scale and the model, "
        "or use method='sandwich'",
    )


def _stationarity(draws: Vector) -> Check:
    """Rank-normalised split R-hat, and the drift of means between halves of the chains."""
    arviz = arviz_module()
    chains, count, dim = draws.shape
    half = count // 2
    if half < 4:
        return Check(
            "stationarity",
            "chains have forgotten their start",
            float("nan"),
            "too few draws to tell",
            "fail",
            "make more draws",
        )
    halves = np.concatenate([draws[:, :half], draws[:, half : 2 * half]])
    number = max(float(arviz.rhat(halves[..., i])) for i in range(dim))
    first, second = halves[:chains], halves[chains:]
    effective = [float(arviz.ess(halves[..., i], method="mean")) for i in range(dim)]
    error = halves.reshape(-1, dim).std(axis=0) * np.sqrt(4 / np.asarray(effective))
    drift = np.max(np.abs(first.mean(axis=(0, 1)) - second.mean(axis=(0, 1))) / error)
    bound = -scipy.special.ndtri(0.0005 / dim)
    verdict = _verdict(number, 1.01, 1.05)
    if drift > bound:
        verdict = "fail"
    return Check(
        "stationarity",
        "chains have forgotten their start",
        number,
        f"largest R-hat (drift between halves {drift:.1f} standard errors)",
        verdict,
        "make more draws, or raise warmup and thin",
    )


def _covariance(plan: Plan, draws: Vector) -> Check:
    """Measured against predicted covariance, judged by the Monte-Carlo floor."""
    value, floor = measured_kl(draws, plan.center, as_matrix(plan.predicted_cov))
    dim = plan.dim
    terms = dim * (dim + 3) / 2
    noise = floor * scipy.special.chdtri(terms, 0.001) / terms
    return Check(
        "covariance",
        "draws have the predicted covariance",
        value,
        f"nats between measured and predicted (Monte-Carlo floor {floor:.2g})",
        _verdict(value, noise + 0.02, noise + 0.2),
        "the plan's assumptions do not hold here: see the rows above",
    )
