"""Pilots: a plan is run, measured by Stein's identities, and made more careful where it is off.

Where reading all rows at every step takes little time, steps then pass a Metropolis test, which
leaves no error but slow mixing; where the posterior's peak says little of it, they are planned
around the pilot's own draws. Elsewhere steps become smaller and batches larger.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from ornstein._base import checks
from ornstein._base.errors import InputError, OrnsteinError
from ornstein._base.progress import bar
from ornstein._base.types import Array, Vector
from ornstein.models.hyper_targets import DrawnHyper
from ornstein.models.posterior import Posterior, as_posterior
from ornstein.planning import planner
from ornstein.planning.foreseen import foreseen
from ornstein.planning.gradient_work import gradient_seconds
from ornstein.planning.methods.hamiltonian import ANGLES
from ornstein.planning.plans import PILOT, Plan, PredictedError
from ornstein.planning.rules import Rotation
from ornstein.results.accuracy import MATRICES, Accuracy, measure
from ornstein.results.measure import min_ess
from ornstein.sampling.run import run_chains
from ornstein.sampling.settings import Settings, check_dtype

_CHAINS = 4  # as many as sample makes, whose compiled code is the pilot's
_JUDGED = 16_384  # draws of all chains at which a pilot is measured, at most
_UNJUDGED = 0.15  # Monte-Carlo error beyond which its figures mean nothing
_CANDIDATES = 5  # plans to try
_RHOS = (3.0, 10.0, 30.0)
_SMALL_ANGLES = (0.05, 0.02, 0.01, 0.005, 0.002)
_FAR = 3  # of these, at once, after a chain that became non-finite
_AS_PREDICTED, _NEAR = 1.0, 0.0  # where pilots start, in predicted standard deviations
_WORK = 5e8  # multiplications to measure a pilot's draws by
_CORES = 2  # that share the chains of a pilot
_LONGEST, _LONGEST_TOGETHER = 20.0, 60.0  # seconds of one pilot, and of all of a plan
_READ = 1e8  # numbers in a table on disk whose rows are read to measure a pilot, at most
_MOVES = 3  # plans around a pilot's draws, one after the other
_ALL_ROWS = 1e7  # numbers in a table whose rows are all read at every step, at most
_SLOW = 8.0  # steps in which a pilot's draws forget, beyond which more kicks are tried
_SPARSEST = 20  # times as many steps a draw as predicted, at most
_REDRAWN = "a chain of the pilot became non-finite and was drawn again: expect it of the run, too"
_PILOT_KEY = 2**31 - 1  # of the plan's key, for pilots


TOO_MANY = f"more than {MATRICES} parameters"
_MIXING = 200  # draws a chain of a pilot that is not measured

KICKS = (1, 4, 16, 48)
"""Of a step that is tested, one after the other until it mixes."""

RESOLVED = 0.03
"""Monte-Carlo error that a pilot's draws should have, at most."""

QUICK = 1.0
"""Seconds for more draws than a pilot has at first."""

AT_ONCE = 1e5
"""Numbers in a table whose rows are all read at every step from the beginning, at most."""


class Pilot(NamedTuple):
    """A pilot of a plan: how far its draws were off, and why it was stopped if it was."""

    plan: Plan
    accuracy: Accuracy | None
    stopped: str = ""
    flat: Vector | None = None
    left: bool = False
    """Whether a chain became non-finite, even if it was drawn again."""
    slowness: float = 1.0
    """Draws per effective one."""
    judged: bool = True
    """Whether its draws were measured; parameters may be too many for that."""
    cut: bool = False
    """Whether more careful plans were left out, whose pilots would take too long."""

    @property
    def worst(self) -> float:
        """The largest error of a mean or standard deviation, which are measured alike."""
        if self.accuracy is None:
            return math.inf
        errors = np.concatenate([self.accuracy.mean_error, self.accuracy.sd_error])
        return float(np.nan_to_num(np.abs(errors), nan=math.inf).max())

    def within(self, tolerance: float) -> bool:
        """Whether no error is beyond the tolerance by more than Monte-Carlo error explains.

        Of steps that are tested and whose draws are not measured, whether they mix.
        """
        if self.accuracy is None:
            return not self.judged and self.slowness <= _SLOW
        found, cap = self.accuracy, partial(np.minimum, max(tolerance, RESOLVED))
        pairs = (found.mean_error, found.mean_mc_error), (found.sd_error, found.sd_mc_error)
        return all(bool(np.all(e**2 <= tolerance**2 + (1.5 * cap(mc)) ** 2)) for e, mc in pairs)

    def passes(self, tolerance: float) -> bool:
        """Whether it is within the tolerance, and no chain left."""
        return self.within(tolerance) and not self.left

    @property
    def kicks(self) -> int:
        """Gradients of a step."""
        return self.plan.rule.kicks if isinstance(self.plan.rule, Rotation) else 1

    @property
    def rank(self) -> tuple[bool, float]:
        """The lower the better."""
        return self.left, self.worst if self.judged else self.slowness

    @property
    def planned(self) -> Plan:
        """The plan with the error that was measured, and draws as far apart as they forget."""
        if self.judged:
            plan = replace(self.plan, predicted_error=self.error)
        else:
            plan = replace(self.plan, unmeasured=TOO_MANY)
        if not _is_tested(plan):
            return plan
        more = int(np.clip(round(self.slowness / 2), 1, _SPARSEST))
        return replace(plan, thin=more * plan.thin, warmup=more * plan.warmup)

    @property
    def error(self) -> PredictedError:
        """The parameters that are furthest off."""
        if not math.isfinite(self.worst) or self.accuracy is None:
            return PredictedError(math.inf, math.inf, PILOT, math.inf, math.inf)
        found = self.accuracy
        m, s = (int(np.argmax(np.abs(e))) for e in (found.mean_error, found.sd_error))
        return PredictedError(
            float(abs(found.mean_error[m])),
            float(abs(found.sd_error[s])),
            PILOT,
            float(found.mean_mc_error[m]),
            float(found.sd_mc_error[s]),
        )

    @property
    def warning(self) -> str:
        """What to expect of a run that is not within the tolerance."""
        method = self.plan.method
        causes = (
            f"the posterior is too far from a Gaussian at its peak for method={method!r}, as with "
            "several modes or a funnel; use method='nuts', or reparametrise"
        )
        if self.cut:
            causes += "; pilots of more careful steps would take too long, and were left out"
        if not self.judged:
            return f"the pilot's chains mix too slowly: {causes}"
        if self.accuracy is None or not math.isfinite(self.worst):
            return f"{self.stopped or 'the pilot found no peak where its draws are'}: {causes}"
        found, error = self.accuracy, self.error
        if error.mean_mc_error > _UNJUDGED:
            return f"the pilot's chains mix too slowly for its draws to be judged: {causes}"
        if error.mean >= error.sd:
            name = found.labels[int(np.argmax(np.abs(found.mean_error)))]
            off = f"{error.mean:.2g} posterior standard deviations in {name}"
        else:
            name = found.labels[int(np.argmax(np.abs(found.sd_error)))]
            off = f"{error.sd:.0%} in the standard deviation of {name}"
        also = "; a chain became non-finite, too" if self.left else ""
        return f"the pilot's draws are off by {off}{also}: {causes}"


def piloted(
    post: Posterior,
    plan: Plan,
    tolerance: float | None,
    given: Mapping[str, Any],
    dtype: str | None = None,
    on_mesh: bool = False,
) -> Plan:
    """The plan with its predicted error, made more careful where a pilot finds it too large."""
    post = as_posterior(post)
    plan = replace(plan, tolerance=tolerance)
    if tolerance is None:
        return replace(plan, unmeasured="tolerance=None")
    error = foreseen(post, plan, tolerance)
    if error is not None:
        return replace(plan, predicted_error=error)
    why = _unmeasurable(post, plan, on_mesh)
    if why:
        return replace(plan, unmeasured=why)
    steps = _Careful(plan, given)
    size, judged = post.num_data * post.dim, plan.dim <= MATRICES
    all_rows = steps.free and size <= _ALL_ROWS and _seconds(post, tested(plan, 1)) <= _LONGEST
    if not judged and not all_rows:
        return replace(plan, unmeasured=TOO_MANY)
    key = jax.random.fold_in(checks.random_key(given.get("key", 0)), _PILOT_KEY)
    run = partial(_run, post, key=key, dtype=check_dtype(dtype))
    first = tested(plan, 1) if all_rows and (size <= AT_ONCE or not judged) else plan
    best = run(replace(first, dispersion=_AS_PREDICTED, tolerance=tolerance))
    tries = _with_all_rows if all_rows else _more_careful
    best = tries(post, best, steps, run, tolerance)
    if best.passes(tolerance):
        return best.planned
    said = _REDRAWN if best.within(tolerance) else best.warning
    return replace(best.planned, warnings=(*best.plan.warnings, said))


def _more_careful(
    post: Posterior,
    best: Pilot,
    steps: "_Careful",
    run: Callable[[Plan], Pilot],
    tolerance: float,
) -> Pilot:
    """The best pilot after some of smaller steps and larger batches."""
    pilot, spent = best, _seconds(post, best.plan)
    for _ in range(_CANDIDATES - 1):
        following = None if pilot.passes(tolerance) else steps.after(pilot)
        if following is None:
            break
        spent += _seconds(post, following)
        if spent > _LONGEST_TOGETHER:
            return best._replace(cut=True)
        pilot = run(following)
        best = min(pilot, best, key=lambda one: one.rank)
    return pilot if pilot.passes(tolerance) else best


def _with_all_rows(
    post: Posterior,
    best: Pilot,
    steps: "_Careful",
    run: Callable[[Plan], Pilot],
    tolerance: float,
) -> Pilot:
    """The best pilot after some whose steps are tested, at last around the best one's draws."""
    spent = _seconds(post, best.plan)

    def affordable(plan: Plan) -> bool:
        nonlocal spent
        own = _seconds(post, plan)
        spent += own
        return own <= _LONGEST and spent <= _LONGEST_TOGETHER

    def tried(plan: Plan) -> Pilot:
        return run(replace(plan, dispersion=_NEAR, tolerance=tolerance))

    def enough() -> bool:
        mixes = best.slowness <= _SLOW or not _is_tested(best.plan)
        return best.passes(tolerance) and mixes

    for kicks in KICKS[1:] if _is_tested(best.plan) else KICKS:
        if enough():
            return best
        plan = tested(steps.plan, kicks)
        if not affordable(plan):
            return best._replace(cut=True)
        best = _better(tried(plan), best, tolerance)
    for _ in range(_MOVES):
        if enough() or best.flat is None:
            break
        mean, cov = best.flat.mean(axis=0), np.atleast_2d(np.cov(best.flat, rowvar=False))
        kicks = min(2 * best.kicks, KICKS[-1])
        options = {"angle": ANGLES[0] / kicks, "kicks": kicks, "metropolis": True}
        try:
            plan = planner.moved(post, best.plan, mean, cov, **options)
        except (OrnsteinError, np.linalg.LinAlgError):
            break
        if not affordable(plan):
            return best._replace(cut=True)
        found = _better(tried(plan), best, tolerance)
        if found is best:  # the next plan would be the same
            break
        best = found
    return best


def _better(pilot: Pilot, best: Pilot, tolerance: float) -> Pilot:
    """The nearer one; of two that are near enough, the quicker."""
    if pilot.passes(tolerance) and best.passes(tolerance):
        return min(pilot, best, key=lambda one: one.slowness * one.kicks)
    return min(pilot, best, key=lambda one: one.rank)


def tested(plan: Plan, kicks: int) -> Plan:
    """A plan of rotation steps that pass a Metropolis test with all rows, after so many kicks."""
    angle = ANGLES[0] / kicks
    return planner.retuned(plan, plan.num_data, angle=angle, kicks=kicks, metropolis=True)


def _is_tested(plan: Plan) -> bool:
    return isinstance(plan.rule, Rotation) and plan.rule.is_tested


def _unmeasurable(post: Posterior, plan: Plan, on_mesh: bool) -> str:
    """Why no pilot is run; empty where one is."""
    if not plan.is_chain:
        return f"method={plan.method!r} has no steps to tune"
    if plan.target != "posterior":
        return f"the draws aim at the {plan.target} covariance"
    if post.on_disk:
        return "the rows stay on disk"
    if on_mesh:
        return "the run is spread over a mesh"
    if _seconds(post, plan) > _LONGEST:
        return "a pilot would take too long; orn.check(post, result.flat) measures the draws"
    return ""


def measurable(post: Posterior, plan: Plan, tolerance: float | None) -> str:
    """Why the draws of a pilot that was run anyway are not measured; empty where they are."""
    if tolerance is None:
        return "tolerance=None"
    if plan.dim > MATRICES:
        return TOO_MANY
    if post.on_disk and post.num_data * post.dim > _READ:
        return "the rows stay on disk"
    return ""


def _seconds(post: Posterior, plan: Plan) -> float:
    """About how long a pilot of a plan takes."""
    return seconds(post, plan, _CHAINS * (plan.warmup + plan.draws * plan.thin))


def seconds(post: Posterior, plan: Plan, steps: float) -> float:
    """About how long steps take; by their work, so that a plan does not depend on the machine."""
    if isinstance(plan.rule, Rotation) and plan.rule.is_tested:
        steps *= plan.rule.kicks + 1  # the test reads the rows twice, at half a gradient's cost
    order = 1 if plan.anchor is None else plan.anchor.order
    return steps * gradient_seconds(post, plan.batch_size, order) / _CORES


class _Careful:
    """Ever more careful steps than a plan's, as far as its settings were not given."""

    def __init__(self, plan: Plan, given: Mapping[str, Any]) -> None:
        fixed = {name for name, value in given.items() if value is not None}
        turning = isinstance(plan.rule, Rotation)
        self.plan, self.grows = plan, turning and "batch_size" not in fixed
        own = {"angle", "keep", "metropolis", "kicks", "at", "batch_size"}
        own |= {"control_variates", "geometry_rows"}
        self.free = turning and not fixed & own and given.get("batches", "auto") == "auto"
        self.changes: list[dict[str, float]] = []
        if isinstance(plan.rule, Rotation) and not fixed & {"angle", "keep"}:
            smaller = (h for h in (*ANGLES, *_SMALL_ANGLES) if h < 0.99 * plan.rule.angle)
            self.changes = [{"angle": angle} for angle in smaller]
        elif "rho" in plan.options and "rho" not in fixed:
            chosen = 2 / plan.geometry.rate - 1 if plan.geometry.approximate else 1.0
            self.changes = [{"rho": rho} for rho in _RHOS if rho > chosen]
        self.failures, self.taken, self.dispersion = 0, 0, _AS_PREDICTED

    def after(self, failed: "Pilot") -> Plan | None:
        """The next plan to try; None where there is none.

        After a chain that became non-finite steps are far more careful, and start at the optimum.
        """
        left = failed.accuracy is None
        now = failed.plan.batch_size, self.taken, self.dispersion
        self.failures += 1
        self.taken = min(self.taken + (_FAR if left else 1), len(self.changes))
        self.dispersion = _NEAR if left else self.dispersion
        doubled = self.failures - bool(self.changes) if self.grows else 0
        size = min(self.plan.num_data, self.plan.batch_size * 2**doubled)
        if (size, self.taken, self.dispersion) == now:
            return None
        change = self.changes[self.taken - 1] if self.taken else {}
        try:
            made = planner.retuned(self.plan, size, **change)
        except OrnsteinError:
            return None
        return replace(made, dispersion=self.dispersion, tolerance=self.plan.tolerance)


def _run(post: Posterior, plan: Plan, key: Array, dtype: str) -> Pilot:
    """Run a plan as it suggests, once or more often, and measure the draws.

    Runs of other lengths would be compiled anew.
    """
    judged = plan.dim <= MATRICES
    each = plan.draws if judged else min(plan.draws, _MIXING)
    settings = Settings(_CHAINS, each, plan.thin, plan.warmup, plan.dispersion, dtype, None)
    affordable = int(QUICK / _seconds(post, plan)) if judged else 1
    runs = max(1, min(affordable, _JUDGED // (_CHAINS * plan.draws)))
    pieces, left = [], False
    for number in range(runs):
        own_key = jax.random.fold_in(key, number)
        done = run_chains(post, plan, own_key, settings, bar("pilot", False))
        if done.status.kind == "interrupted":
            raise KeyboardInterrupt("interrupted while planning: nothing has been drawn yet.")
        if not done.status.ok:
            step = f"{done.status.step:,}" if done.status.step is not None else "some step"
            said = f"a chain of the pilot became non-finite at step {step}"
            return Pilot(plan, None, said, left=True)
        left |= bool(len(done.path.get("redrawn", ())))
        pieces.append(done.flat)
    return judge(post, plan, np.concatenate(pieces, axis=1), left=left)


def judge(
    post: Posterior,
    plan: Plan,
    draws: Vector,
    hyper: DrawnHyper | None = None,
    left: bool = False,
) -> Pilot:
    """Measure a plan's draws (chains, draws, D), with the hyperparameters drawn beside them."""
    joint = draws if hyper is None else np.concatenate([draws, hyper.eta], axis=2)
    flat, effective = draws.reshape(-1, plan.dim), min_ess(joint)
    made = partial(Pilot, plan, flat=flat, left=left, slowness=len(flat) / max(effective, 1.0))
    if plan.dim > MATRICES:
        return made(None, judged=False)
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            found = measure(post, draws, _WORK, hyper, most=_JUDGED)
        own = 1 / effective  # these draws' own error, which those of the run do not share
        found = replace(
            found,
            mean_mc_error=np.sqrt(found.mean_mc_error**2 + own),
            sd_mc_error=np.sqrt(found.sd_mc_error**2 + 0.5 * own),
        )
    except (InputError, np.linalg.LinAlgError) as error:
        return made(None, f"the pilot's draws cannot be measured ({error})")
    return made(found)
