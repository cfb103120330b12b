"""What a user asked of a run, and the settings that makes with a plan."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jax.sharding import Mesh

from ornstein._base import checks
from ornstein._base.errors import InputError
from ornstein._base.types import Array, Vector
from ornstein.api.planning import TOLERANCE
from ornstein.api.resuming import Start
from ornstein.models.posterior import Posterior, as_posterior
from ornstein.planning.methods import AUTO, find
from ornstein.planning.plans import Plan
from ornstein.planning.tuning import for_run
from ornstein.results.measure import measured_kl, min_ess
from ornstein.sampling.restarts import MOST, easier
from ornstein.sampling.settings import Goal, Settings, Status

_MOST_NUMBERS = 2**28  # kept by a run whose length is not given: 2 GiB
_LONG = "longer strides never end; a plan that asks for one does not mix"


@dataclass(frozen=True)
class Asked:
    """How a user wants to run a plan, whichever it will be."""

    chains: int
    draws: int | str | None
    thin: int | None
    warmup: int | None
    dispersion: float | None
    dtype: str
    target_ess: float | None
    target_kl_error: float | None
    on_divergence: str
    chunk: int | None
    key: Array
    progress: bool | None
    mesh: Mesh | None

    def __post_init__(self) -> None:
        if self.draws is not None and self.draws != "auto":
            checks.whole("draws", self.draws, why="or 'auto'")
        if self.thin is not None:
            checks.whole("thin", self.thin)
        if self.warmup is not None:
            checks.whole("warmup", self.warmup, low=0)
        if self.target_ess is not None:
            checks.positive("target_ess", self.target_ess)
        if self.target_kl_error is not None:
            checks.positive("target_kl_error", self.target_kl_error)

    def decisive(self) -> dict[str, Any]:
        """What draws depend on, but for the key."""
        others = ("chunk", "key", "progress", "mesh")
        return {name: value for name, value in vars(self).items() if name not in others}

    def settled(self, start: Start) -> tuple[Plan, Settings, Goal | None]:
        """The plan as it will be run, how, and when to stop."""
        plan, goal, draws = start.plan, None, self.draws
        if not plan.is_chain and (self.thin is not None or self.warmup is not None):
            raise InputError(
                f"thin and warmup are for chains of SGD; method={plan.method!r} has none. Leave "
                "them out."
            )
        if draws == "auto":
            if not plan.is_chain or not plan.rule.stationary:
                raise InputError("draws='auto' is for chains with a constant step; give a number.")
            ess = self.target_ess
            if ess is None:  # a mean's Monte-Carlo error is then half the tolerance
                ess = 4 / (plan.tolerance or TOLERANCE) ** 2
            goal, draws = _goal(plan, self.chains, ess, self.target_kl_error)
        thin = plan.thin if self.thin is None else self.thin
        warmup = plan.warmup if self.warmup is None else self.warmup
        settings = Settings(
            chains=self.chains,
            draws=plan.draws if draws is None else int(draws),
            thin=checks.whole("thin", thin, high=2**30, why=_LONG),
            warmup=warmup,
            dispersion=start.dispersion,
            dtype=self.dtype,
            chunk=self.chunk,
        )
        return as_run(plan, settings), settings, goal

    def again(self, start: Start, settings: Settings, status: Status) -> Start | None:
        """How to start again after a divergence; None where not wanted, or of no help."""
        if status.kind != "diverged" or self.on_divergence == "stop" or not start.plan.is_chain:
            return None
        more = len(start.restarts) < MOST
        found = easier(start.post, start.plan, settings, status) if more else None
        if found is None:
            return None
        story = (*start.restarts, (found.how, status.step or 0))
        return start._replace(plan=found.plan, dispersion=found.dispersion, restarts=story)


def as_run(plan: Plan, settings: Settings) -> Plan:
    """The plan for these settings: of some rules the prediction depends on the run's length."""
    rule = plan.rule
    if settings.thin < rule.min_thin:
        why = "; ".join(f"{label} {text}" for label, text in rule.lines())
        raise InputError(
            f"thin must be at least {rule.min_thin}, the steps that a draw of this plan takes "
            f"({why}); found {settings.thin}. Plan for shorter draws to keep more of them."
        )
    return for_run(plan, settings.warmup, settings.warmup + settings.draws * settings.thin)


def _goal(
    plan: Plan, chains: int, target_ess: float, target_kl_error: float | None
) -> tuple[Goal, int]:
    """When to stop, and the draws a chain after which to look first."""
    ess, error = float(target_ess), target_kl_error
    if error is not None:
        plan.refuse_matrices("target_kl_error")

    def reached(flat: Vector) -> bool:
        if error is not None:
            whitened_error = measured_kl(flat, plan.center, plan.predicted.dense(plan.dim)).floor
            if not whitened_error <= error:
                return False
        return bool(min_ess(flat) >= ess)

    most = max(16, _MOST_NUMBERS // (chains * plan.dim))
    needed = ess / chains
    if error is not None:  # independent draws' floor is D (D + 3) / 4 n
        needed = max(needed, plan.dim * (plan.dim + 3) / (4 * error * chains))
    return Goal(reached, most), min(most, max(16, math.ceil(1.25 * needed)))


def over_mesh(
    post: Posterior, plan: Plan | None, plan_options: Mapping[str, Any]
) -> dict[str, Any]:
    """What to plan with, unless it is said, where batches are read over a mesh."""
    method = find(plan_options.get("method", AUTO) if plan is None else plan.method).method
    if method.engine != "chain":
        raise InputError(f"method={method.name!r} makes no steps of SGD; leave mesh out.")
    if plan is not None or post.on_disk or plan_options.get("batches", "auto") != "auto":
        return dict(plan_options)
    return {**plan_options, "batches": "independent"}


def with_shapes(post: Posterior, plan: Plan | None, plan_options: Mapping[str, Any]) -> Posterior:
    """The posterior, with its parameters' shapes if anything says them."""
    if as_posterior(post).known:
        return post
    at = plan_options.get("at") if plan is None else plan.layout.unravel(plan.center)
    return post if at is None else post.at(at)
