"""Engines: what makes draws that are not the iterates of a chain of SGD."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias

from ornstein._base.types import Array
from ornstein.models.posterior import Posterior
from ornstein.planning.plans import Plan
from ornstein.sampling.engines import bbvi, laplace, nuts
from ornstein.sampling.settings import OpenProgress, Run, Settings

__all__ = ["ENGINES", "Engine"]

Engine: TypeAlias = Callable[[Posterior, Plan, Array, Settings, OpenProgress], Run]
"""``(post, plan, key, settings, progress) -> Run``."""

ENGINES: Mapping[str, Engine] = MappingProxyType(
    {"laplace": laplace.run, "bbvi": bbvi.run, "nuts": nuts.run}
)
"""Every engine by the name a plan gives it."""
