"""Hyperparameters drawn with the parameters: where to anchor, how wide to step, how long (X13).

A pilot finds all of this. The run goes on from where its chains are: with other hyperparameters
than the anchor's the parameters are wider spread, and steps that are tested can stay for hundreds
of draws where a chain began too far out.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import numpy as np

from ornstein import theory
from ornstein._base.errors import InputError, UnstablePlanError
from ornstein._base.progress import bar
from ornstein._base.types import Array, Vector
from ornstein.api.judged import FUNNEL, RESOLVED, judge
from ornstein.api.pilots import (
    AT_ONCE,
    KICKS,
    QUICK,
    measurable,
    seconds,
    tested,
)
from ornstein.curvature.control_variates import batch_size
from ornstein.hyper import Learning
from ornstein.models.hyper_targets import HyperTarget
from ornstein.models.posterior import Posterior
from ornstein.planning.methods.hamiltonian import ANGLES
from ornstein.planning.planner import plan as make_plan
from ornstein.planning.planner import retuned
from ornstein.planning.plans import Plan
from ornstein.planning.rules import Rotation
from ornstein.results.measure import min_ess
from ornstein.sampling.hyper_steps import Drawn, drawn_with
from ornstein.sampling.run import run_chains
from ornstein.sampling.settings import Run, Settings
from ornstein.storage.codec import register

_PILOT = 400  # draws a chain of the run that finds the anchor
_RUNS = 5  # of a pilot whose draws are measured, at most
_UNJUDGED = f"{FUNNEL}; result.diagnose() judges those of the run"
_ANGLES = (0.4, 0.2)  # of steps that are not tested, one after the other until they mix
_PATIENCE = 20.0  # draws in which they must forget
_FAR = 3.0  # posterior standard deviations of a hyperparameter within which steps are stable,
_SPARE = 1.5  # with that much to spare
_WIDTHS = 0.1, 3.0  # least and largest step of a slice on the real line
_MORE_ROWS = 2  # in a batch than where hyperparameters are fixed
_SLOWEST = 20  # times as many steps a draw, where hyperparameters forget slowly

UNSETTLED = _PILOT // 4
"""Draws in which chains settle that begin about the optimum."""


@register
class Beside(NamedTuple):
    """What is drawn beside the parameters: anchor and widths on the real line, and the stride.

    ``starts`` (chains, D) and ``hyper_starts`` (chains, m) are where the pilot's chains ended.
    """

    eta: Vector
    widths: Vector
    thin: int
    starts: Vector | None = None
    hyper_starts: Vector | None = None

    def drawn(self, target: HyperTarget) -> Drawn:
        """For a run."""
        return Drawn(target, self.eta, self.widths, self.hyper_starts)

    def at(self, done: Run) -> "Beside":
        """With the last states of a run as starts."""
        if done.hyper is None or not done.status.ok:
            return self
        return self._replace(starts=done.flat[:, -1], hyper_starts=done.hyper[:, -1])

    def spread(self) -> "Beside":
        """Without them: chains begin about the optimum."""
        return self._replace(starts=None, hyper_starts=None)


def anchored(
    post: Posterior,
    plan_options: Mapping[str, Any],
    learning: Learning,
    target: HyperTarget,
    chains: int,
    dtype: str,
    key: Array,
    progress: bool | None,
    tolerance: float | None,
) -> tuple[Posterior, Plan, Beside]:
    """Move the anchor from the learned values to the middle of a pilot's, and plan there.

    Where hyperparameters forget slowly, a small bias of every step adds up: angles are narrower
    then, or steps that are tested have more kicks, and a pilot finds how many steps a draw takes.
    Its draws are measured, and its last states are where the run begins.
    """
    shown = bar("finding the hyperparameters", progress)
    eta, deviations = post.learnable.to_real(post.hyperparameters), learning.deviations
    beside = Beside(eta, np.clip(2 * deviations, *_WIDTHS), 1)

    def run(number: int) -> Run:
        settings = Settings(chains, _PILOT, plan.thin, plan.warmup, 1.0, dtype, None)
        fresh, drawn = jax.random.fold_in(key, number), beside.drawn(target)
        done = run_chains(post, plan, fresh, settings, shown, starts=beside.starts, drawn=drawn)
        if done.status.kind == "interrupted":
            raise KeyboardInterrupt("interrupted while finding hyperparameters: nothing drawn yet.")
        return done

    for number in range(len(KICKS)):
        plan, is_last = _planned(post, plan_options, deviations, number)
        done = run(number)
        if done.status.ok and done.hyper is not None:
            settled = done.hyper[:, UNSETTLED:]
            eta = np.median(settled.reshape(-1, settled.shape[-1]), axis=0)
            deviations = settled.std(axis=(0, 1))
            values, start = post.learnable.host_values(eta), post.layout.unravel(plan.center)
            post = post.with_hyper(values, start)
            slowness = _slowness([done])
            beside = Beside(eta, np.clip(2 * deviations, *_WIDTHS), plan.thin).at(done)
        if is_last or (done.status.ok and slowness <= _PATIENCE):
            break
    if not done.status.ok:
        raise UnstablePlanError(f"while finding the hyperparameters, {done.status.message}")
    plan, _ = _planned(post, plan_options, deviations, number)
    pieces = [done]
    if measurable(post, plan, tolerance) == "":
        for more in range(_more(post, plan, slowness, chains)):
            done = run(len(KICKS) + more)
            if not done.status.ok:
                break
            pieces, beside = [*pieces, done], beside.at(done)
        slowness = _slowness(pieces)
    longer = int(np.clip(round(slowness / 2), 1, _SLOWEST))
    beside = beside._replace(thin=longer * plan.thin)
    plan = replace(plan, thin=beside.thin, warmup=longer * plan.warmup, tolerance=tolerance)
    return post, _measured(post, plan, target, pieces), beside


def _draws(pieces: list[Run]) -> tuple[Vector, Vector]:
    """Parameters and hyperparameters of a pilot's runs in a row, without its beginning."""
    hyper = [piece.hyper for piece in pieces if piece.hyper is not None]
    flat = np.concatenate([piece.flat for piece in pieces], axis=1)
    return flat[:, UNSETTLED:], np.concatenate(hyper, axis=1)[:, UNSETTLED:]


def _slowness(pieces: list[Run]) -> float:
    """Draws per effective one."""
    flat, hyper = _draws(pieces)
    return float(hyper[..., 0].size / max(min(min_ess(hyper), min_ess(flat)), 1.0))


def _more(post: Posterior, plan: Plan, slowness: float, chains: int) -> int:
    """How often to run the pilot again, to have draws enough to be measured."""
    wanted = slowness / (RESOLVED**2 * chains * _PILOT)
    affordable = QUICK / seconds(post, plan, chains * (plan.warmup + _PILOT * plan.thin))
    return int(min(math.ceil(wanted) - 1, affordable, _RUNS - 1))


def _measured(post: Posterior, plan: Plan, target: HyperTarget, pieces: list[Run]) -> Plan:
    """The plan with the error of a pilot's draws, hyperparameters included."""
    why = measurable(post, plan, plan.tolerance)
    if why:
        return replace(plan, unmeasured=why)
    flat, eta = _draws(pieces)
    pilot = judge(post, plan, flat, drawn_with(post, plan, target, eta))
    if pilot.accuracy is None:
        return replace(plan, unmeasured=pilot.stopped)
    if not math.isfinite(pilot.worst) and pilot.accuracy.verdict != "fail":
        return replace(plan, unmeasured=_UNJUDGED)
    warnings = (
        (*plan.warnings, pilot.warning) if pilot.accuracy.verdict == "fail" else plan.warnings
    )
    return replace(plan, predicted_error=pilot.error, warnings=warnings)


def _planned(
    post: Posterior, plan_options: Mapping[str, Any], deviations: Vector, number: int
) -> tuple[Plan, bool]:
    """A plan whose steps stay stable however far the hyperparameters are likely to go.

    The more careful the higher the number; and whether there is none more careful.
    """
    plan = make_plan(post, **plan_options)
    if not isinstance(plan.rule, Rotation) or plan.anchor is None:
        raise InputError(
            "hyper='draw' needs rotation steps with control variates, and this plan has "
            f"method={plan.method!r}: leave method and structure out, or use hyper='learn'."
        )
    if plan_options.get("angle") is not None or plan.rule.is_tested:
        return plan, True
    given = plan_options.get("batch_size")
    if given is None and not post.quadratic and post.num_data * post.dim <= AT_ONCE:
        # Steps that are tested have no bias that could add up, and may be wide.
        return tested(plan, KICKS[number]), number + 1 == len(KICKS)
    share = float(np.max(plan.geometry.hessian.relative(plan.geometry.prior_hessian)))
    if post.quadratic:
        share = 1.0  # a noise scale multiplies the rows' curvature
    fastest = 1 + min(1.0, share) * float(np.expm1(min(_FAR * deviations.max(), 8.0)))
    widest = _ANGLES[min(number, len(_ANGLES) - 1)]
    wide = [h for h in ANGLES if h <= widest and theory.rotation_limit(h) > _SPARE * fastest]
    angle = min(plan.rule.angle, wide[0] if wide else ANGLES[-1])
    rows = plan.batch_size
    if given is None:
        # Away from the anchor's values the parameters are wider spread, and batches noisier.
        needed, _ = batch_size(plan.geometry, plan.anchor, theory.kick(angle))
        rows = min(post.num_data, _MORE_ROWS * needed)
        if rows == post.num_data and not post.quadratic:
            return tested(plan, KICKS[number]), number + 1 == len(KICKS)
    return retuned(plan, rows, angle=angle), number + 1 >= len(_ANGLES)
