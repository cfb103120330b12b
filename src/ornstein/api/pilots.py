"""Pilots: a plan is run, measured by Stein's identities, and made more careful where it is off.

Where reading all rows at every step takes little time, steps then pass a Metropolis test, which
leaves no error but slow mixing; where the posterior's peak says little of it, they are planned
around the pilot's own draws. Elsewhere steps become smaller and batches larger.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import numpy as np

from ornstein._base import checks, multihost
from ornstein._base.errors import OrnsteinError
from ornstein._base.progress import bar
from ornstein._base.types import Array
from ornstein.api.judged import JUDGED, SLOW, TOO_MANY, Pilot, is_tested, judge
from ornstein.api.refusal import RUN_ANYWAY, refuse_wrong
from ornstein.models.posterior import Posterior, as_posterior
from ornstein.planning import planner
from ornstein.planning.foreseen import foreseen
from ornstein.planning.gradient_work import gradient_seconds
from ornstein.planning.methods.hamiltonian import ANGLES
from ornstein.planning.plans import Plan
from ornstein.planning.rules import Rotation
from ornstein.results.accuracy import MATRICES
from ornstein.sampling.run import run_chains
from ornstein.sampling.settings import Settings, check_dtype

_CHAINS = 4  # as many as sample makes, whose compiled code is the pilot's
_CANDIDATES = 5  # plans to try
_RHOS = (3.0, 10.0, 30.0)
_SMALL_ANGLES = (0.05, 0.02, 0.01, 0.005, 0.002)
_FAR = 3  # of these, at once, after a chain that became non-finite
_AS_PREDICTED, _NEAR = 1.0, 0.0  # where pilots start, in predicted standard deviations
_CORES = 2  # that share the chains of a pilot
_LONGEST, _LONGEST_TOGETHER = 20.0, 60.0  # seconds of one pilot, and of all of a plan
_READ = 1e8  # numbers in a table on disk whose rows are read to measure a pilot, at most
_MOVES = 3  # plans around a pilot's draws, one after the other
_ALL_ROWS = 1e7  # numbers in a table whose rows are all read at every step, at most
_REDRAWN = "a chain of the pilot became non-finite and was drawn again: expect it of the run, too"
_PILOT_KEY = 2**31 - 1  # of the plan's key, for pilots
_MIXING = 200  # draws a chain of a pilot that is not measured

KICKS = (1, 4, 16, 48)
"""Of a step that is tested, one after the other until it mixes."""

QUICK = 1.0
"""Seconds for more draws than a pilot has at first."""

AT_ONCE = 1e5
"""Numbers in a table whose rows are all read at every step from the beginning, at most."""


def piloted(
    post: Posterior,
    plan: Plan,
    tolerance: float | None,
    given: Mapping[str, Any],
    dtype: str | None = None,
    on_mesh: bool = False,
    refuse: bool = False,
) -> Plan:
    """The plan with its predicted error, made more careful where a pilot finds it too large.

    Of a run over a mesh, the pilot is run by this process alone. Where rows are on disk or spread
    over a mesh, no step reads all of them. With ``refuse``, raise where that leaves draws that are
    not the posterior's.
    """
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
    steps = _Careful(plan, given, even=on_mesh)
    size, judged = post.num_data * post.dim, plan.dim <= MATRICES
    in_memory = not (post.on_disk or on_mesh)
    all_rows = (
        in_memory
        and steps.free
        and size <= _ALL_ROWS
        and _seconds(post, tested(plan, 1)) <= _LONGEST
    )
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
    if refuse:
        refuse_wrong(best, given, RUN_ANYWAY)
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
        mixes = best.slowness <= SLOW or not is_tested(best.plan)
        return best.passes(tolerance) and mixes

    for kicks in KICKS[1:] if is_tested(best.plan) else KICKS:
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
    return min(pilot, best, key=lambda one: (not one.passes(tolerance), one.rank))


def tested(plan: Plan, kicks: int) -> Plan:
    """A plan of rotation steps that pass a Metropolis test with all rows, after so many kicks."""
    angle = ANGLES[0] / kicks
    return planner.retuned(plan, plan.num_data, angle=angle, kicks=kicks, metropolis=True)


def _unmeasurable(post: Posterior, plan: Plan, on_mesh: bool) -> str:
    """Why no pilot is run; empty where one is."""
    if not plan.is_chain:
        return f"method={plan.method!r} has no steps to tune"
    if plan.target != "posterior":
        return f"the draws aim at the {plan.target} covariance"
    if post.on_disk and post.num_data * post.dim > _ALL_ROWS:
        return "the rows stay on disk, and are many; result.diagnose() measures the draws"
    if on_mesh and multihost.count() > 1:
        return "the run is spread over several processes; result.diagnose() measures the draws"
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
    """Ever more careful steps than a plan's, as far as its settings were not given.

    ``even`` batches are those that devices share as evenly as they share the plan's.
    """

    def __init__(self, plan: Plan, given: Mapping[str, Any], even: bool = False) -> None:
        self.even = even
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
        if self.even and size % self.plan.batch_size:
            size = self.plan.batch_size * (size // self.plan.batch_size)
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
    runs = max(1, min(affordable, JUDGED // (_CHAINS * plan.draws)))
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
