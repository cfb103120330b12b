"""Do the theory's assumptions hold for a run? One function each, with a number and a remedy."""

from dataclasses import replace

import numpy as np
import scipy.special

from ornstein import theory
from ornstein._base.errors import InputError
from ornstein._base.precision import double_precision
from ornstein._base.types import Vector
from ornstein.curvature.geometry import Geometry
from ornstein.curvature.products import hessian_products
from ornstein.curvature.row_sums import joint_losses
from ornstein.linalg.eigen import scaled_eigh
from ornstein.linalg.operators import as_operator
from ornstein.models.glm import Glm
from ornstein.models.hyper_targets import DrawnHyper
from ornstein.models.posterior import Posterior
from ornstein.planning.plans import Plan
from ornstein.results import mixing
from ornstein.results.accuracy import Accuracy, measure
from ornstein.results.arviz import ess, rhat
from ornstein.results.diagnosis import MODEL, STATIONARITY, Check, Diagnosis, Point
from ornstein.results.gradients import known_from
from ornstein.results.measure import measured_kl
from ornstein.results.misfit import examine
from ornstein.results.noise import Noise, cumulants, noise_at_draws, spaced
from ornstein.results.remedies import explained, sentences
from ornstein.results.verdicts import CANNOT_TELL, worst

_DRAWS = 32  # at which the loss is evaluated again
_KURTOSIS = 3.0  # of rows' gradients, that spreads the extremes of C / A
_PARAMETERS = 256  # whose stationarity is checked, where matrices do not fit
_HOW_GAUSSIAN = {
    "posterior": "transform the parameters, or use method='nuts', which follows any shape",
    "sandwich": "the sandwich takes it for one, which more rows or a stronger prior make it",
}
_SEE_ABOVE = "the plan's assumptions do not hold here: see the checks above"


def _verdict(number: float, warn: float, fail: float) -> str:
    """Verdict by thresholds; a NaN fails."""
    return "ok" if number <= warn else "warn" if number <= fail else "fail"


def diagnose(
    post: Posterior, plan: Plan, draws: Vector, hyper: DrawnHyper | None = None
) -> Diagnosis:
    """Judge draws (chains, draws, D); check A1-A4, the model, stationarity and the prediction.

    Where D x D matrices do not fit, A1-A3 and the covariance's entries are left out; where
    hyperparameters were drawn too, the prediction, which is for one value of them.
    """
    flat = draws.reshape(-1, plan.dim)
    if not len(flat):
        raise InputError(
            "there are no draws to diagnose: the run ended before its first one. Run it again with "
            "a larger batch_size or a smaller dispersion."
        )
    some, found = draws, Diagnosis(())
    model, points, allowed = _model(post, plan, hyper)
    with double_precision():
        if plan.geometry.approximate:
            columns = np.linspace(0, plan.dim - 1, min(plan.dim, _PARAMETERS)).astype(int)
            some = draws[..., columns]
        elif plan.is_chain:
            found = _of_chains(post, plan, flat)
        gaussian = plan.method != "nuts"  # whose draws follow any shape
        checks = (
            *found.checks,
            *((_quadratic_loss(post, plan, spaced(flat, _DRAWS)),) if gaussian else ()),
            model,
            _stationarity(plan, some if hyper is None else np.concatenate([some, hyper.eta], -1)),
        )
        if gaussian and plan.geometry.approximate:
            checks += (_total_variance(plan, flat),)
        elif gaussian and hyper is None:
            checks += (_covariance(plan, draws),)
    accuracy, unmeasured = _accuracy(post, plan, draws, hyper)
    return replace(
        found,
        checks=checks,
        accuracy=accuracy,
        unmeasured=unmeasured,
        on_model=points,
        allowed=allowed,
    )


def _accuracy(
    post: Posterior, plan: Plan, draws: Vector, hyper: DrawnHyper | None
) -> tuple[Accuracy | None, str]:
    """How far the draws are from the posterior, or why that is not known."""
    if plan.target != "posterior":
        return None, f"the draws aim at the {plan.target} covariance instead"
    try:
        return measure(post, draws, hyper=hyper, known=known_from(plan)), ""
    except InputError as error:
        return None, str(error).rstrip(".")


def _of_chains(post: Posterior, plan: Plan, flat: Vector) -> Diagnosis:
    """What only iterates of SGD assume."""
    noise = noise_at_draws(post, plan, flat)
    C_S = plan.noise_cov.dense(plan.dim) * plan.batches.noise_factor
    gaussian, roughest = _gaussian_noise(post, plan, flat, C_S)
    checks = [gaussian, _constant_noise(plan, noise, C_S)]
    if plan.control_variates:
        checks.append(_anchor(plan, noise))
    checks.append(_discretisation(plan))
    return Diagnosis(tuple(checks), noise=noise, roughest=roughest)


def _gaussian_noise(
    post: Posterior, plan: Plan, draws: Vector, C_S: Vector
) -> tuple[Check, Vector]:
    """A1: excess kurtosis that the minibatch noise leaves in the draws, and the mode that has most.

    A batch mean has 1/S of a row's excess kurtosis, and a mode that forgets slowly averages over
    many batches: the draws keep ``(1 - r^2) / (1 + r^2)`` of it, ``r = 1 - k``.
    """
    Q = None if plan.injected_cov is None else plan.injected_cov.dense(plan.dim)
    modes = theory.modes(plan.gain.dense(plan.dim), plan.geometry.hessian.dense(plan.dim))
    at = spaced(draws, 8) if plan.control_variates else plan.center[None]
    variance, fourth = cumulants(post, plan, at, modes.basis)
    with np.errstate(invalid="ignore", divide="ignore"):
        row = np.where(variance > 1e-14 * variance.max(), fourth / variance**2, 0.0)
    batch = np.abs(row) / plan.batch_size * theory.noise_shares(modes, C_S, Q) ** 2
    r2 = (1 - modes.rates) ** 2
    left = batch * (1 - r2) / (1 + r2)
    number = float(np.max(left))
    check = Check(
        "A1",
        "gradient noise is Gaussian",
        number,
        f"excess kurtosis left in the draws ({batch.max():.2g} in a step's noise)",
        _verdict(number, 0.3, 1.0),
        "a few rows dominate the gradient: raise batch_size, or check those rows",
    )
    return check, modes.basis[:, np.argmax(left)]


def _constant_noise(plan: Plan, noise: Noise, C_S: Vector) -> Check:
    """A2: change of the predicted variances when the noise is averaged over the draws."""
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
        "the noise grows away from the optimum: raise batch_size, or use a stronger prior",
    )


def _anchor(plan: Plan, noise: Noise) -> Check:
    """X9: what the control variates leave of the noise where the draws are."""
    gain = plan.gain.dense(plan.dim)
    left, plain = (float(np.trace(gain @ cov)) for cov in (noise.drawn, noise.plain))
    number = left / plain if plain > 0 else 0.0
    return Check(
        "anchor",
        "control variates reduce the gradient noise",
        number,
        "share of the plain gradients' noise that is left at the draws",
        _verdict(number, 0.5, 1.0),
        "the draws are too far from the anchor: use control_variates=False",
    )


def _variance_ratios(old: Vector, new: Vector) -> Vector:
    """Eigenvalues of one covariance relative to another, where that one has any variance."""
    eigen = scaled_eigh(old)
    kept = eigen.values > 1e-12 * eigen.values[-1]
    root = eigen.directions[:, kept] / np.sqrt(eigen.values[kept])
    return np.linalg.eigvalsh(root.T @ new @ root)


def _discretisation(plan: Plan) -> Check:
    """A3: nats that the finite step costs, beyond the small-step limit (T2 against T1)."""
    precision: Vector = np.linalg.pinv(as_operator(plan.target_cov).dense(plan.dim), hermitian=True)
    finite_kl, limit_kl = (
        _kl_or_inf(cov.dense(plan.dim), precision) for cov in (plan.predicted, plan.limit)
    )
    number = max(0.0, finite_kl - limit_kl) if np.isfinite(limit_kl) else 0.0
    return Check(
        "A3",
        "steps are small",
        number,
        "nats that the finite step costs by the plan (T2 against T1)",
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
    if plan.geometry.structure != "dense":  # a diagonal says nothing of other directions
        bent = plan.num_data * hessian_products(post, plan.center, offset, post.data)
    else:
        bent = np.asarray(plan.geometry.precision.matvec(offset))
    quadratic = 0.5 * (offset * bent).sum(axis=1)
    number = 0.5 * float(np.var(losses[1:] - losses[0] - quadratic))
    return Check(
        "A4",
        "the posterior is Gaussian",
        number,
        "nats between the posterior and its Gaussian approximation",
        _verdict(number, 0.05, 0.3),
        _HOW_GAUSSIAN[plan.target],
    )


def _model(
    post: Posterior, plan: Plan, hyper: DrawnHyper | None
) -> tuple[Check, tuple[Point, ...], str]:
    """Whether the model fits its rows, all that it misses, and what the draws allow for."""
    misfit = examine(post, plan, hyper)
    if misfit is None:
        return _specification(plan)
    family = post.model.family.name if isinstance(post.model, Glm) else ""
    said = sentences(misfit, family, plan.target)
    points = tuple(Point(one.verdict, text, step) for one, text, step in said)
    verdict = worst(point.verdict for point in points)
    if verdict == "ok" and misfit.blind:
        verdict = CANNOT_TELL
    allowed = explained(misfit, family, plan.target)
    meaning = " ".join(point.sentence for point in points)
    if verdict == CANNOT_TELL:
        meaning = (
            f"{misfit.rows:,} rows are too few to check {misfit.parameters:,} coefficients: by "
            "chance alone the rows scatter so that an interval half as wide as it should be "
            "would not be noticed"
        )
    check = Check(
        MODEL,
        "the model fits: its rows are as it would simulate them",
        float(len(points)),
        meaning or allowed or f"differences beyond chance in {misfit.rows:,} rows",
        verdict,
        points[0].remedy if points else "more rows would tell",
    )
    return check, points, allowed


def _specification(plan: Plan) -> tuple[Check, tuple[Point, ...], str]:
    """The information equality: where the model is right, C equals the likelihood's share of A.

    The extremes of C / A are judged, which chance alone spreads by the number of parameters over
    that of rows; without matrices single directions scatter, and their mean is.
    """
    if plan.geometry.approximate:
        ratios, remedy, chance = _ratios_along_basis(plan.geometry), "check the model", 1.0
        low = high = float(max(ratios.mean(), 1e-12))
        where = f"on average (C / A from {ratios.min():.2g} to {ratios.max():.2g} along the basis)"
    else:
        ratios = _noise_over_curvature(plan)
        remedy = "check the model, or use method='sandwich'"
        low, high = float(max(ratios[0], 1e-12)), float(ratios[-1])
        where = f"at most (C / A from {low:.2g} to {high:.2g})"
        chance = (1 + np.sqrt(_KURTOSIS * plan.dim / plan.num_data)) ** 2
    number = max(high, 1 / low)
    narrow = "too narrow" if high * low > 1 else "too wide"
    verdict = _verdict(number, 2.0 * chance, 4.0 * chance)
    if verdict == "ok" and chance > 2.0:
        verdict = CANNOT_TELL
    step = f"if rows are independent, some intervals are about {np.sqrt(number):.1f} times {narrow}"
    allowed = ""
    if plan.target == "sandwich" and verdict != "ok":
        verdict, allowed = "ok", "The intervals of method='sandwich' allow for what is missed."
    check = Check(
        MODEL,
        "the model fits: gradient noise matches curvature",
        number,
        f"times between noise and curvature, {where}",
        verdict,
        "more rows would tell" if verdict == CANNOT_TELL else f"{step}: {remedy}",
    )
    return check, (), allowed


def _noise_over_curvature(plan: Plan) -> Vector:
    """Eigenvalues of C relative to the likelihood's A, where the rows outweigh the prior."""
    geometry, dim = plan.geometry, plan.dim
    V, prior = theory.joint_diagonalisation(
        geometry.hessian.dense(dim), geometry.prior_hessian.dense(dim)
    )
    informed = prior < 0.5
    if not informed.any():
        return np.ones(1)
    # In V's coordinates A is the identity and the likelihood's share of it 1 - prior.
    basis = V[:, informed] / np.sqrt(1 - prior[informed])
    return np.linalg.eigvalsh(basis.T @ geometry.noise_cov.dense(dim) @ basis)


def _ratios_along_basis(geometry: Geometry) -> Vector:
    """C / A along the structure's basis, where the rows outweigh the prior."""
    likelihood = np.asarray(geometry.likelihood.array)
    informed = likelihood > geometry.prior_hessian.array
    noise = np.asarray(geometry.noise_cov.array)
    return noise[informed] / likelihood[informed] if informed.any() else np.ones(1)


def _stationarity(plan: Plan, draws: Vector) -> Check:
    """Rank-normalised split R-hat, and the drift of means between halves of the chains."""
    number, meaning, verdict = float("nan"), "too few draws to tell", "fail"
    chains, count, dim = draws.shape
    limit = None
    half = count // 2
    if half >= 4:
        halves = np.concatenate([draws[:, :half], draws[:, half : 2 * half]])
        number = float(np.max(rhat(halves)))
        error = halves.reshape(-1, dim).std(axis=0) * np.sqrt(4 / ess(halves, "mean"))
        first, second = halves[:chains].mean(axis=(0, 1)), halves[chains:].mean(axis=(0, 1))
        drift = np.max(np.abs(first - second) / error)
        limit = mixing.largest_rhat(dim, 2 * chains, half)
        meaning = (
            f"largest R-hat, of which up to {limit:.3f} may be chance (drift between halves "
            f"{drift:.1f} standard errors)"
        )
        drifts = drift > -scipy.special.ndtri(0.0005 / dim)
        verdict = "fail" if drifts else _verdict(number, limit, limit + 0.04)
    return Check(
        STATIONARITY,
        "chains have forgotten their start",
        number,
        meaning,
        verdict,
        mixing.longer(count, plan.method),
        limit,
    )


def _covariance(plan: Plan, draws: Vector) -> Check:
    """Measured against predicted covariance, judged by the Monte-Carlo floor."""
    value, floor = measured_kl(draws, plan.center, plan.predicted.dense(plan.dim))
    terms = plan.dim * (plan.dim + 3) / 2
    noise = floor * scipy.special.chdtri(terms, 0.001) / terms
    return Check(
        "covariance",
        "draws have the predicted covariance",
        value,
        f"nats between measured and predicted (Monte-Carlo floor {floor:.2g})",
        _verdict(value, noise + 0.02, noise + 0.2),
        _SEE_ABOVE,
    )


def _total_variance(plan: Plan, flat: Vector) -> Check:
    """Sum of the draws' variances against the plan's, relative to it."""
    measured = float(flat.var(axis=0, ddof=1).sum()) if len(flat) > 1 else float("nan")
    number = abs(measured / plan.predicted_trace - 1)
    return Check(
        "covariance",
        "draws have the predicted total variance",
        number,
        f"relative difference ({measured:.4g} measured, {plan.predicted_trace:.4g} predicted); too "
        "many parameters to compare covariances entry by entry",
        _verdict(number, 0.1, 0.3),
        _SEE_ABOVE,
    )
