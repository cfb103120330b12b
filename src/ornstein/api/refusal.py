"""Runs that are refused before they are made: their draws would not be the posterior's."""

from collections.abc import Mapping
from typing import Any

from ornstein._base.errors import InaccuratePlanError
from ornstein.api.judged import Pilot
from ornstein.planning.methods import AUTO, find

RUN_ANYWAY = "orn.plan(post) returns this plan, and orn.sample(post, plan) runs it all the same."
"""Of a plan that :func:`ornstein.plan` would have made."""


def refuse_wrong(pilot: Pilot, given: Mapping[str, Any], run_anyway: str) -> None:
    """Raise if the draws of the best pilot are wrong, unless the steps were chosen by hand."""
    if pilot.is_wrong and not _by_hand(given):
        reason = f"nothing was drawn, as it would not be from the posterior: {pilot.warning}."
        raise InaccuratePlanError(reason, run_anyway)


def _by_hand(given: Mapping[str, Any]) -> bool:
    """Whether a method or its options were given."""
    options = (*find(AUTO).method.options, "rho")
    method = given.get("method", AUTO)
    return method != AUTO or any(given.get(name) is not None for name in options)
