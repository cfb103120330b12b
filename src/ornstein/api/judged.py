"""What a pilot's draws say of its plan: how far they are off, and how fast they forget."""

import math
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from ornstein._base.errors import InputError
from ornstein._base.types import Vector
from ornstein.models.hyper_targets import DrawnHyper
from ornstein.models.posterior import Posterior
from ornstein.planning.plans import PILOT, Plan, PredictedError
from ornstein.planning.rules import Rotation
from ornstein.results.accuracy import MATRICES, Accuracy, measure
from ornstein.results.gradients import known_from
from ornstein.results.measure import min_ess
from ornstein.results.verdicts import CANNOT_TELL

_UNJUDGED = 0.15  # Monte-Carlo error beyond which its figures mean nothing
_WORK = 5e8  # multiplications to measure a pilot's draws by
_SPARSEST = 20  # times as many steps a draw as predicted, at most

JUDGED = 16_384
"""Draws of all chains at which a pilot is measured, at most."""

SLOW = 8.0
"""Steps in which a pilot's draws forget, beyond which more kicks are tried."""

RESOLVED = 0.03
"""Monte-Carlo error that a pilot's draws should have, at most."""

TOO_MANY = f"more than {MATRICES} parameters"
"""Why many parameters are not measured."""

FUNNEL = (
    "the posterior's gradients differ too much between a pilot's draws to judge them, as in a "
    "funnel"
)
"""Why draws are not measured where too few of them decide."""


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

    @property
    def unmeasured(self) -> str:
        """Why nothing can be said of its draws' errors; empty where they are measured."""
        if not self.judged:
            return TOO_MANY
        undecided = self.accuracy is not None and self.accuracy.verdict == CANNOT_TELL
        return FUNNEL if undecided else ""

    def within(self, tolerance: float) -> bool:
        """Whether no error is beyond the tolerance by more than Monte-Carlo error explains.

        Of steps that are tested and whose draws are not measured, whether they mix.
        """
        if self.unmeasured:
            most = _SPARSEST if self.judged else SLOW  # longer pilots bear more
            return is_tested(self.plan) and self.slowness <= most
        if self.accuracy is None:
            return False
        found, cap = self.accuracy, partial(np.minimum, max(tolerance, RESOLVED))
        pairs = (found.mean_error, found.mean_mc_error), (found.sd_error, found.sd_mc_error)
        return all(bool(np.all(e**2 <= tolerance**2 + (1.5 * cap(mc)) ** 2)) for e, mc in pairs)

    def passes(self, tolerance: float) -> bool:
        """Whether it is within the tolerance, and no chain left."""
        return self.within(tolerance) and not self.left

    @property
    def is_wrong(self) -> bool:
        """Whether a run's draws would be judged ``fail``, or not be there."""
        return self.judged and (self.accuracy is None or self.accuracy.verdict == "fail")

    @property
    def kicks(self) -> int:
        """Gradients of a step."""
        return self.plan.rule.kicks if isinstance(self.plan.rule, Rotation) else 1

    @property
    def rank(self) -> tuple[bool, float, float]:
        """The lower the better."""
        return self.left, self.worst, self.slowness

    @property
    def planned(self) -> Plan:
        """The plan with the error that was measured, and draws as far apart as they forget."""
        if self.unmeasured:
            plan = replace(self.plan, unmeasured=self.unmeasured)
        else:
            plan = replace(self.plan, predicted_error=self.error)
        if not is_tested(plan):
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
        if self.unmeasured and is_tested(self.plan):
            return f"the pilot's chains mix too slowly: {causes}"
        if self.unmeasured:
            return f"{self.unmeasured}: {causes}"
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
            found = measure(post, draws, _WORK, hyper, JUDGED, known_from(plan))
        own = 1 / effective  # these draws' own error, which those of the run do not share
        found = replace(
            found,
            mean_mc_error=np.sqrt(found.mean_mc_error**2 + own),
            sd_mc_error=np.sqrt(found.sd_mc_error**2 + 0.5 * own),
        )
    except (InputError, np.linalg.LinAlgError) as error:
        return made(None, f"the pilot's draws cannot be measured ({error})")
    return made(found)


def is_tested(plan: Plan) -> bool:
    """Whether its steps pass a Metropolis test."""
    return isinstance(plan.rule, Rotation) and plan.rule.is_tested
