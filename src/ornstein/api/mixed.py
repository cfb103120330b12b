"""Sampling a mixed model: what ``ornstein.sample`` does for one."""

from collections.abc import Mapping
from time import perf_counter
from typing import Any

from ornstein._base import checks
from ornstein._base.errors import InputError
from ornstein._base.progress import bar
from ornstein._base.types import Key
from ornstein.models.random_effects.posterior import MixedPosterior
from ornstein.planning.mixed import MixedPlan, plan_mixed
from ornstein.results.mixed import MixedResult
from ornstein.sampling.mixed.run import run_mixed, steps_for


def sample_mixed(
    post: MixedPosterior,
    plan: object,
    key: Key,
    chains: int,
    draws: object,
    progress: bool | None,
    others: Mapping[str, Any],
    plan_options: Mapping[str, Any],
) -> MixedResult:
    """Draw from a mixed model's posterior; arguments that it does not have are refused."""
    given = [name for name, value in others.items() if value is not None]
    if given:
        raise InputError(
            f"{checks.names_of(given)} cannot be set for a mixed model: it tunes its own steps, "
            "and draws its standard deviations always. Leave it out."
        )
    if plan is not None and not isinstance(plan, MixedPlan):
        raise InputError("the plan is not one of a mixed model: make it with ornstein.plan(post).")
    if plan is not None and plan_options:
        raise InputError(
            f"{checks.names_of(plan_options)} is for planning, and a plan is given: leave one out."
        )
    made = plan_mixed(post, **plan_options) if plan is None else plan
    if (made.num_data, made.dim) != (post.num_data, post.dim):
        raise InputError(
            f"the plan was made for {made.num_data} rows and {made.dim} parameters, the posterior "
            f"has {post.num_data} and {post.dim}. Plan again for this posterior."
        )
    count = checks.whole("chains", chains)
    length = made.draws if draws is None else checks.whole("draws", draws, low=4)
    began = perf_counter()
    with bar("sampling", progress)(steps_for(made, length)) as report:
        drawn, anchor = run_mixed(post, made, checks.random_key(key), count, length, report)
    seconds = perf_counter() - began
    return MixedResult(drawn.phi, drawn.b, drawn.lam, post, made, anchor, drawn.rates, seconds)
