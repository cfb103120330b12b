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
from ornstein._base.progress import bar, phase
from ornstein._base.types import Array, Vector
from ornstein.api.judged import FUNNEL, RESOLVED, SLOW, is_tested, judge
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
from ornstein.planning.planner import of_all_rows, retuned
from ornstein.planning.planner import plan as make_plan
from ornstein.planning.plans import Plan
from ornstein.planning.rules import Rotation
from ornstein.results.measure import min_ess
from ornstein.sampling.hyper_steps import Drawn, drawn_with
from ornstein.sampling.run import run_chains
from ornstein.sampling.settings import Run, Settings
from ornstein.storage.codec import register

_PILOT, _SHORT = 400, 200  # draws a chain of the run that finds the anchor; where that takes long
_RUNS = 5  # of a pilot whose draws are measured, at most
_AS_PREDICTED, _NEAR = 1.0, 0.0  # where pilots start, in predicted standard deviations
_UNJUDGED = f"{FUNNEL}; result.diagnose() judges those of the run"
_ANGLES = (0.4, 0.2)  # of steps that are not tested, one after the other until they mix
_PATIENCE = 20.0  # draws in which they must forget
_FAR = 3.0  # posterior standard deviations of a hyperparameter within which steps are stable,
_SPARE = 1.5  # with that much to spare
_WIDTHS = 0.1, 3.0  # least and largest step of a slice on the real line
_MORE_ROWS = 2  # in a batch than where hyperparameters are fixed
_SLOWEST = 20  # times as many steps a draw, where hyperparameters forget slowly
_LONG = 2.0  # seconds of a run, beyond which it makes no more draws than are enough
_BRIEF = 0.1  # seconds of a chain's pilot of single kicks, beyond which there is none
_PASSED = 0.9  # of tested steps, where more kicks are of no use
_NEARBY = 0.25  # squared distance by dimension of steps that did not pass: it is 2 of the others
_MEASURABLE = 5  # draws of a run for each number drawn, so that they can be measured

UNSETTLED = _PILOT // 4
"""Draws in which chains settle that begin about the optimum."""

ENOUGH = 800
"""Effective draws of the number that forgets slowest, where draws are expensive: their own error is
then 0.035 posterior standard deviations."""


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
    known: Plan,
    plan_options: Mapping[str, Any],
    learning: Learning,
    target: HyperTarget,
    chains: int,
    dtype: str,
    key: Array,
    progress: bool | None,
    tolerance: float | None,
    wanted: int | None = None,
) -> tuple[Posterior, Plan, Beside]:
    """Move the anchor from the learned values to the middle of a pilot's, and plan there.

    ``known`` is the plan at the learned values. Where hyperparameters forget slowly, a small bias
    of every step adds up: angles are narrower then, or steps that are tested have more kicks, and
    a pilot finds how many steps a draw takes. Its draws are measured, and its last states are
    where the run begins. Where a run would take long, it makes no more draws than are enough, or
    the number ``wanted`` with shorter strides.
    """
    shown = bar("finding the hyperparameters", progress)
    eta, deviations = post.learnable.to_real(post.hyperparameters), learning.deviations
    beside = Beside(eta, np.clip(2 * deviations, *_WIDTHS), 1)

    def run(number: int) -> Run:
        spread = _NEAR if is_tested(plan) else _AS_PREDICTED
        draws = _pilot_draws(post, plan, chains)
        settings = Settings(chains, draws, plan.thin, plan.warmup, spread, dtype, None)
        fresh, drawn = jax.random.fold_in(key, number), beside.drawn(target)
        done = run_chains(post, plan, fresh, settings, shown, starts=beside.starts, drawn=drawn)
        if done.status.kind == "interrupted":
            raise KeyboardInterrupt("interrupted while finding hyperparameters: nothing drawn yet.")
        return done

    whole = False
    for number in range(len(KICKS)):
        plan, is_last = _planned(post, known, plan_options, deviations, number, whole)
        whole = is_tested(plan)
        done = run(number)
        if done.status.ok and done.hyper is not None:
            settled = done.hyper[:, done.hyper.shape[1] // 4 :]
            eta = np.median(settled.reshape(-1, settled.shape[-1]), axis=0)
            deviations = settled.std(axis=(0, 1))
            values, start = post.learnable.host_values(eta), post.layout.unravel(plan.center)
            post = post.with_hyper(values, start)
            with phase("planning around the pilot", progress):
                if whole and plan_options.get("geometry_rows") is None:
                    known = of_all_rows(post, known)
                else:
                    known = make_plan(post, **plan_options)
            slowness = _slowness([done])
            beside = Beside(eta, np.clip(2 * deviations, *_WIDTHS), plan.thin).at(done)
        patience = SLOW if whole else _PATIENCE
        if is_last or (done.status.ok and (slowness <= patience or passes(plan, done))):
            break
    if not done.status.ok:
        raise UnstablePlanError(f"while finding the hyperparameters, {done.status.message}")
    plan, _ = _planned(post, known, plan_options, deviations, number, whole)
    pieces = [done]
    if measurable(post, plan, tolerance) == "":
        for more in range(_more(post, plan, slowness, chains)):
            done = run(len(KICKS) + more)
            if not done.status.ok:
                break
            pieces, beside = [*pieces, done], beside.at(done)
        slowness = _slowness(pieces)
    effective = _draws(pieces)[1][..., 0].size / slowness
    longer, draws = run_length(post, plan, slowness, chains, wanted, effective)
    beside = beside._replace(thin=longer * plan.thin)
    plan = replace(plan, thin=beside.thin, warmup=longer * plan.warmup, tolerance=tolerance)
    plan = plan if wanted is not None else replace(plan, draws=draws)
    with phase("measuring the pilot's draws", progress):
        return post, _measured(post, plan, target, pieces), beside


def _draws(pieces: list[Run]) -> tuple[Vector, Vector]:
    """Parameters and hyperparameters of a pilot's runs in a row, without its beginning."""
    hyper = [piece.hyper for piece in pieces if piece.hyper is not None]
    flat = np.concatenate([piece.flat for piece in pieces], axis=1)
    settled = hyper[0].shape[1] // 4
    return flat[:, settled:], np.concatenate(hyper, axis=1)[:, settled:]


def _slowness(pieces: list[Run]) -> float:
    """Draws per effective one."""
    flat, hyper = _draws(pieces)
    return float(hyper[..., 0].size / max(min(min_ess(hyper), min_ess(flat)), 1.0))


def passes(plan: Plan, done: Run) -> bool:
    """Whether nearly all steps pass their test, so that more kicks would make them no better.

    Those that do not leave the parameters about where they were.
    """
    if not is_tested(plan):
        return False
    settled = done.flat[:, done.flat.shape[1] // 4 :]
    steps = np.diff(settled, axis=1) @ np.linalg.cholesky(plan.geometry.precision.dense(plan.dim))
    far = (steps**2).sum(axis=2) > _NEARBY * plan.dim
    return bool(far.mean() > _PASSED)


def _pilot_draws(post: Posterior, plan: Plan, chains: int) -> int:
    """Of a chain of a pilot."""
    return _PILOT if seconds(post, plan, chains * _PILOT * plan.thin) <= _LONG else _SHORT


def run_length(
    post: Posterior,
    plan: Plan,
    slowness: float,
    chains: int,
    wanted: int | None,
    effective: float = math.inf,
) -> tuple[int, int]:
    """How many of the plan's strides a draw takes, and draws of a chain.

    ``slowness`` is known from so many ``effective`` draws. A run that takes long is as long as it
    must be if chains forget more slowly by two standard errors of that: relatively ``sqrt(10 / n)``
    of an autocorrelation time that is summed over five of itself (Sokal 1997).
    """
    longer, draws = int(np.clip(round(slowness / 2), 1, _SLOWEST)), wanted or plan.draws
    if seconds(post, plan, chains * draws * longer * plan.thin) <= _LONG:
        return longer, draws
    slower = slowness * (1 + 2 * math.sqrt(10 / effective))
    strides = math.ceil(ENOUGH * max(slower, 1.0) / chains)
    longer = min(longer, math.ceil(strides / draws))
    if wanted is not None:
        return longer, wanted
    measurable_draws = math.ceil(_MEASURABLE * plan.dim / chains)
    return longer, min(draws, max(math.ceil(strides / longer), measurable_draws))


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
    post: Posterior,
    plan: Plan,
    plan_options: Mapping[str, Any],
    deviations: Vector,
    number: int,
    whole: bool,
) -> tuple[Plan, bool]:
    """A plan whose steps stay stable however far the hyperparameters are likely to go.

    The more careful the higher the number; and whether there is none more careful. Where an earlier
    one took all rows, ``whole``, so does this.
    """
    if not isinstance(plan.rule, Rotation) or plan.anchor is None:
        raise InputError(
            "hyper='draw' needs rotation steps with control variates, and this plan has "
            f"method={plan.method!r}: leave method and structure out, or use hyper='learn'."
        )
    if plan_options.get("angle") is not None or plan.rule.is_tested:
        return plan, True
    given, N = plan_options.get("batch_size"), post.num_data
    if given is None and not post.quadratic and (whole or N * post.dim <= AT_ONCE):
        # Steps that are tested have no bias that could add up, and may be wide.
        return _tested(post, plan, number)
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
        rows = min(N, _MORE_ROWS * needed)
        if rows == N and not post.quadratic:
            return _tested(post, plan, number)
    return retuned(plan, rows, angle=angle), number + 1 >= len(_ANGLES)


def _tested(post: Posterior, plan: Plan, number: int) -> tuple[Plan, bool]:
    """Steps of all rows, the more kicks the higher the number; and whether there are no more.

    Where they take long, the first has several kicks, too: its tests read the rows as often, and a
    single kick rarely passes them.
    """
    one = tested(plan, KICKS[0])
    kicks = KICKS if seconds(post, one, _PILOT) <= _BRIEF else KICKS[1:]
    place = min(number, len(kicks) - 1)
    return tested(plan, kicks[place]), place + 1 == len(kicks)
